/* Inverts the choice of the router by a counting sort: from the experts of each row to the rows of
 * each expert. */
#include "engine/cpu/expert_lists.h"

#include <string.h>

void expert_lists_make(struct expert_lists *l, const struct moe_plan *m, int32_t n_rows,
                       const int32_t *ids, const float *weights)
{
    const int32_t total = n_rows * m->n_used;
    memset(l->start, 0, (size_t)(m->n_expert + 1) * sizeof *l->start);
    for (int32_t i = 0; i < total; i++)
        if (ids[i] >= 0)
            l->start[ids[i] + 1]++;
    for (int32_t e = 0; e < m->n_expert; e++)
        l->start[e + 1] += l->start[e];
    for (int32_t i = 0; i < total; i++) {
        if (ids[i] < 0)
            continue;
        int32_t at = l->start[ids[i]]++;
        l->rows[at] = i / m->n_used;
        l->weights[at] = weights[i];
    }
    for (int32_t e = m->n_expert; e > 0; e--)
        l->start[e] = l->start[e - 1];
    l->start[0] = 0;
}
