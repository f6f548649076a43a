/* A device between two backends, as the one that measures it and the one that runs the model: to
 * open it and to compile shaders takes longer than all else of either. Owner: backend_params.kept.
 * Same thread as the backends. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/vulkan/device/gpu.h"

struct backend_kept {
    struct gpu gpu;
};

bool backend_kept_open(struct backend_kept **kept, const struct backend_params *p, struct err *e);
/* Moves the one that p->kept has to g; where it has none, or one that was lost meanwhile, opens one
 * there. On failure g is zeroed. */
bool backend_kept_take(const struct backend_params *p, struct gpu *g, struct err *e);
/* Moves g there, which is zeroed, or closes it where there is no memory for that. */
void backend_kept_put(struct backend_kept **kept, struct gpu *g);
void backend_kept_drop(struct backend_kept **kept); /* accepts NULL in it */
