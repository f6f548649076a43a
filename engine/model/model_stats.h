/* What a bound plan adds up to: bytes, parameters, its fingerprint; and the check of its scales. */
#pragma once
#include "engine/base/err.h"
#include "engine/model/model.h"
#include "engine/model/plan.h"

/* Calls visit for every matrix of the plan, in a fixed order; a tied head is not visited twice.
 * is_expert: routed experts. Stops at false and returns it. */
typedef bool (*plan_visit)(void *context, const struct weight *w, bool is_expert, int32_t n_used);
bool plan_each_weight(const struct model_plan *p, plan_visit visit, void *context);
/* Fills the parts that come from the plan (bytes, parameters, KV); the file's part is the caller's. */
void model_stats_from_plan(struct model_stats *f, const struct model_plan *p);
/* Looks for NaN and infinities in scales, biases and plain values: all of them in a small model, evenly
 * spread rows in a large one (at most CHECK_MAX_BYTES read, CHECK_MAX_ROWS touched). Names the tensor. */
bool plan_check_values(const struct model_plan *p, struct err *e);
/* Hash of the plan's tensors: names, types, shapes and a sample of their bytes. */
uint64_t plan_fingerprint(const struct model_plan *p, uint64_t seed);

#define CHECK_MAX_BYTES (64u << 20)
#define CHECK_MAX_ROWS 16384
