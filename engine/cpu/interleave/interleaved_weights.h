/* A plan whose weights are laid out anew: copies, sixteen rows side by side (interleave.h), of all
 * matrices that kernels read so, in one mapping of memory. Other weights stay where they are, among
 * them all that is read row by row: the tables of embeddings, tied heads with them, the router, a
 * scorer. One thread; immutable once made. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/thread_pool.h"
#include "engine/model/model.h"

struct interleaved_weights;

struct interleaved_weights_params {
    const struct model_plan *plan; /* outlives the copy */
    /* Its files' pages are given back as they are copied. NULL: the plan is no file's */
    const struct model *model;
    bool (*reads)(const struct weight *w); /* whether kernels read this one so, */
    const char *kernels;                   /* and their name */
    struct thread_pool *team;              /* copies; NULL: threads of its own, */
    int32_t n_threads;                     /* as many as thread_pool_size says */
};

/* NULL: there is nothing to be copied; or no memory for it, which is logged. */
struct interleaved_weights *interleaved_weights_open(const struct interleaved_weights_params *p);
const struct model_plan *interleaved_weights_plan(const struct interleaved_weights *i);
void interleaved_weights_close(struct interleaved_weights **i); /* accepts NULL inside */
/* Whether a plan has such weights. */
bool interleaved_weights_any(const struct model_plan *plan);
