/* Implements the pool with a stack of free blocks and a circular list of idle ones, ordered by
 * age, so that taking the least recently used block costs nothing. */
#include "engine/cache/block_pool.h"

#include <assert.h>
#include <stdlib.h>

/* One node per block and a head at index n_blocks: circular lists, linked by index. */
struct block {
    int32_t references;
    bool kept; /* the prefix index knows it */
    int32_t newer, older;
};

struct block_pool {
    struct block *blocks; /* [n_blocks + 1]; the last is the head of the idle list: newer = oldest
                             idle block */
    int32_t *free;        /* stack */
    struct block_counts counts;
    void (*on_evict)(void *context, int32_t block);
    void *context;
};

struct block_pool *block_pool_create(int32_t n_blocks,
                                     void (*on_evict)(void *context, int32_t block), void *context,
                                     struct err *e)
{
    struct block_pool *p = calloc(1, sizeof *p);
    if (p) {
        p->blocks = calloc((size_t)n_blocks + 1, sizeof *p->blocks);
        p->free = calloc((size_t)n_blocks, sizeof *p->free);
    }
    if (!p || !p->blocks || !p->free) {
        err_set(e, ERR_NOMEM, "no memory for a pool of %d KV blocks", n_blocks);
        block_pool_destroy(&p);
        return NULL;
    }
    p->counts = (struct block_counts){.total = n_blocks, .free = n_blocks};
    p->on_evict = on_evict;
    p->context = context;
    p->blocks[n_blocks].newer = p->blocks[n_blocks].older = n_blocks;
    for (int32_t i = 0; i < n_blocks; i++)
        p->free[i] = n_blocks - 1 - i; /* low numbers first: a small load touches little memory */
    return p;
}

void block_pool_destroy(struct block_pool **p)
{
    if (!*p)
        return;
    free((*p)->blocks);
    free((*p)->free);
    free(*p);
    *p = NULL;
}

static void unlink_idle(struct block_pool *p, int32_t block)
{
    struct block *b = &p->blocks[block];
    p->blocks[b->newer].older = b->older;
    p->blocks[b->older].newer = b->newer;
    p->counts.idle--;
}

static void link_idle(struct block_pool *p, int32_t block)
{
    int32_t head = p->counts.total;
    struct block *b = &p->blocks[block];
    b->newer = head;
    b->older = p->blocks[head].older;
    p->blocks[b->older].newer = block;
    p->blocks[head].older = block;
    p->counts.idle++;
}

int32_t block_pool_take(struct block_pool *p)
{
    int32_t block;
    if (p->counts.free) {
        block = p->free[--p->counts.free];
    } else if (p->counts.idle) {
        block = p->blocks[p->counts.total].newer;
        unlink_idle(p, block);
        p->blocks[block].kept = false;
        p->on_evict(p->context, block);
    } else {
        return -1;
    }
    p->blocks[block].references = 1;
    p->counts.used++;
    return block;
}

void block_pool_share(struct block_pool *p, int32_t block)
{
    struct block *b = &p->blocks[block];
    if (b->references++ == 0) {
        assert(b->kept);
        unlink_idle(p, block);
        p->counts.used++;
    }
}

void block_pool_give(struct block_pool *p, int32_t block)
{
    struct block *b = &p->blocks[block];
    assert(b->references > 0);
    if (--b->references > 0)
        return;
    p->counts.used--;
    if (b->kept)
        link_idle(p, block);
    else
        p->free[p->counts.free++] = block;
}

void block_pool_keep(struct block_pool *p, int32_t block)
{
    assert(p->blocks[block].references > 0);
    p->blocks[block].kept = true;
}

void block_pool_drop(struct block_pool *p, int32_t block)
{
    struct block *b = &p->blocks[block];
    assert(b->kept);
    b->kept = false;
    if (!b->references) {
        unlink_idle(p, block);
        p->free[p->counts.free++] = block;
    }
    p->on_evict(p->context, block);
}

struct block_counts block_pool_counts(const struct block_pool *p)
{
    return p->counts;
}
