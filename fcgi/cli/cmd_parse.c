/* sluice parse: what a model wrote to reasoning, content and tool calls, as the API gives it out.
 * One case a line: {"format", "raw", "reasoning_opened_by_template", "tools", "chunks"}. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "engine/chat/chat_parser.h"
#include "engine/chat/chat_template.h"
#include "fcgi/cli/cli_jsonl.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/command.h"

enum { TEMPLATE_MAX = 4 << 20 };

struct settings {
    const char *format, *template;
    bool jsonl, deltas;
};

static const struct option options[] = {
    {"jsonl", OPTION_BOOL, offsetof(struct settings, jsonl), NULL, 0, 0, NULL, NULL,
     "one case a line to {\"reasoning_content\", \"content\", \"tool_calls\"}"},
    {"format", OPTION_STRING, offsetof(struct settings, format), NULL, 0, 0, NULL, "NAME",
     "in place of the cases' own; auto: as --template teaches"},
    {"template", OPTION_STRING, offsetof(struct settings, template), NULL, 0, 0, NULL, "FILE",
     "a chat template; without --jsonl its format is printed"},
    {"deltas", OPTION_BOOL, offsetof(struct settings, deltas), NULL, 0, 0, NULL, NULL,
     "also show the pieces as they were streamed"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_parse;

struct context {
    const struct settings *settings;
    struct chat_template *template;
};

struct result {
    struct buf reasoning, content, calls, deltas;
};

static void note_delta(struct buf *out, const struct chat_delta *d)
{
    static const char *const names[] = {"reasoning", "content", "call", "arguments", "call_end"};
    const char *text = d->type == CHAT_CALL ? d->name : d->text;
    buf_printf(out, "%s{\"%s\":", out->len ? "," : "", names[d->type]);
    if (d->type == CHAT_CALL_END)
        buf_printf(out, "%d}", d->index);
    else {
        buf_json_string(out, text, d->type == CHAT_CALL ? strlen(d->name) : d->len);
        buf_putc(out, '}');
    }
}

static void take_delta(void *context, const struct chat_delta *d)
{
    struct result *r = context;
    note_delta(&r->deltas, d);
    switch (d->type) {
    case CHAT_REASONING:
        buf_append(&r->reasoning, d->text, d->len);
        break;
    case CHAT_CONTENT:
        buf_append(&r->content, d->text, d->len);
        break;
    case CHAT_CALL:
        buf_printf(&r->calls, "%s{\"name\":", d->index ? "," : "");
        buf_json_string(&r->calls, d->name, strlen(d->name));
        buf_puts(&r->calls, ",\"arguments\":");
        break;
    case CHAT_ARGUMENTS:
        buf_append(&r->calls, d->text, d->len);
        break;
    default:
        buf_putc(&r->calls, '}');
    }
}

static void put_result(struct buf *out, const struct result *r, const char *format, bool deltas)
{
    buf_puts(out, "{\"format\":");
    buf_json_string(out, format, strlen(format));
    buf_puts(out, ",\"reasoning_content\":");
    buf_json_string(out, r->reasoning.data ? r->reasoning.data : "", r->reasoning.len);
    buf_puts(out, ",\"content\":");
    buf_json_string(out, r->content.data ? r->content.data : "", r->content.len);
    buf_printf(out, ",\"tool_calls\":[%s]", r->calls.data ? r->calls.data : "");
    if (deltas)
        buf_printf(out, ",\"deltas\":[%s]", r->deltas.data ? r->deltas.data : "");
    buf_putc(out, '}');
}

/* "chunks": the same text in pieces, as strings; or byte lengths to cut `raw` by. */
static bool push_all(struct chat_parser *p, const struct cli_jsonl_line *line, const char *raw,
                     const cJSON *chunks, struct err *e)
{
    struct buf text = {0};
    bool ok = cli_jsonl_text(line, raw, &text) || err_set(e, ERR_NOMEM, "memory ran out");
    size_t at = 0;
    for (const cJSON *c = chunks ? chunks->child : NULL; ok && c; c = c->next) {
        struct buf piece = {0};
        if (cJSON_IsString(c)) {
            ok = cli_jsonl_text(line, c->valuestring, &piece) &&
                 chat_parser_push(p, piece.data ? piece.data : "", piece.len, e);
            at = text.len;
        } else if (cJSON_IsNumber(c) && c->valuedouble >= 0) {
            size_t n =
                c->valuedouble < (double)(text.len - at) ? (size_t)c->valuedouble : text.len - at;
            ok = chat_parser_push(p, text.data + at, n, e);
            at += n;
        } else {
            ok = err_field(e, ERR_INPUT, "chunks", "neither strings nor lengths");
        }
        buf_fini(&piece);
    }
    if (ok && at < text.len)
        ok = chat_parser_push(p, text.data + at, text.len - at, e);
    ok = ok && chat_parser_finish(p, e);
    buf_fini(&text);
    return ok;
}

static const char *case_format(const struct context *c, const char *named)
{
    const char *format = c->settings->format ? c->settings->format : named;
    if ((!format || !strcmp(format, "auto")) && c->template)
        return chat_template_traits(c->template)->format;
    return format ? format : "plain";
}

static bool answer(void *context, const struct cli_jsonl_line *line, struct buf *out, struct err *e)
{
    const struct context *c = context;
    const char *format = NULL, *raw = "";
    const cJSON *chunks = NULL;
    struct result r = {0};
    struct chat_parser_params params = {.on_delta = take_delta, .context = &r};
    if (!json_get_string(line->root, "format", &format, e) ||
        !json_get_string(line->root, "raw", &raw, e) ||
        !json_get_bool(line->root, "reasoning_opened_by_template", &params.opens_reasoning, e) ||
        !json_get_array(line->root, "tools", &params.tools, e) ||
        !json_get_array(line->root, "chunks", &chunks, e))
        return false;
    params.format = case_format(c, format);
    struct chat_parser *p = chat_parser_create(&params, e);
    bool ok = p && push_all(p, line, raw, chunks, e);
    if (ok)
        put_result(out, &r, params.format, c->settings->deltas);
    chat_parser_destroy(&p);
    buf_fini(&r.reasoning);
    buf_fini(&r.content);
    buf_fini(&r.calls);
    buf_fini(&r.deltas);
    return ok;
}

static bool open_template(struct context *c, struct err *e)
{
    struct buf source = {0};
    if (!c->settings->template)
        return true;
    if (!file_read(c->settings->template, TEMPLATE_MAX, &source, e))
        return false;
    c->template = chat_template_compile(source.data ? source.data : "", source.len, "", "", e);
    buf_fini(&source);
    return c->template != NULL;
}

static int run(int argc, char **argv)
{
    struct settings s;
    struct err e = {0};
    int status = cli_options(&cmd_parse, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    if (!s.jsonl && !s.template)
        return cli_misused(&cmd_parse, "--jsonl or --template is needed");
    struct context c = {.settings = &s};
    status = 1;
    if (open_template(&c, &e)) {
        if (c.template && !s.jsonl) {
            const struct chat_traits *t = chat_template_traits(c.template);
            printf("{\"format\":\"%s\",\"opens_reasoning\":%s}\n", t->format,
                   t->opens_reasoning ? "true" : "false");
            status = 0;
        } else {
            status = cli_jsonl_run("parse", answer, &c);
        }
    }
    if (e.code)
        command_fail("parse", &e);
    chat_template_destroy(&c.template);
    return status;
}

const struct command cmd_parse = {
    .name = "parse",
    .usage = "--jsonl [--format NAME|auto] [--template FILE]",
    .help = "turns what a model wrote into reasoning, content and tool calls",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
