/* The models in the tree that have routed experts, in every layout that files use. */
#pragma once

extern const char *const expert_models[]; /* relative to srcdir; NULL after the last */
/* Absolute or relative to the working folder; static memory, one at a time. */
const char *expert_model_path(const char *name);
