/* The first half of a layer: x += mixer(norm(x)). Called by every thread of a step; ends with a
 * barrier. */
#pragma once
#include "engine/cpu/cpu_worker.h"

void attention_run(struct worker *w, const struct layer_plan *layer, int32_t index);
/* Only keys and values, of rows that are not part of the residual stream: k = wk norm(x), v = wv
 * norm(x) for each row of b->x. */
void attention_keep(struct worker *w, const struct layer_plan *layer, int32_t index,
                    const float *norm);
void delta_net_run(struct worker *w, const struct layer_plan *layer, int32_t index);

/* Values of one sequence's recurrent state in this layer: convolution [n_conv - 1, channels], then
 * recurrence [n_v_head, d_k, d_v]. */
size_t delta_net_state_values(const struct delta_net_plan *p);
/* Values held of each provisional row in this layer, and each thread's scratch for such rows. */
size_t delta_net_held_values(const struct delta_net_plan *p);
size_t delta_net_trial_values(const struct delta_net_plan *p);
/* backend_ops.keep_rows */
bool delta_net_keep(struct backend *b, int32_t sequence, int32_t rows, struct err *e);
