/* The measuring loop of `sluice bench`: fills the caches to a case's depth, times it, and turns
 * counters into rates and shares of the bandwidth. */
#include "fcgi/cli/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/median.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/disk_probe.h"

int32_t bench_positions(const struct bench *b)
{
    int32_t most = 1;
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        int32_t n = c->depth + c->tokens * c->rows + (c->kind == BENCH_PREFILL ? 0 : BENCH_LEAD);
        most = n > most ? n : most;
    }
    return most;
}

int32_t bench_sequences(const struct bench *b)
{
    int32_t most = 1;
    for (int32_t i = 0; i < b->n_cases; i++)
        most = b->cases[i].batch > most ? b->cases[i].batch : most;
    return most;
}

/* Where sequence s begins in the prompt: far enough from the others that texts differ. */
static const int32_t *own_text(const struct bench *b, int32_t s)
{
    int32_t room = b->n_prompt - b->run.n_tokens;
    return b->prompt + (room > 0 ? (int32_t)((int64_t)s * 977 % room) : 0);
}

/* Runs tokens through one sequence, which follows its own routing trace. */
static bool feed(struct bench *b, const struct cli_run_feed *f, struct err *e)
{
    if (b->routing)
        routing_first(b->routing, f->sequence);
    bool ok = cli_run_feed(&b->run, f, e);
    if (b->routing)
        routing_first(b->routing, 0);
    return ok;
}

void bench_route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    const struct bench *b = context;
    routing_route(b->routing, layer, sequence, position, ids);
}

void bench_guess(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    const struct bench *b = context;
    routing_guess(b->routing, layer, sequence, position, ids);
}

/* Recurrent states: the first half belongs to sequences, the second keeps what they had at the
 * case's depth. */
static bool keep_states(struct bench *b, int32_t n, bool back, struct err *e)
{
    for (int32_t s = 0; s < n && b->run.plan->n_recurrent; s++) {
        int32_t kept = b->run.n_sequences + s;
        if (!b->run.ops->copy_state(b->run.backend, back ? kept : s, back ? s : kept, e))
            return false;
    }
    return true;
}

/* Sequence s has its own text up to the case's depth. What an earlier case left of it is kept, so a
 * deep batch costs its prefill once; a recurrent state is read anew. */
static bool fill_one(struct bench *b, const struct bench_case *c, int32_t s, struct err *e)
{
    const int32_t kept = b->run.plan->n_recurrent ? 0 : b->filled[s],
                  start = kept < c->depth ? kept : c->depth;
    const struct cli_run_feed f = {
        .sequence = s, .tokens = own_text(b, s) + start, .n = c->depth - start, .start = start};
    b->filled[s] = c->depth;
    return !f.n || feed(b, &f, e);
}

#define LEAD_MOST 32 /* sequences of a step */

/* The first tokens that sequences `first` to end - 1 read of their own, in one step: a step for
 * each sequence would read most experts again. */
static bool lead(struct bench *b, const struct bench_case *c, int32_t first, int32_t end,
                 struct err *e)
{
    const struct cli_run *r = &b->run;
    struct step_sequence sequences[LEAD_MOST];
    struct step_row none;
    for (int32_t s = first; s < end; s++)
        sequences[s - first] = (struct step_sequence){.tokens = own_text(b, s) + c->depth,
                                                      .n_tokens = BENCH_LEAD,
                                                      .start = c->depth,
                                                      .blocks = cli_run_blocks(r, s),
                                                      .state = r->plan->n_recurrent ? s : -1};
    if (b->routing)
        routing_first(b->routing, first);
    const struct step step = {.sequences = sequences, .n_sequences = end - first, .n_top = 1};
    const bool ok = r->ops->step(r->backend, &step, &none, e);
    if (b->routing)
        routing_first(b->routing, 0);
    return ok;
}

/* Those of one sequence, in steps that take fewer rows than it has. */
static bool lead_chunks(struct bench *b, const struct bench_case *c, int32_t s, struct err *e)
{
    const struct cli_run_feed f = {
        .sequence = s, .tokens = own_text(b, s) + c->depth, .n = BENCH_LEAD, .start = c->depth};
    return feed(b, &f, e);
}

static bool fill(struct bench *b, const struct bench_case *c, struct err *e)
{
    const int32_t room = b->run.chunk / BENCH_LEAD, most = room < 1           ? 1
                                                           : room < LEAD_MOST ? room
                                                                              : LEAD_MOST;
    bool ok = true;
    for (int32_t s = 0; ok && s < c->batch; s++)
        ok = fill_one(b, c, s, e);
    for (int32_t s = 0, end; ok && c->kind != BENCH_PREFILL && s < c->batch; s = end) {
        end = c->batch - s < most ? c->batch : s + most;
        ok = room ? lead(b, c, s, end, e) : lead_chunks(b, c, s, e);
    }
    return ok && keep_states(b, c->batch, false, e);
}

static bool time_prefill(struct bench *b, const struct bench_case *c, struct err *e)
{
    struct cli_run_feed f = {.tokens = own_text(b, 7), .n = c->tokens, .start = c->depth};
    return feed(b, &f, e);
}

/* Greedy decoding as the scheduler does it: each step's ids come from the one before. */
static bool time_decode(struct bench *b, const struct bench_case *c, struct err *e)
{
    struct cli_run *r = &b->run;
    struct step_sequence *sequences = calloc((size_t)c->batch, sizeof *sequences);
    struct step_row *rows = calloc((size_t)c->batch, sizeof *rows);
    int32_t *ids = calloc((size_t)c->batch, sizeof *ids);
    bool ok = (sequences && rows && ids) ||
              err_set(e, ERR_NOMEM, "no memory for a batch of %d", c->batch);
    for (int32_t s = 0; ok && s < c->batch; s++)
        ids[s] = own_text(b, s)[c->depth + BENCH_LEAD];
    for (int32_t i = 0; ok && i < c->tokens; i++) {
        for (int32_t s = 0; s < c->batch; s++)
            sequences[s] = (struct step_sequence){.tokens = &ids[s],
                                                  .n_tokens = 1,
                                                  .start = c->depth + BENCH_LEAD + i,
                                                  .blocks = cli_run_blocks(r, s),
                                                  .state = r->plan->n_recurrent ? s : -1,
                                                  .n_out = 1};
        ok = r->ops->step(
            r->backend, &(struct step){.sequences = sequences, .n_sequences = c->batch, .n_top = 1},
            rows, e);
        for (int32_t s = 0; ok && s < c->batch; s++)
            ids[s] = rows[s].top_ids[0];
    }
    free(sequences);
    free(rows);
    free(ids);
    return ok;
}

/* The rows are known before, as those of drafts are; all of them count. */
static bool time_rows(struct bench *b, const struct bench_case *c, struct err *e)
{
    struct cli_run *r = &b->run;
    struct step_row *rows = calloc((size_t)c->rows, sizeof *rows);
    bool ok = rows || err_set(e, ERR_NOMEM, "no memory for %d rows", c->rows);
    for (int32_t i = 0; ok && i < c->tokens; i++) {
        const int32_t start = c->depth + BENCH_LEAD + i * c->rows;
        const struct step_sequence s = {.tokens = own_text(b, 0) + start,
                                        .n_tokens = c->rows,
                                        .start = start,
                                        .blocks = cli_run_blocks(r, 0),
                                        .state = r->plan->n_recurrent ? 0 : -1,
                                        .n_out = c->rows};
        ok = r->ops->step(r->backend, &(struct step){.sequences = &s, .n_sequences = 1, .n_top = 1},
                          rows, e);
    }
    free(rows);
    return ok;
}

static void look(const struct bench *b, struct expert_counters *c)
{
    if (b->run.memory.streaming)
        expert_cache_counters(streaming_cache(b->run.memory.streaming), c);
}

static bool time_case(struct bench *b, const struct bench_case *c, double *ms, struct err *e)
{
    double begin = clock_ms();
    bool ok = c->kind == BENCH_PREFILL  ? time_prefill(b, c, e)
              : c->kind == BENCH_DECODE ? time_decode(b, c, e)
                                        : time_rows(b, c, e);
    *ms = clock_ms() - begin;
    return ok;
}

#define WARM_MS 500

/* The clocks of a GPU fall while it waits, as it did for the planner's rates before each repeat,
 * and take some 200 ms of work to rise. Caches of experts would learn from this, so it is for
 * models that lie on the device whole. */
static bool warm(struct bench *b, const struct bench_case *c, struct err *e)
{
    double unused, until = clock_ms() + WARM_MS;
    bool ok = true;
    while (ok && b->warms && clock_ms() < until)
        ok = time_case(b, c, &unused, e) && keep_states(b, c->batch, true, e);
    return ok;
}

static bool run_case(struct bench *b, struct bench_case *c, bool counted, struct err *e)
{
    struct backend_counters before, after;
    struct expert_counters disk_before = {0}, disk_after = {0};
    double ms;
    if (!fill(b, c, e) || (counted && !warm(b, c, e)))
        return false;
    const double earlier = b->beside ? b->run.ops->read_bandwidth(b->run.backend) : 0;
    b->run.ops->counters(b->run.backend, &before);
    look(b, &disk_before);
    if (!time_case(b, c, &ms, e))
        return false;
    b->run.ops->counters(b->run.backend, &after);
    look(b, &disk_after);
    if (counted) {
        if (b->beside)
            c->bandwidth[c->n_ms] = (earlier + b->run.ops->read_bandwidth(b->run.backend)) / 2;
        c->ms[c->n_ms++] = ms;
        bench_disk_add(&c->disk, &disk_before, &disk_after);
    }
    c->steps = after.steps - before.steps;
    c->weight_bytes = after.weight_bytes_read - before.weight_bytes_read;
    c->kv_bytes = after.kv_bytes_read - before.kv_bytes_read;
    c->split_hits = after.expert_hits - before.expert_hits;
    c->split_misses = after.expert_misses - before.expert_misses;
    c->split_on_cpu = after.expert_on_cpu - before.expert_on_cpu;
    c->bus_bytes = after.expert_bus_bytes - before.expert_bus_bytes;
    c->copied_bytes = after.expert_copied_bytes - before.expert_copied_bytes;
    return true;
}

/* The runs keep their order. */
static double median_ms(const struct bench_case *c)
{
    double sorted[BENCH_MAX_REPEATS];
    memcpy(sorted, c->ms, (size_t)c->n_ms * sizeof *sorted);
    return median_of(sorted, (size_t)c->n_ms);
}

/* The case once more with every token going where one does, so that all experts are there from the
 * second step on: what computing alone takes. Left out where even those experts do not fit in the
 * cache. */
static bool time_resident(struct bench *b, struct bench_case *c, struct err *e)
{
    struct expert_counters before, after;
    double ms, times[BENCH_MAX_REPEATS];
    if (c->kind != BENCH_DECODE)
        return true;
    routing_hold(b->routing, c->depth + BENCH_LEAD);
    bool ok = fill(b, c, e) && time_case(b, c, &ms, e); /* the first round brings them in */
    look(b, &before);
    for (int32_t i = 0; ok && i < b->n_repeats; i++)
        ok = fill(b, c, e) && time_case(b, c, &times[i], e);
    look(b, &after);
    routing_hold(b->routing, -1);
    if (ok && after.misses == before.misses && after.late == before.late)
        c->disk.compute_ms = median_of(times, (size_t)b->n_repeats);
    return ok;
}

static bool measure_computing(struct bench *b, struct err *e)
{
    bool ok = true;
    for (int32_t i = 0; ok && b->run.memory.streaming && b->routing && i < b->n_cases; i++)
        ok = time_resident(b, &b->cases[i], e);
    return ok;
}

#define PROFILE_TRIES 5 /* the one that took least counts */

/* One step of the case: a row of each sequence, several of one, or the prompt's last chunk. */
static bool profile_case(struct bench *b, struct bench_case *c, struct err *e)
{
    const struct cli_run *r = &b->run;
    const bool prefill = c->kind == BENCH_PREFILL;
    const int32_t out = c->kind == BENCH_ROWS ? c->rows : 1,
                  n = !prefill               ? out
                      : c->tokens < r->chunk ? c->tokens
                                             : r->chunk,
                  start = prefill ? c->depth + c->tokens - n : c->depth + BENCH_LEAD;
    struct step_sequence *sequences = calloc((size_t)c->batch, sizeof *sequences);
    struct step_row *rows = calloc((size_t)c->batch * (size_t)out, sizeof *rows);
    bool ok = (sequences && rows) || err_set(e, ERR_NOMEM, "no memory for a profile");
    for (int32_t s = 0; ok && s < c->batch; s++)
        sequences[s] = (struct step_sequence){.tokens = own_text(b, s) + start,
                                              .n_tokens = n,
                                              .start = start,
                                              .blocks = cli_run_blocks(r, s),
                                              .state = r->plan->n_recurrent ? s : -1,
                                              .n_out = out};
    const struct step step = {.sequences = sequences, .n_sequences = c->batch, .n_top = 1};
    ok = ok && fill(b, c, e) && (!prefill || time_prefill(b, c, e));
    for (int i = 0; ok && i < PROFILE_TRIES; i++) {
        struct backend_profile p;
        ok = r->ops->profile(r->backend, &step, rows, &p, e);
        if (ok && (!c->profile.n || p.us < c->profile.us))
            c->profile = p;
    }
    free(sequences);
    free(rows);
    return ok;
}

/* After all timing: a step with a clock at each operation is not what is timed. */
static bool profile_cases(struct bench *b, struct err *e)
{
    bool ok = true;
    for (int32_t i = 0; ok && b->profiles && i < b->n_cases; i++)
        ok = profile_case(b, &b->cases[i], e);
    return ok;
}

/* Before each repeat, the best counts: what disturbs one does not disturb all. */
static bool measure_bandwidth(struct bench *b, int32_t repeat, struct err *e)
{
    b->bandwidth = fmax(b->bandwidth, b->run.ops->read_bandwidth(b->run.backend));
    if (!b->run.memory.streaming)
        return true;
    double disk =
        disk_probe(streaming_layout(b->run.memory.streaming), (uint64_t)repeat + 1, e).bytes_per_s;
    b->disk_bandwidth = fmax(b->disk_bandwidth, disk);
    return disk > 0;
}

bool bench_run(struct bench *b, struct err *e)
{
    if (b->profiles && !b->run.ops->profile)
        return err_field(e, ERR_UNSUPPORTED, "profile", "the %s backend times no operations",
                         b->run.ops->name);
    b->warms = b->run.memory.plan.strategy == STRATEGY_FULL_GPU && b->run.ops == &vulkan_backend &&
               !vulkan_is_software();
    for (int32_t repeat = -1; repeat < b->n_repeats; repeat++) {
        if (!measure_bandwidth(b, repeat, e))
            return false;
        if (repeat >= 0) {
            memory_load_measure(&b->run.memory, NULL);
            b->rates[b->n_rates++] = b->run.memory.rates;
        }
        for (int32_t i = 0; i < b->n_cases; i++) {
            if (b->beside && repeat >= 0)
                fprintf(stderr, "sluice bench: repeat %d, case %d\n", repeat + 1, i + 1);
            if (b->routing)
                routing_renew(b->routing,
                              (uint64_t)(repeat + 1) * (uint64_t)b->n_cases + (uint64_t)i);
            if (!run_case(b, &b->cases[i], repeat >= 0, e))
                return false;
        }
    }
    return measure_computing(b, e) && profile_cases(b, e);
}

struct bench_rate bench_rate(const struct bench_case *c)
{
    double n = (double)c->tokens * c->batch * c->rows * 1000, low = INFINITY, high = 0;
    for (int32_t i = 0; i < c->n_ms; i++) {
        low = fmin(low, n / c->ms[i]);
        high = fmax(high, n / c->ms[i]);
    }
    return (struct bench_rate){n / median_ms(c), low, high};
}

double bench_step_ms(const struct bench_case *c)
{
    return c->steps ? median_ms(c) / (double)c->steps : 0;
}

double bench_planned_weights(const struct cli_run *r, int32_t batch)
{
    const struct model_stats *f = model_stats(r->model);
    double experts = 0;
    for (int32_t i = 0; i < r->plan->n_layer; i++) {
        const struct layer_plan *l = &r->plan->layers[i];
        if (l->ffn != FFN_MOE)
            continue;
        const struct moe_plan *m = &l->moe;
        double one = (double)(weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
                              weight_matrix_bytes(&m->down));
        double distinct = batch == 1
                              ? m->n_used
                              : m->n_expert * (1 - pow(1 - (double)m->n_used / m->n_expert, batch));
        experts += one * (distinct - m->n_used);
    }
    struct weight row = r->plan->embed;
    row.rows = 1;
    return (double)f->active_bytes + experts + (double)weight_matrix_bytes(&row) * (batch - 1);
}

double bench_estimate(const struct bench *b, const struct bench_case *c, double hit_rate)
{
    double rates[BENCH_MAX_REPEATS];
    const struct memory_load *l = &b->run.memory;
    if (c->kind != BENCH_DECODE || c->batch != 1 || !b->n_rates)
        return 0;
    for (int32_t i = 0; i < b->n_rates; i++)
        rates[i] = memory_estimate_make(&l->input.model, &l->plan, &b->rates[i], c->depth, hit_rate)
                       .tokens_per_s;
    return median_of(rates, (size_t)b->n_rates);
}

double bench_hit_rate(const struct bench_case *c)
{
    if (c->disk.asked)
        return (double)c->disk.hits / (double)c->disk.asked;
    uint64_t split = c->split_hits + c->split_misses; /* of the device's slots */
    return split ? (double)c->split_hits / (double)split : -1;
}

double bench_share(const struct bench *b, const struct bench_case *c)
{
    const double ms_bytes = (double)(c->weight_bytes + c->kv_bytes) * 1000;
    double shares[BENCH_MAX_REPEATS];
    if (b->bandwidth <= 0)
        return 0;
    if (!b->beside)
        return ms_bytes / b->bandwidth / median_ms(c);
    for (int32_t i = 0; i < c->n_ms; i++)
        shares[i] = c->bandwidth[i] > 0 ? ms_bytes / c->bandwidth[i] / c->ms[i] : 0;
    return median_of(shares, (size_t)c->n_ms);
}

double bench_bandwidth(const struct bench *b, const struct bench_case *c)
{
    double sorted[BENCH_MAX_REPEATS];
    if (!b->beside)
        return 0;
    memcpy(sorted, c->bandwidth, (size_t)c->n_ms * sizeof *sorted);
    return median_of(sorted, (size_t)c->n_ms);
}

double bench_disk_share(const struct bench *b, const struct bench_case *c)
{
    double total = 0, disk = (double)c->disk.needed_bytes / b->disk_bandwidth * 1000;
    for (int32_t i = 0; i < c->n_ms; i++)
        total += c->ms[i];
    double compute = c->disk.compute_ms * c->n_ms;
    return compute > 0 ? fmax(compute, disk) / total : 0;
}
