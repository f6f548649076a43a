/* Runs one step: fills the step's variables, replays (or records) the command buffer of its shape,
 * hands out results. Owner: the backend; same thread. */
#pragma once
#include "engine/vulkan/ops/backend_state.h"

/* rows: one per wanted output. ERR_LIMIT when the step is larger than the backend was opened for.
 */
bool vulkan_step_run(struct backend *b, const struct step *s, struct step_row *rows, struct err *e);
/* Drops what was recorded: steps to come are recorded again, as tuning is then. */
void vulkan_step_forget(struct backend *b);
