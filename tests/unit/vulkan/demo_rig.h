/* The demo model on the Vulkan backend, for tests of whole steps. Run from the build folder;
 * $srcdir as automake sets it. */
#pragma once
#include "engine/model/model.h"
#include "engine/vulkan/ops/backend_state.h"

extern struct model *model;

/* False, and why on stderr: no device, the program is skipped (77). */
bool demo_usable(void);
/* Of a group of tests: the model. */
int demo_open(void **state);
int demo_close(void **state);
/* Never NULL: the test fails. Of a plan, or of the model's. */
struct backend *plan_backend(const struct model_plan *plan, const struct backend_params *p);
struct backend *demo_backend(const struct backend_params *p);
/* Three of the model's layers, of which one is neither the first nor the last: enough where a run
 * is compared with another alone, and on a software GPU each layer costs the same again. */
const struct model_plan *demo_few_layers(void);
/* A step of n sequences; the test fails where it does. */
void demo_step(struct backend *b, const struct step_sequence *q, int32_t n, struct step_row *rows);
/* One token of each of n sequences, at `at`, all wanted; n_experts as a step's, 0: the model's. */
void demo_step_each(struct backend *b, int n, int32_t at, int32_t n_experts, struct step_row *rows);
/* The matrix units' products of few rows, where there are none their form for tests. */
void demo_use_units(struct backend *b);
/* These also for steps of three rows and more. False: the device can't. */
bool demo_force_few(struct backend *b);
/* For tuning.resident_groups: as many as run at once, which so small a model does not take by
 * itself; and more. */
uint32_t demo_fitting_groups(const struct backend *b);
uint32_t demo_too_many_groups(const struct backend *b);
