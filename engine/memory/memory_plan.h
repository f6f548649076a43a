/* The plan: where a model's bytes go on this machine, decided before anything is allocated.
 *
 * memory_plan_make is arithmetic over its inputs: it reads no file and asks no device but through `estimate`, so tests
 * drive it over machines that do not exist. What is applied is what was planned: the same parts, byte for byte, come
 * back from the backend's memory() after open. Called by the engine's loop and by the commands; any thread.
 *
 * Strategies:
 *   full_gpu       everything in the device's memory
 *   hybrid         dense weights and KV on the device, experts in RAM, some in device slots as well
 *   cpu_only       everything in RAM, weights as mapped pages of the file
 *   ssd_streaming  dense weights and KV on the device or in RAM, a byte-budgeted cache of experts in RAM, with a device
 *                  some in slots there as well; other experts stay on the disk
 * A strategy is planned only where the backend says that it can do it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/memory/machine.h"
#include "engine/memory/sizing.h"
#include "engine/model/model.h"

enum strategy { STRATEGY_AUTO, STRATEGY_FULL_GPU, STRATEGY_HYBRID, STRATEGY_SSD_STREAMING, STRATEGY_CPU_ONLY, STRATEGY__N };

#define STRATEGY_CHOICES "auto|full_gpu|hybrid|ssd_streaming|cpu_only" /* for option tables */

const char *strategy_name(enum strategy s); /* as written in STRATEGY_CHOICES */
enum strategy strategy_from_name(const char *name); /* STRATEGY__N: unknown */

struct memory_request { /* 0: to be chosen */
    enum strategy strategy;
    int64_t ram_budget;   /* bytes of RAM that the process may take, all in all */
    int64_t gpu_budget;   /* bytes of device memory */
    int64_t expert_cache; /* bytes of the expert cache; asks for ssd_streaming unless hybrid is forced */
    struct sizing_request size;
    struct sizing fixed;  /* n_blocks not 0: sizes as they are (the commands know what they run) */
    int32_t n_threads;
    bool exact;
    enum expert_way expert_way; /* hybrid: who computes experts without a slot */
};

struct memory_model { /* what of a model matters here; bytes as packed */
    int32_t n_ctx, n_layer, n_moe; /* n_moe: layers with routed experts */
    int32_t n_expert, n_used;      /* of the layer that has the most, that a token uses; 0: none */
    bool recurrent;
    uint64_t weights, dense, experts; /* weights = dense + experts */
    uint64_t active_dense, active_experts; /* read for one token at batch 1 */
    uint64_t kv_per_token;            /* at 2 bytes a value */
    uint64_t slots_least;             /* hybrid: device bytes for experts, the fewest worth having */
    uint64_t layer_most;    /* bytes of all experts of the largest layer: what a device's cache in RAM must hold */
    uint64_t cache_least, cache_most; /* expert cache: smallest that works, and with all experts in it; both 0: this
                                         model's experts can't be streamed */
};

/* From an open model. */
void memory_model_of(const struct model *m, struct memory_model *out);

struct memory_target { /* a backend as the planner sees it */
    const char *backend;   /* its name */
    bool gpu;
    bool in_ram;           /* the GPU's memory is RAM: what it takes counts there too */
    bool streams, splits;  /* can do ssd_streaming, hybrid */
    uint64_t total, available; /* bytes of the device's memory; 0 for the cpu */
    /* What opening would take: backend_ops.estimate over the model. */
    bool (*estimate)(void *context, const struct backend_params *p, struct backend_memory *m, struct err *e);
    void *context;
};

#define MEMORY_MAX_TARGETS 2

struct memory_input {
    struct memory_model model;
    struct machine machine;
    struct memory_target targets[MEMORY_MAX_TARGETS]; /* in order of preference */
    int n_targets;
    struct memory_request request;
};

struct memory_plan { /* sizes in bytes */
    enum strategy strategy;
    int target;              /* index in the input's targets */
    char backend[16];
    struct sizing size;
    /* by part */
    uint64_t dense;         /* weights that are always there, on the device or in RAM */
    uint64_t experts;       /* routed experts that are always there */
    uint64_t expert_cache;  /* ssd_streaming: budget of the cache of the others, and slots on the device; hybrid: the slots */
    uint64_t device_experts; /* on a device: what the backend is told to make slots of */
    uint64_t host_experts;  /* ssd_streaming on a device: memory of the host that its backend keeps experts in */
    uint64_t staging;       /* the same: memory for experts on their way from the disk to there */
    uint64_t kv, state, work;
    /* by target; device + host = the sum of the parts */
    uint64_t device, host;
    uint64_t total;         /* dense + all experts once + kv + state + work: what it would take with nothing left on the disk */
    uint64_t reserve;       /* RAM left to the program itself and the system */
    uint64_t ram_total, ram_available, ram_limit;  /* of the machine; free before the load; what `host` may take */
    uint64_t gpu_total, gpu_available, gpu_limit;
    enum expert_way expert_way; /* hybrid; EXPERTS_AUTO: by rates, of which memory_load_measure says what is known */
    char expert_text[64];       /* hybrid: who computes experts without a slot, for people */
    int32_t gpu_layers, cpu_layers, n_layer;
    char reason[192];       /* why not a faster strategy; "" when none was passed over */
};

/* ERR_LIMIT: nothing fits; the text has what is needed, what is there, and the nearest settings that would work.
 * ERR_UNSUPPORTED: the forced strategy has no mechanism in any of the backends. */
bool memory_plan_make(const struct memory_input *in, struct memory_plan *out, struct err *e);
/* After a device refused what it said it had: fewer copies, a smaller pool, and the parts again. False: the least
 * already. */
bool memory_plan_shrink(const struct memory_input *in, struct memory_plan *p, struct err *e);
/* Backend parameters that the plan stands for, without cache_dir and dump. */
struct backend_params memory_plan_params(const struct memory_plan *p, const struct memory_request *w);
/* Planned against applied: false with the first part that differs. */
bool memory_plan_check(const struct memory_plan *p, const struct backend_memory *applied, struct err *e);

/* What the process takes beside the parts (code, vocabulary, sockets, stacks), and what the system keeps. */
#define MEMORY_PROCESS_BYTES ((uint64_t)96 << 20)
uint64_t memory_reserve(uint64_t total); /* of that much RAM */
