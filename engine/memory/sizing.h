/* Chooses sizes: context, KV pool, rows of a step. Pure arithmetic; the part of the planner that
 * knows about slots. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

#define SIZING_DEFAULT_CTX 32768

struct sizing_request { /* 0: to be chosen */
    int64_t ctx, slots, prefill_chunk, kv_bytes;
};

struct sizing {
    int32_t n_ctx, n_slots, n_blocks, prefill_chunk, max_rows;
    int32_t n_states,
        n_checkpoints; /* all recurrent states: one per slot, the rest for checkpoints */
};

struct sizing_model {
    int32_t n_ctx;        /* the context that the model was trained for */
    uint64_t block_bytes; /* of one KV block as the backend stores it; 0: the model has no KV */
    uint64_t state_bytes; /* recurrent state of one sequence; 0: none */
};

/* available_bytes: memory that pools may come from, 0: unknown. ERR_LIMIT: the request cannot be
 * met (the text has the numbers). */
bool sizing_choose(const struct sizing_model *m, const struct sizing_request *request,
                   uint64_t available_bytes, struct sizing *out, struct err *e);
/* After a backend could not get the memory: fewer checkpoints, a smaller pool, at least one
 * context. False: the sizes are the smallest already. */
bool sizing_shrink(struct sizing *s);
/* Blocks of the pool where it need not be smaller, `one` being those of a context. */
int32_t sizing_chosen_blocks(int32_t one, int32_t n_slots);
/* KV blocks that one sequence of the full context needs. */
int32_t sizing_one_context(const struct sizing *s);
