/* A model like another one, cut to a few layers of each kind it has, over weights of no meaning:
 * what a step of it takes per layer is what the other one's would take. Its activations are zeros,
 * so that no value can go astray and every row goes to the first experts of each layer; time does
 * not depend on values. Owner: who made it; plain memory, no device. */
#pragma once
#include "engine/base/err.h"
#include "engine/model/plan.h"

#define PROXY_MODEL_KINDS 4
#define PROXY_MODEL_MIN_LAYERS                                                                     \
    2 /* layers of a kind, where the other model has them: a difference tells what one costs */
#define PROXY_MODEL_MAX_LAYERS 16

struct proxy_model_kind {  /* layers of the same shapes and formats */
    int32_t like;          /* the first such layer of the other model */
    int32_t count;         /* how many it has */
    int32_t first, n;      /* its layers in the proxy */
    uint64_t bytes;        /* that one row reads of one, its experts included */
    uint64_t expert_bytes; /* of these, routed experts */
};

struct proxy_model {
    struct model_plan plan; /* layers ordered by kind */
    struct proxy_model_kind kinds[PROXY_MODEL_KINDS];
    int32_t n_kinds;
    double head_share; /* of the other one's vocabulary */
    void *memory;      /* what weights and vectors point into */
};

/* bytes: of layers at most, beyond PROXY_MODEL_MIN_LAYERS of each kind. ERR_NOMEM: nothing is kept.
 */
bool proxy_model_init(struct proxy_model *m, const struct model_plan *plan, uint64_t bytes,
                      struct err *e);
void proxy_model_fini(struct proxy_model *m); /* accepts a zeroed struct */
