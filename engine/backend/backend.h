/* The seam between scheduling and arithmetic: a backend runs one step of a plan over a batch of
 * rows that belong to several sequences. Two implementations with the same operations by the same
 * names: engine/cpu (the specification, and fast versions) and engine/vulkan.
 *
 * One thread (the engine's loop) owns a backend and calls it. KV lives in the backend, in blocks of
 * BACKEND_BLOCK_TOKENS tokens; who uses which block is the caller's business (engine/cache).
 *
 * Numerics: a row's result must not depend on which other rows are in the step (same order of
 * additions for every batch size) wherever the backend can do that at full speed; the cpu backend
 * always does. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend/expert_rows.h"
#include "engine/base/err.h"
#include "engine/model/kv_type.h"
#include "engine/model/plan.h"

#define BACKEND_BLOCK_TOKENS 32
#define BACKEND_MAX_TOP 128 /* candidates per row at most */
#define BACKEND_PROVISIONAL_ROWS 17

struct backend;
struct expert_cache;
struct model;
struct thread_pool;

/* Bytes of one block in one attention layer: keys and values of BACKEND_BLOCK_TOKENS tokens. A
 * backend's blocks of a layer follow each other at this distance. */
static inline uint64_t backend_block_bytes(int32_t n_kv_head, int32_t d_head, enum kv_type stored)
{
    return BACKEND_BLOCK_TOKENS * (uint64_t)n_kv_head * kv_head_bytes(d_head, stored);
}

struct backend_params {
    int32_t n_blocks;      /* KV blocks to allocate, each for BACKEND_BLOCK_TOKENS tokens of every
                              attention layer */
    int32_t n_states;      /* recurrent states to allocate (sequences + checkpoints) */
    int32_t max_rows;      /* rows of a step at most (prefill chunk + decodes) */
    int32_t max_sequences; /* sequences of a step at most */
    int32_t n_threads;     /* cpu: 0 = one per core */
    /* cpu: the threads of another backend that the same thread owns, of as many; it outlives this
     * one. Threads of their own would spin against those. NULL: it starts its own. */
    struct thread_pool *team;
    int32_t provisional_rows; /* of the provisional sequences of a step at most, see below; 0: there
                                 are none */
    /* Layers whose results step_sequence.hidden shows, by number; none: the final norm's. */
    int32_t taps[PLAN_MAX_TAPS], n_taps;
    bool exact;            /* f32 activations everywhere, however slow */
    bool one_byte;         /* cpu: activations of packed weights have 8 bits instead of 16 */
    enum kv_type kv_type;  /* as asked for: f32 is stored in place of f16 with `exact` */
    const char *cache_dir; /* pipeline cache; NULL: none */
    const char *device;    /* which of several, as backend_probe.device; NULL: as it chooses */
    /* A device that is open already, with all that was compiled for it and in place of `device` and
     * `cache_dir`: `speed` leaves there the one that it measured; `open` takes it, or leaves it
     * where it fails before it needs one. Who keeps it drops what was not taken. NULL: none is
     * kept. */
    struct backend_kept **kept;
    /* Routed experts come from this store, and the plan is the store's own. NULL: all weights are
     * where the plan says. The store outlives the backend, whose owner thread is the store's. */
    struct expert_cache *experts;
    uint64_t
        device_experts; /* backends that split: device bytes for routed experts, all of which lie in
                           host memory as well; 0, or enough for all: they lie on the device only */
    uint64_t host_experts; /* with device_experts, and `experts` at open: bytes of host memory that
                              the backend keeps streamed experts in, as its kernels read them */
    /* With device_experts and no store: who computes experts without a slot, and what the processor
     * does it with. NULL: the device alone. */
    enum expert_way expert_way;
    const struct expert_rows_ops *expert_rows;
    bool streams; /* for estimate: experts will come from a store that is not there yet; weights are
                     those of the plan */
    /* Test only: called with each intermediate, names as in tests/golden ("layers.3.ffn"); values
     * are [rows, cols] f32, or int32 for "expert_ids". NULL in service. */
    void (*dump)(void *context, const char *name, const void *data, int32_t rows, int32_t cols,
                 bool is_int);
    void *dump_context;
    /* Measurements and tests only: names the experts of one row in place of the router's choice,
     * whose weights stay, by rank. ids: [n_used] distinct, each below n_expert. sequence: index in
     * the step. Called by any thread, perhaps several times for one row, with the same answer each
     * time, or for all rows before the step. NULL in service. */
    void (*route)(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
    /* As route, for streamed experts: what the layer before expects of this one, in place of the
     * prediction by this layer's router, best first. NULL: that prediction, or none where `route`
     * is set. Backends that do not prefetch never call it. */
    void (*predict)(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
    void *route_context; /* of both */
};

struct step_sequence {
    const int32_t *tokens; /* [n_tokens] input ids */
    int32_t n_tokens;
    /* Where the plan begins from hidden states (plan.joint), and in steps of a context: those of
     * the tokens' rows. */
    const float *given; /* [n_tokens, d], or [n_tokens, context.n_taps * d] */
    /* NULL, or where the last n_hidden rows are to be put beside whatever else is wanted of them:
     * as the final norm leaves them, or, of a backend with taps, as those layers leave them, side
     * by side. May be `given`. Only where the backend has `hands_hidden`. */
    float *hidden; /* [n_hidden, d], or [n_hidden, n_taps * d] */
    int32_t n_hidden;
    int32_t start; /* position of tokens[0]; positions before it are in KV (and state) already */
    const int32_t *blocks; /* block ids that hold positions 0 .. start + n_tokens - 1, in order */
    int32_t state;         /* recurrent state's index, or -1; start == 0 begins from zeros */
    int32_t n_out;         /* logits are wanted for the last n_out tokens (0: none) */
    int32_t n_experts; /* routed experts that its rows use of a layer, the best ones, where the plan
                          has more; 0: the plan's */
    bool want_logits;  /* whole rows, beside the candidates */
    int32_t n_first;   /* encoders: tokens of the text's first part, whose segment is 0; 0: all */
    bool provisional;  /* its recurrent state stays before the rows until keep_rows says how many of
                          them count; only where the backend has keep_rows, with at most
                          BACKEND_PROVISIONAL_ROWS rows */
};

struct step_row { /* one wanted row, in the order of sequences and tokens; memory owned by the
                     backend, valid until the next step */
    const int32_t *top_ids;  /* [n_top] by descending logit; equal logits: lower id first */
    const float *top_logits; /* [n_top] */
    float log_sum_exp;       /* natural log of sum of exp(logit) over the vocabulary, unscaled */
    const float *logits;     /* [n_vocab] or NULL */
    const float *hidden;     /* [d] of a step that wants it; then there is nothing else */
};

struct step {
    const struct step_sequence *sequences;
    int32_t n_sequences;
    int32_t n_top; /* candidates per wanted row, 1 .. BACKEND_MAX_TOP */
    /* Tokens from 0 on that candidates and sums may be limited to, which saves the rest of the
     * head; other logits are -infinity then. At least n_top; 0: all. A backend may compute all. */
    int32_t n_head;
    /* Wanted rows as the final norm (or, without one, the last layer) leaves them, in place of
     * candidates: what embeddings and scores are made of. Only where the backend has `embeds`. */
    bool hidden;
    /* Of a plan with a context: the rows are the context's, and leave keys and values only; `given`
     * decides them, tokens don't matter. */
    bool context;
};

struct backend_memory {                /* bytes as really allocated */
    uint64_t weights, kv, state, work; /* by part */
    uint64_t device, host;             /* where */
    enum kv_type kv_type;              /* as stored */
};

struct backend_counters { /* since open; written by the owner thread only */
    uint64_t steps, rows;
    uint64_t weight_bytes_read; /* packed bytes that the steps had to read: dense once, distinct
                                   experts once per step */
    uint64_t kv_bytes_read;
    uint64_t step_ns; /* time inside step() */
    /* backends that split: distinct experts of steps found on the device and not, bytes of the
     * latter read over the bus, and bytes copied to the device for later steps; experts that such a
     * copy pushed out of the device's memory */
    uint64_t expert_hits, expert_misses, expert_bus_bytes, expert_copied_bytes, expert_evictions;
    uint64_t expert_on_cpu; /* of the misses, computed by the processor instead */
};

#define BACKEND_MAX_OPERATIONS 64

struct backend_operation { /* of one step, all that have this name together */
    const char *name;      /* static */
    int32_t n;
    double us; /* on the device */
};

struct backend_profile {                                 /* in the order of their first runs */
    struct backend_operation at[BACKEND_MAX_OPERATIONS]; /* names beyond count under the last one */
    int32_t n;
    double us; /* from the first operation's begin to the last one's end */
};

#define BACKEND_DEVICE_ID_BYTES 40

struct backend_device { /* what computes, before anything is opened on it */
    char name[128];
    /* Names this one among several, for as long as it is there; "" where there is only one. */
    char id[BACKEND_DEVICE_ID_BYTES];
    bool in_ram;       /* its memory is RAM: integrated, or a CPU that plays a GPU */
    bool slow_prefill; /* a GPU without the matrix units that our kernels use
                          (VK_KHR_cooperative_matrix): steps of many rows go over its plain
                          arithmetic, whatever the weights' format */
    uint64_t total,
        available; /* bytes of device memory, by VK_EXT_memory_budget where there; 0: not a GPU */
};

struct backend_speed { /* measured at one row; 0: unknown */
    double dense,
        experts;    /* packed weight bytes per second through the kernels of the plan's formats */
    double memory;  /* KV, bytes per second */
    double layer_s; /* a layer's fixed time beside its bytes */
    /* backends that split: of experts that lie in the host's memory, as the kernels read them; 0:
     * such are not planned */
    double link;
    /* backends that stream and keep experts in a layout of their own: bringing what was read into
     * it; 0: none */
    double unpack;
    bool waits; /* computing waits for what is read from the disk */
};

/* What can be known of a backend before it is opened: by the memory plan and `sluice info`, which
 * open nothing. */
struct backend_probe {
    /* Can it run here at all? False with the reason. */
    bool (*usable)(struct err *e);
    /* Name and memory of the device that open would take. which: its number, its id or the first
     * eight digits of it and more, or a part of its name; NULL: as the backend chooses. ERR_INPUT
     * (field "device"): there is no such, with those that there are. NULL: nothing is known. */
    bool (*device)(const char *which, struct backend_device *d, struct err *e);
    /* Does `which`, as for device, mean the one with this id, perhaps among others? NULL: there is
     * one only. */
    bool (*means)(const char *which, const char *id);
    /* Bytes that `open` would take, without opening: what `sluice info` prints. */
    bool (*estimate)(const struct model_plan *plan, const struct backend_params *p,
                     struct backend_memory *m, struct err *e);
    /* Times the kernels that the plan's decoding would use, without opening: a fraction of a second
     * (and the compiling of shaders that cache_dir does not have), at most 128 MiB or what one
     * layer of each kind reads. NULL: it can't. False: can't be known before open (read_bandwidth
     * then bounds it), and *s is as it was. */
    bool (*speed)(const struct model_plan *plan, const struct backend_params *p,
                  struct backend_speed *s, struct err *e);
    /* Closes what backend_params.kept still has. NULL: nothing is ever left there. */
    void (*drop)(struct backend_kept **kept); /* accepts NULL in it */
};

/* The content of KV blocks and recurrent states as plain bytes, for a cache that outlives the
 * backend. What was saved may be loaded into any block or state of a backend that was opened with
 * the same weights and whose format() is the same; it means nothing to any other. */
struct backend_content {
    /* Whatever decides how content is laid out and rounded: kernels, precision, device. */
    void (*format)(const struct backend *b, char *out, size_t size);
    size_t (*block_bytes)(const struct backend *b); /* of one block, all layers; 0: no attention */
    size_t (*state_bytes)(const struct backend *b); /* 0: no recurrent layers */
    /* to, from: [n] of block_bytes each. */
    bool (*save_blocks)(struct backend *b, const int32_t *blocks, int32_t n, void *const *to,
                        struct err *e);
    bool (*load_blocks)(struct backend *b, const int32_t *blocks, int32_t n,
                        const void *const *from, struct err *e);
    bool (*save_state)(struct backend *b, int32_t state, void *to, struct err *e);
    bool (*load_state)(struct backend *b, int32_t state, const void *from, struct err *e);
};

struct interleaved_weights;

/* Weights copied and laid out anew, in as many bytes, as the backend's kernels read them faster. */
struct backend_interleaving {
    /* For a backend that is to be opened with the plan below and these parameters; it is closed
     * before. NULL: they read weights as the model has them; or there is no memory for copies,
     * which is logged. */
    struct interleaved_weights *(*open)(const struct model *m, const struct backend_params *p);
    const struct model_plan *(*plan)(const struct interleaved_weights *w);
    void (*close)(struct interleaved_weights **w); /* accepts NULL inside */
};

struct backend_ops {
    const char *name;  /* "cpu", "vulkan" */
    bool streams;      /* takes backend_params.experts */
    bool prefetches;   /* prefetches streamed experts, and calls backend_params.predict */
    bool splits;       /* dense weights on the device, experts in RAM */
    bool embeds;       /* runs encoders, and steps that want hidden rows */
    bool hands_hidden; /* fills step_sequence.hidden, and runs plans that begin from `given` */
    const struct backend_probe *probe;
    struct backend *(*open)(const struct model_plan *plan, const struct backend_params *p,
                            struct err *e);
    void (*close)(struct backend **b);
    /* rows: at least the sum of n_out entries. On failure nothing of the step counts; ERR_DEVICE
     * means that the device is lost and every later step will fail as well. */
    bool (*step)(struct backend *b, const struct step *s, struct step_row *rows, struct err *e);
    /* Measurements only: a step as `step` runs it, with the time of each operation on the device.
     * ERR_UNSUPPORTED where the device has no clock or the step is not one piece of work for it.
     * NULL: the backend can't tell. */
    bool (*profile)(struct backend *b, const struct step *s, struct step_row *rows,
                    struct backend_profile *out, struct err *e);
    /* After a step: the recurrent state of its provisional sequence with this index goes on by its
     * first `rows` rows, once per step. NULL: recurrent states can't be held back, so there are no
     * provisional sequences. */
    bool (*keep_rows)(struct backend *b, int32_t sequence, int32_t rows, struct err *e);
    /* Copies a recurrent state, or KV blocks whole (pairs from, to). */
    bool (*copy_state)(struct backend *b, int32_t from, int32_t to, struct err *e);
    bool (*copy_blocks)(struct backend *b, const int32_t (*pairs)[2], int32_t n, struct err *e);
    const struct backend_content *content;           /* NULL: it cannot give its content away */
    const struct backend_interleaving *interleaving; /* NULL: it reads no weights so */
    void (*memory)(const struct backend *b, struct backend_memory *m);
    void (*counters)(const struct backend *b, struct backend_counters *c);
    const char *(*device_name)(const struct backend *b);
    /* Threads of the processor that compute steps. NULL: none do. */
    int32_t (*threads)(const struct backend *b);
    /* Measured read bandwidth of the memory that holds the weights, bytes/s (a short probe). 0:
     * unknown. */
    double (*read_bandwidth)(struct backend *b);
    /* What computes its steps, for a second backend of the same thread: backend_params.team. NULL:
     * it has no threads of its own. */
    struct thread_pool *(*team)(const struct backend *b);
};

/* True: drafts of such a model can be verified, since rejected ones can be taken back. */
static inline bool backend_verifies(const struct backend_ops *ops, int32_t n_recurrent)
{
    return !n_recurrent || ops->keep_rows;
}

extern const struct backend_ops cpu_backend;
extern const struct backend_ops
    vulkan_backend; /* in a build without Vulkan: usable and open say so */

/* True when the Vulkan devices that answer are software rasterisers only: usable when asked for by
 * name (tests), never picked by "auto". */
bool vulkan_is_software(void);

/* "auto": vulkan where a real GPU answers (not a software rasteriser), else cpu. "vulkan", "cpu".
 */
const struct backend_ops *backend_select(const char *name, struct err *e);
/* What runs a model that `refused`, selected by `name`, could not open because of `why`: with
 * "auto" the cpu backend when the refusal is about the model (no kernel for it, or it does not
 * fit), which is logged. NULL: the refusal stands, as it does for a lost device, a bad file, or a
 * backend that was asked for by name. */
const struct backend_ops *backend_fallback(const char *name, const struct backend_ops *refused,
                                           const struct err *why);
