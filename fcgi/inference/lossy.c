/* lossy.h: one place for the members, since usage and timings of all dialects have them. */
#include "fcgi/inference/lossy.h"

void lossy_put(struct buf *out, const struct engine_usage *u)
{
    if (u->reduced_top_k)
        buf_printf(out, ",\"experts_per_token\":%d,\"own_experts_per_token\":%d,\"lossy\":true", (int)u->reduced_top_k,
                   (int)u->trained_top_k);
}
