/* The experts of host memory as the processor's kernels read them (backend/expert_rows.h): where
 * the device's layout is the file's, in place; else a few rows at a time are laid out anew.
 * Immutable after open; any thread. */
#pragma once
#include "engine/backend/expert_rows.h"
#include "engine/vulkan/weights/device_model.h"

/* A layer's views over m->host, after it was committed. Zeros where the layer has no experts.
 * ERR_INTERNAL: they lie nowhere. */
bool expert_views_of(const struct device_model *m, int32_t layer, struct expert_rows_layer *out,
                     struct err *e);
