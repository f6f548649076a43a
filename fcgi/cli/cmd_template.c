/* sluice template: messages on standard input to the prompt that the model would read. With
 * --jsonl, many cases in one process: chat cases, or single Jinja templates with their variables.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "engine/chat/chat_template.h"
#include "engine/jinja/jinja.h"
#include "engine/text/text_model.h"
#include "fcgi/cli/cli_jsonl.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/command.h"

enum { INPUT_MAX = 64 << 20, TEMPLATE_MAX = 4 << 20, MAX_VARIABLES = 256 };

struct settings {
    const char *model, *template;
    bool jsonl, json, raw;
};

static const struct option options[] = {
    {"model", OPTION_STRING, offsetof(struct settings, model), NULL, 0, 0, NULL, "M",
     "model folder or file"},
    {"template", OPTION_STRING, offsetof(struct settings, template), NULL, 0, 0, NULL, "FILE",
     "a chat template of its own; \"-\": each case brings one"},
    {"jsonl", OPTION_BOOL, offsetof(struct settings, jsonl), NULL, 0, 0, NULL, NULL,
     "one case a line to {\"rendered\"} or {\"error\", \"error_message\"}"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "also tell which bytes came from outside, and what the template can do"},
    {"raw", OPTION_BOOL, offsetof(struct settings, raw), NULL, 0, 0, NULL, NULL,
     "messages as they are, not first put into the shape that templates expect"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_template;

struct context {
    const struct settings *settings;
    struct text_model model;      /* --model */
    struct buf source;            /* --template */
    struct chat_template *cached; /* of `source` with the tokens of the last case */
    char bos[256], eos[256];
};

/* ---- writing */

static void put_string(struct buf *out, const char *name, const char *text, size_t len)
{
    buf_printf(out, "\"%s\":", name);
    buf_json_string(out, text ? text : "", len);
}

static void put_traits(struct buf *out, const struct chat_traits *t)
{
    buf_printf(out,
               ",\"template\":{\"format\":\"%s\",\"tools\":%s,\"system_role\":%s,\"thinking\":%s,"
               "\"thinking_switch\":%s,\"effort\":%s,\"opens_reasoning\":%s}",
               t->format, t->tools ? "true" : "false", t->system_role ? "true" : "false",
               t->thinking ? "true" : "false", t->thinking_switch ? "true" : "false",
               t->effort ? "true" : "false", t->opens_reasoning ? "true" : "false");
}

/* line: whose NULs the text holds in their stand-in's form; NULL: none. */
static void put_rendered(struct buf *out, const struct rendered *r, const struct chat_template *t,
                         const struct cli_jsonl_line *line)
{
    struct buf text = {0};
    buf_putc(out, '{');
    if (line && r->text.len && cli_jsonl_text(line, r->text.data, &text))
        put_string(out, "rendered", text.data, text.len);
    else
        put_string(out, "rendered", r->text.data, r->text.len);
    buf_fini(&text);
    if (t) {
        buf_puts(out, ",\"untrusted\":[");
        for (size_t i = 0; i < r->n_untrusted; i++)
            buf_printf(out, "%s[%zu,%zu]", i ? "," : "", r->untrusted[i].start,
                       r->untrusted[i].end);
        buf_puts(out, "]");
        put_traits(out, chat_template_traits(t));
        buf_printf(out, ",\"opens_reasoning\":%s",
                   chat_prompt_opens_reasoning(t, r->text.data ? r->text.data : "", r->text.len)
                       ? "true"
                       : "false");
    }
    buf_putc(out, '}');
}

static void put_error(struct buf *out, const char *kind, const struct err *e)
{
    buf_putc(out, '{');
    put_string(out, "error", kind, strlen(kind));
    buf_putc(out, ',');
    put_string(out, "error_message", e->text, strlen(e->text));
    buf_putc(out, '}');
}

/* ---- a case */

/* "2026-03-05T09:08:07", of no zone. */
static bool read_now(const cJSON *o, struct tm *now, struct err *e)
{
    const char *text = NULL;
    time_t clock = time(NULL);
    if (!json_get_string(o, "now", &text, e))
        return false;
    if (!text) {
        localtime_r(&clock, now);
        return true;
    }
    memset(now, 0, sizeof *now);
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", now);
    if (!end || *end)
        return err_field(e, ERR_INPUT, "now", "not of the form 2026-03-05T09:08:07");
    time_t t = timegm(now); /* fills in the day of the week and of the year */
    gmtime_r(&t, now);
    return true;
}

/* A template alone with its variables. */
static bool answer_jinja(const struct cli_jsonl_line *line, const cJSON *context, struct buf *out,
                         struct err *e)
{
    const cJSON *o = line->root;
    const char *source = NULL;
    struct jinja_variable v[MAX_VARIABLES];
    struct jinja_input in = {.variables = v};
    struct rendered r = {0};
    struct err why = {0};
    if (!json_get_string(o, "template", &source, e) || !read_now(o, &in.now, e))
        return false;
    if (!source)
        return err_field(e, ERR_INPUT, "template", "missing beside context");
    for (const cJSON *k = context->child; k; k = k->next) {
        if (in.n_variables == MAX_VARIABLES)
            return err_field(e, ERR_LIMIT, "context", "more than %d variables", MAX_VARIABLES);
        v[in.n_variables++] = (struct jinja_variable){.name = k->string, .json = k};
    }
    struct jinja *t = jinja_compile(source, strlen(source), &why);
    enum jinja_outcome outcome = t ? jinja_render(t, &in, &r, &why) : JINJA_RUNTIME;
    static const char *const kinds[] = {"",         "raise_exception", "runtime",
                                        "security", "limit",           "limit"};
    if (!t)
        put_error(out, why.code == ERR_LIMIT ? "limit" : "syntax", &why);
    else if (outcome != JINJA_DONE)
        put_error(out, kinds[outcome], &why);
    else
        put_rendered(out, &r, NULL, line);
    rendered_fini(&r);
    jinja_destroy(&t);
    return true;
}

static bool same(const char *a, const char *b)
{
    return !strcmp(a, b ? b : "\x01none");
}

/* The template for a case: compiled once while the tokens stay the same. */
static const struct chat_template *case_template(struct context *c, const char *bos,
                                                 const char *eos, struct err *e)
{
    if (c->settings->model)
        return c->model.chat_template;
    if (c->cached && same(c->bos, bos) && same(c->eos, eos))
        return c->cached;
    chat_template_destroy(&c->cached);
    c->cached =
        chat_template_compile(c->source.data ? c->source.data : "", c->source.len, bos, eos, e);
    snprintf(c->bos, sizeof c->bos, "%s", bos ? bos : "\x01none");
    snprintf(c->eos, sizeof c->eos, "%s", eos ? eos : "\x01none");
    return c->cached;
}

static bool render_case(struct context *c, cJSON *o, struct rendered *r,
                        const struct chat_template **used, struct err *e)
{
    const char *bos = NULL, *eos = NULL;
    const cJSON *messages = NULL, *tools = NULL, *kwargs = NULL;
    bool generate = true;
    struct tm now;
    if (!json_get_string(o, "bos_token", &bos, e) || !json_get_string(o, "eos_token", &eos, e) ||
        !json_get_array(o, "messages", &messages, e) || !json_get_array(o, "tools", &tools, e) ||
        !json_get_object(o, "kwargs", &kwargs, e) ||
        !json_get_bool(o, "add_generation_prompt", &generate, e) || !read_now(o, &now, e))
        return false;
    if (!messages)
        return err_set(e, ERR_INPUT, "messages: missing");
    const struct chat_template *t = case_template(c, bos, eos, e);
    if (!t)
        return e->code ? false : err_set(e, ERR_UNSUPPORTED, "the model has no chat template");
    *used = t;
    if (!c->settings->raw && !c->settings->jsonl &&
        !chat_messages_normalize(t, (cJSON *)messages, e))
        return false;
    now.tm_isdst = -1;
    struct chat_input in = {.messages = messages,
                            .tools = tools,
                            .kwargs = kwargs,
                            .add_generation_prompt = generate,
                            .now = (int64_t)mktime(&now)};
    return chat_template_render(t, &in, r, e);
}

static const char *kind_of(const struct err *e)
{
    if (e->code == ERR_INPUT && !strcmp(e->field, "messages"))
        return "raise_exception";
    return e->code == ERR_LIMIT ? "limit" : e->code == ERR_FORMAT ? "syntax" : "runtime";
}

static bool answer(void *context, const struct cli_jsonl_line *line, struct buf *out, struct err *e)
{
    struct context *c = context;
    const cJSON *variables = NULL;
    const struct chat_template *used = NULL;
    struct rendered r = {0};
    if (!json_get_object(line->root, "context", &variables, e))
        return false;
    if (variables)
        return answer_jinja(line, variables, out, e);
    if (render_case(c, (cJSON *)line->root, &r, &used, e))
        put_rendered(out, &r, c->settings->json ? used : NULL, line);
    else
        put_error(out, kind_of(e), e);
    rendered_fini(&r);
    return true;
}

static bool print_one(struct context *c, struct err *e)
{
    struct buf in = {0}, out = {0};
    struct rendered r = {0};
    const struct chat_template *used = NULL;
    const struct json_limits limits = {.max_bytes = INPUT_MAX, .max_depth = 256};
    bool ok = file_read_fd(STDIN_FILENO, INPUT_MAX, &in, e);
    cJSON *o = ok ? json_parse(in.data ? in.data : "", in.len, &limits, e) : NULL;
    ok = o && render_case(c, o, &r, &used, e);
    if (ok && c->settings->json) {
        put_rendered(&out, &r, used, NULL);
        buf_putc(&out, '\n');
    } else if (ok) {
        buf_append(&out, r.text.data ? r.text.data : "", r.text.len);
    }
    if (ok && (out.failed || fwrite(out.data ? out.data : "", 1, out.len, stdout) != out.len ||
               fflush(stdout)))
        ok = err_errno(e, "standard output");
    cJSON_Delete(o);
    rendered_fini(&r);
    buf_fini(&in);
    buf_fini(&out);
    return ok;
}

static bool open_context(struct context *c, struct err *e)
{
    if (c->settings->model)
        return text_model_open(&c->model, c->settings->model, NULL, e);
    return !strcmp(c->settings->template, "-") ||
           file_read(c->settings->template, TEMPLATE_MAX, &c->source, e);
}

static int run(int argc, char **argv)
{
    struct settings s;
    struct err e = {0};
    int status = cli_options(&cmd_template, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    if (!s.model && !s.template && s.jsonl)
        s.template = "-";
    if ((!s.model && !s.template) || (s.model && s.template))
        return cli_misused(&cmd_template, "one of --model and --template is needed");
    struct context c = {.settings = &s};
    status = 1;
    if (open_context(&c, &e)) {
        if (s.jsonl)
            status = cli_jsonl_run("template", answer, &c);
        else if (print_one(&c, &e))
            status = 0;
    }
    if (e.code)
        command_fail("template", &e);
    chat_template_destroy(&c.cached);
    buf_fini(&c.source);
    if (s.model)
        text_model_close(&c.model);
    return status;
}

const struct command cmd_template = {
    .name = "template",
    .usage = "--model M | --template FILE [--jsonl | --json]",
    .help = "renders messages with a model's chat template",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
