/* Loads a model: it queries the backends, plans, opens what was planned, and compares the memory
 * taken with the plan. Used by the engine's loop and by every command that runs a model, so that
 * `sluice info` shows what they would do. One thread. */
#pragma once
#include <stdbool.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/memory/memory_plan.h"
#include "engine/memory/memory_rates.h"
#include "engine/memory/weight_lock.h"
#include "engine/model/model.h"

struct memory_backend { /* the context of one target's estimate */
    const struct backend_ops *ops;
    const struct model *model;
    struct backend_device device;
};

struct memory_load {
    const struct model *model;
    const char *backend; /* as requested, or as the device is that was */
    struct memory_input input;
    struct memory_plan plan;
    struct memory_backend targets[MEMORY_MAX_TARGETS]; /* of input.targets */
    const char *probe_folder;  /* set before memory_load_measure where the model's files are holes:
                                  the disk is measured by a file made there */
    struct memory_rates rates; /* zeros until memory_load_measure */
    struct memory_estimate estimate; /* one stream, empty context */
    struct backend_kept *kept;       /* the measured device, until it is opened */
    /* after memory_load_open */
    const struct backend_ops *ops;
    struct backend *opened;
    struct streaming *streaming; /* ssd_streaming; else NULL */
    /* cpu_only, where the backend's kernels read weights that are laid out anew; else NULL */
    struct interleaved_weights *interleaved;
    struct weight_lock lock; /* cpu_only; else empty */
};

/* Plans without allocating anything. *l must not move afterwards. */
bool memory_load_plan(struct memory_load *l, const struct model *m, const char *backend,
                      const struct memory_request *w, struct err *e);
/* Measures the rates for the estimate and the best queue depth of the disk, in about a second. What
 * cannot be measured stays unknown. Call before memory_load_open, which goes on with the device, or
 * memory_load_close, which gives it back. */
void memory_load_measure(struct memory_load *l, const char *cache_dir);
/* more: parameters that the plan does not decide (team; taps; cache_dir, where the use history of
 * experts is also kept; dump; route), or NULL. */
bool memory_load_open(struct memory_load *l, const struct backend_params *more, struct err *e);
/* The plan that it is open with: the model's, or with experts that are streamed, or with weights
 * that are interleaved. */
const struct model_plan *memory_load_running(const struct memory_load *l);
/* The cache of experts of an open ssd_streaming plan, else NULL. */
struct expert_cache *memory_load_experts(const struct memory_load *l);
/* Bytes of locked weights, without those in the expert cache. */
uint64_t memory_load_locked(const struct memory_load *l);
void memory_load_close(struct memory_load *l); /* accepts a zeroed struct */
