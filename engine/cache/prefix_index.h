/* The prefix cache's index: which full KV block holds which tokens after which prefix. A chain
 * starts at a scope and continues block by block; jobs of different scopes never share, nor do jobs
 * whose KV is computed differently. A hit never relies on a hash alone: the parent is compared by
 * its serial number, the token ids one by one, and the scope by name at the root. Owner: the
 * engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/cache/block_pool.h"

struct prefix_index;

/* A position in a chain, behind a block. Plain data: it never becomes invalid, but finds nothing
 * more once its block has been evicted. */
struct prefix_chain {
    uint64_t key, serial; /* serial 0: at the root */
    char scope[64];
    int32_t variant;
};

/* fingerprint: a hash of everything that determines the content of a block (weights, KV type,
 * RoPE). The index owns the pool. */
struct prefix_index *prefix_index_create(int32_t n_blocks, uint64_t fingerprint, struct err *e);
void prefix_index_destroy(struct prefix_index **x);
struct block_pool *prefix_index_pool(struct prefix_index *x);
/* Sets a callback for when a block's content is forgotten, for those who keep data beside it. */
void prefix_index_on_forget(struct prefix_index *x, void (*on_forget)(void *context, int32_t block),
                            void *context);

/* variant: how the job's KV is computed, if that differs from the model's default (experts per
 * token); 0: the default. */
void prefix_chain_begin(const struct prefix_index *x, const char *scope, int32_t variant,
                        struct prefix_chain *c);
/* Finds the block with these BACKEND_BLOCK_TOKENS ids next in the chain and takes a reference for
 * the caller; the chain moves behind it. -1: there is none, and the chain stays. */
int32_t prefix_index_find(struct prefix_index *x, struct prefix_chain *c, const int32_t *tokens);
/* The caller's block, just filled, holds these ids next in the chain. Returns the block to continue
 * with: if another block with the same content is known, the caller's is given back and the other
 * one shared, so that no content is stored twice. */
int32_t prefix_index_add(struct prefix_index *x, struct prefix_chain *c, const int32_t *tokens,
                         int32_t block);
/* Forgets the block's content, if it is known: nobody finds it from now on. Those who use it go on.
 */
void prefix_index_drop(struct prefix_index *x, int32_t block);
