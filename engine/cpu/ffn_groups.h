/* The arithmetic of a feed-forward: a dense network, a shared expert and a routed expert are the
 * same thing here, a group, which is a set of rows that goes through one trio of matrices. Groups
 * are numbered: routed experts by their ids, then the shared or dense network.
 *
 * Two phases with a barrier between them. gate_up shares (group, tile of d_ff) among the threads.
 * down shares (group, tile of columns) where each group's rows are put aside in parts; else it
 * shares the columns of the result, whose groups a thread walks in order: a row's sum has one order
 * of additions either way. Both may be called for some groups at a time. Called by every thread of
 * a step. */
#pragma once
#include "engine/backend/expert_rows.h"
#include "engine/cpu/matmul.h"

struct groups { /* what the phases walk over */
    const struct layer_plan *layer;
    const struct expert_lists *lists; /* NULL: no routed experts */
    struct panel input, routed, whole;
    const struct mlp_plan *mlp; /* shared or dense; NULL: none */
    const float *mlp_weights;   /* [T] sigmoid of the shared gate, or NULL */
    const int32_t *ids;         /* [n_ids] the groups of this round, ascending; NULL: all */
    int32_t n_ids;
    float *parts; /* [T * n_used + T, d] where down leaves each group's rows, to be summed later;
                     NULL: it adds them to y */
    expert_rows_fetch
        fetch; /* routed experts are laid out in another way; NULL: as weight.h says */
};

int32_t groups_count(const struct groups *g);
/* The number of the shared or dense network; -1: there is none. */
int32_t groups_mlp(const struct groups *g);
void groups_gate_up(struct worker *w, const struct groups *g);
/* After a barrier. Ends with one when the step has many rows. */
void groups_pack_hidden(struct worker *w, struct groups *g);
/* y = 0, where there are no parts: before the barrier that comes before down. */
void groups_clear(struct worker *w, const struct groups *g);
/* Is there so little to do that each thread had better add up columns of its own? Then parts are
 * NULL, and groups_down_own() is in place of groups_down() and groups_finish(): no thread reads
 * what another has just written. */
bool groups_own_columns(const struct worker *w, const struct groups *g);
void groups_down_own(struct worker *w, const struct groups *g);
/* y += down of each group, or parts = down. */
void groups_down(struct worker *w, const struct groups *g);
/* y = the parts in the order of groups, where there are any; x += y. Begins and ends with a
 * barrier. */
void groups_finish(struct worker *w, const struct groups *g);
/* The packed bytes of all groups with rows, into the worker's count. */
void groups_count_bytes(struct worker *w, const struct groups *g);
