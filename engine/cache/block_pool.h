/* The pool of KV blocks. A block is free, used (reference count > 0), or idle: nobody uses it, but
 * the prefix index knows its content. Idle blocks are reused, least recently used first, when no
 * free one is left. The content itself is in the backend. Owner: the engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct block_pool;

struct block_counts {
    int32_t total, used, idle, free;
};

/* on_evict: an idle block is about to be reused, so its content must be forgotten. */
struct block_pool *block_pool_create(int32_t n_blocks,
                                     void (*on_evict)(void *context, int32_t block), void *context,
                                     struct err *e);
void block_pool_destroy(struct block_pool **p);
/* A block with one reference, or -1 when all are used. */
int32_t block_pool_take(struct block_pool *p);
/* One more reference; brings an idle block back into use. */
void block_pool_share(struct block_pool *p, int32_t block);
/* Drops a reference. A chain must be given back from its end: then a child always becomes idle
 * before its parent and is evicted before it, so no block is kept that cannot be reached. */
void block_pool_give(struct block_pool *p, int32_t block);
/* From now on the last give makes the block idle instead of free. */
void block_pool_keep(struct block_pool *p, int32_t block);
/* Takes the content's name away, as if the block were evicted (on_evict is called): an idle block
 * is free at once, a used one when it is given back. Only of kept blocks. */
void block_pool_drop(struct block_pool *p, int32_t block);
struct block_counts block_pool_counts(const struct block_pool *p);
