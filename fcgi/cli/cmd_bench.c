/* sluice bench: tokens per second of a model on a backend, with the bytes that had to be read and
 * the bandwidth that the device has beside them, so that each figure can be judged. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/size_text.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/memory/memory_text.h"
#include "fcgi/cli/bench/bench.h"
#include "fcgi/cli/cli_options.h"

extern const struct command cmd_bench;

struct options {
    struct memory_options memory;
    struct bench_lists lists;
    const char *model, *backend, *isa, *routing;
    int64_t tokens, repeats, chunk, threads, seed;
    double guess;
    bool exact, json, grammar, compare, profile, probe;
};

#define AT(field) offsetof(struct options, field)
static const struct option options[] = {
    {"model", OPTION_STRING, AT(model), NULL, 0, 0, NULL, "PATH", "model folder or GGUF file"},
    {"backend", OPTION_CHOICE, AT(backend), "auto", 0, 0, "auto|vulkan|cpu", NULL, "what computes"},
    {"isa", OPTION_CHOICE, AT(isa), "auto", 0, 0, "auto|avx512vnni|avx512|avx2|generic", NULL,
     "cpu: kernels of a lower instruction set than the processor has"},
    {"prompts", OPTION_STRING, AT(lists.prompts), "128,512", 0, 0, NULL, "LIST",
     "prefill lengths (none: \"\")"},
    {"depths", OPTION_STRING, AT(lists.depths), "0", 0, 0, NULL, "LIST",
     "tokens in the cache before"},
    {"batches", OPTION_STRING, AT(lists.batches), "1,4,16", 0, 0, NULL, "LIST",
     "sequences that decode together (none: \"\")"},
    {"rows", OPTION_STRING, AT(lists.rows), "", 0, 0, NULL, "LIST",
     "rows of one sequence in a step, as drafted tokens are verified"},
    {"tokens", OPTION_INT, AT(tokens), "64", 1, 65536, NULL, "N", "decode steps of one repeat"},
    {"repeats", OPTION_INT, AT(repeats), "5", 1, BENCH_MAX_REPEATS, NULL, "N",
     "repeats, after one that is not counted"},
    {"chunk", OPTION_INT, AT(chunk), "0", 0, 65536, NULL, "N", "rows of a prefill step (0: 512)"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "N", "cpu: threads (0: one per core)"},
    MEMORY_OPTION_ROWS(struct options, memory),
    {"routing", OPTION_CHOICE, AT(routing), "model", 0, 0, ROUTING_KINDS, NULL,
     "who chooses the experts: the model, or a trace of that kind (see docs/operations/memory.md)"},
    {"seed", OPTION_INT, AT(seed), "1", 0, 9e15, NULL, "S", "of the trace"},
    {"guess", OPTION_FLOAT, AT(guess), "0.78", 0, 1, NULL, "P",
     "share of a trace's experts that the layer before foresees (0: nothing is read ahead)"},
    {"exact", OPTION_BOOL, AT(exact), NULL, 0, 0, NULL, NULL,
     "activations in f32 everywhere, however slow"},
    {"grammar", OPTION_BOOL, AT(grammar), NULL, 0, 0, NULL, NULL,
     "measure constrained decoding alone: needs the tokenizer only"},
    {"compare", OPTION_BOOL, AT(compare), NULL, 0, 0, NULL, NULL,
     "print lines that measure the same with llama.cpp's tools: needs a GGUF file"},
    {"profile", OPTION_BOOL, AT(profile), NULL, 0, 0, NULL, NULL,
     "vulkan: time also each operation of a step of every case"},
    {"probe", OPTION_BOOL, AT(probe), NULL, 0, 0, NULL, NULL,
     "measure the bandwidth around each repeat of a case too, and say when one begins"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print one JSON object"},
};

/* Gigabytes that one step read, as counted. */
static double per_step(uint64_t bytes, const struct bench_case *c)
{
    return c->steps ? (double)bytes / (double)c->steps / 1e9 : 0;
}

static double mb_per_token(uint64_t bytes, const struct bench_case *c)
{
    return (double)bytes / ((double)c->tokens * c->batch * c->rows * c->n_ms) / 1e6;
}

static double hit_rate(const struct bench_disk *d)
{
    return d->asked ? (double)(d->hits + d->late) / (double)d->asked : 0;
}

static double disk_rate(const struct bench_disk *d)
{
    return d->read_ns ? (double)d->read_bytes / (double)d->read_ns * 1e9 : 0;
}

/* How much of a trace the layer before knows, where the backend asks for it. */
static double foreseen(const struct bench *b, const struct options *o)
{
    return b->routing && b->run.ops->prefetches ? o->guess : 0;
}

static void print_disk(const struct bench *b, const struct options *o)
{
    const struct expert_layout *l = streaming_layout(b->run.memory.streaming);
    struct expert_counters now;
    expert_cache_counters(streaming_cache(b->run.memory.streaming), &now);
    printf("\nexperts on disk%s: %.2f GB, %.2f GB of them may be in memory; %s, records in random "
           "order at %.2f GB/s\n",
           l->packed ? ", packed" : "", (double)l->expert_bytes / 1e9,
           (double)now.budget_bytes / 1e9,
           expert_cache_read_method(streaming_cache(b->run.memory.streaming)),
           b->disk_bandwidth / 1e9);
    if (foreseen(b, o) > 0)
        printf("the layer before foresees %.0f %% of a layer's experts\n", foreseen(b, o) * 100);
    printf("\n%-8s %6s %6s %6s %7s %12s %12s %10s %8s %7s\n", "what", "tokens", "depth", "batch",
           "hit", "miss MB/tok", "read MB/tok", "disk GB/s", "of disk", "bound");
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        printf("%-8s %6d %6d %6d %6.1f%% %12.3f %12.3f %10.2f %7.1f%%", bench_kind_name(c->kind),
               c->tokens, c->depth, c->batch, hit_rate(&c->disk) * 100,
               mb_per_token(c->disk.needed_bytes, c), mb_per_token(c->disk.read_bytes, c),
               disk_rate(&c->disk) / 1e9, disk_rate(&c->disk) / b->disk_bandwidth * 100);
        if (c->disk.compute_ms > 0)
            printf(" %6.1f%%\n", bench_disk_share(b, c) * 100);
        else
            printf(" %7s\n", "?");
    }
    printf("\nmiss: bytes that steps wanted and had to be read; read: with those read ahead in "
           "vain. bound: share of the best\n"
           "possible time, the longer of computing with all experts resident%s and of reading the "
           "missing bytes alone.\n",
           b->routing ? "" : " (needs a trace)");
}

static double split_rate(const struct bench_case *c)
{
    return (double)c->split_hits / (double)(c->split_hits + c->split_misses);
}

static double cpu_rate(const struct bench_case *c)
{
    return (double)c->split_on_cpu / (double)(c->split_hits + c->split_misses);
}

/* Experts in RAM that the device reads over the bus, or has copies of, and those that the processor
 * computes. */
static void print_split(const struct bench *b)
{
    bool any = false;
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        if (!(c->split_hits + c->split_misses))
            continue;
        if (!any)
            printf("\n%-8s %6s %6s %6s %10s %10s %14s %14s\n", "what", "tokens", "depth", "batch",
                   "on device", "on cpu", "bus MB/step", "copied MB/step");
        any = true;
        printf("%-8s %6d %6d %6d %9.1f%% %9.1f%% %14.3f %14.3f\n", bench_kind_name(c->kind),
               c->tokens, c->depth, c->batch, split_rate(c) * 100, cpu_rate(c) * 100,
               per_step(c->bus_bytes, c) * 1e3, per_step(c->copied_bytes, c) * 1e3);
    }
    if (any)
        printf("\non device: distinct experts of a step that the device had; on cpu: that the "
               "processor\n"
               "computed; bus: the others, read from RAM; copied: for later steps.\n");
}

/* The planner held against the measurement, once for each depth. */
static void print_estimates(const struct bench *b)
{
    char text[24];
    const struct memory_plan *p = &b->run.memory.plan;
    printf("\nplan: %s, KV %s, %s in RAM", strategy_name(p->strategy), kv_type_name(p->kv_stored),
           size_text((double)p->host, text));
    if (p->expert_cache)
        printf(", expert cache %s", size_text((double)p->expert_cache, text));
    if (p->device)
        printf(", %s on the device", size_text((double)p->device, text));
    putchar('\n');
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        double hits = bench_hit_rate(c), estimate = bench_estimate(b, c, hits),
               measured = bench_rate(c).median;
        if (!(estimate > 0))
            continue;
        printf("estimate at depth %d: %.1f tok/s, measured %.1f (%+.0f %%)", c->depth, estimate,
               measured, (estimate / measured - 1) * 100);
        if (hits >= 0)
            printf("; hit rate %.1f %%, the plan expects %.1f %% and %.1f tok/s", hits * 100,
                   b->run.memory.estimate.hit_rate * 100, bench_estimate(b, c, -1));
        putchar('\n');
    }
}

static void print_text(const struct bench *b, const struct options *o, bool real)
{
    const struct cli_run *r = &b->run;
    printf("%s on %s (%s), loaded in %.0f ms, %s prompts, %d repeats\n", r->plan->family,
           r->ops->name, r->ops->device_name(r->backend), r->load_ms, real ? "text" : "random",
           b->n_repeats);
    if (b->routing)
        printf("experts by a trace: %s, seed %" PRId64 "\n", o->routing, o->seed);
    printf("measured read bandwidth %.1f GB/s\n\n", b->bandwidth / 1e9);
    printf("%-8s %6s %6s %6s %10s %10s %10s %11s %9s %7s%s\n", "what", "tokens", "depth", "batch",
           "tok/s", "min", "max", "weights GB", "KV GB", "bound", b->beside ? "  probe GB/s" : "");
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        struct bench_rate rate = bench_rate(c);
        printf("%-8s %6d %6d %6d %10.1f %10.1f %10.1f %11.4f %9.4f", bench_kind_name(c->kind),
               c->tokens, c->depth, c->batch, rate.median, rate.min, rate.max,
               per_step(c->weight_bytes, c), per_step(c->kv_bytes, c));
        if (b->bandwidth > 0)
            printf(" %6.1f%%", bench_share(b, c) * 100);
        else
            printf(" %7s", "?");
        if (b->beside)
            printf(" %11.1f", bench_bandwidth(b, c) / 1e9);
        putchar('\n');
    }
    printf("\nGB are read per step (counted by the backend); bound: share of the time that reading "
           "them at the %s\n"
           "bandwidth would take. One token needs %.4f GB of weights by the plan.\n",
           b->beside ? "probes'" : "measured", bench_planned_weights(r, 1) / 1e9);
    bench_rows_print(b);
    print_split(b);
    if (r->memory.streaming)
        print_disk(b, o);
    print_estimates(b);
    bench_profile_print(b);
    if (o->compare) {
        struct buf lines = {0};
        bench_peer_lines(b, o->model, &lines);
        printf("\nthe same by llama.cpp or ik_llama.cpp:\n%s", lines.data ? lines.data : "");
        buf_fini(&lines);
    }
}

static void print_case_disk(const struct bench *b, const struct bench_case *c)
{
    const struct bench_disk *d = &c->disk;
    printf(
        ", \"disk\": {\"asked\": %" PRIu64 ", \"hits\": %" PRIu64 ", \"late\": %" PRIu64
        ", \"misses\": %" PRIu64
        ", \"hit_rate\": %.4f, \"needed_bytes_per_token\": %.0f, \"read_bytes_per_token\": %.0f, "
        "\"read_bytes_per_s\": %.0f, \"wait_ms\": %.1f, ",
        d->asked, d->hits, d->late, d->misses, hit_rate(d), mb_per_token(d->needed_bytes, c) * 1e6,
        mb_per_token(d->read_bytes, c) * 1e6, disk_rate(d), (double)d->wait_ns / 1e6 / c->n_ms);
    if (d->compute_ms > 0)
        printf("\"compute_ms\": %.3f, \"share_of_bound\": %.4f}", d->compute_ms,
               bench_disk_share(b, c));
    else
        printf("\"compute_ms\": null, \"share_of_bound\": null}");
}

static void print_repeats(const struct bench *b, const struct bench_case *c)
{
    const double n = (double)c->tokens * c->batch * c->rows * 1000;
    printf(", \"read_bandwidth_bytes_per_s\": %.0f, \"each\": [", bench_bandwidth(b, c));
    for (int32_t i = 0; i < c->n_ms; i++)
        printf("%s{\"tokens_per_s\": %.3f, \"read_bandwidth_bytes_per_s\": %.0f}", i ? ", " : "",
               n / c->ms[i], c->bandwidth[i]);
    putchar(']');
}

static void print_case(const struct bench *b, const struct bench_case *c)
{
    struct bench_rate rate = bench_rate(c);
    printf("{\"kind\": \"%s\", \"tokens\": %d, \"depth\": %d, \"batch\": %d, \"tokens_per_s\": "
           "{\"median\": %.3f, "
           "\"min\": %.3f, \"max\": %.3f}, \"steps\": %" PRIu64
           ", \"weight_bytes_per_step\": %.0f, "
           "\"kv_bytes_per_step\": %.0f, ",
           bench_kind_name(c->kind), c->tokens, c->depth, c->batch, rate.median, rate.min, rate.max,
           c->steps, per_step(c->weight_bytes, c) * 1e9, per_step(c->kv_bytes, c) * 1e9);
    if (c->kind == BENCH_ROWS)
        printf("\"rows\": %d, \"step_ms\": %.3f, ", c->rows, bench_step_ms(c));
    if (c->kind == BENCH_DECODE)
        printf("\"planned_weight_bytes_per_step\": %.0f, ",
               bench_planned_weights(&b->run, c->batch));
    if (bench_estimate(b, c, bench_hit_rate(c)) > 0)
        printf("\"estimated_tokens_per_s\": %.3f, ", bench_estimate(b, c, bench_hit_rate(c)));
    if (bench_hit_rate(c) >= 0)
        printf("\"planned_tokens_per_s\": %.3f, ", bench_estimate(b, c, -1));
    if (b->bandwidth > 0)
        printf("\"share_of_bound\": %.4f", bench_share(b, c));
    else
        printf("\"share_of_bound\": null");
    if (b->beside)
        print_repeats(b, c);
    if (c->split_hits + c->split_misses)
        printf(", \"device_hit_rate\": %.4f, \"cpu_rate\": %.4f, \"bus_bytes_per_step\": %.0f, "
               "\"copied_bytes_per_step\": %.0f",
               split_rate(c), cpu_rate(c), per_step(c->bus_bytes, c) * 1e9,
               per_step(c->copied_bytes, c) * 1e9);
    if (b->run.memory.streaming)
        print_case_disk(b, c);
    if (b->profiles)
        bench_profile_json(c);
    putchar('}');
}

static void json_disk(const struct bench *b, const struct options *o, struct buf *out)
{
    const struct expert_layout *l = streaming_layout(b->run.memory.streaming);
    const char *way = expert_cache_read_method(streaming_cache(b->run.memory.streaming));
    struct expert_counters now;
    expert_cache_counters(streaming_cache(b->run.memory.streaming), &now);
    buf_printf(out,
               " \"experts\": {\"bytes\": %" PRIu64 ", \"cache_bytes\": %" PRIu64
               ", \"packed\": %s, "
               "\"disk_bytes_per_s\": %.0f, \"guess\": %.3f, \"read_by\": ",
               l->expert_bytes, now.budget_bytes, l->packed ? "true" : "false", b->disk_bandwidth,
               foreseen(b, o));
    buf_json_string(out, way, strlen(way));
    buf_puts(out, "},\n");
}

static void print_json(const struct bench *b, const struct options *o, bool real)
{
    const struct cli_run *r = &b->run;
    struct backend_memory m;
    r->ops->memory(r->backend, &m);
    struct buf device = {0}, disk = {0}, plan = {0};
    if (r->memory.streaming)
        json_disk(b, o, &disk);
    memory_plan_json(&r->memory.plan, &r->memory.estimate, &plan);
    const char *name = r->ops->device_name(r->backend);
    buf_json_string(&device, name, strlen(name));
    printf("{\"family\": \"%s\", \"backend\": \"%s\", \"device\": %s, \"load_ms\": %.1f, "
           "\"text_prompts\": %s, "
           "\"repeats\": %d, \"routing\": \"%s\", \"read_bandwidth_bytes_per_s\": %.0f, "
           "\"planned_bytes_per_token\": %.0f,\n"
           " \"memory\": {\"weights\": %" PRIu64 ", \"kv\": %" PRIu64 ", \"state\": %" PRIu64
           ", \"work\": %" PRIu64 "},\n"
           " \"plan\": {%s},\n%s \"cases\": [\n  ",
           r->plan->family, r->ops->name, device.data ? device.data : "null", r->load_ms,
           real ? "true" : "false", b->n_repeats, o->routing, b->bandwidth,
           bench_planned_weights(r, 1), m.weights, m.kv, m.state, m.work,
           plan.data ? plan.data : "", disk.data ? disk.data : "");
    for (int32_t i = 0; i < b->n_cases; i++) {
        if (i)
            printf(",\n  ");
        print_case(b, &b->cases[i]);
    }
    puts("\n]}");
    buf_fini(&device);
    buf_fini(&disk);
    buf_fini(&plan);
}

/* The counters are what the server reports, so a decode at batch 1 must agree with the plan. */
static void reconcile(const struct bench *b)
{
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        if (c->kind != BENCH_DECODE || c->batch != 1)
            continue;
        /* Prefetching evaluates the next layer's router as well, so its weights are read twice. */
        if (b->run.memory.streaming &&
            expert_cache_prefetching(streaming_cache(b->run.memory.streaming)))
            continue;
        double counted = per_step(c->weight_bytes, c) * 1e9,
               planned = bench_planned_weights(&b->run, 1);
        if (fabs(counted / planned - 1) > 0.02)
            fprintf(stderr,
                    "sluice bench: the backend counted %.0f bytes a token, the plan says %.0f\n",
                    counted, planned);
        return;
    }
}

static bool make_routing(struct bench *b, enum routing_kind kind, const struct options *o,
                         struct err *e)
{
    struct routing_params p = {.plan = b->run.plan,
                               .kind = kind,
                               .seed = (uint64_t)o->seed,
                               .guess = o->guess,
                               .n_sequences = bench_sequences(b),
                               .n_positions = bench_positions(b)};
    b->routing = routing_create(&p, e);
    return b->routing != NULL;
}

/* Options that would otherwise do nothing. */
static bool check_options(const struct options *o, struct err *e)
{
    const size_t len = strlen(o->model);
    if (strcmp(o->isa, "auto") && strcmp(o->backend, "cpu"))
        return err_field(e, ERR_INPUT, "isa", "needs --backend cpu");
    if (o->grammar && strcmp(o->isa, "auto"))
        return err_field(e, ERR_INPUT, "isa", "has no effect with --grammar, which runs no model");
    if (o->grammar && o->profile)
        return err_field(e, ERR_INPUT, "profile", "has no effect with --grammar");
    if (o->grammar && o->probe)
        return err_field(e, ERR_INPUT, "probe", "has no effect with --grammar");
    if (o->profile && !strcmp(o->backend, "cpu"))
        return err_field(e, ERR_INPUT, "profile", "needs a GPU: --backend vulkan");
    if (o->compare && (o->json || o->grammar))
        return err_field(e, ERR_INPUT, "compare", "goes with the table alone");
    if (o->compare && (len < 5 || strcmp(o->model + len - 5, ".gguf")))
        return err_field(e, ERR_INPUT, "compare", "needs a model in a .gguf file");
    return true;
}

static bool choose_isa(const struct options *o, struct err *e)
{
    return !strcmp(o->isa, "auto") || kernels_choose(o->isa, e);
}

static bool bench(const struct options *o, struct bench *b, struct err *e)
{
    struct ids prompt = {0};
    bool real = false;
    if (!o->model)
        return err_set(e, ERR_INPUT, "--model is needed");
    if (!check_options(o, e) || !choose_isa(o, e))
        return false;
    if (o->grammar)
        return bench_grammar(o->model, o->json, e);
    b->n_repeats = (int32_t)o->repeats;
    b->profiles = o->profile;
    b->beside = o->probe;
    if (!bench_cases(b, &o->lists, (int32_t)o->tokens, e))
        return false;
    if (!(b->filled = calloc((size_t)bench_sequences(b), sizeof *b->filled)))
        return err_set(e, ERR_NOMEM, "no memory for the sequences");
    struct cli_run_params p = {.model = o->model,
                               .backend = o->backend,
                               .memory = &o->memory,
                               .n_tokens = bench_positions(b),
                               .n_sequences = bench_sequences(b),
                               .n_states_more = bench_sequences(b),
                               .chunk = (int32_t)o->chunk,
                               .n_threads = (int32_t)o->threads,
                               .exact = o->exact};
    enum routing_kind kind = routing_kind_of(o->routing);
    if (kind != ROUTING_MODEL) {
        p.route = bench_route;
        p.predict = o->guess > 0 ? bench_guess : NULL;
        p.route_context = b;
    }
    bool ok =
        cli_run_open(&b->run, &p, e) && (kind == ROUTING_MODEL || make_routing(b, kind, o, e));
    ok = ok && (p.n_tokens <= b->run.plan->n_ctx ||
                err_set(e, ERR_LIMIT, "%d positions are asked for, the model has %d", p.n_tokens,
                        b->run.plan->n_ctx));
    ok = ok && bench_prompt(&(struct bench_prompt_params){.model = o->model,
                                                          .n_vocab = b->run.plan->n_vocab,
                                                          .n = p.n_tokens + 16384},
                            &prompt, &real, e);
    b->prompt = prompt.at;
    b->n_prompt = (int32_t)prompt.n;
    ok = ok && bench_run(b, e);
    if (ok) {
        (o->json ? print_json : print_text)(b, o, real);
        reconcile(b);
    }
    ids_fini(&prompt);
    return ok;
}

static int run_bench(int argc, char **argv)
{
    struct options o = {0};
    struct bench b = {0};
    struct err e = {0};
    int status = cli_options(&cmd_bench, argc, argv, &o, NULL);
    if (status >= 0)
        return status;
    bool ok = bench(&o, &b, &e);
    cli_run_close(&b.run);
    routing_destroy(&b.routing);
    free(b.cases);
    free(b.filled);
    return ok ? 0 : command_fail("bench", &e);
}

const struct command cmd_bench = {
    .name = "bench",
    .usage = "--model PATH [--backend B] [--prompts LIST] [--depths LIST] [--batches LIST] "
             "[--routing KIND] [--json]",
    .help = "measure prefill and decode against what the memory's bandwidth allows",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_bench,
};
