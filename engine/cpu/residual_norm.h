/* What encoders do to the residual stream beside adding to it: positions, segments and a norm
 * before the first layer, and a norm after each mixer and feed-forward. Called by every thread of a
 * step. */
#pragma once
#include "engine/cpu/cpu_worker.h"

/* x[t] += position + segment, then normed: nothing where the plan has none of these. */
void residual_begin(struct worker *w, int32_t t);
/* Norms all rows in place, in shares, with a barrier behind; nothing where the norm is absent. */
void residual_norm(struct worker *w, const struct layer_norm_plan *norm);
