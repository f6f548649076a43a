/* Routed experts computed by the processor for a backend whose device computes the rest of a layer:
 * what such a backend asks of engine/cpu without including it. The experts stay where the backend
 * keeps them, in memory of the host.
 *
 * One owner thread; run() uses a pool of threads of its own and returns when all is computed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/model/plan.h"

#define EXPERT_ROWS_MAX 64 /* rows of a run at most */

/* Who computes the experts that a device has no slot for. */
enum expert_way {
    EXPERTS_AUTO, /* the device over its bus, or the processor where that is clearly faster by
                     measured rates */
    EXPERTS_BUS,
    EXPERTS_CPU,
    EXPERT_WAY__N
};

#define EXPERT_WAY_CHOICES "auto|bus|cpu" /* for option tables, in this order */

struct expert_rows;

struct expert_rows_params {
    int32_t max_rows;  /* 1 .. EXPERT_ROWS_MAX */
    int32_t n_threads; /* 0: one per core */
    bool exact;        /* f32 activations */
};

struct expert_rows_range { /* rows [row, row + n) of one matrix */
    int32_t matrix, row, n;
};

/* Makes these rows of *w readable: *out is a copy of *w, and becomes a stack of these rows alone,
 * in the layout of weight.h, in place or in `scratch`, which has room for so many rows of all
 * planes. Called by any thread. */
typedef void (*expert_rows_fetch)(const struct weight *w, const struct expert_rows_range *r,
                                  uint8_t *scratch, struct weight *out);

/* One layer's experts as they lie in memory, which outlives the expert_rows. type NONE: the layer
 * has none. */
struct expert_rows_layer {
    struct weight gate, up, down;
    expert_rows_fetch fetch; /* NULL: the matrices are laid out as in weight.h */
};

struct expert_rows_work {
    int32_t layer, n_rows;
    const float *x;       /* [n_rows, stride] residual stream, not normalised yet */
    int64_t stride;       /* floats, >= d_model */
    const int32_t *ids;   /* [n_rows, n_used] the router's choice; -1: computed elsewhere */
    const float *weights; /* [n_rows, n_used] */
    float *out; /* [n_rows, d_model] = for each row, the sum over its ids >= 0 of weight times
                   expert(norm(x)) */
};

struct expert_rows_ops {
    /* Bytes that open takes. */
    uint64_t (*bytes)(const struct model_plan *plan, const struct expert_rows_params *p);
    /* layers: [n_layer], copied. NULL on failure. */
    struct expert_rows *(*open)(const struct model_plan *plan,
                                const struct expert_rows_layer *layers,
                                const struct expert_rows_params *p, struct err *e);
    void (*close)(struct expert_rows **r); /* accepts NULL inside */
    int32_t (*threads)(const struct expert_rows *r);
    /* Returns how many distinct experts it computed. */
    int32_t (*run)(struct expert_rows *r, const struct expert_rows_work *w);
};

extern const struct expert_rows_ops cpu_expert_rows;
