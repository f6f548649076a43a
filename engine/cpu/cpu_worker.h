/* What the ops of one step share, and what each thread has for itself. Private to engine/cpu.
 *
 * A step is one function that every thread of the pool runs (SPMD): in each phase a thread computes
 * its share, or takes chunks of a parallel loop, and a barrier ends the phase. Fields of struct
 * backend are written by the owner thread before a step, or by the thread whose share they are,
 * between two barriers. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/expert_lists.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/router.h"
#include "engine/cpu/thread_tuner.h"

/* In a step of up to so few rows each thread packs all activations for itself, which saves a
 * barrier per matrix product; of so many where they have few values. */
#define PRIVATE_FEW_ROWS 4
#define PRIVATE_ROWS 8
#define PRIVATE_VALUES 4096
/* In a step of up to so many rows the results of a layer's experts are stored and summed later, in
 * order: so any thread may compute any tile of them, and experts that come from the disk are
 * computed in the order in which they arrive. */
#define PART_ROWS 32
/* Rows whose logits are computed together. */
#define HEAD_ROWS 32
/* Logits summed as one unit, so that the sum does not depend on the number of threads. */
#define HEAD_CHUNK 2048

enum panel_slot { PANEL_INPUT, PANEL_MIXED, PANEL_HIDDEN, PANEL_SHARED, PANEL_SLOT__N };

struct worker {
    struct backend *backend;
    int32_t index, count;        /* this thread, all threads of the step */
    void *panels[PANEL_SLOT__N]; /* for a step of worker_private_rows() rows */
    float *row;                  /* [widest row] scratch */
    float *tile[2];              /* [KERNEL_MAX_TILE_ROWS, KERNEL_MAX_LANES] */
    float *scores, *kv_block;    /* attend's scratch, and attend_rows' */
    uint8_t *fetched[2]; /* rows of a tile where groups.fetch must lay them out anew; else unused */
    struct router_choice choice; /* of PRIVATE_ROWS rows */
    struct expert_lists lists;   /* this thread's copy */
    int32_t *candidate_ids;      /* [HEAD_ROWS, BACKEND_MAX_TOP] */
    float *candidate_logits;
    int32_t *n_candidates; /* [HEAD_ROWS] */
    float *trial;          /* [widest delta_net_trial_values] a state that may be thrown away */
    uint64_t weight_bytes, kv_bytes; /* read by this thread in this step */
};

struct step_rows { /* a step, flattened */
    int32_t n;
    int32_t *sequence, *position, *token; /* [n] */
    int32_t *experts;                     /* [n] as step_sequence.n_experts */
    const float *
        *given;     /* [n] the hidden state that the row begins from, where the plan wants it */
    float **hidden; /* [n] where its own goes; NULL: nowhere */
    int32_t n_out;
    int32_t *out;      /* [n_out] rows whose logits are wanted */
    bool *want;        /* [n_out] whole logits wanted */
    bool keep_logits;  /* any of want */
    bool one_row_each; /* every sequence has one row: decoding */
    bool only_wanted;  /* rows that nobody wants are gone: wanted_rows.h */
};

struct rope_table { /* cos and sin of the step's rows for one rope plan */
    const struct rope_plan *plan;
    float *cos_sin; /* [T, n_dims / 2, 2] */
};

/* State of a step whose experts are on disk; written by member 0 between barriers. Unused without a
 * cache of experts. */
struct stream {
    struct expert_want *wants; /* [n_expert] of the running layer */
    int32_t *ids, n_ids;       /* [n_expert + 1] groups that the running round ends */
    int32_t *up, n_up;         /* [n_expert + 1] groups whose gate and up it computes */
    int32_t *gate_up_ready;    /* [n_expert] of them, those whose down matrix is still being read */
    bool *is_up;               /* [n_expert] gate and up were computed in this layer */
    bool more;                 /* another round follows this one */
    bool failed;               /* the step ends here */
    struct err failure;
    bool predicts;      /* this step predicts the next layer's experts */
    float *next_router; /* [min(T, PART_ROWS), n_expert] the next layer's, on this layer's input */
    int32_t *next_ids;  /* [min(T, PART_ROWS), n_used] */
    struct expert_prediction *predictions; /* [min(T, PART_ROWS) * n_used] */
    bool *seen;                            /* [n_expert] */
};

struct held_rows {    /* of a provisional sequence */
    int32_t first, n; /* among the step's provisional rows; n 0: none, or no longer */
    int32_t state;
};

struct backend {
    const struct model_plan *plan;
    struct backend_params params;
    const struct kernels *kernels;
    struct thread_pool *pool;
    struct worker *workers; /* [threads] */
    int32_t n_workers;
    char device[96];

    void *kv;              /* [n_attention layers] of [n_blocks] blocks */
    struct kv_view *views; /* [n_attention] */
    size_t kv_bytes;
    float *state;        /* [n_states, state_values] */
    size_t state_values; /* of one sequence, all recurrent layers */
    size_t *state_at;    /* [n_recurrent] offset of a layer's part: conv, then recurrent */
    /* Rows of provisional sequences until keep_rows, as they were projected. */
    float *held_values;         /* [n_recurrent] of [provisional_rows, values of the layer] */
    size_t *held_at;            /* [n_recurrent] a layer's offset, for one row */
    struct held_rows *held;     /* [max_sequences] of the last step */
    int32_t keeping, kept_rows; /* of the running keep_rows: sequence and rows */
    void *workspace;
    size_t workspace_bytes;
    float *logits; /* [logits_rows, n_vocab], grown when whole logits are wanted */
    int32_t logits_rows;

    /* Of the running step. */
    const struct step *step;
    struct step_rows rows;
    struct rope_table *ropes; /* [n_layer], entries of equal plans share a table */
    float *x;                 /* [T, d] residual stream */
    float *y;                 /* [T, d] output of a mixer or feed-forward */
    float *q, *k, *v;         /* projections; DeltaNet uses q for q, k, v and k for z */
    float *mixed;             /* [T, n_head * d_head] before the output projection */
    float *gates;             /* [T, n_v_head, 2] DeltaNet's decay and strength */
    float *router;            /* [T, n_expert] */
    struct router_choice choice;
    float *hidden;        /* [T * n_used, d_ff] */
    float *shared_hidden; /* [T, widest dense or shared d_ff] */
    float *shared_gate;   /* [T] */
    float *parts;         /* [min(T, PART_ROWS) * (n_used + 1), d] */
    void *panels[PANEL_SLOT__N];
    float *out_rows;    /* [HEAD_ROWS, d] */
    float *chunk_stats; /* [HEAD_ROWS, chunks, 2]: maximum, sum of exponentials */
    int32_t *top_ids;   /* [out rows, BACKEND_MAX_TOP] grown as needed */
    float *top_logits, *log_sum_exp;
    int32_t top_rows;

    struct stream stream;

    struct thread_tuner tuner, context_tuner; /* the latter of steps with step.context */
    struct backend_counters counters;
};

/* Rows of a step up to which each thread does for itself what all of them read. */
static inline int32_t worker_private_rows(const struct model_plan *plan)
{
    const int32_t n = PRIVATE_VALUES / plan->d_model;
    return n < PRIVATE_FEW_ROWS ? PRIVATE_FEW_ROWS : n < PRIVATE_ROWS ? n : PRIVATE_ROWS;
}

static inline bool worker_private(const struct backend *b)
{
    return b->rows.n <= worker_private_rows(b->plan);
}

/* Routed experts that a row uses of a layer. */
static inline int32_t worker_experts(const struct backend *b, int32_t row, const struct moe_plan *m)
{
    int32_t n = b->rows.experts[row];
    return n && n < m->n_used ? n : m->n_used;
}

/* This thread's share of n things. */
static inline void worker_share(const struct worker *w, int32_t n, int32_t *from, int32_t *to)
{
    thread_pool_equal_share(n, w->index, w->count, from, to);
}

/* Bytes per thread below which a loop is scheduled statically: some 10 microseconds of work. */
#define STATIC_LOOP_BYTES (128 << 10)

/* Begins a parallel loop of n iterations that read `bytes` of weights, keys or state in all,
 * counted for each row; each thread then computes the chunks that worker_next_chunk() gives it. A
 * barrier lies between two loops. */
static inline void worker_loop_begin(struct worker *w, int32_t n, uint64_t bytes)
{
    thread_pool_loop_begin(w->backend->pool, w->index, n,
                           bytes < (uint64_t)w->count * STATIC_LOOP_BYTES ? THREAD_POOL_STATIC
                                                                          : THREAD_POOL_STEALING);
}

static inline bool worker_next_chunk(struct worker *w, int32_t *from, int32_t *to)
{
    return thread_pool_next_chunk(w->backend->pool, w->index, from, to);
}

static inline void worker_barrier(struct worker *w)
{
    thread_pool_barrier(w->backend->pool);
}

static inline void worker_barrier_then(struct worker *w, void (*last)(void *context), void *context)
{
    thread_pool_barrier_then(w->backend->pool, last, context);
}

struct worker_values { /* an intermediate, [rows, cols] f32 or int32 */
    const char *what;
    const void *data;
    int32_t rows, cols;
    bool is_int;
};

/* Test hook: thread 0 hands the values to params.dump, the others wait. Called by every thread. */
void worker_dump(struct worker *w, int32_t layer, const struct worker_values *v);
