/* sluice detokenize: token ids on standard input to text. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/vocab.h"
#include "fcgi/cli/cli_jsonl.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/command.h"

enum { INPUT_MAX = 1 << 28 };

struct settings {
    const char *model, *cache;
    bool jsonl, json, hide;
};

static const struct option options[] = {
    {"model", OPTION_STRING, offsetof(struct settings, model), NULL, 0, 0, NULL, "M",
     "model folder, or a tokenizer.json"},
    {"jsonl", OPTION_BOOL, offsetof(struct settings, jsonl), NULL, 0, 0, NULL, NULL,
     "one case a line: {\"ids\"} to {\"text\", \"emit\": [...], \"flush\"}"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "print one JSON object: text"},
    {"hide-special", OPTION_BOOL, offsetof(struct settings, hide), NULL, 0, 0, NULL, NULL,
     "pass over control tokens instead of spelling them out"},
    {"cache", OPTION_STRING, offsetof(struct settings, cache), NULL, 0, 0, NULL, "DIR",
     "keep the compiled vocabulary there"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_detokenize;

struct context {
    const struct vocab *vocab;
    bool special_text, json;
};

static bool check_id(const struct vocab *v, double id, struct err *e)
{
    if (!(id >= 0 && id < vocab_size(v)) || id != (double)(int32_t)id ||
        vocab_flags(v, (int32_t)id) & VOCAB_UNUSED)
        return err_field(e, ERR_INPUT, "ids", "%.17g is not a token of this model", id);
    return true;
}

static bool answer(void *context, const struct cli_jsonl_line *line, struct buf *out, struct err *e)
{
    const struct context *c = context;
    const cJSON *ids = NULL;
    struct buf all = {0}, emit = {0};
    struct detokenizer d;
    detokenizer_init(&d, c->vocab, c->special_text);
    bool ok = json_get_array(line->root, "ids", &ids, e) &&
              (ids || err_field(e, ERR_INPUT, "ids", "missing"));
    for (const cJSON *i = ok ? ids->child : NULL; i && ok; i = i->next) {
        size_t before = all.len;
        ok = (cJSON_IsNumber(i) || err_field(e, ERR_INPUT, "ids", "not a list of numbers")) &&
             check_id(c->vocab, i->valuedouble, e) && detokenizer_push(&d, i->valueint, &all);
        if (emit.len)
            buf_putc(&emit, ',');
        buf_json_string(&emit, all.data ? all.data + before : "", all.len - before);
    }
    size_t before = all.len;
    ok = ok && detokenizer_flush(&d, &all);
    if (ok) {
        buf_puts(out, "{\"text\":");
        buf_json_string(out, all.data ? all.data : "", all.len);
        buf_printf(out, ",\"emit\":[%s],\"flush\":", emit.data ? emit.data : "");
        buf_json_string(out, all.data ? all.data + before : "", all.len - before);
        buf_putc(out, '}');
    }
    ok = ok && !emit.failed && !all.failed;
    buf_fini(&all);
    buf_fini(&emit);
    return ok;
}

/* Ids parted by white space or commas; brackets around them are passed over. */
static bool print_text(const struct context *c, struct err *e)
{
    struct buf in = {0}, out = {0};
    struct detokenizer d;
    detokenizer_init(&d, c->vocab, c->special_text);
    bool ok = file_read_fd(STDIN_FILENO, INPUT_MAX, &in, e) && buf_putc(&in, 0);
    for (char *p = in.data; ok && *(p += strspn(p, " \t\r\n,[]"));) {
        char *end;
        double id = strtod(p, &end);
        ok = (end != p || err_field(e, ERR_INPUT, "ids", "'%.20s' is not a number", p)) &&
             check_id(c->vocab, id, e) && detokenizer_push(&d, (int32_t)id, &out);
        p = end;
    }
    ok = ok && detokenizer_flush(&d, &out);
    if (ok && c->json) {
        struct buf text = out;
        out = (struct buf){0};
        buf_puts(&out, "{\"text\":");
        buf_json_string(&out, text.data ? text.data : "", text.len);
        buf_puts(&out, "}\n");
        buf_fini(&text);
    }
    if (ok && out.len && (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout)))
        ok = err_errno(e, "standard output");
    buf_fini(&in);
    buf_fini(&out);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings s;
    struct err e = {0};
    int status = cli_options(&cmd_detokenize, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    if (!s.model)
        return cli_misused(&cmd_detokenize, "--model is needed");
    status = 1;
    struct vocab *vocab = vocab_load(s.model, s.cache, &e);
    if (vocab) {
        struct context c = {vocab, !s.hide, s.json};
        status = s.jsonl ? cli_jsonl_run("detokenize", answer, &c) : !print_text(&c, &e);
    }
    if (e.code)
        command_fail("detokenize", &e);
    vocab_close(&vocab);
    return status;
}

const struct command cmd_detokenize = {
    .name = "detokenize",
    .usage = "--model M [--jsonl | --json]",
    .help = "turns token ids into text",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
