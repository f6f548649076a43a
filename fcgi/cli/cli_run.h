/* A model on a backend without a server: what logits, perplexity, generate, bench and the golden
 * tests drive. A few sequences, each with blocks of its own for its whole length; no scheduler, no
 * sharing. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/memory/memory_load.h"
#include "engine/memory/memory_options.h"
#include "engine/model/model.h"

struct cli_run_params {
    const char *model;
    const char *backend;   /* as in backend_select */
    int32_t n_tokens;      /* positions that each sequence may have */
    int32_t n_sequences;   /* 0: 1 */
    int32_t n_states_more; /* recurrent states beside the sequences' own, numbered after them */
    int32_t chunk;         /* rows of a step at most; 0: 512 */
    int32_t n_threads;     /* cpu: 0 = one per core */
    bool exact;
    const struct memory_options *memory; /* strategy and budgets; NULL: chosen */
    void (*dump)(void *context, const char *name, const void *data, int32_t rows, int32_t cols,
                 bool is_int);
    void *dump_context;
    void (*route)(void *context, int32_t layer, int32_t sequence, int32_t position,
                  int32_t *ids); /* as backend_params */
    void (*predict)(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
    void *route_context;
};

struct cli_run {
    struct model *model;
    const struct model_plan *plan;
    struct memory_load memory; /* the plan, and what holds the next two */
    const struct backend_ops *ops;
    struct backend *backend;
    int32_t *blocks; /* [n_sequences, blocks_each] */
    int32_t blocks_each, n_sequences, n_tokens, chunk;
    double load_ms; /* model and backend */
};

bool cli_run_open(struct cli_run *r, const struct cli_run_params *p, struct err *e);
void cli_run_close(struct cli_run *r); /* accepts a zeroed struct */

/* Called with each wanted row, in order; position is that of the row's token. False stops the run.
 */
typedef bool (*cli_run_row)(void *context, int32_t position, const struct step_row *row,
                            struct err *e);

struct cli_run_feed {
    int32_t sequence;
    const int32_t *tokens; /* [n] */
    int32_t n, start;      /* start: position of tokens[0] */
    int32_t n_out;         /* rows wanted: the last n_out */
    int32_t n_top;         /* candidates of each; 0: 1 */
    bool want_logits;
    cli_run_row on_row; /* may be NULL with n_out 0 */
    void *context;
};

/* Runs tokens through one sequence in chunks. ERR_LIMIT past n_tokens, ERR_INPUT for ids out of
 * range. */
bool cli_run_feed(struct cli_run *r, const struct cli_run_feed *f, struct err *e);
/* Blocks of one sequence. */
const int32_t *cli_run_blocks(const struct cli_run *r, int32_t sequence);
/* Whether the id ends an answer. */
bool cli_run_is_eos(const struct cli_run *r, int32_t id);
