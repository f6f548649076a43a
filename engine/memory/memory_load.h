/* From a model and requests to an open backend: asks the backends what they are, plans, opens what was planned, and holds
 * it against what was taken. Used by the engine's loop and by every command that runs a model, so that `sluice info`
 * shows what they would do. One thread. */
#pragma once
#include <stdbool.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/memory/memory_plan.h"
#include "engine/memory/memory_rates.h"
#include "engine/memory/weight_lock.h"
#include "engine/model/model.h"

struct memory_backend { /* of one target: what its estimate is asked with */
    const struct backend_ops *ops;
    const struct model *model;
    struct backend_device device;
};

struct memory_load {
    const struct model *model;
    const char *backend; /* as asked for */
    struct memory_input input;
    struct memory_plan plan;
    struct memory_backend targets[MEMORY_MAX_TARGETS]; /* of input.targets */
    struct memory_rates rates;        /* zeros until memory_load_measure */
    struct memory_estimate estimate;  /* one stream, empty context */
    /* after memory_load_open */
    const struct backend_ops *ops;
    struct backend *opened;
    struct streaming *streaming; /* ssd_streaming; else NULL */
    struct weight_lock lock;     /* cpu_only; else empty */
};

/* Decides; allocates nothing. l may lie anywhere, but must not move afterwards. */
bool memory_load_plan(struct memory_load *l, const struct model *m, const char *backend, const struct memory_request *w,
                      struct err *e);
/* Measures what the estimate needs, and how many reads the disk likes to have at once, about a second; what can't be measured
 * stays unknown. Before memory_load_open. */
void memory_load_measure(struct memory_load *l, const char *cache_dir);
/* more: what the plan does not decide (cache_dir, where experts' statistics are kept as well; dump; route), or NULL. */
bool memory_load_open(struct memory_load *l, const struct backend_params *more, struct err *e);
/* The cache of experts of an open ssd_streaming plan, else NULL. */
struct expert_cache *memory_load_experts(const struct memory_load *l);
/* Bytes of weights, beside those in the cache of experts, that are locked in memory. */
uint64_t memory_load_locked(const struct memory_load *l);
void memory_load_close(struct memory_load *l); /* accepts a zeroed struct */
