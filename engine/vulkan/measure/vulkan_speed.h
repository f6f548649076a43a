/* How fast this device decodes with a plan's shapes and formats, without the model in memory. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/base/err.h"

/* See backend_probe.speed. Opens the device unless it is there, runs steps of a proxy model
 * (proxy_model.h) for some 0.3 s and leaves it, or closes it where nobody keeps it. */
bool vulkan_speed(const struct model_plan *plan, const struct backend_params *p,
                  struct backend_speed *s, struct err *e);
