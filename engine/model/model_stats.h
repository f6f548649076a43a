/* The figures of a bound plan: bytes, parameters, KV and recurrent state. Used by model.c and by
 * the measurement of a device's speed. */
#pragma once
#include "engine/model/model.h"
#include "engine/model/plan.h"

/* Fills the parts that come from the plan (bytes, parameters, KV); the file's part is the caller's.
 */
void model_stats_from_plan(struct model_stats *f, const struct model_plan *p);
