/* constraint.h: which tools may be called, and the one grammar for content and calls together. */
#include "fcgi/inference/constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "fcgi/inference/prompt.h"

/* ---- tools */

static const char *name_of(const cJSON *tool)
{
    return cJSON_GetStringValue(json_member(json_member(tool, "function"), "name"));
}

static bool has_tool(const cJSON *tools, const char *name)
{
    const cJSON *t;
    cJSON_ArrayForEach (t, tools)
        if (name && name_of(t) && !strcmp(name_of(t), name))
            return true;
    return false;
}

/* {"type": "function", "function": {"name": ...}}: one of the tools? */
static bool check_reference(const cJSON *o, const cJSON *tools, const char *field, struct err *e)
{
    const char *type = json_text(o, "type");
    if (!cJSON_IsObject(o) || !type || strcmp(type, "function") || !name_of(o))
        return err_field(e, ERR_INPUT, field,
                         "must be {\"type\": \"function\", \"function\": {\"name\": ...}}");
    return has_tool(tools, name_of(o)) ||
           err_field(e, ERR_INPUT, field, "'%.100s' is not among the tools", name_of(o));
}

static bool read_allowed(struct constraint *c, const cJSON *choice, const cJSON *tools,
                         struct err *e)
{
    const cJSON *o = json_member(choice, "allowed_tools"), *list = json_member(o, "tools"), *v;
    const char *mode = json_text(o, "mode");
    if (!mode || (strcmp(mode, "auto") && strcmp(mode, "required")))
        return err_field(e, ERR_INPUT, "tool_choice.allowed_tools.mode",
                         "must be auto or required");
    if (!cJSON_IsArray(list) || !list->child)
        return err_field(e, ERR_INPUT, "tool_choice.allowed_tools.tools",
                         "must be a list of tools");
    cJSON_ArrayForEach (v, list)
        if (!check_reference(v, tools, "tool_choice.allowed_tools.tools", e))
            return false;
    c->allowed = list;
    c->calls = strcmp(mode, "auto") ? TOOL_CHOICE_REQUIRED : TOOL_CHOICE_AUTO;
    return true;
}

bool constraint_read_choice(struct constraint *c, const cJSON *body, const cJSON *tools, bool *none,
                            struct err *e)
{
    const cJSON *choice = json_member(body, "tool_choice");
    const char *word = cJSON_GetStringValue(choice), *type = json_text(choice, "type");
    *none = word && !strcmp(word, "none");
    c->calls = tools && !*none ? TOOL_CHOICE_AUTO : TOOL_CHOICE_NONE;
    if (!choice || *none)
        return true;
    if (word ? strcmp(word, "auto") && strcmp(word, "required")
             : !type || (strcmp(type, "function") && strcmp(type, "allowed_tools")))
        return err_field(e, ERR_INPUT, "tool_choice",
                         "must be none, auto, required, a function or allowed_tools");
    if (!tools && word && !strcmp(word, "auto")) /* asks for nothing */
        return true;
    if (!tools)
        return err_field(e, ERR_INPUT, "tool_choice", "only goes with tools");
    if (word) {
        c->calls = strcmp(word, "auto") ? TOOL_CHOICE_REQUIRED : TOOL_CHOICE_AUTO;
        return true;
    }
    if (!strcmp(type, "allowed_tools"))
        return read_allowed(c, choice, tools, e);
    if (!check_reference(choice, tools, "tool_choice", e))
        return false;
    c->named = name_of(choice);
    c->calls = TOOL_CHOICE_REQUIRED;
    return true;
}

/* ---- the grammar */

static bool may_call(const struct constraint *c, const char *name)
{
    return c->named ? !strcmp(c->named, name) : !c->allowed || has_tool(c->allowed, name);
}

struct callable {
    struct call_tool *tools;
    size_t n;
    bool strict; /* one of them is */
};

static bool list_callable(const struct constraint *c, const cJSON *tools, struct callable *out,
                          struct err *e)
{
    const cJSON *t;
    int index = 0;
    *out = (struct callable){.tools =
                                 calloc((size_t)cJSON_GetArraySize(tools) + 1, sizeof *out->tools)};
    if (!out->tools)
        return err_set(e, ERR_NOMEM, "no memory for the tools");
    cJSON_ArrayForEach (t, tools) {
        const cJSON *f = json_member(t, "function");
        if (may_call(c, name_of(t))) {
            bool strict = cJSON_IsTrue(json_member(f, "strict"));
            out->tools[out->n++] =
                (struct call_tool){name_of(t), json_member(f, "parameters"), strict, index};
            out->strict |= strict;
        }
        index++;
    }
    return true;
}

static expr choice_of(const struct constraint *c, struct builder *b)
{
    struct expr_list all = {0};
    const cJSON *item;
    cJSON_ArrayForEach (item, c->choice)
        expr_list_add(b, &all, expr_text(b, item->valuestring));
    return expr_alt_list(b, &all);
}

/* The content's grammar; -1: *e, or none is wanted (then e is untouched). */
static expr content_of(const struct constraint *c, struct builder *b, struct json_schema *s,
                       struct err *e)
{
    if (c->gbnf)
        return gbnf_read(b, c->gbnf, strlen(c->gbnf), e);
    if (c->regex)
        return regex_read_whole(b, c->regex, expr_class, e);
    if (c->choice)
        return choice_of(c, b);
    if (c->schema)
        return json_schema_read(s, c->schema, c->strict, e);
    return c->json_object ? json_schema_any_object(s) : -1;
}

/* Has the template closed the reasoning already, since none was wanted? */
static bool reasoning_is_closed(const struct prompt *p)
{
    const char *open, *close;
    const struct buf *text = &p->rendered.text;
    size_t n = text->len;
    if (!p->format || !chat_format_reasoning(p->format, &open, &close))
        return false;
    while (n && strchr(" \n", text->data[n - 1]))
        n--;
    return n >= strlen(close) && !memcmp(text->data + n - strlen(close), close, strlen(close));
}

static void shape_of(struct answer_shape *a, const struct constraint *c,
                     const struct constraint_place *p, const struct callable *tools)
{
    const struct chat_template *t = p->model->chat_template;
    *a = (struct answer_shape){.vocab = p->model->vocab, .content = -1};
    if (!p->prompt)
        return;
    a->format = p->prompt->format;
    a->opens_reasoning = p->prompt->opens_reasoning;
    a->may_reason = t && chat_template_traits(t)->thinking && !reasoning_is_closed(p->prompt);
    a->tools = tools->tools;
    a->n_tools = tools->n;
    a->calls = c->calls;
    a->one_call = p->one_call;
}

/* Whatever is wrong with a grammar is wrong with the request. */
static bool blame(const struct constraint *c, struct err *e)
{
    if (e->code == ERR_LIMIT)
        e->code = ERR_INPUT;
    if (!e->field[0] && e->code != ERR_NOMEM)
        snprintf(e->field, sizeof e->field, "%s", c->field ? c->field : "tools");
    return false;
}

static bool compile(const struct constraint *c, struct answer_shape *a, struct buf *out,
                    struct err *e)
{
    struct err mine = {0};
    struct builder *b = builder_create(0, &mine);
    struct json_schema *s = b ? json_schema_create(b, &mine) : NULL;
    if (s)
        a->content = content_of(c, b, s, &mine);
    expr x = s && !mine.code ? answer_grammar(b, s, a, &mine) : -1;
    bool ok = x >= 0 && builder_finish(b, x, out, &mine);
    json_schema_destroy(&s);
    builder_destroy(&b);
    if (ok)
        return true;
    *e = mine;
    return blame(c, e);
}

bool constraint_compile(const struct constraint *c, const struct constraint_place *p,
                        struct buf *out, struct err *e)
{
    struct callable callable;
    struct answer_shape a;
    if (!list_callable(c, c->calls == TOOL_CHOICE_NONE || !p->prompt ? NULL : p->tools, &callable,
                       e))
        return false;
    bool content = c->gbnf || c->regex || c->choice || c->schema || c->json_object;
    bool calls = c->calls == TOOL_CHOICE_REQUIRED ||
                 (c->calls == TOOL_CHOICE_AUTO && (callable.strict || c->allowed));
    bool ok = true;
    if (content || calls) {
        shape_of(&a, c, p, &callable);
        ok = compile(c, &a, out, e);
    }
    free(callable.tools);
    return ok;
}
