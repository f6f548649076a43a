/* An arena is a list of blocks, each of which is filled from its start. */
#include "engine/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)16 << 10)
#define ALIGN ((size_t)16)

struct block {
    struct block *next;
    size_t size, used; /* of the bytes after the header */
    size_t pad;        /* keeps the bytes after the header aligned */
};

struct arena {
    struct block *head;
    size_t limit, used;
};

static struct block *block_create(size_t size)
{
    struct block *b = malloc(sizeof *b + size);
    if (b)
        *b = (struct block){.size = size};
    return b;
}

struct arena *arena_create(size_t limit)
{
    struct arena *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->limit = limit ? limit : SIZE_MAX;
    a->head = block_create(BLOCK_BYTES);
    if (!a->head) {
        free(a);
        return NULL;
    }
    return a;
}

void arena_reset(struct arena *a)
{
    while (a->head->next) { /* the first block is the last of the list */
        struct block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->head->used = 0;
    a->used = 0;
}

void arena_destroy(struct arena **a)
{
    if (!*a)
        return;
    arena_reset(*a);
    free((*a)->head);
    free(*a);
    *a = NULL;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > a->limit || a->used > a->limit - size)
        return NULL;
    size_t want = (size + ALIGN - 1) & ~(ALIGN - 1);
    if (want < size)
        return NULL;
    struct block *b = a->head;
    if (b->size - b->used < want) {
        b = block_create(want > BLOCK_BYTES ? want : BLOCK_BYTES);
        if (!b)
            return NULL;
        b->next = a->head;
        a->head = b;
    }
    void *p = (char *)(b + 1) + b->used;
    b->used += want;
    a->used += size;
    return memset(p, 0, want);
}

char *arena_copy(struct arena *a, const char *data, size_t len)
{
    char *p = len < SIZE_MAX ? arena_alloc(a, len + 1) : NULL;
    if (p && len)
        memcpy(p, data, len);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_copy(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}
