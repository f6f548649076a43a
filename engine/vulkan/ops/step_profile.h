/* The time of each operation of a step: backend_ops.profile. */
#pragma once
#include "engine/vulkan/ops/backend_state.h"

bool step_profile_run(struct backend *b, const struct step *s, struct step_row *rows,
                      struct backend_profile *out, struct err *e);
