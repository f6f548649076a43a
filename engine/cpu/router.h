/* Which experts a row goes to, and with what weights. */
#pragma once
#include <stdint.h>

#include "engine/model/plan.h"

#define ROUTER_MAX_EXPERTS 1024

/* logits [n_expert] -> ids and weights [n_used] by descending weight (equal: lower id first); n_used: 1 to the plan's.
 * scratch: [3 * n_expert]. Thread-safe. */
void router_choose(const struct moe_plan *m, int32_t n_used, const float *logits, int32_t *ids, float *weights, float *scratch);
