/* Builds grammars for the arguments of calls: as one JSON object, or each value between tags of its
 * own. */
#include "engine/grammar/call_values.h"

#include <stdio.h>
#include <string.h>

#include "engine/grammar/expr_without.h"

static expr refuse(struct answer *x, const struct call_tool *t, const struct err *why)
{
    char field[64];
    snprintf(field, sizeof field, "tools[%d].function.parameters", t->index);
    err_field(x->e, why->code, field, "%s", why->text);
    return -1;
}

expr call_arguments(struct answer *x, size_t i)
{
    const struct call_tool *t = &x->a->tools[i];
    struct err why = {0};
    if (!t->parameters)
        return expr_text(x->b, "{}");
    bool object = json_schema_is_object(x->s, t->parameters);
    expr arguments = object ? json_schema_read(x->s, t->parameters, t->strict, &why) : -1;
    if (!object)
        err_set(&why, ERR_INPUT, "with strict the parameters must be a schema of type 'object'");
    if (arguments >= 0)
        return arguments;
    if (t->strict || why.code == ERR_NOMEM)
        return refuse(x, t, &why);
    return json_schema_any_object(x->s);
}

struct values {
    struct answer *x;
    const struct call_tags *tags;
    struct expr_list list;
};

static bool add_value(void *context, const struct json_parameter *p)
{
    struct values *v = context;
    struct builder *b = v->x->b;
    expr one =
        expr_seq(b,
                 (expr[]){expr_text(b, v->tags->open), expr_text(b, p->name),
                          expr_text(b, v->tags->between), p->value, expr_text(b, v->tags->close)},
                 5);
    if (expr_is_never(b, p->value)) {
        if (p->required)
            expr_list_add(b, &v->list, p->value);
        return true;
    }
    expr_list_add(b, &v->list, p->required ? one : expr_optional(b, one));
    return true;
}

/* Any names, any text: for a schema that can't be followed here. */
static expr free_values(struct answer *x, const struct call_tags *tags)
{
    struct builder *b = x->b;
    static const struct cp_range name[] = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}};
    expr text = expr_text_without(b, &tags->stop, 1, expr_text(b, tags->close));
    expr rule = expr_rule(b, NULL);
    expr_define(
        b, rule,
        expr_seq(b,
                 (expr[]){expr_text(b, tags->open), expr_repeat(b, expr_class(b, name, 4), 1, 64),
                          expr_text(b, tags->between), text},
                 4));
    return expr_repeat(b, rule, 0, 32);
}

expr call_parameters(struct answer *x, size_t i, const struct call_tags *tags)
{
    const struct call_tool *t = &x->a->tools[i];
    struct values v = {.x = x, .tags = tags};
    struct err why = {0};
    if (!t->parameters)
        return expr_empty(x->b);
    bool object = json_schema_is_object(x->s, t->parameters);
    if (!object)
        err_set(&why, ERR_INPUT, "with strict the parameters must be a schema of type 'object'");
    const struct json_parameter_sink sink = {
        .strict = t->strict, .stop = tags->stop, .give = add_value, .context = &v};
    if (object && json_schema_parameters(x->s, t->parameters, &sink, &why))
        return expr_seq_list(x->b, &v.list);
    if (t->strict || why.code == ERR_NOMEM)
        return refuse(x, t, &why);
    return free_values(x, tags);
}
