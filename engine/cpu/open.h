/* Opening with kernels of one's choice: for tests and measurements of what the CPU has beside the
 * best. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/cpu/kernels/kernels.h"

struct backend *cpu_open_with(const struct model_plan *plan, const struct backend_params *p,
                              const struct kernels *kernels, struct err *e);
