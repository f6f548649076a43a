/* reduced_top_k.h: one place for the members, since usage and timings of all dialects have them. */
#include "fcgi/inference/reduced_top_k.h"

void reduced_top_k_put(struct buf *out, const struct engine_usage *u)
{
    if (u->reduced_top_k)
        buf_printf(out, ",\"experts_per_token\":%d,\"own_experts_per_token\":%d,\"lossy\":true",
                   (int)u->reduced_top_k, (int)u->trained_top_k);
}
