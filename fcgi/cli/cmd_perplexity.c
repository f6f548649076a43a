/* sluice perplexity: how well the model foretells given text: exp of the mean of -ln p(next token);
 * and with --kld how far the KV cache's type moves its distributions from those at 16 bits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/cli/cli_ids.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_run.h"

extern const struct command cmd_perplexity;

struct perplexity {
    struct memory_options memory;
    const char *model, *ids_file, *backend;
    int64_t chunk, context, threads;
    bool exact, json, kld;
    const struct ids *ids;
    struct cli_run reference; /* of --kld: the same with 16 bits */
    float *wanted;            /* [chunk, n_vocab] its logits, */
    double *wanted_sums;      /* [chunk] and their log sums of exponentials */
    int32_t n_wanted, n_compared, n_vocab;
    double wanted_sum, kld_sum, kld_most;
    int64_t n_same;
    double sum;
    int64_t n;
    int32_t base; /* index of the window's first id */
};

#define AT(field) offsetof(struct perplexity, field)
static const struct option options[] = {
    {"model", OPTION_STRING, AT(model), NULL, 0, 0, NULL, "PATH", "model folder or GGUF file"},
    {"ids-file", OPTION_STRING, AT(ids_file), NULL, 0, 0, NULL, "FILE",
     "token ids: JSON, text or safetensors"},
    {"backend", OPTION_CHOICE, AT(backend), "auto", 0, 0, "auto|vulkan|cpu", NULL, "what computes"},
    {"context", OPTION_INT, AT(context), "0", 0, 1 << 24, NULL, "N",
     "cut the ids into windows of N, each read from its start (0: the model's own length)"},
    MEMORY_OPTION_ROWS(struct perplexity, memory),
    {"exact", OPTION_BOOL, AT(exact), NULL, 0, 0, NULL, NULL,
     "activations in f32 everywhere, however slow"},
    {"chunk", OPTION_INT, AT(chunk), "0", 0, 65536, NULL, "N", "rows of a step (0: 128)"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "N", "cpu: threads (0: one per core)"},
    {"kld", OPTION_BOOL, AT(kld), NULL, 0, 0, NULL, NULL,
     "also run with KV cache and activations of 16 bits, and tell the Kullback-Leibler divergence "
     "from that"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print JSON"},
};

static int32_t first_choice(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Keeps a row of the reference until the other run has it too. */
static bool keep_row(void *context, int32_t position, const struct step_row *row, struct err *e)
{
    struct perplexity *p = context;
    memcpy(p->wanted + (size_t)p->n_wanted * (size_t)p->n_vocab, row->logits,
           (size_t)p->n_vocab * sizeof *p->wanted);
    p->wanted_sums[p->n_wanted++] = (double)row->log_sum_exp;
    return true;
}

/* Sum of p (ln p - ln q), p being the reference's. */
static void compare_row(struct perplexity *p, const struct step_row *row, int32_t next)
{
    const float *want = p->wanted + (size_t)p->n_compared * (size_t)p->n_vocab;
    const double want_sum = p->wanted_sums[p->n_compared++], got_sum = (double)row->log_sum_exp;
    double kld = 0;
    for (int32_t i = 0; i < p->n_vocab; i++) {
        const double log_p = (double)want[i] - want_sum;
        kld += exp(log_p) * (log_p - ((double)row->logits[i] - got_sum));
    }
    p->wanted_sum += want_sum - (double)want[next];
    p->kld_sum += kld;
    p->kld_most = kld > p->kld_most ? kld : p->kld_most;
    p->n_same += first_choice(want, p->n_vocab) == first_choice(row->logits, p->n_vocab);
}

static bool add_row(void *context, int32_t position, const struct step_row *row, struct err *e)
{
    struct perplexity *p = context;
    size_t next = (size_t)p->base + (size_t)position + 1;
    if (next >= p->ids->n)
        return true;
    float logit = row->logits[p->ids->at[next]];
    double loss = (double)row->log_sum_exp - (double)logit;
    if (!isfinite(loss))
        return err_set(e, ERR_INTERNAL, "row %d: log-sum-exp %g, logit %g", position,
                       (double)row->log_sum_exp, (double)logit);
    p->sum += loss;
    p->n++;
    if (p->kld)
        compare_row(p, row, p->ids->at[next]);
    return true;
}

static bool feed(struct perplexity *p, struct cli_run *r, struct cli_run_feed *f, struct err *e)
{
    if (!p->kld)
        return cli_run_feed(r, f, e);
    for (int32_t at = 0; at < f->n; at += r->chunk) {
        struct cli_run_feed part = *f;
        part.tokens += at;
        part.start += at;
        part.n = part.n_out = f->n - at < r->chunk ? f->n - at : r->chunk;
        p->n_wanted = p->n_compared = 0;
        part.on_row = keep_row;
        if (!cli_run_feed(&p->reference, &part, e))
            return false;
        part.on_row = f->on_row;
        if (!cli_run_feed(r, &part, e))
            return false;
    }
    return true;
}

/* Windows do not overlap, and each row foretells the id after it: every id but the very first
 * counts once. */
static bool measure(struct perplexity *p, struct cli_run *r, struct err *e)
{
    int32_t n = (int32_t)p->ids->n, window = r->n_tokens;
    for (p->base = 0; p->base < n - 1; p->base += window) {
        int32_t here = n - p->base < window ? n - p->base : window;
        bool last = p->base + here >= n;
        struct cli_run_feed f = {.tokens = p->ids->at + p->base,
                                 .n = last ? here - 1 : here,
                                 .want_logits = true,
                                 .on_row = add_row,
                                 .context = p};
        f.n_out = f.n;
        if (!feed(p, r, &f, e))
            return false;
    }
    return p->n > 0 || err_set(e, ERR_INPUT, "at least two ids are needed");
}

static void print_kld(const struct perplexity *p)
{
    const double n = (double)p->n;
    if (p->json)
        printf(", \"kld\": %.6f, \"kld_most\": %.6f, \"same_choice\": %.6f, "
               "\"perplexity_16_bits\": %.6f",
               p->kld_sum / n, p->kld_most, (double)p->n_same / n, exp(p->wanted_sum / n));
    else
        printf(
            "against 16 bits: KL divergence %.6f, at most %.4f; the same first choice in %.2f %%; "
            "perplexity there %.4f (%+.3f %%)\n",
            p->kld_sum / n, p->kld_most, 100 * (double)p->n_same / n, exp(p->wanted_sum / n),
            100 * (exp((p->sum - p->wanted_sum) / n) - 1));
}

static void print(const struct perplexity *p, const struct cli_run *r, double ms)
{
    double value = exp(p->sum / (double)p->n);
    if (p->json)
        printf("{\"perplexity\": %.6f, \"tokens\": %" PRId64
               ", \"mean_nll\": %.6f, \"context\": %d, "
               "\"backend\": \"%s\", \"kv_type\": \"%s\", \"tokens_per_s\": %.1f",
               value, p->n, p->sum / (double)p->n, r->n_tokens, r->ops->name,
               kv_type_name(r->memory.plan.kv_stored), (double)p->n * 1000 / ms);
    else
        printf("perplexity %.4f over %" PRId64
               " tokens (windows of %d; %s, KV %s, %.0f tokens/s)\n",
               value, p->n, r->n_tokens, r->ops->name, kv_type_name(r->memory.plan.kv_stored),
               (double)p->n * 1000 / ms);
    if (p->kld)
        print_kld(p);
    if (p->json)
        puts("}");
}

static bool open_reference(struct perplexity *p, const struct cli_run_params *as,
                           const struct cli_run *r, struct err *e)
{
    struct memory_options half = p->memory;
    struct cli_run_params params = *as;
    if (!p->kld)
        return true;
    half.kv_type = kv_type_name(KV_F16);
    half.activations = "16";
    params.memory = &half;
    p->n_vocab = r->plan->n_vocab;
    p->wanted = malloc((size_t)r->chunk * (size_t)p->n_vocab * sizeof *p->wanted);
    p->wanted_sums = malloc((size_t)r->chunk * sizeof *p->wanted_sums);
    if (!p->wanted || !p->wanted_sums)
        return err_set(e, ERR_NOMEM, "no memory for the logits of %d rows", r->chunk);
    return cli_run_open(&p->reference, &params, e);
}

static bool perplexity(struct perplexity *p, struct err *e)
{
    struct ids ids = {0};
    struct cli_run r = {0};
    if (!p->model || !p->ids_file)
        return err_set(e, ERR_INPUT, "--model and --ids-file are needed");
    bool ok = cli_ids_file(p->ids_file, &ids, e);
    ok = ok && (ids.n > 1 || err_set(e, ERR_INPUT, "at least two ids are needed"));
    if (ok && !p->context) {
        struct model *m = model_open(p->model, e);
        ok = m != NULL;
        if (ok)
            p->context = model_plan(m)->n_ctx;
        model_close(&m);
    }
    if (ok) {
        struct cli_run_params params = {
            .model = p->model,
            .backend = p->backend,
            .memory = &p->memory,
            .chunk = p->chunk ? (int32_t)p->chunk : 128,
            .n_threads = (int32_t)p->threads,
            .exact = p->exact,
            .n_tokens = (int32_t)(p->context < (int64_t)ids.n ? p->context : (int64_t)ids.n)};
        p->ids = &ids;
        ok = cli_run_open(&r, &params, e) && open_reference(p, &params, &r, e);
        double begin = clock_ms();
        ok = ok && measure(p, &r, e);
        if (ok)
            print(p, &r, clock_ms() - begin);
    }
    cli_run_close(&r);
    cli_run_close(&p->reference);
    free(p->wanted);
    free(p->wanted_sums);
    ids_fini(&ids);
    return ok;
}

static int run_perplexity(int argc, char **argv)
{
    struct perplexity p = {0};
    struct err e = {0};
    int status = cli_options(&cmd_perplexity, argc, argv, &p, NULL);
    if (status >= 0)
        return status;
    return perplexity(&p, &e) ? 0 : command_fail("perplexity", &e);
}

const struct command cmd_perplexity = {
    .name = "perplexity",
    .usage = "--model PATH --ids-file FILE [--backend B] [--kv-type T] [--kld] [--exact] [--json]",
    .help = "measure a model's perplexity on given token ids",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_perplexity,
};
