/* Whether a model has room beside the others: planned as its engine would plan it, without its
 * weights, in a process of its own, because its files are opened for the first time and may be
 * anything. One thread: the supervisor's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "engine/memory/memory_options.h"

struct up;

#define LOCAL_PLAN_GPUS 16

struct local_gpu {
    char id[BACKEND_DEVICE_ID_BYTES];
    uint64_t bytes;
    double used_ms; /* clock_ms: when an engine there was last used */
};

struct local_plan_ask {
    const char *path;
    const char *device;  /* of the row; "": as the server's --backend and --device say */
    int64_t ctx;         /* of the row; 0: the server's, as far as the model has it, or its own */
    uint64_t room;       /* bytes of RAM that no other engine has */
    uint64_t returnable; /* what engines that may be ended for this one have */
    /* Where they have some of a GPU's memory, too: that which was used longest ago first. */
    struct local_gpu gpus[LOCAL_PLAN_GPUS];
    int n_gpus;
};

enum local_verdict {
    LOCAL_FITS,
    LOCAL_FITS_LATER, /* when an engine has given its memory back; or it would run faster then */
    LOCAL_FITS_NEVER, /* as long as those run that must stay */
    LOCAL_UNUSABLE
};
struct local_plan {
    int32_t verdict;                   /* enum local_verdict */
    int64_t ctx;                       /* to start it with */
    uint64_t needed;                   /* bytes of RAM, with the process */
    int32_t strategy;                  /* enum strategy of memory_plan.h, where it fits */
    char gpu[BACKEND_DEVICE_ID_BYTES]; /* that it was planned on; "": none */
    bool gpu_only;                     /* LOCAL_FITS_LATER: only memory of that GPU is missing */
    char text[320];                    /* LOCAL_UNUSABLE: why */
};

#define LOCAL_PLAN_MS 120000 /* for a plan: the model's files may lie on a slow disk */

/* How the engine of a model with this device is started, beside its budget. */
const char *local_plan_backend(const struct up *u, const char *device);
struct memory_options local_plan_options(const struct up *u, const char *device);

/* The descriptor that local_plan_read reads; -1: *e. *pid: the process that plans, a child of this
 * one. Who doesn't wait for it any more kills it. */
int local_plan_start(const struct up *u, const struct local_plan_ask *ask, pid_t *pid,
                     struct err *e);
/* The same at once, within LOCAL_PLAN_MS: ERR_UNAVAILABLE. */
bool local_plan_now(const struct up *u, const struct local_plan_ask *ask, struct local_plan *out,
                    struct err *e);
/* 0: not yet. The descriptor is closed with the answer, and a process that died has found the model
 * unusable. */
int local_plan_read(int *fd, struct local_plan *out);
