/* All weights of a bound plan, one after another: for counting, checking and hashing them. Any
 * thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/model/plan.h"

/* Calls visit for every matrix of the plan, in a fixed order; a tied head is not visited twice.
 * is_expert: routed experts. Stops at false and returns it. */
typedef bool (*plan_visit)(void *context, const struct weight *w, bool is_expert, int32_t n_used);
bool plan_each_weight(const struct model_plan *p, plan_visit visit, void *context);

#define PLAN_CHECK_MAX_BYTES (64u << 20)
#define PLAN_CHECK_MAX_ROWS 16384
/* Looks for NaN and infinities in scales, biases and plain values: all of them in a small model,
 * evenly spread rows in a large one (at most PLAN_CHECK_MAX_BYTES are read of PLAN_CHECK_MAX_ROWS
 * rows). Names the tensor. */
bool plan_check_values(const struct model_plan *p, struct err *e);
/* Hash of the plan's tensors: names, types, shapes and a sample of their bytes. */
uint64_t plan_fingerprint(const struct model_plan *p, uint64_t seed);
