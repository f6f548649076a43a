/* Which experts a row goes to, and with what weights. */
#pragma once
#include <stdint.h>

#include "engine/model/plan.h"

#define ROUTER_MAX_EXPERTS 1024

struct router_choice { /* of one or more rows; [rows, n_used] by descending weight */
    int32_t *ids;      /* -1 behind the last of a row that uses fewer */
    float *weights;
};

/* logits [n_expert] -> the ids and weights [n_used] of one row by descending weight (equal: lower
 * id first); n_used: 1 to the plan's. scratch: [3 * n_expert]. Thread-safe. */
void router_choose(const struct moe_plan *m, int32_t n_used, const float *logits,
                   const struct router_choice *out, float *scratch);
