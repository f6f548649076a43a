/* Opens a model with a plan for a few sequences, and feeds tokens to them chunk by chunk. */
#include "fcgi/cli/cli_run.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

#define DEFAULT_CHUNK 512

static bool open_backend(struct cli_run *r, const struct cli_run_params *p, struct err *e)
{
    int64_t n_blocks = (int64_t)r->blocks_each * r->n_sequences;
    if (n_blocks > INT32_MAX)
        return err_set(e, ERR_LIMIT, "%d sequences of %d tokens are too many", r->n_sequences,
                       r->n_tokens);
    r->blocks = malloc((size_t)n_blocks * sizeof *r->blocks);
    if (!r->blocks)
        return err_set(e, ERR_NOMEM, "no memory for %d block numbers", (int)n_blocks);
    for (int32_t i = 0; i < n_blocks; i++)
        r->blocks[i] = i;
    struct memory_request request = {
        .fixed = {.n_ctx = r->n_tokens,
                  .n_slots = r->n_sequences,
                  .n_blocks = (int32_t)n_blocks,
                  .prefill_chunk = r->chunk,
                  .max_rows = r->chunk,
                  .n_states = r->plan->n_recurrent ? r->n_sequences + p->n_states_more : 0},
        .n_threads = p->n_threads,
        .exact = p->exact};
    if (p->memory)
        memory_options_request(p->memory, &request);
    struct backend_params more = {.dump = p->dump,
                                  .dump_context = p->dump_context,
                                  .route = p->route,
                                  .predict = p->predict,
                                  .route_context = p->route_context};
    if (!memory_load_plan(&r->memory, r->model, p->backend, &request, e) ||
        !memory_load_open(&r->memory, &more, e))
        return false;
    r->ops = r->memory.ops;
    r->backend = r->memory.opened;
    return true;
}

bool cli_run_open(struct cli_run *r, const struct cli_run_params *p, struct err *e)
{
    double begin = clock_ms();
    *r = (struct cli_run){.n_sequences = p->n_sequences ? p->n_sequences : 1,
                          .chunk = p->chunk ? p->chunk : DEFAULT_CHUNK,
                          .n_tokens = p->n_tokens};
    if (r->chunk < r->n_sequences)
        r->chunk = r->n_sequences;
    r->blocks_each = (p->n_tokens + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS;
    r->model = model_open(p->model, e);
    int32_t experts = p->memory ? (int32_t)p->memory->experts_per_token : 0;
    bool ok = r->model && (!experts || model_limit_experts(r->model, experts, e));
    if (ok) {
        r->plan = model_plan(r->model);
        ok = open_backend(r, p, e);
    }
    if (!ok)
        cli_run_close(r);
    r->load_ms = clock_ms() - begin;
    return ok;
}

void cli_run_close(struct cli_run *r)
{
    memory_load_close(&r->memory);
    model_close(&r->model);
    free(r->blocks);
    *r = (struct cli_run){0};
}

const int32_t *cli_run_blocks(const struct cli_run *r, int32_t sequence)
{
    return r->blocks + (size_t)sequence * (size_t)r->blocks_each;
}

bool cli_run_is_eos(const struct cli_run *r, int32_t id)
{
    for (int i = 0; i < r->plan->n_eos; i++)
        if (r->plan->eos[i] == id)
            return true;
    return false;
}

static bool check_feed(const struct cli_run *r, const struct cli_run_feed *f, struct err *e)
{
    if (f->n < 1)
        return err_set(e, ERR_INPUT, "no tokens");
    if ((int64_t)f->start + f->n > r->n_tokens)
        return err_set(e, ERR_LIMIT, "%d tokens, room for %d", f->start + f->n, r->n_tokens);
    for (int32_t i = 0; i < f->n; i++)
        if (f->tokens[i] < 0 || f->tokens[i] >= r->plan->n_vocab)
            return err_set(e, ERR_INPUT, "token %d is id %d, the vocabulary has %d", i,
                           f->tokens[i], r->plan->n_vocab);
    return true;
}

/* The part of a feed that begins at its token `at`: at most a chunk, with those wanted rows that
 * fall into it. */
static struct cli_run_feed chunk_of(const struct cli_run *r, const struct cli_run_feed *f,
                                    int32_t at)
{
    struct cli_run_feed c = *f;
    c.tokens += at;
    c.start += at;
    c.n = f->n - at < r->chunk ? f->n - at : r->chunk;
    int32_t left = f->n - at - c.n; /* tokens after this chunk */
    c.n_out = f->n_out > left ? f->n_out - left : 0;
    if (c.n_out > c.n)
        c.n_out = c.n;
    return c;
}

static bool feed_chunk(struct cli_run *r, const struct cli_run_feed *f, struct step_row *rows,
                       struct err *e)
{
    struct step_sequence sequence = {.tokens = f->tokens,
                                     .n_tokens = f->n,
                                     .start = f->start,
                                     .blocks = cli_run_blocks(r, f->sequence),
                                     .state = r->plan->n_recurrent ? f->sequence : -1,
                                     .n_out = f->n_out,
                                     .want_logits = f->want_logits};
    struct step step = {.sequences = &sequence, .n_sequences = 1, .n_top = f->n_top ? f->n_top : 1};
    if (!r->ops->step(r->backend, &step, rows, e))
        return false;
    for (int32_t i = 0; i < f->n_out; i++)
        if (!f->on_row(f->context, f->start + f->n - f->n_out + i, &rows[i], e))
            return false;
    return true;
}

bool cli_run_feed(struct cli_run *r, const struct cli_run_feed *f, struct err *e)
{
    if (!check_feed(r, f, e))
        return false;
    struct step_row *rows = malloc((size_t)r->chunk * sizeof *rows);
    if (!rows)
        return err_set(e, ERR_NOMEM, "no memory for %d rows", r->chunk);
    bool ok = true;
    for (int32_t at = 0; ok && at < f->n; at += r->chunk) {
        struct cli_run_feed chunk = chunk_of(r, f, at);
        ok = feed_chunk(r, &chunk, rows, e);
    }
    free(rows);
    return ok;
}
