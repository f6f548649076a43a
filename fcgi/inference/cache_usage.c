/* cache_usage.h: one place for the members, since several dialects have them. */
#include "fcgi/inference/cache_usage.h"

#include <string.h>

void cache_usage_put_from(struct buf *out, const struct engine_usage *u)
{
    buf_printf(out, "{\"device\":%d,\"ram\":%d,\"disk\":%d}",
               (int)(u->cached_tokens - u->cached_from_ram - u->cached_from_disk),
               (int)u->cached_from_ram, (int)u->cached_from_disk);
}

void cache_usage_put_timings(struct buf *out, const struct engine_usage *u)
{
    buf_puts(out, ",\"cache\":{\"from\":");
    cache_usage_put_from(out, u);
    buf_printf(out,
               ",\"read_bytes\":%llu,\"ms\":%.3f,\"miss\":", (unsigned long long)u->cache_bytes,
               u->cache_ms);
    if (u->cache_miss[0])
        buf_json_string(out, u->cache_miss, strlen(u->cache_miss));
    else
        buf_puts(out, "null");
    buf_putc(out, '}');
}
