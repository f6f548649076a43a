/* Between forward.c and forward_dump.c: a walk over a step's ops, and who looks on. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Called after each intermediate of layer `layer` (-1: the model's own) is complete. */
typedef void (*after_fn)(void *context, const char *what, int layer);

struct forward {
    struct recorder r;
    const struct shape *shape;
    after_fn after; /* NULL: nobody looks on */
    void *after_context;
};

/* Records all ops of the step into r.c; r.ok says whether that went well. */
void forward_walk(struct forward *f);
