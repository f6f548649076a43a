/* The second half of a layer: x += ffn(norm(x)), dense or mixture of experts. Each expert's weights
 * are read once per step, whatever the number of its rows. Called by every thread of a step; ends
 * with a barrier. */
#pragma once
#include "engine/cpu/cpu_worker.h"

void ffn_run(struct worker *w, const struct layer_plan *layer, int32_t index);
