/* The models in the tree that have routed experts, in every layout that files use. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

extern const char *const expert_models[]; /* relative to srcdir; NULL after the last */
/* Absolute or relative to the working folder; static memory, one at a time. */
const char *expert_model_path(const char *name);
/* Whether it is the first of its family's: for what does not depend on the form of weights, as
 * drafts, which are tokens and the model's own states. */
bool expert_models_first_form(size_t i);
