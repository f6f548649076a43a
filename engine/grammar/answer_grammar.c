/* One row per format: how a section of calls is written. Tags that are control tokens of the
 * vocabulary are written as such, others as text. */
#include "engine/grammar/answer_grammar.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/chat/chat_parser.h"
#include "engine/grammar/call_values.h"
#include "engine/grammar/expr_without.h"

#define MAX_CALLS 64 /* in one answer: fcgi/inference/generation.h takes no more */

/* ---- pieces */

static bool is_control(const struct vocab *v, const char *tag)
{
    int32_t id = v ? vocab_find(v, tag, strlen(tag)) : -1;
    return id >= 0 && vocab_flags(v, id) & VOCAB_SPECIAL;
}

static expr tag(struct answer *x, const char *text)
{
    if (is_control(x->a->vocab, text))
        return expr_token(x->b, vocab_find(x->a->vocab, text, strlen(text)));
    return expr_text(x->b, text);
}

static expr text_of(struct answer *x, const char *text)
{
    return expr_text(x->b, text);
}

/* A JSON string's text without its quotes. */
static expr json_name(struct answer *x, const char *name)
{
    struct buf text = {0};
    buf_json_string(&text, name, strlen(name));
    expr e = text.len > 2 ? expr_bytes(x->b, text.data + 1, text.len - 2) : expr_empty(x->b);
    buf_fini(&text);
    return e;
}

/* Free text until a tag, which is read too. */
static expr text_until(struct answer *x, const char *end)
{
    bool control = is_control(x->a->vocab, end);
    return expr_text_without(x->b, &end, control ? 0 : 1, tag(x, end));
}

/* n >= 1 of item, with a separator, as many as may be called. */
static expr several(struct answer *x, expr item, expr separator)
{
    expr rule = expr_rule(x->b, "call");
    expr_define(x->b, rule, item);
    if (x->a->one_call)
        return rule;
    return expr_seq2(x->b, rule,
                     expr_repeat(x->b, expr_seq2(x->b, separator, rule), 0, MAX_CALLS - 1));
}

/* before NAME between ARGUMENTS after, for each tool. */
static expr json_calls(struct answer *x, const char *before, const char *between, const char *after)
{
    struct expr_list all = {0};
    for (size_t i = 0; i < x->a->n_tools; i++) {
        expr arguments = call_arguments(x, i);
        if (arguments < 0)
            return -1;
        expr_list_add(x->b, &all,
                      expr_seq(x->b,
                               (expr[]){text_of(x, before), json_name(x, x->a->tools[i].name),
                                        text_of(x, between), arguments, text_of(x, after)},
                               5));
    }
    return expr_alt_list(x->b, &all);
}

/* ---- formats */

static expr hermes(struct answer *x)
{
    expr call = json_calls(x, "\n{\"name\": \"", "\", \"arguments\": ", "}\n");
    return call < 0
               ? -1
               : several(x, expr_seq3(x->b, tag(x, "<tool_call>"), call, tag(x, "</tool_call>")),
                         text_of(x, "\n"));
}

static expr coder_call(struct answer *x)
{
    struct expr_list all = {0};
    const struct call_tags tags = {"<parameter=", ">\n", "\n</parameter>\n", "</parameter>"};
    for (size_t i = 0; i < x->a->n_tools; i++) {
        expr values = call_parameters(x, i, &tags);
        if (values < 0)
            return -1;
        expr_list_add(x->b, &all,
                      expr_seq(x->b,
                               (expr[]){text_of(x, "\n<function="), text_of(x, x->a->tools[i].name),
                                        text_of(x, ">\n"), values, text_of(x, "</function>\n")},
                               5));
    }
    return expr_alt_list(x->b, &all);
}

static expr coder(struct answer *x)
{
    expr call = coder_call(x);
    return call < 0
               ? -1
               : several(x, expr_seq3(x->b, tag(x, "<tool_call>"), call, tag(x, "</tool_call>")),
                         text_of(x, "\n"));
}

static expr pairs_call(struct answer *x)
{
    struct expr_list all = {0};
    const struct call_tags tags = {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n",
                                   "</arg_value>"};
    for (size_t i = 0; i < x->a->n_tools; i++) {
        expr values = call_parameters(x, i, &tags);
        if (values < 0)
            return -1;
        expr_list_add(x->b, &all,
                      expr_seq3(x->b, text_of(x, x->a->tools[i].name), text_of(x, "\n"), values));
    }
    return expr_alt_list(x->b, &all);
}

static expr pairs(struct answer *x)
{
    expr call = pairs_call(x);
    return call < 0
               ? -1
               : several(x, expr_seq3(x->b, tag(x, "<tool_call>"), call, tag(x, "</tool_call>")),
                         text_of(x, "\n"));
}

/* Ling writes JSON or pairs, by its version; both are read. */
static expr bailing(struct answer *x)
{
    expr json = json_calls(x, "\n{\"name\": \"", "\", \"arguments\": ", "}\n"),
         by_pairs = json < 0 ? -1 : pairs_call(x);
    if (json < 0 || by_pairs < 0)
        return -1;
    return several(x,
                   expr_seq3(x->b, tag(x, "<tool_call>"), expr_alt2(x->b, json, by_pairs),
                             tag(x, "</tool_call>")),
                   text_of(x, "\n"));
}

static expr minimax(struct answer *x)
{
    struct expr_list all = {0};
    const struct call_tags tags = {"<parameter name=\"", "\">", "</parameter>\n", "</parameter>"};
    for (size_t i = 0; i < x->a->n_tools; i++) {
        expr values = call_parameters(x, i, &tags);
        if (values < 0)
            return -1;
        expr_list_add(
            x->b, &all,
            expr_seq(x->b,
                     (expr[]){text_of(x, "<invoke name=\""), text_of(x, x->a->tools[i].name),
                              text_of(x, "\">\n"), values, text_of(x, "</invoke>\n")},
                     5));
    }
    expr calls = several(x, expr_alt_list(x->b, &all), expr_empty(x->b));
    return expr_seq(x->b,
                    (expr[]){tag(x, "<minimax:tool_call>"), text_of(x, "\n"), calls,
                             tag(x, "</minimax:tool_call>")},
                    4);
}

struct section { /* DeepSeek, Kimi */
    const char *begin, *call, *separator, *call_end, *end;
    const char *before_name, *after_name, *after_arguments;
};

static expr section_calls(struct answer *x, const struct section *t, const char *fixed_head)
{
    struct expr_list all = {0};
    for (size_t i = 0; i < x->a->n_tools; i++) {
        expr arguments = call_arguments(x, i);
        if (arguments < 0)
            return -1;
        expr name = expr_seq3(x->b, text_of(x, t->before_name), text_of(x, x->a->tools[i].name),
                              text_of(x, t->after_name));
        if (fixed_head) /* the name stands behind the separator */
            name = expr_seq3(x->b, text_of(x, fixed_head), tag(x, t->separator), name);
        else if (strchr(t->before_name, '.')) /* functions.NAME:0 */
            name = expr_seq3(x->b, name, expr_repeat(x->b, expr_byte_range(x->b, '0', '9'), 1, 3),
                             tag(x, t->separator));
        else
            name = expr_seq2(x->b, name, tag(x, t->separator));
        expr_list_add(x->b, &all,
                      expr_seq(x->b,
                               (expr[]){tag(x, t->call), name, arguments,
                                        text_of(x, t->after_arguments), tag(x, t->call_end)},
                               5));
    }
    expr calls = several(x, expr_alt_list(x->b, &all), expr_optional(x->b, text_of(x, "\n")));
    return expr_seq3(x->b, tag(x, t->begin), calls, tag(x, t->end));
}

#define DEEPSEEK                                                                                   \
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",    \
        "<｜tool▁calls▁end｜>"

static expr deepseek_v3(struct answer *x)
{
    static const struct section t = {DEEPSEEK, "", "\n```json\n", "\n```"};
    return section_calls(x, &t, "function");
}

static expr deepseek_v31(struct answer *x)
{
    static const struct section t = {DEEPSEEK, "", "", ""};
    return section_calls(x, &t, NULL);
}

static expr kimi(struct answer *x)
{
    static const struct section t = {"<|tool_calls_section_begin|>",
                                     "<|tool_call_begin|>",
                                     "<|tool_call_argument_begin|>",
                                     "<|tool_call_end|>",
                                     "<|tool_calls_section_end|>",
                                     "functions.",
                                     ":",
                                     ""};
    return section_calls(x, &t, NULL);
}

/* A list of objects, or NAME[ARGS]{...}, by the version; both are read. */
static expr mistral(struct answer *x)
{
    expr call = json_calls(x, "{\"name\": \"", "\", \"arguments\": ", "}"), args = tag(x, "[ARGS]");
    struct expr_list named = {0};
    for (size_t i = 0; call >= 0 && i < x->a->n_tools; i++)
        expr_list_add(x->b, &named,
                      expr_seq3(x->b, text_of(x, x->a->tools[i].name), args, call_arguments(x, i)));
    if (call < 0)
        return -1;
    expr open = tag(x, "[TOOL_CALLS]");
    expr list = expr_seq(
        x->b, (expr[]){open, text_of(x, "["), several(x, call, text_of(x, ", ")), text_of(x, "]")},
        4);
    return expr_alt2(
        x->b, list,
        several(x, expr_seq2(x->b, open, expr_alt_list(x->b, &named)), expr_empty(x->b)));
}

static expr llama3(struct answer *x)
{
    expr call = json_calls(x, "{\"name\": \"", "\", \"parameters\": ", "}");
    if (call < 0)
        return -1;
    return expr_seq2(x->b, expr_optional(x->b, tag(x, "<|python_tag|>")),
                     several(x, call, text_of(x, "; ")));
}

/* ---- harmony: messages with headers; an answer ends with its first call */

static expr harmony_call(struct answer *x)
{
    struct expr_list all = {0};
    expr channel = tag(x, "<|channel|>"), message = tag(x, "<|message|>");
    expr json = expr_seq2(x->b, tag(x, "<|constrain|>"), text_of(x, "json"));
    for (size_t i = 0; i < x->a->n_tools; i++) {
        expr arguments = call_arguments(x, i);
        if (arguments < 0)
            return -1;
        expr to = expr_seq2(x->b, text_of(x, " to=functions."), text_of(x, x->a->tools[i].name));
        expr inside =
            expr_seq(x->b, (expr[]){channel, text_of(x, "commentary"), to, text_of(x, " ")}, 4);
        expr before = expr_seq3(x->b, to, channel, text_of(x, "commentary "));
        expr_list_add(x->b, &all,
                      expr_seq(x->b,
                               (expr[]){expr_alt2(x->b, inside, before), expr_optional(x->b, json),
                                        message, arguments},
                               4));
    }
    return expr_alt_list(x->b, &all);
}

static expr harmony(struct answer *x, expr content)
{
    struct builder *b = x->b;
    expr channel = tag(x, "<|channel|>"), message = tag(x, "<|message|>");
    expr next = expr_seq2(b, tag(x, "<|start|>"), text_of(x, "assistant"));
    expr kind = expr_alt2(b, text_of(x, "analysis"), text_of(x, "commentary"));
    expr thought = expr_seq(b, (expr[]){channel, kind, message, text_until(x, "<|end|>"), next}, 5);
    expr rule = expr_rule(b, "message");
    expr json = expr_seq3(b, text_of(x, " "), tag(x, "<|constrain|>"), text_of(x, "json"));
    expr final = expr_seq(
        b, (expr[]){channel, text_of(x, "final"), expr_optional(b, json), message, content}, 5);
    expr_define(b, rule, thought);
    expr last = final;
    if (x->a->calls != TOOL_CHOICE_NONE) {
        expr call = harmony_call(x);
        if (call < 0)
            return -1;
        last = x->a->calls == TOOL_CHOICE_REQUIRED ? call : expr_alt2(b, call, final);
    }
    return expr_seq2(b, expr_repeat(b, rule, 0, 8), last);
}

/* ---- the rest */

static const struct row {
    const char *format;
    expr (*calls)(struct answer *x);
    const char *openers[3]; /* what free text before a call never holds */
} rows[] = {
    {"hermes", hermes, {"<tool_call>"}},
    {"qwen3_coder", coder, {"<tool_call>", "<function="}},
    {"bailing", bailing, {"<tool_call>"}},
    {"glm", pairs, {"<tool_call>"}},
    {"deepseek_v3", deepseek_v3, {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"}},
    {"deepseek_v3.1", deepseek_v31, {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"}},
    {"kimi_k2", kimi, {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"}},
    {"minimax_m2", minimax, {"<minimax:tool_call>"}},
    {"mistral", mistral, {"[TOOL_CALLS]"}},
    {"llama3", llama3, {NULL}},
};

/* Free text, at whose end calls may follow. */
static expr text_then(struct answer *x, const struct row *row, expr calls)
{
    struct builder *b = x->b;
    const char *stops[3];
    size_t n = 0;
    expr after = expr_alt2(b, expr_empty(b), calls);
    for (int i = 0; i < 3 && row->openers[i]; i++)
        if (!is_control(x->a->vocab, row->openers[i]))
            stops[n++] = row->openers[i];
    if (strcmp(row->format, "llama3"))
        return expr_text_without(b, stops, n, after);
    /* a call is the whole answer here: text does not begin as one */
    static const struct cp_range no[] = {{0, ' '}, {'{', '{'}, {'<', '<'}};
    expr text =
        expr_seq2(b, expr_class_not(b, no, 3), expr_text_without(b, NULL, 0, expr_empty(b)));
    return expr_alt2(b, text, calls);
}

static expr body(struct answer *x)
{
    const struct answer_shape *a = x->a;
    expr text = a->content;
    size_t i = 0;
    if (a->calls == TOOL_CHOICE_NONE)
        return text >= 0 ? text : expr_text_without(x->b, NULL, 0, expr_empty(x->b));
    while (i < sizeof rows / sizeof *rows && strcmp(rows[i].format, a->format))
        i++;
    if (i == sizeof rows / sizeof *rows) {
        err_field(x->e, ERR_UNSUPPORTED, "tools", "this model's answers have no form for calls");
        return -1;
    }
    expr calls = rows[i].calls(x);
    if (calls < 0 || a->calls == TOOL_CHOICE_REQUIRED)
        return calls;
    return text >= 0 ? expr_alt2(x->b, text, calls) : text_then(x, &rows[i], calls);
}

/* White space between reasoning and answer, which the parser drops. */
static expr gap(struct builder *b)
{
    return expr_repeat(b, expr_class(b, (struct cp_range[]){{'\n', '\n'}, {' ', ' '}}, 2), 0, 4);
}

expr answer_grammar(struct builder *b, struct json_schema *s, const struct answer_shape *a,
                    struct err *e)
{
    struct answer x = {.b = b, .s = s, .a = a, .e = e};
    const char *open = NULL, *close = NULL;
    if (a->format && !strcmp(a->format, "harmony"))
        return harmony(&x,
                       a->content >= 0 ? a->content : expr_text_without(b, NULL, 0, expr_empty(b)));
    expr main = body(&x);
    if (main < 0 || !a->format || !chat_format_reasoning(a->format, &open, &close))
        return main;
    if (a->opens_reasoning)
        return expr_seq3(b, text_until(&x, close), gap(b), main);
    if (!a->may_reason)
        return main;
    expr reasoning = expr_seq3(b, tag(&x, open), text_until(&x, close), gap(b));
    return expr_seq2(b, expr_optional(b, reasoning), main);
}
