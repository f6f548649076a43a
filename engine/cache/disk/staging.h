/* Buffers between the disk and the loop thread, bounded in bytes. Aligned for reads and writes past
 * the page cache. Whoever uses a staging guards it with a lock of its own. */
#pragma once
#include <stddef.h>

struct staging_buffer {
    unsigned char *data;
    size_t bytes; /* as allocated */
    struct staging_buffer *next;
};

struct staging {
    size_t limit;      /* of all buffers together */
    size_t used, kept; /* bytes that are given out, and that are kept for later */
    struct staging_buffer *free;
};

void staging_init(struct staging *s, size_t limit);
void staging_fini(struct staging *s); /* everything was given back */
/* NULL: the limit is reached, or there is no memory. One buffer is always allowed. */
struct staging_buffer *staging_take(struct staging *s, size_t bytes);
void staging_give(struct staging *s, struct staging_buffer *b); /* accepts NULL */
/* Frees what is kept: nothing more is expected for now. */
void staging_trim(struct staging *s);
