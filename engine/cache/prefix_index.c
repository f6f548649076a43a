/* Implements the prefix index as a hash table: the key is a hash chained over the blocks of a
 * prefix, and every hit is compared token by token. */
#include "engine/cache/prefix_index.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

struct entry { /* one per block; known while serial != 0 */
    uint64_t key, serial, parent;
    int32_t next; /* in the bucket; -1: last */
    int32_t tokens[BACKEND_BLOCK_TOKENS];
    char scope[64]; /* this and variant: where parent == 0 */
    int32_t variant;
};

struct prefix_index {
    struct block_pool *pool;
    struct entry *entries; /* [n_blocks] */
    int32_t *buckets;      /* [n_buckets], a power of two */
    uint32_t n_buckets;
    uint64_t fingerprint;
    uint64_t last_serial;
    void (*on_forget)(void *context, int32_t block); /* NULL: no callback */
    void *context;
};

static int32_t *bucket_of(struct prefix_index *x, uint64_t key)
{
    return &x->buckets[key & (x->n_buckets - 1)];
}

static void forget(void *context, int32_t block)
{
    struct prefix_index *x = context;
    struct entry *entry = &x->entries[block];
    int32_t *at = bucket_of(x, entry->key);
    while (*at != block)
        at = &x->entries[*at].next;
    *at = entry->next;
    entry->serial = 0;
    if (x->on_forget)
        x->on_forget(x->context, block);
}

struct prefix_index *prefix_index_create(int32_t n_blocks, uint64_t fingerprint, struct err *e)
{
    struct prefix_index *x = calloc(1, sizeof *x);
    if (!x)
        goto nomem;
    x->fingerprint = fingerprint;
    x->n_buckets = 64;
    while (x->n_buckets < (uint32_t)n_blocks * 2)
        x->n_buckets *= 2;
    x->entries = calloc((size_t)n_blocks, sizeof *x->entries);
    x->buckets = malloc(x->n_buckets * sizeof *x->buckets);
    if (!x->entries || !x->buckets)
        goto nomem;
    memset(x->buckets, 0xff, x->n_buckets * sizeof *x->buckets); /* -1 each */
    x->pool = block_pool_create(n_blocks, forget, x, e);
    if (!x->pool)
        prefix_index_destroy(&x);
    return x;
nomem:
    err_set(e, ERR_NOMEM, "no memory for an index of %d KV blocks", n_blocks);
    prefix_index_destroy(&x);
    return NULL;
}

void prefix_index_destroy(struct prefix_index **x)
{
    if (!*x)
        return;
    block_pool_destroy(&(*x)->pool);
    free((*x)->entries);
    free((*x)->buckets);
    free(*x);
    *x = NULL;
}

struct block_pool *prefix_index_pool(struct prefix_index *x)
{
    return x->pool;
}

void prefix_index_on_forget(struct prefix_index *x, void (*on_forget)(void *context, int32_t block),
                            void *context)
{
    x->on_forget = on_forget;
    x->context = context;
}

void prefix_chain_begin(const struct prefix_index *x, const char *scope, int32_t variant,
                        struct prefix_chain *c)
{
    *c = (struct prefix_chain){.variant = variant};
    strncpy(c->scope, scope, sizeof c->scope - 1);
    c->key = hash64(c->scope, strlen(c->scope), hash64(&variant, sizeof variant, x->fingerprint));
}

static uint64_t key_after(uint64_t parent_key, const int32_t *tokens)
{
    return hash64(tokens, BACKEND_BLOCK_TOKENS * sizeof *tokens, parent_key);
}

static int32_t look_up(struct prefix_index *x, const struct prefix_chain *c, uint64_t key,
                       const int32_t *tokens)
{
    for (int32_t at = *bucket_of(x, key); at >= 0; at = x->entries[at].next) {
        const struct entry *entry = &x->entries[at];
        if (entry->key == key && entry->parent == c->serial &&
            !memcmp(entry->tokens, tokens, sizeof entry->tokens) &&
            (c->serial || (!strcmp(entry->scope, c->scope) && entry->variant == c->variant)))
            return at;
    }
    return -1;
}

static void move_behind(struct prefix_chain *c, const struct entry *entry)
{
    c->key = entry->key;
    c->serial = entry->serial;
}

int32_t prefix_index_find(struct prefix_index *x, struct prefix_chain *c, const int32_t *tokens)
{
    int32_t block = look_up(x, c, key_after(c->key, tokens), tokens);
    if (block < 0)
        return -1;
    block_pool_share(x->pool, block);
    move_behind(c, &x->entries[block]);
    return block;
}

int32_t prefix_index_add(struct prefix_index *x, struct prefix_chain *c, const int32_t *tokens,
                         int32_t block)
{
    uint64_t key = key_after(c->key, tokens);
    int32_t known = look_up(x, c, key, tokens);
    if (known < 0) {
        struct entry *entry = &x->entries[block];
        int32_t *bucket = bucket_of(x, key);
        *entry = (struct entry){
            .key = key, .serial = ++x->last_serial, .parent = c->serial, .next = *bucket};
        memcpy(entry->tokens, tokens, sizeof entry->tokens);
        memcpy(entry->scope, c->scope, sizeof entry->scope);
        entry->variant = c->variant;
        *bucket = block;
        block_pool_keep(x->pool, block);
        known = block;
    } else {
        block_pool_share(x->pool, known);
        block_pool_give(x->pool, block);
    }
    move_behind(c, &x->entries[known]);
    return known;
}

void prefix_index_drop(struct prefix_index *x, int32_t block)
{
    if (x->entries[block].serial)
        block_pool_drop(x->pool, block);
}
