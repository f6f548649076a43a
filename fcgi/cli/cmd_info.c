/* sluice info: what a model is, what it needs, and what would be applied here. Nothing is loaded:
 * files are mapped, headers read, a bounded sample of values checked. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/draft/draft_plan.h"
#include "engine/memory/memory_load.h"
#include "engine/memory/memory_options.h"
#include "engine/memory/memory_text.h"
#include "engine/model/model.h"
#include "engine/model/plan_parts.h"
#include "engine/text/text_model.h"
#include "fcgi/cli/bench/expert_report.h"
#include "fcgi/cli/cli_options.h"

extern const struct command cmd_info;

struct info {
    const char *path, *backend, *cache_dir, *draft_model;
    int64_t slots, ctx, kv_memory, prefill_chunk, threads;
    struct memory_options requests;
    bool json, unused, exact;
    struct model *model;
    struct plan_parts parts;
    struct expert_report experts;
    struct text_model text;
    struct err text_error;
    bool has_text;
    struct memory_load memory;
    bool has_plan; /* else plan_error */
    struct err plan_error;
    struct draft_load drafts; /* .model NULL: there is none, or draft_error */
    struct err draft_error;
};

#define AT(field) offsetof(struct info, field)
static const struct option options[] = {
    PLAN_OPTION_ROWS(struct info),
    MEMORY_OPTION_ROWS(struct info, requests),
    {"draft-model", OPTION_STRING, AT(draft_model), "off", 0, 0, NULL, "PATH|auto|off",
     "a smaller model that makes drafts; auto: the folder draft in the model's, if it has one"},
    {"cache-dir", OPTION_STRING, AT(cache_dir), NULL, 0, 0, NULL, "DIR",
     "where the disk's measured rate is kept"},
    {"unused", OPTION_BOOL, AT(unused), NULL, 0, 0, NULL, NULL,
     "name every tensor and file that is not used"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print one JSON object"},
};

/* As the engine plans with the same options; where it would not start, the model is planned alone,
 * beside the reason. */
static void make_plan(struct info *n)
{
    struct memory_request w = {.size = {n->ctx, n->slots, n->prefill_chunk, n->kv_memory},
                               .n_threads = (int32_t)n->threads,
                               .exact = n->exact,
                               .speculates = true};
    memory_options_request(&n->requests, &w);
    const struct draft_plan_params p = {.model = n->model,
                                        .backend = n->backend,
                                        .speculate = ENGINE_SPECULATE_AUTO,
                                        .option = n->has_text ? n->draft_model : "off",
                                        .load = {.target = n->path,
                                                 .target_model = n->model,
                                                 .vocab = n->has_text ? n->text.vocab : NULL,
                                                 .n_vocab = model_plan(n->model)->n_vocab,
                                                 .slots = (int32_t)n->slots,
                                                 .backend = n->backend,
                                                 .cache_dir = n->cache_dir,
                                                 .memory = w}};
    n->has_plan = draft_plan_make(&n->drafts, &n->memory, &p, &w, &n->plan_error);
    if (n->drafts.left_out[0])
        err_set(&n->draft_error, ERR_LIMIT, "%s", n->drafts.left_out);
    if (!n->has_plan && !strcmp(n->plan_error.field, "draft-model")) {
        n->draft_error = n->plan_error;
        n->plan_error = (struct err){0};
        n->has_plan = memory_load_plan(&n->memory, n->model, n->backend, &w, &n->plan_error);
    }
    if (n->has_plan)
        memory_load_measure(&n->memory, n->cache_dir);
}

static int count_unused(const struct model *m)
{
    int n = 0;
    while (model_unused(m, n))
        n++;
    return n;
}

/* --- for people --- */

static void print_size(const char *what, uint64_t bytes)
{
    if (bytes >= 1000000000)
        printf("  %-22s %9.2f GB", what, (double)bytes / 1e9);
    else
        printf("  %-22s %9.2f MB", what, (double)bytes / 1e6);
}

static void print_parts(const struct info *n)
{
    puts("\nweights");
    for (int i = 0; i < PART__N; i++) {
        if (!n->parts.bytes[i])
            continue;
        print_size(plan_part_name((enum plan_part)i), n->parts.bytes[i]);
        for (const struct plan_part_format *f = n->parts.formats[i];
             f < n->parts.formats[i] + PART_MAX_FORMATS && f->bytes; f++)
            printf("%s%s", f == n->parts.formats[i] ? "  " : ", ", f->text);
        putchar('\n');
    }
    const struct model_stats *f = model_stats(n->model);
    print_size("together", f->weight_bytes);
    printf("  in %d file%s of %.2f GB\n", f->n_files, f->n_files == 1 ? "" : "s",
           (double)f->file_bytes / 1e9);
    print_size("read for one token", f->active_bytes);
    putchar('\n');
    if (f->copied_bytes) {
        print_size("copied, not mapped", f->copied_bytes);
        puts("  (stored transposed)");
    }
}

static const char *yes(bool b)
{
    return b ? "yes" : "no";
}

static void print_text(const struct info *n)
{
    puts("\ntext");
    if (!n->has_text) {
        printf("  no tokenizer            %s\n", n->text_error.text);
        return;
    }
    printf("  tokenizer               %d tokens\n", vocab_size(n->text.vocab));
    if (!n->text.chat_template) {
        puts("  chat template           none");
        return;
    }
    const struct chat_traits *t = chat_template_traits(n->text.chat_template);
    printf("  chat template           %s; tools %s, system %s, thinking %s%s%s\n", t->format,
           yes(t->tools), yes(t->system_role), yes(t->thinking),
           t->thinking_switch ? " (can be switched off)" : "",
           t->effort ? " (effort can be set)" : "");
}

/* Whether what was chosen has no matrix units for prefill on this device. */
static bool slow_prefill(const struct info *n)
{
    for (int i = 0; n->has_plan && i < MEMORY_MAX_TARGETS; i++) {
        const struct memory_backend *p = &n->memory.targets[i];
        if (p->ops && !strcmp(p->ops->name, n->memory.plan.backend))
            return p->device.slow_prefill;
    }
    return false;
}

static uint64_t draft_bytes(const struct info *n)
{
    return draft_load_host_bytes(&n->drafts) + n->drafts.memory.plan.device;
}

static void print_plan(const struct info *n)
{
    struct buf b = {0};
    if (n->has_plan)
        memory_plan_table(&n->memory.plan, &n->memory.estimate, &b);
    else
        buf_printf(&b, "  can't run               %s\n", n->plan_error.text);
    printf("\nhere\n%s", b.data ? b.data : "");
    if (n->drafts.model && n->drafts.layer)
        printf("  next-token layer        makes drafts, %.2f MB all in all\n",
               (double)draft_bytes(n) / 1e6);
    else if (n->drafts.model)
        printf("  draft model             %s, %.2f MB all in all\n", n->drafts.name,
               (double)draft_bytes(n) / 1e6);
    else if (n->draft_error.code)
        printf("  no drafts by a model    %s\n", n->draft_error.text);
    if (slow_prefill(n))
        puts("  prefill                 on plain arithmetic, not on matrix units (no "
             "VK_KHR_cooperative_matrix)");
    buf_fini(&b);
}

static void print_unused(const struct info *n)
{
    int count = count_unused(n->model);
    if (!count)
        return;
    printf("\nnot used: %d\n", count);
    int shown = n->unused || count <= 8 ? count : 6;
    for (int i = 0; i < shown; i++)
        printf("  %s\n", model_unused(n->model, i));
    if (shown < count)
        printf("  ... (--unused names all)\n");
}

static void print_people(const struct info *n)
{
    const struct model_plan *p = model_plan(n->model);
    const struct model_stats *f = model_stats(n->model);
    printf("%s\n\nmodel\n  family                  %s\n", n->path, p->family);
    printf("  parameters              %.3f B, %.3f B of them active\n", (double)f->parameters / 1e9,
           (double)f->active_parameters / 1e9);
    printf("  layers                  %d (%d attention%s", p->n_layer, p->n_attention,
           p->n_recurrent ? ", " : ")\n");
    if (p->n_recurrent)
        printf("%d DeltaNet)\n", p->n_recurrent);
    printf("  context                 %d tokens\n  vocabulary              %d\n", p->n_ctx,
           p->n_vocab);
    printf("  KV cache                %" PRIu64 " bytes a token at 16 bits\n",
           f->kv_bytes_per_token);
    if (f->state_bytes)
        printf("  recurrent state         %.1f MB a sequence\n", (double)f->state_bytes / 1e6);
    print_parts(n);
    expert_report_print(&n->experts);
    print_text(n);
    print_plan(n);
    print_unused(n);
}

/* --- for programs --- */

static void put_u64(struct buf *b, const char *name, uint64_t v)
{
    buf_printf(b, "\"%s\": %" PRIu64 ", ", name, v);
}

static void json_model(const struct info *n, struct buf *b)
{
    const struct model_plan *p = model_plan(n->model);
    const struct model_stats *f = model_stats(n->model);
    buf_puts(b, "{\"path\": ");
    buf_json_string(b, n->path, strlen(n->path));
    buf_printf(
        b,
        ", \"family\": \"%s\", \"layers\": %d, \"attention_layers\": %d, \"recurrent_layers\": %d, "
        "\"context\": %d, \"vocabulary\": %d, \"fingerprint\": \"%016" PRIx64 "\",\n ",
        p->family, p->n_layer, p->n_attention, p->n_recurrent, p->n_ctx, p->n_vocab,
        p->fingerprint);
    put_u64(b, "parameters", f->parameters);
    put_u64(b, "active_parameters", f->active_parameters);
    put_u64(b, "file_bytes", f->file_bytes);
    put_u64(b, "weight_bytes", f->weight_bytes);
    put_u64(b, "expert_bytes", f->expert_bytes);
    put_u64(b, "active_bytes", f->active_bytes);
    put_u64(b, "copied_bytes", f->copied_bytes);
    put_u64(b, "kv_bytes_per_token", f->kv_bytes_per_token);
    put_u64(b, "state_bytes", f->state_bytes);
    buf_printf(b, "\"files\": %d, \"tensors\": %d, \"unused_tensors\": %d,\n \"parts\": {",
               f->n_files, f->n_tensors, f->n_unused_tensors);
    for (int i = 0, first = 1; i < PART__N; i++) {
        if (!n->parts.bytes[i])
            continue;
        buf_printf(b, "%s\"%s\": {\"bytes\": %" PRIu64 ", \"formats\": {", first ? "" : ", ",
                   plan_part_name((enum plan_part)i), n->parts.bytes[i]);
        first = 0;
        for (int k = 0; k < PART_MAX_FORMATS && n->parts.formats[i][k].bytes; k++)
            buf_printf(b, "%s\"%s\": %" PRIu64, k ? ", " : "", n->parts.formats[i][k].text,
                       n->parts.formats[i][k].bytes);
        buf_puts(b, "}}");
    }
    buf_puts(b, "}");
}

static void json_text(const struct info *n, struct buf *b)
{
    buf_puts(b, ",\n \"tokenizer\": ");
    if (!n->has_text) {
        buf_puts(b, "null, \"chat_template\": null");
        return;
    }
    buf_printf(b, "{\"tokens\": %d}, \"chat_template\": ", vocab_size(n->text.vocab));
    const struct chat_traits *t =
        n->text.chat_template ? chat_template_traits(n->text.chat_template) : NULL;
    if (!t) {
        buf_puts(b, "null");
        return;
    }
    buf_printf(b,
               "{\"format\": \"%s\", \"tools\": %s, \"system_role\": %s, \"thinking\": %s, "
               "\"thinking_switch\": %s, "
               "\"effort\": %s}",
               t->format, t->tools ? "true" : "false", t->system_role ? "true" : "false",
               t->thinking ? "true" : "false", t->thinking_switch ? "true" : "false",
               t->effort ? "true" : "false");
}

static void json_plan(const struct info *n, struct buf *b)
{
    if (!n->has_plan) {
        buf_puts(b, ",\n \"plan\": null, \"reason\": ");
        buf_json_string(b, n->plan_error.text, strlen(n->plan_error.text));
        return;
    }
    buf_printf(b, ",\n \"plan\": {\"backend\":\"%s\",\"fast_prefill\":%s,", n->memory.plan.backend,
               slow_prefill(n) ? "false" : "true");
    memory_plan_json(&n->memory.plan, &n->memory.estimate, b);
    buf_putc(b, '}');
}

static void json_draft_model(const struct info *n, struct buf *b)
{
    if (n->drafts.model && n->drafts.layer)
        buf_printf(b, ",\n \"mtp\": {\"bytes\": %" PRIu64 "}", draft_bytes(n));
    buf_puts(b, ",\n \"draft_model\": ");
    if (n->drafts.layer || (!n->drafts.model && !n->draft_error.code)) {
        buf_puts(b, "null");
        return;
    }
    buf_puts(b, n->drafts.model ? "{\"name\": " : "{\"reason\": ");
    const char *text = n->drafts.model ? n->drafts.name : n->draft_error.text;
    buf_json_string(b, text, strlen(text));
    buf_printf(b, ", \"bytes\": %" PRIu64 "}", draft_bytes(n));
}

static void print_json(const struct info *n)
{
    struct buf b = {0};
    json_model(n, &b);
    buf_puts(&b, ",\n \"routed_experts\": ");
    expert_report_json(&n->experts, &b);
    json_text(n, &b);
    json_plan(n, &b);
    json_draft_model(n, &b);
    buf_puts(&b, ",\n \"unused\": [");
    for (int i = 0; model_unused(n->model, i); i++) {
        if (i)
            buf_puts(&b, ", ");
        buf_json_string(&b, model_unused(n->model, i), strlen(model_unused(n->model, i)));
    }
    buf_puts(&b, "]}\n");
    fwrite(b.data, 1, b.len, stdout);
    buf_fini(&b);
}

static bool info(struct info *n, struct err *e)
{
    int32_t experts = (int32_t)n->requests.experts_per_token;
    n->model = model_open(n->path, e);
    if (!n->model || (experts && !model_limit_experts(n->model, experts, e))) {
        model_close(&n->model);
        return false;
    }
    plan_parts_of(&n->parts, model_plan(n->model));
    expert_report_make(&n->experts, n->model, NULL);
    n->has_text = text_model_open(&n->text, n->path, NULL, &n->text_error);
    make_plan(n);
    (n->json ? print_json : print_people)(n);
    if (n->has_plan)
        memory_load_close(&n->memory);
    draft_load_close(&n->drafts);
    if (n->has_text)
        text_model_close(&n->text);
    model_close(&n->model);
    return true;
}

static int run_info(int argc, char **argv)
{
    struct info n = {0};
    struct err e = {0};
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int status = rest ? cli_options(&cmd_info, argc, argv, &n, rest) : 1;
    if (status < 0 && (!rest[0] || rest[1]))
        status = cli_misused(&cmd_info, "one model is needed");
    if (status < 0) {
        n.path = rest[0];
        status = info(&n, &e) ? 0 : command_fail("info", &e);
    }
    free(rest);
    return status;
}

const struct command cmd_info = {
    .name = "info",
    .usage = "MODEL [--slots N] [--ctx N] [--strategy S] [--ram-budget BYTES] [--json]",
    .help = "say what a model is, what it needs and what would be applied",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_info,
};
