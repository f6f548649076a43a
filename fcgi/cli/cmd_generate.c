/* sluice generate: one answer from a model, without a server. The prompt is raw: no chat template
 * is put around it (sluice template makes one), and special tokens in it count, since its author is
 * the operator. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/sched/sampling/sampler.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "fcgi/cli/cli_grammar.h"
#include "fcgi/cli/cli_ids.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_run.h"

extern const struct command cmd_generate;

struct generate {
    struct memory_options memory;
    const char *model, *prompt_file, *ids_text, *backend, *gbnf_file, *schema_file;
    int64_t max_tokens, seed, top_k, chunk, threads;
    double temperature, top_p, min_p;
    bool exact, json, ignore_eos;
    struct vocab *vocab; /* NULL: the model has no tokenizer; ids still work */
    struct detokenizer detokenizer;
    struct cli_run run;
    struct cli_grammar grammar;
    struct sampler *sampler;
    struct sampler_workspace *work;
    struct engine_token next;
    int32_t n_top;
    struct ids prompt, answer;
    struct buf text;
    bool stopped; /* by an end token */
    double prefill_ms, decode_ms;
};

#define AT(field) offsetof(struct generate, field)
static const struct option options[] = {
    {"model", OPTION_STRING, AT(model), NULL, 0, 0, NULL, "PATH", "model folder or GGUF file"},
    {"prompt-file", OPTION_STRING, AT(prompt_file), NULL, 0, 0, NULL, "FILE",
     "the prompt's text (-: standard input)"},
    {"ids", OPTION_STRING, AT(ids_text), NULL, 0, 0, NULL, "1,2,3", "the prompt as token ids"},
    {"max-tokens", OPTION_INT, AT(max_tokens), "128", 1, 1 << 24, NULL, "N",
     "length of the answer at most"},
    {"temperature", OPTION_FLOAT, AT(temperature), "0", 0, 10, NULL, "T",
     "0: always the likeliest token"},
    {"top-k", OPTION_INT, AT(top_k), "0", 0, 1 << 24, NULL, "N",
     "draw from the N likeliest (0: off)"},
    {"top-p", OPTION_FLOAT, AT(top_p), "1", 0, 1, NULL, "P",
     "draw from the likeliest that sum to P"},
    {"min-p", OPTION_FLOAT, AT(min_p), "0", 0, 1, NULL, "P",
     "drop what is less likely than P times the likeliest"},
    {"seed", OPTION_INT, AT(seed), "0", 0, 9e15, NULL, "S", "the same seed gives the same answer"},
    {"grammar", OPTION_STRING, AT(gbnf_file), NULL, 0, 0, NULL, "FILE",
     "GBNF: what the answer must match"},
    {"json-schema", OPTION_STRING, AT(schema_file), NULL, 0, 0, NULL, "FILE",
     "what the answer must be valid by"},
    {"ignore-eos", OPTION_BOOL, AT(ignore_eos), NULL, 0, 0, NULL, NULL, "go on after an end token"},
    {"backend", OPTION_CHOICE, AT(backend), "auto", 0, 0, "auto|vulkan|cpu", NULL, "what computes"},
    MEMORY_OPTION_ROWS(struct generate, memory),
    {"exact", OPTION_BOOL, AT(exact), NULL, 0, 0, NULL, NULL,
     "activations in f32 everywhere, however slow"},
    {"chunk", OPTION_INT, AT(chunk), "0", 0, 65536, NULL, "N", "rows of a prefill step (0: 512)"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "N", "cpu: threads (0: one per core)"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL,
     "print one JSON object: ids, text, timings"},
};

static bool tokenize(struct generate *g, const struct buf *text, struct err *e)
{
    struct tokenizer *t = tokenizer_create(g->vocab, e);
    bool ok = t && tokenizer_encode(t,
                                    &(struct tokenizer_input){.text = text->data ? text->data : "",
                                                              .len = text->len,
                                                              .mode = TOKENIZE_SPECIAL},
                                    &g->prompt, e);
    tokenizer_destroy(&t);
    return ok;
}

static bool read_prompt(struct generate *g, struct err *e)
{
    if (!g->model || !g->prompt_file == !g->ids_text)
        return err_set(e, ERR_INPUT, "--model and one of --prompt-file and --ids are needed");
    struct err why = {0};
    g->vocab = vocab_load(g->model, NULL, &why);
    if (g->vocab)
        detokenizer_init(&g->detokenizer, g->vocab, true);
    bool ok;
    if (g->ids_text) {
        ok = cli_ids_text(g->ids_text, strlen(g->ids_text), &g->prompt, e);
    } else {
        struct buf text = {0};
        ok = g->vocab || err_set(e, why.code, "the model's tokenizer: %.200s", why.text);
        ok = ok && (strcmp(g->prompt_file, "-") ? file_read(g->prompt_file, 64u << 20, &text, e)
                                                : file_read_fd(0, 64u << 20, &text, e));
        ok = ok && tokenize(g, &text, e);
        buf_fini(&text);
    }
    if (ok && g->gbnf_file && g->schema_file)
        ok = err_set(e, ERR_INPUT, "--grammar and --json-schema do not go together");
    if (ok && !g->vocab && (g->gbnf_file || g->schema_file))
        ok = err_set(e, why.code, "a grammar needs the model's tokenizer: %.200s", why.text);
    return ok && (g->prompt.n || err_set(e, ERR_INPUT, "the prompt is empty"));
}

static bool open_run(struct generate *g, struct err *e)
{
    struct cli_run_params p = {.model = g->model,
                               .backend = g->backend,
                               .memory = &g->memory,
                               .chunk = (int32_t)g->chunk,
                               .n_threads = (int32_t)g->threads,
                               .exact = g->exact,
                               .n_tokens = (int32_t)((int64_t)g->prompt.n + g->max_tokens)};
    if (!cli_run_open(&g->run, &p, e))
        return false;
    if (p.n_tokens > g->run.plan->n_ctx)
        return err_set(e, ERR_LIMIT,
                       "a prompt of %zu tokens and an answer of %" PRId64
                       " go past the model's %d positions",
                       g->prompt.n, g->max_tokens, g->run.plan->n_ctx);
    struct engine_sampling s = {.temperature = (float)g->temperature,
                                .top_p = (float)g->top_p,
                                .min_p = (float)g->min_p,
                                .top_k = (int32_t)g->top_k,
                                .repetition_penalty = 1,
                                .seed = (uint64_t)g->seed};
    const struct model_plan *plan = g->run.plan;
    struct cli_grammar_params grammar = {.gbnf_file = g->gbnf_file,
                                         .schema_file = g->schema_file,
                                         .vocab = g->vocab,
                                         .eos = plan->eos,
                                         .n_vocab = plan->n_vocab,
                                         .n_eos = plan->n_eos};
    if ((g->gbnf_file || g->schema_file) && !cli_grammar_open(&g->grammar, &grammar, e))
        return false;
    g->work = sampler_workspace_create(g->run.plan->n_vocab, e);
    g->sampler = g->work ? sampler_create(&s, g->run.plan->n_vocab, e) : NULL;
    if (g->sampler)
        g->n_top = sampler_n_top(g->sampler, -1);
    return g->sampler != NULL;
}

static bool pick(void *context, int32_t position, const struct step_row *row, struct err *e)
{
    struct generate *g = context;
    struct grammar_mask allowed;
    struct grammar_run *grammar = g->grammar.run;
    if (grammar && !grammar_run_mask(grammar, &allowed, e))
        return false;
    sampler_pick(g->sampler, g->work,
                 &(struct sampler_input){.row = row,
                                         .n_top = g->n_top,
                                         .top_logprobs = -1,
                                         .allowed = grammar ? &allowed : NULL},
                 &g->next);
    return !grammar || grammar_run_push(grammar, g->next.id, e);
}

/* Notes the token; prints its text as it comes when people read. */
static bool take(struct generate *g, struct err *e)
{
    bool eos = (g->grammar.run || !g->ignore_eos) && cli_run_is_eos(&g->run, g->next.id);
    g->stopped = eos || (g->grammar.run && grammar_run_must_end(g->grammar.run));
    size_t before = g->text.len;
    if (!ids_push(&g->answer, g->next.id) ||
        (g->vocab && !eos && !detokenizer_push(&g->detokenizer, g->next.id, &g->text)))
        return err_set(e, ERR_NOMEM, "no memory for the answer");
    if (!g->json && g->text.len > before) {
        fwrite(g->text.data + before, 1, g->text.len - before, stdout);
        fflush(stdout);
    } else if (!g->json && !g->vocab) {
        printf("%s%d", g->answer.n > 1 ? "," : "", g->next.id);
    }
    return true;
}

static bool answer(struct generate *g, struct err *e)
{
    struct cli_run_feed feed = {.tokens = g->prompt.at,
                                .n = (int32_t)g->prompt.n,
                                .n_out = 1,
                                .n_top = g->n_top,
                                .want_logits = g->grammar.run || sampler_wants_logits(g->sampler),
                                .on_row = pick,
                                .context = g};
    double begin = clock_ms();
    sampler_add_prompt(g->sampler, g->prompt.at, (int32_t)g->prompt.n);
    if (!cli_run_feed(&g->run, &feed, e))
        return false;
    double first = clock_ms();
    g->prefill_ms = first - begin;
    feed.n = 1;
    feed.start = (int32_t)g->prompt.n;
    bool ok = take(g, e);
    while (ok && !g->stopped && (int64_t)g->answer.n < g->max_tokens) {
        feed.tokens = &g->answer.at[g->answer.n - 1];
        ok = cli_run_feed(&g->run, &feed, e) && take(g, e);
        feed.start++;
    }
    g->decode_ms = clock_ms() - first;
    if (ok && g->vocab)
        detokenizer_flush(&g->detokenizer, &g->text);
    return ok;
}

static double rate(double n, double ms)
{
    return ms > 0 ? n * 1000 / ms : 0;
}

static void print_json(const struct generate *g)
{
    struct buf b = {0};
    buf_puts(&b, "{\"ids\": [");
    for (size_t i = 0; i < g->answer.n; i++)
        buf_printf(&b, "%s%d", i ? ", " : "", g->answer.at[i]);
    buf_puts(&b, "], \"text\": ");
    if (g->vocab)
        buf_json_string(&b, g->text.data ? g->text.data : "", g->text.len);
    else
        buf_puts(&b, "null");
    buf_printf(
        &b,
        ", \"finish_reason\": \"%s\", \"prompt_tokens\": %zu, \"backend\": \"%s\", \"timings\": {",
        g->stopped ? "stop" : "length", g->prompt.n, g->run.ops->name);
    buf_printf(&b, "\"load_ms\": %.1f, \"prefill_ms\": %.3f, \"decode_ms\": %.3f, ", g->run.load_ms,
               g->prefill_ms, g->decode_ms);
    buf_printf(&b, "\"prefill_tokens_per_s\": %.2f, \"decode_tokens_per_s\": %.2f}}\n",
               rate((double)g->prompt.n, g->prefill_ms),
               rate((double)g->answer.n - 1, g->decode_ms));
    fwrite(b.data, 1, b.len, stdout);
    buf_fini(&b);
}

static void report(const struct generate *g)
{
    if (g->json) {
        print_json(g);
        return;
    }
    putchar('\n');
    fprintf(stderr, "[%s: %zu prompt tokens at %.1f/s, %zu answered at %.1f/s%s]\n",
            g->run.ops->name, g->prompt.n, rate((double)g->prompt.n, g->prefill_ms), g->answer.n,
            rate((double)g->answer.n - 1, g->decode_ms),
            g->stopped ? g->grammar.run ? ", the grammar's end" : ", end token" : "");
}

static int run_generate(int argc, char **argv)
{
    struct generate g = {0};
    struct err e = {0};
    int status = cli_options(&cmd_generate, argc, argv, &g, NULL);
    if (status >= 0)
        return status;
    bool ok = read_prompt(&g, &e) && open_run(&g, &e) && answer(&g, &e);
    if (ok)
        report(&g);
    cli_grammar_close(&g.grammar);
    sampler_destroy(&g.sampler);
    sampler_workspace_destroy(&g.work);
    cli_run_close(&g.run);
    vocab_close(&g.vocab);
    ids_fini(&g.prompt);
    ids_fini(&g.answer);
    buf_fini(&g.text);
    return ok ? 0 : command_fail("generate", &e);
}

const struct command cmd_generate = {
    .name = "generate",
    .usage = "--model PATH (--prompt-file FILE | --ids 1,2,3) [--max-tokens N] [--temperature T] "
             "[--json] ...",
    .help = "answer one raw prompt without a server",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_generate,
};
