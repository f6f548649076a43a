/* A copy of the dense weights of a plan: what every step reads must not depend on what the page
 * cache keeps. One thread; immutable once made. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/model/model.h"

struct owned_weights {
    uint8_t *memory;
    size_t bytes;  /* mapped: whole pages */
    uint64_t used; /* packed bytes of the matrices */
    bool locked;
};

/* Copies every matrix of *plan except routed experts, and points the plan to the copies. `plan` and
 * its layers are the caller's own. The pages of the mapped files are dropped afterwards. */
bool owned_weights_init(struct owned_weights *o, struct model_plan *plan, const struct model *m,
                        struct err *e);
void owned_weights_fini(struct owned_weights *o); /* accepts a zeroed struct */
