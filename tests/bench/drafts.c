/* What drafts gain on a model of any shape: random weights compute, a recorded text is what they
 * "write" (taped.h), and the real scheduler drafts from it. Plain and with drafts by turns.
 *
 * drafts --texts FILE (tests/bench/texts.mjs makes it) --model DIR, as of `sluice synth`, or none:
 * Qwen3-30B-A3B's shape made in memory, for --backend vulkan. --runs "1/code-b/code-a
 * 16/random/own" is two: one answer at a time, each text of the set code-b once, after the user has
 * asked those of code-a; and sixteen at once, again and again, each as a user's first. Streamed
 * models want
 * --routing calibrated (routing.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/option.h"
#include "engine/experts/streaming.h"
#include "engine/sched/scheduler.h"
#include "fcgi/cli/bench/routing.h"
#include "fcgi/cli/cli_run.h"
#include "tests/bench/bench_model.h"
#include "tests/bench/taped.h"

#define MAX_STREAMS 64
#define N_CTX 1024
#define MAX_ROWS 640

struct options {
    const char *model, *texts, *runs, *vocab, *backend, *format, *routing;
    int64_t layers, pairs, threads, tokens;
    double seconds, guess, temperature;
    bool plain;
    struct memory_options memory;
};

#define AT(field) offsetof(struct options, field)
static const struct option table[] = {
    {"texts", OPTION_STRING, AT(texts), NULL, 0, 0, NULL, "FILE", "what the model writes"},
    {"runs", OPTION_STRING, AT(runs), "1/code-b/code-a", 0, 0, NULL, "LIST", "see drafts.c"},
    {"vocab", OPTION_STRING, AT(vocab), "engine/demo-model", 0, 0, NULL, "DIR", "of the texts"},
    {"model", OPTION_STRING, AT(model), NULL, 0, 0, NULL, "DIR", "a model; none: made in memory"},
    {"backend", OPTION_CHOICE, AT(backend), "cpu", 0, 0, "cpu|vulkan", NULL, "of a model's folder"},
    {"format", OPTION_STRING, AT(format), "mx8", 0, 0, NULL, "NAME", "made in memory: mx8, a4, q8"},
    {"layers", OPTION_INT, AT(layers), "48", 1, 512, NULL, "N", "made in memory"},
    {"pairs", OPTION_INT, AT(pairs), "1000", 1, 100000, NULL, "N", "turns of a run"},
    {"seconds", OPTION_FLOAT, AT(seconds), "30", 0, 1e6, NULL, "S", "of a run"},
    {"tokens", OPTION_INT, AT(tokens), "300", 1, 900, NULL, "N", "of an answer at most"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "N", "cpu: threads"},
    {"temperature", OPTION_FLOAT, AT(temperature), "0", 0, 2, NULL, "T", "for its work alone"},
    {"routing", OPTION_CHOICE, AT(routing), "model", 0, 0, ROUTING_KINDS, NULL, "experts"},
    {"guess", OPTION_FLOAT, AT(guess), "0.78", 0, 1, NULL, "P", "as of sluice bench"},
    {"plain", OPTION_BOOL, AT(plain), NULL, 0, 0, NULL, NULL, "plain against plain"},
    MEMORY_OPTION_ROWS(struct options, memory),
};

struct run { /* of a list */
    int streams;
    char sets[64], before[64];
    bool own; /* scopes: no text is known from another */
};

struct way { /* plain, and with drafts */
    struct scheduler *scheduler;
    double ms;
    int64_t tokens;
    struct engine_speculation used;
    struct expert_counters experts; /* spent by its turns */
};

static struct {
    struct options o;
    struct run of;
    struct tapes tapes;
    struct cli_run run;
    const struct model_plan *plan;
    const struct backend_ops *ops;
    struct backend *backend;
    struct vocab *vocab;
    struct routing *routing;
    struct way ways[2];
    double ratios[100000];
    int32_t n_ratios;
    uint64_t n_jobs, n_turns;
} t;

static void must(bool ok, const struct err *e)
{
    if (ok)
        return;
    fprintf(stderr, "drafts: %s\n", e->text);
    exit(1);
}

static bool in_list(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

static void route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    routing_route(t.routing, layer, sequence, position, ids);
}

static void guess(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    routing_guess(t.routing, layer, sequence, position, ids);
}

static void open_folder(int32_t n_sequences)
{
    struct err e = {0};
    const enum routing_kind kind = routing_kind_of(t.o.routing);
    struct cli_run_params p = {.model = t.o.model,
                               .backend = t.o.backend,
                               .memory = &t.o.memory,
                               .n_tokens = N_CTX,
                               .n_sequences = n_sequences,
                               .chunk = MAX_ROWS,
                               .n_threads = (int32_t)t.o.threads};
    if (kind != ROUTING_MODEL) {
        p.route = route;
        p.predict = t.o.guess > 0 ? guess : NULL;
    }
    must(cli_run_open(&t.run, &p, &e), &e);
    t.plan = t.run.plan;
    t.ops = t.run.ops;
    t.backend = t.run.backend;
    if (kind == ROUTING_MODEL)
        return;
    const struct routing_params r = {.plan = t.plan,
                                     .kind = kind,
                                     .seed = 1,
                                     .guess = t.o.guess,
                                     .n_sequences = n_sequences,
                                     .n_positions = N_CTX};
    must((t.routing = routing_create(&r, &e)) != NULL, &e);
}

static void open_made(int32_t n_blocks)
{
    struct err e = {0};
    t.plan = bench_model_plan(t.o.format, (int32_t)t.o.layers);
    t.ops = &vulkan_backend;
    t.backend =
        t.ops->open(t.plan,
                    &(struct backend_params){
                        .n_blocks = n_blocks, .max_rows = MAX_ROWS, .max_sequences = MAX_STREAMS},
                    &e);
    must(t.backend != NULL, &e);
}

static struct expert_cache *experts(void)
{
    return t.run.memory.streaming ? streaming_cache(t.run.memory.streaming) : NULL;
}

static void open_all(int32_t n)
{
    if (t.o.model)
        open_folder(n);
    else
        open_made(n * (N_CTX / BACKEND_BLOCK_TOKENS));
    t.ops = taped_ops(t.ops, &t.tapes, NULL);
}

static void open_ways(int32_t n)
{
    struct err e = {0};
    for (int w = 0; w < 2; w++) {
        t.ways[w] = (struct way){
            .scheduler = scheduler_create(
                &(struct scheduler_params){.ops = t.ops,
                                           .backend = t.backend,
                                           .vocab = t.vocab,
                                           .n_vocab = t.plan->n_vocab,
                                           .n_ctx = N_CTX,
                                           .n_slots = n,
                                           .n_blocks = n * (N_CTX / BACKEND_BLOCK_TOKENS),
                                           .max_rows = MAX_ROWS,
                                           .prefill_chunk = MAX_ROWS - 96,
                                           .experts = experts(),
                                           .speculate = ENGINE_SPECULATE_AUTO},
                &e)};
        must(t.ways[w].scheduler != NULL, &e);
    }
    t.n_ratios = 0;
}

static struct job *begin(struct way *w, int32_t text)
{
    struct err e = {0};
    const struct tape *tape = &t.tapes.at[text];
    const int32_t left = tape->n - tape->n_prompt;
    struct arena *arena = arena_create(0);
    struct engine_job_params p = {
        .n_prompt = tape->n_prompt,
        .max_tokens = left < t.o.tokens ? left : (int32_t)t.o.tokens,
        .top_logprobs = -1,
        .ignore_eos = true,
        .speculate = w == &t.ways[1] && !t.o.plain ? ENGINE_SPECULATE_AUTO : ENGINE_SPECULATE_OFF,
        .sampling = {.temperature = (float)t.o.temperature, .top_p = 1, .repetition_penalty = 1}};
    int32_t *prompt = arena_alloc(arena, (size_t)p.n_prompt * sizeof *prompt);
    memcpy(prompt, tape->ids, (size_t)p.n_prompt * sizeof *prompt);
    p.prompt = prompt;
    snprintf(p.scope, sizeof p.scope, "u%llu", t.of.own ? (unsigned long long)t.n_jobs : 0ULL);
    struct job *j = job_create(++t.n_jobs, arena, &p, &e);
    must(j != NULL, &e);
    job_ref(j);
    scheduler_add(w->scheduler, j);
    return j;
}

static void add_used(struct engine_speculation *sum, const struct engine_speculation *u)
{
    sum->steps += u->steps;
    sum->drafted += u->drafted;
    sum->accepted += u->accepted;
    sum->draft_ms += u->draft_ms;
    for (int i = 0; i < DRAFT_MAX; i++) {
        sum->drafted_at[i] += u->drafted_at[i];
        sum->accepted_at[i] += u->accepted_at[i];
    }
}

static void end(struct way *w, struct job *j, int32_t text, double *ms)
{
    const struct tape *tape = &t.tapes.at[text];
    if (memcmp(tape->ids, j->tokens, (size_t)j->n_tokens * sizeof *j->tokens)) {
        fprintf(stderr, "drafts: an answer is not its text\n");
        exit(1);
    }
    *ms += job_decode_ms(j);
    w->tokens += j->n_generated - 1;
    add_used(&w->used, &j->drafts.used);
}

/* One way's half of a turn: these texts at once. Returns the answers' decode time. */
static double half(struct way *w, const int32_t *texts, int32_t n)
{
    struct err e = {0};
    struct job *jobs[MAX_STREAMS];
    struct expert_counters before = {0}, after = {0};
    double ms = 0;
    if (t.routing)
        routing_renew(t.routing, ++t.n_turns);
    for (int32_t i = 0; i < n; i++)
        jobs[i] = begin(w, texts[i]);
    for (bool counts = false; !scheduler_idle(w->scheduler);) {
        must(scheduler_step(w->scheduler, &e), &e);
        if (!counts && experts() && jobs[n - 1]->n_generated)
            expert_cache_counters(experts(), &before);
        counts = counts || jobs[n - 1]->n_generated; /* prompts are read */
    }
    for (int32_t i = 0; i < n; i++) {
        end(w, jobs[i], texts[i], &ms);
        job_unref(&jobs[i]);
    }
    if (experts())
        expert_cache_counters(experts(), &after);
    w->experts.asked += after.asked - before.asked;
    w->experts.misses += after.misses - before.misses;
    w->experts.disk.bytes += after.disk.bytes - before.disk.bytes;
    w->ms += ms;
    return ms;
}

static void turns(bool before, int32_t n_slots)
{
    const double begin = clock_ms();
    for (int64_t pair = 0; pair < t.o.pairs;) {
        int32_t chosen[MAX_STREAMS], n = 0;
        for (int32_t i = 0; i < t.tapes.n && pair < t.o.pairs; i++) {
            if (in_list(before ? t.of.before : t.of.sets, t.tapes.at[i].set))
                chosen[n++] = i;
            if (!n || (n < (before ? n_slots : t.of.streams) && i < t.tapes.n - 1))
                continue;
            double ms[2] = {0};
            for (int64_t w = pair; w < pair + 2; w++)
                if (!before || w % 2) /* plain steps remember nothing */
                    ms[w % 2] = half(&t.ways[w % 2], chosen, n);
            n = 0;
            if (!before)
                t.ratios[t.n_ratios++] = ms[0] / ms[1];
            pair++;
            if (clock_ms() - begin > t.o.seconds * 1e3)
                return;
        }
        if (before || !t.of.own || !pair)
            return; /* a text that was asked twice would be known */
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_experts(const struct way *w)
{
    if (!w->experts.asked)
        return;
    printf("%s: %.2f experts read and %.1f MB a token, %.1f %% of those asked for were there\n",
           w == &t.ways[0] ? "plain" : "drafts", (double)w->experts.misses / (double)w->tokens,
           (double)w->experts.disk.bytes / 1e6 / (double)w->tokens,
           100 - 100.0 * (double)w->experts.misses / (double)w->experts.asked);
}

static void print(void)
{
    const struct way *plain = &t.ways[0], *with = &t.ways[1];
    const int32_t n = t.n_ratios;
    int32_t low = n / 2 - (int32_t)(0.98 * sqrt(n)); /* 95 of 100 such bounds hold the median */
    low = low < 0 ? 0 : low;
    qsort(t.ratios, (size_t)n, sizeof *t.ratios, compare);
    const double streams = t.of.streams;
    printf("%s after \"%s\", %d at once, %s: %.1f -> %.1f tok/s; plain : drafts median %.3f [%.3f, "
           "%.3f] of %d turns, all %.3f; drafted %lld in %lld steps, right %.0f %%, making %.2f %%",
           t.of.sets, t.of.own ? "" : t.of.before, t.of.streams, t.ops->device_name(t.backend),
           (double)plain->tokens / plain->ms * 1e3 * streams,
           (double)with->tokens / with->ms * 1e3 * streams, t.ratios[n / 2], t.ratios[low],
           t.ratios[n - 1 - low], n, plain->ms / with->ms, (long long)with->used.drafted,
           (long long)with->used.steps,
           100.0 * (double)with->used.accepted / ((double)with->used.drafted + 1e-9),
           100 * with->used.draft_ms / with->ms);
    for (int i = 0; i < DRAFT_MAX && with->used.drafted_at[i]; i++)
        printf(" %lld/%lld", (long long)with->used.accepted_at[i],
               (long long)with->used.drafted_at[i]);
    puts("");
    print_experts(plain);
    print_experts(with);
    fflush(stdout);
}

static const char *next_run(const char *list)
{
    const char *space = strchr(list, ' ');
    return space ? space + 1 : NULL;
}

static void one_run(const char *text, int32_t n_slots)
{
    struct run *r = &t.of;
    if (sscanf(text, "%d/%63[^/ ]/%63[^/ ]", &r->streams, r->sets, r->before) < 2 ||
        r->streams < 1 || r->streams > n_slots) {
        fprintf(stderr, "drafts: \"%s\" is not ANSWERS/SETS/SETS\n", text);
        exit(2);
    }
    r->own = !strcmp(r->before, "own");
    open_ways(n_slots);
    turns(true, n_slots);
    for (int w = 0; w < 2; w++)
        t.ways[w] = (struct way){.scheduler = t.ways[w].scheduler};
    turns(false, n_slots);
    if (t.n_ratios)
        print();
    r->before[0] = 0;
    for (int w = 0; w < 2; w++)
        scheduler_destroy(&t.ways[w].scheduler);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    const size_t n = sizeof table / sizeof *table;
    log_set_level(LOG_ERROR);
    must(option_parse(table, n, &(struct option_args){.argc = argc, .argv = argv}, &t.o, &e), &e);
    if (!t.o.texts) {
        option_help(table, n);
        return 2;
    }
    t.vocab = vocab_load(t.o.vocab, NULL, &e);
    must(t.vocab && tapes_read(t.o.texts, t.o.vocab, &t.tapes, &e), &e);
    int streams = 4, most = 4;
    for (const char *at = t.o.runs; at && sscanf(at, "%d", &streams) == 1; at = next_run(at))
        most = streams > most && streams <= MAX_STREAMS ? streams : most;
    open_all(most);
    for (const char *at = t.o.runs; at; at = next_run(at))
        one_run(at, most);
    return 0;
}
