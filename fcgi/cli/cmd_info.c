/* sluice info: what a model is, what it needs, and what would be applied here. Nothing is loaded: files are
 * mapped, headers read, a bounded sample of values checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/model/backend.h"
#include "engine/model/model.h"
#include "engine/text/text_model.h"
#include "fcgi/cli/cli_experts.h"
#include "fcgi/cli/cli_options.h"
#include "engine/model/plan_parts.h"

extern const struct command cmd_info;

struct info {
    const char *path, *backend;
    int64_t slots, context;
    bool json, unused;
    struct model *model;
    struct plan_parts parts;
    struct experts_facts experts;
    struct text_model text;
    struct err text_error;
    bool has_text;
    const struct backend_ops *ops; /* NULL: none fits; backend_error */
    struct backend_memory needs;
    struct err backend_error; /* with ops: why "auto" took another backend than its first choice, if it did */
    uint64_t available; /* bytes of memory that the system could give now; 0: unknown */
};

#define AT(field) offsetof(struct info, field)
static const struct option options[] = {
    {"backend", OPTION_CHOICE, AT(backend), "auto", 0, 0, "auto|vulkan|cpu", NULL, "what shall compute"},
    {"slots", OPTION_INT, AT(slots), "16", 1, 4096, NULL, "N", "sequences at a time, for the memory's estimate"},
    {"context", OPTION_INT, AT(context), "8192", 1, 1 << 24, NULL, "N", "tokens of each sequence, for the estimate"},
    {"unused", OPTION_BOOL, AT(unused), NULL, 0, 0, NULL, NULL, "name every tensor and file that is not used"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print one JSON object"},
};

static uint64_t available_memory(void)
{
    unsigned long long kb = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb * 1024;
}

static void estimate(struct info *n)
{
    const struct model_plan *p = model_plan(n->model);
    int64_t context = n->context < p->n_ctx ? n->context : p->n_ctx;
    int64_t blocks = n->slots * ((context + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS);
    n->context = context;
    n->ops = backend_select(n->backend, &n->backend_error);
    if (!n->ops)
        return;
    struct backend_params params = {.n_blocks = blocks > INT32_MAX ? INT32_MAX : (int32_t)blocks,
                                    .n_states = p->n_recurrent ? (int32_t)n->slots : 0, .max_rows = 512,
                                    .max_sequences = (int32_t)n->slots};
    if (n->ops->estimate(p, &params, &n->needs, &n->backend_error))
        return;
    n->ops = backend_instead(n->backend, n->ops, &n->backend_error);
    if (n->ops && !n->ops->estimate(p, &params, &n->needs, &n->backend_error))
        n->ops = NULL;
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
        print_size(part_name((enum plan_part)i), n->parts.bytes[i]);
        for (const struct part_format *f = n->parts.formats[i]; f < n->parts.formats[i] + PART_MAX_FORMATS && f->bytes; f++)
            printf("%s%s", f == n->parts.formats[i] ? "  " : ", ", f->text);
        putchar('\n');
    }
    const struct model_facts *f = model_facts(n->model);
    print_size("together", f->weight_bytes);
    printf("  in %d file%s of %.2f GB\n", f->n_files, f->n_files == 1 ? "" : "s", (double)f->file_bytes / 1e9);
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
    printf("  chat template           %s; tools %s, system %s, thinking %s%s%s\n", t->format, yes(t->tools),
           yes(t->system_role), yes(t->thinking), t->thinking_switch ? " (can be switched off)" : "",
           t->effort ? " (effort can be set)" : "");
}

static void print_needs(const struct info *n)
{
    printf("\nhere, with %" PRId64 " sequences of %" PRId64 " tokens\n", n->slots, n->context);
    if (!n->ops) {
        printf("  can't run               %s\n", n->backend_error.text);
        return;
    }
    printf("  backend                 %s\n", n->ops->name);
    if (n->backend_error.text[0])
        printf("  not on the GPU          %s\n", n->backend_error.text);
    print_size("weights", n->needs.weights);
    putchar('\n');
    print_size("KV cache", n->needs.kv);
    putchar('\n');
    if (n->needs.state) {
        print_size("recurrent states", n->needs.state);
        putchar('\n');
    }
    print_size("work", n->needs.work);
    putchar('\n');
    print_size("on the device", n->needs.device);
    putchar('\n');
    print_size("in memory", n->needs.host);
    if (n->available)
        printf("  of %.2f GB available", (double)n->available / 1e9);
    putchar('\n');
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
    const struct model_facts *f = model_facts(n->model);
    printf("%s\n\nmodel\n  family                  %s\n", n->path, p->family);
    printf("  parameters              %.3f B, %.3f B of them active\n", (double)f->parameters / 1e9,
           (double)f->active_parameters / 1e9);
    printf("  layers                  %d (%d attention%s", p->n_layer, p->n_attention, p->n_recurrent ? ", " : ")\n");
    if (p->n_recurrent)
        printf("%d DeltaNet)\n", p->n_recurrent);
    printf("  context                 %d tokens\n  vocabulary              %d\n", p->n_ctx, p->n_vocab);
    printf("  KV cache                %" PRIu64 " bytes a token at 16 bits\n", f->kv_bytes_per_token);
    if (f->state_bytes)
        printf("  recurrent state         %.1f MB a sequence\n", (double)f->state_bytes / 1e6);
    print_parts(n);
    experts_print(&n->experts);
    print_text(n);
    print_needs(n);
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
    const struct model_facts *f = model_facts(n->model);
    buf_puts(b, "{\"path\": ");
    buf_json_string(b, n->path, strlen(n->path));
    buf_printf(b, ", \"family\": \"%s\", \"layers\": %d, \"attention_layers\": %d, \"recurrent_layers\": %d, "
                  "\"context\": %d, \"vocabulary\": %d, \"fingerprint\": \"%016" PRIx64 "\",\n ",
               p->family, p->n_layer, p->n_attention, p->n_recurrent, p->n_ctx, p->n_vocab, p->fingerprint);
    put_u64(b, "parameters", f->parameters);
    put_u64(b, "active_parameters", f->active_parameters);
    put_u64(b, "file_bytes", f->file_bytes);
    put_u64(b, "weight_bytes", f->weight_bytes);
    put_u64(b, "expert_bytes", f->expert_bytes);
    put_u64(b, "active_bytes", f->active_bytes);
    put_u64(b, "copied_bytes", f->copied_bytes);
    put_u64(b, "kv_bytes_per_token", f->kv_bytes_per_token);
    put_u64(b, "state_bytes", f->state_bytes);
    buf_printf(b, "\"files\": %d, \"tensors\": %d, \"unused_tensors\": %d,\n \"parts\": {", f->n_files, f->n_tensors,
               f->n_unused_tensors);
    for (int i = 0, first = 1; i < PART__N; i++) {
        if (!n->parts.bytes[i])
            continue;
        buf_printf(b, "%s\"%s\": {\"bytes\": %" PRIu64 ", \"formats\": {", first ? "" : ", ",
                   part_name((enum plan_part)i), n->parts.bytes[i]);
        first = 0;
        for (int k = 0; k < PART_MAX_FORMATS && n->parts.formats[i][k].bytes; k++)
            buf_printf(b, "%s\"%s\": %" PRIu64, k ? ", " : "", n->parts.formats[i][k].text, n->parts.formats[i][k].bytes);
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
    const struct chat_traits *t = n->text.chat_template ? chat_template_traits(n->text.chat_template) : NULL;
    if (!t) {
        buf_puts(b, "null");
        return;
    }
    buf_printf(b, "{\"format\": \"%s\", \"tools\": %s, \"system_role\": %s, \"thinking\": %s, \"thinking_switch\": %s, "
                  "\"effort\": %s}",
               t->format, t->tools ? "true" : "false", t->system_role ? "true" : "false", t->thinking ? "true" : "false",
               t->thinking_switch ? "true" : "false", t->effort ? "true" : "false");
}

static void json_needs(const struct info *n, struct buf *b)
{
    buf_printf(b, ",\n \"applied\": {\"slots\": %" PRId64 ", \"context\": %" PRId64 ", ", n->slots, n->context);
    put_u64(b, "memory_available", n->available);
    if (n->ops) {
        buf_printf(b, "\"backend\": \"%s\", \"backend_note\": ", n->ops->name);
        buf_json_string(b, n->backend_error.text, strlen(n->backend_error.text));
        buf_puts(b, ", ");
        put_u64(b, "weights", n->needs.weights);
        put_u64(b, "kv", n->needs.kv);
        put_u64(b, "state", n->needs.state);
        put_u64(b, "work", n->needs.work);
        put_u64(b, "device", n->needs.device);
        buf_printf(b, "\"host\": %" PRIu64 "}", n->needs.host);
    } else {
        buf_puts(b, "\"backend\": null, \"reason\": ");
        buf_json_string(b, n->backend_error.text, strlen(n->backend_error.text));
        buf_puts(b, "}");
    }
}

static void print_json(const struct info *n)
{
    struct buf b = {0};
    json_model(n, &b);
    buf_puts(&b, ",\n \"routed_experts\": ");
    experts_json(&n->experts, &b);
    json_text(n, &b);
    json_needs(n, &b);
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
    n->model = model_open(n->path, e);
    if (!n->model)
        return false;
    parts_of(&n->parts, model_plan(n->model));
    experts_of(&n->experts, n->model, NULL);
    n->has_text = text_model_open(&n->text, n->path, NULL, &n->text_error);
    n->available = available_memory();
    estimate(n);
    (n->json ? print_json : print_people)(n);
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
    int status = rest ? cli_options(&cmd_info, options, sizeof options / sizeof *options, argc, argv, &n, rest) : 1;
    if (status < 0 && (!rest[0] || rest[1])) {
        err_set(&e, ERR_INPUT, "one model is needed: sluice info %s", cmd_info.usage);
        status = command_fail("info", &e) + 1;
    }
    if (status < 0) {
        n.path = rest[0];
        status = info(&n, &e) ? 0 : command_fail("info", &e);
    }
    free(rest);
    return status;
}

const struct command cmd_info = {
    .name = "info",
    .usage = "MODEL [--slots N] [--context N] [--backend B] [--json]",
    .help = "say what a model is, what it needs and what would be applied",
    .run = run_info,
};
