/* Which full KV block holds which tokens after which prefix. A chain starts at a scope (jobs of another scope never
 * share; nor do those whose KV is made in another way) and goes on block by block. A hit is never taken on a hash alone: the parent is compared by its serial
 * number, the token ids one by one, the scope's name at the root. Owner: the engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/cache/block_pool.h"

struct prefix_index;

/* A place in a chain: after which block we stand. Plain data; a begun chain stays valid for ever, it merely stops
 * finding things once its block was evicted. */
struct prefix_chain {
    uint64_t key, serial; /* serial 0: at the root */
    char scope[64];
    int32_t variant;
};

/* fingerprint: of everything that decides what a block holds (weights, KV type, rope). The index makes the pool that
 * it watches; both end together. */
struct prefix_index *prefix_index_create(int32_t n_blocks, uint64_t fingerprint, struct err *e);
void prefix_index_destroy(struct prefix_index **x);
struct block_pool *prefix_index_pool(struct prefix_index *x);
/* Called when a block's content is forgotten, for what others keep beside it. */
void prefix_index_on_forget(struct prefix_index *x, void (*on_forget)(void *context, int32_t block), void *context);

/* variant: in what way the job's KV is made, where jobs of one index differ (experts per token); 0: as the model says. */
void prefix_chain_begin(const struct prefix_index *x, const char *scope, int32_t variant, struct prefix_chain *c);
/* The block that holds these BACKEND_BLOCK_TOKENS ids next in the chain, with a reference for the caller; the chain
 * moves behind it. -1: not there, the chain stays. */
int32_t prefix_index_find(struct prefix_index *x, struct prefix_chain *c, const int32_t *tokens);
/* The caller's block, just filled, holds these ids next in the chain. Returns the block to go on with: when another one
 * with the same content is known already, ours is given back and that one shared, so no content is kept twice. */
int32_t prefix_index_add(struct prefix_index *x, struct prefix_chain *c, const int32_t *tokens, int32_t block);
