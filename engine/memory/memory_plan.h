/* The memory plan: where a model's bytes go on this machine, decided before anything is allocated.
 *
 * memory_plan_make is arithmetic over its inputs: it reads no file and queries no device except
 * through `estimate`, so tests can plan for machines that do not exist. What is applied is what was
 * planned: the backend's memory() must report the same parts, byte for byte, after open. Called by
 * the engine's loop and by the commands; any thread.
 *
 * Strategies:
 *   full_gpu       everything in the device's memory
 *   hybrid         dense weights and KV on the device, experts in RAM, some in device slots as well
 *   cpu_only       everything in RAM, weights as mapped pages of the file or interleaved copies
 *   ssd_streaming  dense weights and KV on the device or in RAM, a byte-budgeted cache of experts
 * in RAM, with a device some in slots there as well; other experts stay on the disk A strategy is
 * planned only where the backend says that it can do it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/memory/machine.h"
#include "engine/memory/sizing.h"
#include "engine/model/model.h"

enum strategy {
    STRATEGY_AUTO,
    STRATEGY_FULL_GPU,
    STRATEGY_HYBRID,
    STRATEGY_SSD_STREAMING,
    STRATEGY_CPU_ONLY,
    STRATEGY__N
};

#define STRATEGY_CHOICES "auto|full_gpu|hybrid|ssd_streaming|cpu_only" /* for option tables */

const char *strategy_name(enum strategy s);         /* as written in STRATEGY_CHOICES */
enum strategy strategy_from_name(const char *name); /* STRATEGY__N: unknown */

struct memory_request { /* what the operator asked for; 0: to be chosen */
    enum strategy strategy;
    int64_t ram_budget;   /* bytes of RAM that the process may take, all in all */
    int64_t gpu_budget;   /* bytes of device memory */
    int64_t expert_cache; /* bytes of the expert cache; asks for ssd_streaming unless hybrid is
                             forced */
    struct sizing_request size;
    struct sizing
        fixed; /* if n_blocks is not 0: these sizes exactly (the commands know what they run) */
    int32_t n_threads;
    bool exact;
    bool one_byte;                       /* cpu: activations of 8 bits, where they have 16 else */
    bool speculates;                     /* steps may verify drafts */
    bool no_recall;                      /* none of them by earlier texts, see draft/recall.h */
    uint64_t beside_host, beside_device; /* bytes that are left to what will be opened beside it */
    enum kv_type kv_type;       /* auto: 16 bits where the context and the slots fit, else q8 */
    enum expert_way expert_way; /* hybrid: who computes experts that are not on the device */
    const char *device; /* as backend_probe.device, or "cpu"; NULL: as the backend chooses */
    const char
        *prefers; /* then this device, if it is there; the processor stays possible. Or NULL */
    uint64_t ram_returned,
        gpu_returned; /* what the model that runs now gives back before the load */
};

struct memory_model {              /* what the planner needs to know of a model; bytes as packed */
    int32_t n_ctx, n_layer, n_moe; /* n_moe: layers with routed experts */
    int32_t n_expert, n_used; /* of the layer with the most experts; used by a token; 0: none */
    bool recurrent;
    uint64_t weights, dense, experts;      /* weights = dense + experts */
    uint64_t active_dense, active_experts; /* read for one token at batch 1 */
    uint64_t kv_per_token[KV__N];          /* as each type stores it */
    uint64_t slots_least; /* hybrid: the smallest useful device memory for experts */
    uint64_t layer_most; /* bytes of all experts of the largest layer, which a device's cache in RAM
                            must hold */
    uint64_t cache_least, cache_most; /* expert cache: the smallest that works, and one with all
                                         experts; both 0: this model's experts cannot be streamed */
};

/* From an open model. */
void memory_model_of(const struct model *m, struct memory_model *out);

struct memory_target {              /* a backend with its memory, as the planner sees it */
    const char *backend;            /* its name */
    const char *device, *device_id; /* of a GPU, as backend_device has them; else NULL */
    bool gpu;
    bool in_ram;               /* the GPU's memory is RAM, so what it takes counts there too */
    bool streams, splits;      /* can do ssd_streaming, hybrid */
    bool verifies;             /* drafts, of this model */
    uint64_t total, available; /* bytes of the device's memory; 0 for the cpu */
    /* The memory that opening would take: the backend's estimate for the model. */
    bool (*estimate)(void *context, const struct backend_params *p, struct backend_memory *m,
                     struct err *e);
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
    int target; /* index in the input's targets */
    char backend[16];
    char gpu_name[128],
        gpu_id[BACKEND_DEVICE_ID_BYTES]; /* of the GPU, where one computes; else "" */
    struct sizing size;
    /* by part */
    uint64_t dense;          /* weights that are always resident, on the device or in RAM */
    uint64_t experts;        /* routed experts that are always resident */
    uint64_t expert_cache;   /* ssd_streaming: budget of the cache of the others, and slots on the
                                device; hybrid: the slots */
    uint64_t device_experts; /* on a device: the bytes that the backend makes slots of */
    uint64_t host_experts;   /* ssd_streaming on a device: memory of the host that its backend keeps
                                experts in */
    uint64_t staging; /* ssd_streaming on a device: memory for experts on their way from the disk to
                         the device */
    uint64_t kv, state, work;
    uint64_t recall;        /* what drafts know of the KV blocks' texts; always in RAM */
    enum kv_type kv_type;   /* what the backend is asked for, */
    enum kv_type kv_stored; /* and what it then stores */
    uint64_t kv_per_token;  /* bytes of a token as stored */
    /* by target; device + host = the sum of the parts */
    uint64_t device, host;
    uint64_t total; /* dense + all experts once + kv + state + work + recall: the memory needed with
                       nothing left on disk */
    uint64_t reserve; /* RAM left to the program itself and the system */
    uint64_t ram_total, ram_available,
        ram_limit; /* of the machine; free before the load; the limit of `host` */
    uint64_t gpu_total, gpu_available, gpu_limit;
    enum expert_way expert_way; /* hybrid; EXPERTS_AUTO: by measured rates (memory_load_measure) */
    char expert_text[64];       /* hybrid: the same in words */
    int32_t gpu_layers, cpu_layers, n_layer;
    char reason[192]; /* why no faster strategy was chosen; "" when the fastest was */
};

/* Of two that both fit. */
bool memory_strategy_is_faster(enum strategy a, enum strategy b);
/* Counts what the request says is returned as available, before planning; never more than there is.
 */
void memory_input_take_returned(struct memory_input *in);
/* ERR_LIMIT: nothing fits; the text says what is needed, what is there, and the nearest settings
 * that would work. ERR_UNSUPPORTED: no backend implements the forced strategy. */
bool memory_plan_make(const struct memory_input *in, struct memory_plan *out, struct err *e);
/* After a device refused memory that it had reported as free: fewer checkpoints, a smaller pool,
 * and the parts again. False: the sizes are the smallest already, or were requested. */
bool memory_plan_shrink(const struct memory_input *in, struct memory_plan *p, struct err *e);
/* The backend parameters of the plan, without cache_dir and dump. */
struct backend_params memory_plan_params(const struct memory_plan *p,
                                         const struct memory_request *w);
/* Compares planned and applied memory; false with the first part that differs. */
bool memory_plan_check(const struct memory_plan *p, const struct backend_memory *applied,
                       struct err *e);

/* Memory of the process beside the parts (code, vocabulary, sockets, stacks). */
#define MEMORY_PROCESS_BYTES ((uint64_t)96 << 20)
/* What drafts know of a KV block's text. */
#define MEMORY_RECALL_BYTES ((uint64_t)1000)
/* RAM to leave to the system, of `total`. */
uint64_t memory_reserve(uint64_t total);
