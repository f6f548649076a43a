/* Keeps track of which copied recurrent state belongs to which KV block, and reuses the least
 * recently used copy. There are few copies, so a linear search is fast enough. */
#include "engine/cache/checkpoints.h"

#include <stdlib.h>

struct checkpoint {
    int32_t block; /* -1: free */
    uint64_t used; /* when, by the count of uses */
};

struct checkpoints {
    struct checkpoint *at; /* [n] few: searched in line */
    int32_t *of_block;     /* [n_blocks] index into at, or -1 */
    int32_t first, n;
    uint64_t uses;
};

struct checkpoints *checkpoints_create(int32_t n_blocks, int32_t first, int32_t n, struct err *e)
{
    struct checkpoints *c = calloc(1, sizeof *c);
    if (c) {
        c->at = calloc((size_t)n, sizeof *c->at);
        c->of_block = malloc((size_t)n_blocks * sizeof *c->of_block);
    }
    if (!c || !c->at || !c->of_block) {
        err_set(e, ERR_NOMEM, "no memory for %d state checkpoints", n);
        checkpoints_destroy(&c);
        return NULL;
    }
    c->first = first;
    c->n = n;
    for (int32_t i = 0; i < n; i++)
        c->at[i].block = -1;
    for (int32_t i = 0; i < n_blocks; i++)
        c->of_block[i] = -1;
    return c;
}

void checkpoints_destroy(struct checkpoints **c)
{
    if (!*c)
        return;
    free((*c)->at);
    free((*c)->of_block);
    free(*c);
    *c = NULL;
}

int32_t checkpoints_find(struct checkpoints *c, int32_t block)
{
    int32_t i = c->of_block[block];
    if (i < 0)
        return -1;
    c->at[i].used = ++c->uses;
    return c->first + i;
}

int32_t checkpoints_take(struct checkpoints *c, int32_t block)
{
    int32_t best = 0;
    if (checkpoints_find(c, block) >= 0)
        return -1;
    for (int32_t i = 1; i < c->n && c->at[best].block >= 0; i++)
        if (c->at[i].block < 0 || c->at[i].used < c->at[best].used)
            best = i;
    if (c->at[best].block >= 0)
        checkpoints_drop(c, c->at[best].block);
    c->at[best] = (struct checkpoint){.block = block, .used = ++c->uses};
    c->of_block[block] = best;
    return c->first + best;
}

void checkpoints_drop(struct checkpoints *c, int32_t block)
{
    int32_t i = c->of_block[block];
    if (i < 0)
        return;
    c->at[i].block = -1;
    c->of_block[block] = -1;
}
