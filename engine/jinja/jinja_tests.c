/* Jinja's tests, which stand behind `is`: defined, string, mapping and so on. */
#include <math.h>
#include <string.h>
#include <utf8proc.h>

#include "engine/jinja/jinja_run.h"

enum {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    IS_INTEGER,
    IS_FLOAT,
    IS_NUMBER,
    IS_STRING,
    IS_MAPPING,
    IS_SEQUENCE,
    IS_ITERABLE,
    IS_CALLABLE,
    IS_ESCAPED
};

static struct jvalue test_type(struct jcall *c)
{
    struct jvalue v = c->self;
    switch (c->op) {
    case IS_DEFINED:
        return jinja_bool(v.type != J_UNDEFINED);
    case IS_UNDEFINED:
        return jinja_bool(v.type == J_UNDEFINED);
    case IS_NONE:
        return jinja_bool(v.type == J_NONE);
    case IS_BOOLEAN:
        return jinja_bool(v.type == J_BOOL);
    case IS_TRUE:
        return jinja_bool(v.type == J_BOOL && v.as.b);
    case IS_FALSE:
        return jinja_bool(v.type == J_BOOL && !v.as.b);
    case IS_INTEGER:
        return jinja_bool(v.type == J_INT || v.type == J_BIG);
    case IS_FLOAT:
        return jinja_bool(v.type == J_FLOAT);
    case IS_NUMBER:
        return jinja_bool(jinja_is_number(v));
    case IS_STRING:
        return jinja_bool(v.type == J_STRING);
    case IS_MAPPING:
        return jinja_bool(v.type == J_DICT);
    case IS_SEQUENCE: /* has a length and items; Undefined has both */
        return jinja_bool(v.type == J_UNDEFINED || v.type == J_STRING || v.type == J_BYTES ||
                          v.type == J_LIST || v.type == J_TUPLE || v.type == J_DICT ||
                          v.type == J_RANGE);
    case IS_ITERABLE:
        return jinja_bool(v.type == J_UNDEFINED || (v.type >= J_STRING && v.type <= J_VIEW) ||
                          v.type == J_LOOP);
    case IS_CALLABLE:
        return jinja_bool(v.type == J_UNDEFINED || v.type == J_FUNCTION || v.type == J_METHOD ||
                          v.type == J_MACRO || v.type == J_LOOP || v.type == J_JOINER);
    default:
        return jinja_bool(v.type == J_STRING && v.as.s->markup);
    }
}

static struct jvalue test_compare(struct jcall *c)
{
    return jinja_bool(jinja_compare(c->r, c->op, c->self, c->p[0]));
}

static struct jvalue test_divisible(struct jcall *c)
{
    struct jvalue by = c->op ? jinja_int(2) : c->p[0];
    struct jvalue rest = jinja_binary(c->r, OP_MOD, c->self, by);
    bool zero = jinja_is_number(rest) && jinja_double(rest) == 0;
    return jinja_bool(c->op == 'o' ? !zero && jinja_is_number(rest) && jinja_double(rest) == 1
                                   : zero);
}

static struct jvalue test_case(struct jcall *c)
{
    const struct jstring *s = jinja_str(c->r, c->self).as.s;
    const struct jbuiltin *b = c->op ? jinja_find_builtin(jinja_string_checks, "isupper", 7)
                                     : jinja_find_builtin(jinja_string_checks, "islower", 7);
    return jinja_call_builtin(c->r, b,
                              (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)s},
                              &(struct jargs){0});
}

/* The same object; for what Python keeps once (None, True, small numbers), the same value. */
static struct jvalue test_same(struct jcall *c)
{
    struct jvalue a = c->self, b = c->p[0];
    if (a.type != b.type)
        return jinja_bool(false);
    if (a.type == J_STRING)
        return jinja_bool(a.as.s == b.as.s || jinja_equal(c->r, a, b));
    if (a.type < J_STRING)
        return jinja_bool(jinja_equal(c->r, a, b));
    return jinja_bool(a.as.p == b.as.p);
}

static struct jvalue test_named(struct jcall *c)
{
    const struct jstring *name = jinja_str(c->r, c->self).as.s;
    return jinja_bool(c->op ? jinja_find_test(name->data, name->len) != NULL
                            : jinja_find_filter(name->data, name->len) != NULL);
}

const struct jbuiltin jinja_tests[] = {
    {"defined", "", test_type, IS_DEFINED},
    {"undefined", "", test_type, IS_UNDEFINED},
    {"none", "", test_type, IS_NONE},
    {"boolean", "", test_type, IS_BOOLEAN},
    {"true", "", test_type, IS_TRUE},
    {"false", "", test_type, IS_FALSE},
    {"integer", "", test_type, IS_INTEGER},
    {"float", "", test_type, IS_FLOAT},
    {"number", "", test_type, IS_NUMBER},
    {"string", "", test_type, IS_STRING},
    {"mapping", "", test_type, IS_MAPPING},
    {"sequence", "", test_type, IS_SEQUENCE},
    {"iterable", "", test_type, IS_ITERABLE},
    {"callable", "", test_type, IS_CALLABLE},
    {"escaped", "", test_type, IS_ESCAPED},
    {"eq", "other!", test_compare, OP_EQ},
    {"equalto", "other!", test_compare, OP_EQ},
    {"==", "other!", test_compare, OP_EQ},
    {"ne", "other!", test_compare, OP_NE},
    {"!=", "other!", test_compare, OP_NE},
    {"lt", "other!", test_compare, OP_LT},
    {"lessthan", "other!", test_compare, OP_LT},
    {"<", "other!", test_compare, OP_LT},
    {"le", "other!", test_compare, OP_LE},
    {"<=", "other!", test_compare, OP_LE},
    {"gt", "other!", test_compare, OP_GT},
    {"greaterthan", "other!", test_compare, OP_GT},
    {">", "other!", test_compare, OP_GT},
    {"ge", "other!", test_compare, OP_GE},
    {">=", "other!", test_compare, OP_GE},
    {"in", "seq!", test_compare, OP_IN},
    {"odd", "", test_divisible, 'o'},
    {"even", "", test_divisible, 'e'},
    {"divisibleby", "num!", test_divisible, 0},
    {"lower", "", test_case, 0},
    {"upper", "", test_case, 1},
    {"sameas", "other!", test_same, 0},
    {"filter", "", test_named, 0},
    {"test", "", test_named, 1},
    {NULL, NULL, NULL, 0},
};
