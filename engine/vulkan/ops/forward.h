/* The ops of a step, recorded in order, with an optional observer of the intermediates: forward.c
 * and forward_dump.c. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Called after each intermediate of layer `layer` (-1: the model's own) is complete. */
typedef void (*forward_observer)(void *context, const char *what, int layer);

struct forward {
    struct recorder r;
    const struct step_shape *shape;
    bool folded;    /* the layer's router is in the products around its mixer: router_fold.h */
    bool resident;  /* wo, experts and the next projections go together: record_resident.h */
    bool chained;   /* and wait for attention, as it does for them, without barriers */
    bool projected; /* the layer's projections are there already, of a recurrent one its mixer's
                       output */
    bool x_cast;    /* workspace.x_hi has x already, as the next projections want it */
    forward_observer observer; /* NULL: none */
    void *observer_context;
};

/* Records all ops of the step into r.c; r.ok says whether that went well. */
void forward_record_ops(struct forward *f);
