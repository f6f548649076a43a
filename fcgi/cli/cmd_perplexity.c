/* sluice perplexity: how well the model foretells given text: exp of the mean of -ln p(next token).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "fcgi/cli/cli_ids.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_run.h"

extern const struct command cmd_perplexity;

struct perplexity {
    struct memory_options memory;
    const char *model, *ids_file, *backend;
    int64_t chunk, context, threads;
    bool exact, json;
    const struct ids *ids;
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
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print JSON"},
};

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
        struct cli_run_feed feed = {.tokens = p->ids->at + p->base,
                                    .n = last ? here - 1 : here,
                                    .want_logits = true,
                                    .on_row = add_row,
                                    .context = p};
        feed.n_out = feed.n;
        if (!cli_run_feed(r, &feed, e))
            return false;
    }
    return p->n > 0 || err_set(e, ERR_INPUT, "at least two ids are needed");
}

static void print(const struct perplexity *p, const struct cli_run *r, double ms)
{
    double value = exp(p->sum / (double)p->n);
    if (p->json)
        printf("{\"perplexity\": %.6f, \"tokens\": %" PRId64
               ", \"mean_nll\": %.6f, \"context\": %d, "
               "\"backend\": \"%s\", \"tokens_per_s\": %.1f}\n",
               value, p->n, p->sum / (double)p->n, r->n_tokens, r->ops->name,
               (double)p->n * 1000 / ms);
    else
        printf("perplexity %.4f over %" PRId64 " tokens (windows of %d; %s, %.0f tokens/s)\n",
               value, p->n, r->n_tokens, r->ops->name, (double)p->n * 1000 / ms);
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
        ok = cli_run_open(&r, &params, e);
        double begin = clock_ms();
        ok = ok && measure(p, &r, e);
        if (ok)
            print(p, &r, clock_ms() - begin);
    }
    cli_run_close(&r);
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
    .usage = "--model PATH --ids-file FILE [--backend B] [--exact] [--json]",
    .help = "measure a model's perplexity on given token ids",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_perplexity,
};
