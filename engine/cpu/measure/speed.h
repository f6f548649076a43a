/* How fast the kernels go through packed weights on this machine, without a model in memory. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/base/err.h"

/* See backend_ops.speed. Takes some 0.2 s and up to 128 MiB, which it frees. */
bool speed_measure(const struct model_plan *plan, const struct backend_params *p,
                   struct backend_speed *s, struct err *e);
