/* Keeps buffers that were given back, because fresh memory costs a page fault every 4 KiB. */
#include "engine/cache/disk/staging.h"

#include <stdlib.h>

#define ALIGN ((size_t)4096)

void staging_init(struct staging *s, size_t limit)
{
    *s = (struct staging){.limit = limit};
}

static void destroy(struct staging_buffer *b)
{
    free(b->data);
    free(b);
}

void staging_trim(struct staging *s)
{
    for (struct staging_buffer *b = s->free, *next; b; b = next) {
        next = b->next;
        destroy(b);
    }
    s->free = NULL;
    s->kept = 0;
}

void staging_fini(struct staging *s)
{
    staging_trim(s);
}

/* One that was kept and is large enough, but not far too large. */
static struct staging_buffer *take_kept(struct staging *s, size_t bytes)
{
    for (struct staging_buffer **at = &s->free; *at; at = &(*at)->next) {
        struct staging_buffer *b = *at;
        if (b->bytes < bytes || b->bytes / 2 > bytes)
            continue;
        *at = b->next;
        s->kept -= b->bytes;
        return b;
    }
    return NULL;
}

struct staging_buffer *staging_take(struct staging *s, size_t bytes)
{
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (s->used && s->used + bytes > s->limit)
        return NULL;
    struct staging_buffer *b = take_kept(s, bytes);
    if (!b) {
        if (s->used + s->kept + bytes > s->limit)
            staging_trim(s);
        b = calloc(1, sizeof *b);
        if (!b || !(b->data = aligned_alloc(ALIGN, bytes))) {
            free(b);
            return NULL;
        }
        b->bytes = bytes;
    }
    b->next = NULL;
    s->used += b->bytes;
    return b;
}

void staging_give(struct staging *s, struct staging_buffer *b)
{
    if (!b)
        return;
    s->used -= b->bytes;
    if (s->used + s->kept + b->bytes > s->limit) {
        destroy(b);
        return;
    }
    b->next = s->free;
    s->free = b;
    s->kept += b->bytes;
}
