/* Which rows of a step go to which routed expert. */
#pragma once
#include <stdint.h>

#include "engine/model/plan.h"

struct expert_lists { /* the rows of each expert, ascending */
    int32_t *start;   /* [n_expert + 1] into rows and weights */
    int32_t *rows;    /* [T * n_used] */
    float *weights;   /* [T * n_used] */
};

/* ids, weights: [n_rows, n_used] as the router chose; places with an id < 0 are in no list. */
void expert_lists_make(struct expert_lists *l, const struct moe_plan *m, int32_t n_rows,
                       const int32_t *ids, const float *weights);
