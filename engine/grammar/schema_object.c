/* Objects: the declared properties in the schema's order, then others where the schema speaks of
 * them. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/utf8.h"
#include "engine/grammar/schema_internal.h"

#define MAX_PROPERTIES 2000
#define MAX_NAME 400 /* bytes, where other names must differ from it */

struct object {
    const cJSON *properties, *additional;
    struct expr_list pairs; /* rules: "name": value */
    bool *required;         /* [pairs.n] beside them */
    size_t n_names;
    expr other; /* a pair with another name; -1: none may come */
};

static bool is_required(const cJSON *required, const char *name)
{
    const cJSON *v;
    cJSON_ArrayForEach (v, required)
        if (!strcmp(v->valuestring, name))
            return true;
    return false;
}

bool schema_has_names(struct json_schema *s, const cJSON *schema)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    return !properties || cJSON_IsObject(properties) ||
           schema_fail(s, ERR_INPUT, "'properties' must be an object") >= 0;
}

static bool check_object(struct json_schema *s, const cJSON *schema, const cJSON *required)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"), *v;
    const cJSON *additional = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    if (!schema_has_names(s, schema))
        return false;
    if (required && !cJSON_IsArray(required))
        return schema_fail(s, ERR_INPUT, "'required' must be a list of names") >= 0;
    cJSON_ArrayForEach (v, required)
        if (!cJSON_IsString(v))
            return schema_fail(s, ERR_INPUT, "'required' must be a list of names") >= 0;
    if (cJSON_GetArraySize(properties) + cJSON_GetArraySize(required) > MAX_PROPERTIES)
        return schema_fail(s, ERR_LIMIT, "more than %d properties", MAX_PROPERTIES) >= 0;
    if (!s->strict)
        return true;
    if (!cJSON_IsFalse(additional))
        return schema_fail(s, ERR_INPUT,
                           "with strict every object needs 'additionalProperties': false") >= 0;
    cJSON_ArrayForEach (v, properties)
        if (!is_required(required, v->string))
            return schema_fail(
                       s, ERR_INPUT,
                       "with strict 'required' must name every property; '%.60s' is missing",
                       v->string) >= 0;
    return true;
}

static bool add_pair(struct json_schema *s, struct object *o, const char *name, expr value,
                     bool required)
{
    expr rule = expr_rule(s->b, NULL);
    if (value < 0)
        return false;
    if (expr_is_never(s->b, value)) {
        if (required)
            return schema_fail(s, ERR_INPUT, "the property '%.60s' is required and can never be",
                               name) >= 0;
        return true; /* never written */
    }
    expr_define(s->b, rule, expr_seq2(s->b, schema_key(s, name), value));
    o->required[o->pairs.n] = required;
    expr_list_add(s->b, &o->pairs, rule);
    return true;
}

/* Declared properties, then required ones that are not declared but allowed by
 * additionalProperties. */
static bool read_pairs(struct json_schema *s, struct object *o, const cJSON *required)
{
    const cJSON *v;
    cJSON_ArrayForEach (v, o->properties)
        if (!add_pair(s, o, v->string, schema_read_at(s, v, "properties", v->string),
                      is_required(required, v->string)))
            return false;
    cJSON_ArrayForEach (v, required) {
        if (cJSON_GetObjectItemCaseSensitive(o->properties, v->valuestring))
            continue;
        if (cJSON_IsFalse(o->additional))
            return schema_fail(s, ERR_INPUT, "'required' names '%.60s', which no property may be",
                               v->valuestring) >= 0;
        expr value = o->additional ? schema_read_at(s, o->additional, "additionalProperties", NULL)
                                   : json_schema_any(s);
        if (!add_pair(s, o, v->valuestring, value, true))
            return false;
    }
    return true;
}

/* ---- other names */

struct names {
    const char *const *list; /* the rest of each name that begins as what was read */
    size_t n;
};

/* The rest of a name, with its quote, that makes none of `names`. No escapes: another spelling
 * would be the same name. */
static expr other_name(struct json_schema *s, const struct names *names)
{
    struct builder *b = s->b;
    struct expr_list all = {0};
    struct cp_range *taken = malloc((names->n + 3) * sizeof *taken);
    size_t n_taken = 0;
    bool ends = false;
    const char **rest = malloc((names->n + 1) * sizeof *rest);
    bool *done = calloc(names->n + 1, sizeof *done);
    if (!rest || !done || !taken) {
        free(taken);
        free(rest);
        free(done);
        return schema_fail(s, ERR_NOMEM, "no memory");
    }
    taken[n_taken++] = (struct cp_range){0, 0x1F};
    taken[n_taken++] = (struct cp_range){'"', '"'};
    taken[n_taken++] = (struct cp_range){'\\', '\\'};
    for (size_t i = 0; i < names->n; i++) {
        uint32_t first, cp;
        struct names under = {rest, 0};
        if (!names->list[i][0]) {
            ends = true;
            continue;
        }
        if (done[i])
            continue;
        size_t size = utf8_next((const unsigned char *)names->list[i], &first);
        for (size_t k = i; k < names->n; k++)
            if (names->list[k][0] &&
                (utf8_next((const unsigned char *)names->list[k], &cp), cp == first)) {
                done[k] = true;
                rest[under.n++] = names->list[k] + size;
            }
        if (first < 0x20 || first == '"' || first == '\\')
            continue; /* can't be read here anyway */
        taken[n_taken++] = (struct cp_range){first, first};
        expr rule = expr_rule(b, NULL);
        expr body = other_name(s, &under);
        if (body < 0)
            break;
        expr_define(b, rule, body);
        expr_list_add(b, &all, expr_seq2(b, expr_bytes(b, names->list[i], size), rule));
    }
    free(rest);
    free(done);
    expr_list_add(b, &all, expr_seq2(b, expr_class_not(b, taken, n_taken), s->key_character));
    free(taken);
    if (!ends)
        expr_list_add(b, &all, expr_text(b, "\""));
    return expr_alt_list(b, &all);
}

static expr other_pair(struct json_schema *s, const struct object *o, const cJSON *required,
                       expr value)
{
    struct builder *b = s->b;
    const cJSON *v;
    const char **list = malloc((MAX_PROPERTIES + 1) * sizeof *list);
    struct names names = {list, 0};
    size_t bytes = 0;
    if (!list)
        return schema_fail(s, ERR_NOMEM, "no memory");
    cJSON_ArrayForEach (v, o->properties)
        list[names.n++] = v->string;
    cJSON_ArrayForEach (v, required)
        if (!cJSON_GetObjectItemCaseSensitive(o->properties, v->valuestring))
            list[names.n++] = v->valuestring;
    for (size_t i = 0; i < names.n; i++)
        bytes = strlen(list[i]) > bytes ? strlen(list[i]) : bytes;
    expr key;
    if (names.n && s->key_character < 0) { /* the rest of a name, once it differs from all */
        static const struct cp_range plain[] = {
            {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}};
        expr c = expr_class(b, plain, 3);
        expr_mark_plain(b, c);
        s->key_character = expr_rule(b, NULL);
        expr_define(b, s->key_character,
                    expr_seq2(b, expr_repeat(b, c, 0, EXPR_NO_MAX), expr_text(b, "\"")));
    }
    if (bytes > MAX_NAME)
        key =
            schema_fail(s, ERR_LIMIT, "names over %d bytes beside additional properties", MAX_NAME);
    else if (names.n)
        key = other_name(s, &names);
    else
        key = schema_any_string(s);
    free(list);
    if (key < 0)
        return key;
    if (names.n)
        key = expr_seq2(b, expr_text(b, "\""), key);
    expr rule = expr_rule(b, NULL);
    expr_define(b, rule, expr_seq(b, (expr[]){key, expr_text(b, ":"), schema_space(s), value}, 4));
    return rule;
}

/* ---- together */

/* Behind something: each pair with its comma, the optional ones or not, then others. tails[i]: from
 * pair i on. */
static expr *make_tails(struct json_schema *s, const struct object *o)
{
    struct builder *b = s->b;
    expr comma = expr_text(b, ","), space = schema_space(s);
    expr *tails = malloc((o->pairs.n + 1) * sizeof *tails);
    if (!tails)
        return NULL;
    expr last = o->other < 0 ? expr_empty(b)
                             : expr_repeat(b, expr_seq3(b, comma, space, o->other), 0, EXPR_NO_MAX);
    tails[o->pairs.n] = expr_rule(b, NULL);
    expr_define(b, tails[o->pairs.n], last);
    for (size_t i = o->pairs.n; i-- > 0;) {
        expr pair = expr_seq3(b, comma, space, o->pairs.at[i]);
        tails[i] = expr_rule(b, NULL);
        expr_define(b, tails[i],
                    expr_seq2(b, o->required[i] ? pair : expr_optional(b, pair), tails[i + 1]));
    }
    return tails;
}

static expr assemble(struct json_schema *s, const struct object *o)
{
    struct builder *b = s->b;
    struct expr_list heads = {0};
    expr *tails = make_tails(s, o), space = schema_space(s);
    bool must = false;
    if (!tails)
        return schema_fail(s, ERR_NOMEM, "no memory");
    for (size_t i = 0; i < o->pairs.n && !must; i++) { /* which pair comes first */
        expr_list_add(b, &heads, expr_seq2(b, o->pairs.at[i], tails[i + 1]));
        must = o->required[i];
    }
    if (!must && o->other >= 0)
        expr_list_add(b, &heads, expr_seq2(b, o->other, tails[o->pairs.n]));
    free(tails);
    expr inside = expr_seq2(b, expr_alt_list(b, &heads), space);
    return expr_seq(b,
                    (expr[]){expr_text(b, "{"), space,
                             must      ? inside
                             : heads.n ? expr_optional(b, inside)
                                       : expr_empty(b),
                             expr_text(b, "}")},
                    4);
}

expr schema_object(struct json_schema *s, const cJSON *schema)
{
    const cJSON *required = cJSON_GetObjectItemCaseSensitive(schema, "required");
    struct object o = {.properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"),
                       .additional =
                           cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties"),
                       .other = -1};
    if (!check_object(s, schema, required))
        return -1;
    if (!o.properties && !required && (!o.additional || cJSON_IsTrue(o.additional)))
        return json_schema_any_object(s);
    o.required =
        calloc((size_t)cJSON_GetArraySize(o.properties) + (size_t)cJSON_GetArraySize(required) + 1,
               sizeof *o.required);
    expr x = -1, value = -1;
    if (!o.required) {
        schema_fail(s, ERR_NOMEM, "no memory");
    } else if (read_pairs(s, &o, required)) {
        bool open = o.additional ? !cJSON_IsFalse(o.additional) : !o.properties;
        if (open)
            value = o.additional ? schema_read_at(s, o.additional, "additionalProperties", NULL)
                                 : json_schema_any(s);
        if (open && value >= 0 && !expr_is_never(s->b, value))
            o.other = other_pair(s, &o, required, value);
        if (!open || (value >= 0 && (o.other >= 0 || expr_is_never(s->b, value))))
            x = assemble(s, &o);
    }
    free(o.required);
    return x;
}

/* ---- a function's parameters, one by one */

bool json_schema_parameters(struct json_schema *s, const cJSON *schema,
                            const struct json_parameter_sink *sink, struct err *e)
{
    struct err mine = {0};
    const cJSON *required = cJSON_GetObjectItemCaseSensitive(schema, "required"), *v;
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    static const char *const plain[] = {"type", "properties", "required", "additionalProperties",
                                        NULL};
    bool ok = true;
    s->root = schema;
    s->strict = sink->strict;
    s->e = &mine;
    s->depth = 0;
    schema_leave(s, 0);
    if (schema_items(schema) > SCHEMA_MAX_ITEMS)
        ok = schema_fail(s, ERR_LIMIT, "the schema has more than %d parts", SCHEMA_MAX_ITEMS) >= 0;
    cJSON_ArrayForEach (v, schema) {
        int i = 0;
        while (plain[i] && strcmp(plain[i], v->string))
            i++;
        if (!plain[i] && !schema_is_annotation(v->string))
            ok = schema_fail(
                     s, ERR_UNSUPPORTED,
                     "'%.40s' at the top of parameters can't be enforced in this model's format",
                     v->string) >= 0;
    }
    ok = ok && check_object(s, schema, required);
    cJSON_ArrayForEach (v, required)
        if (ok && !cJSON_GetObjectItemCaseSensitive(properties, v->valuestring))
            ok = schema_fail(s, ERR_UNSUPPORTED, "'required' names '%.60s', which is not declared",
                             v->valuestring) >= 0;
    for (v = properties ? properties->child : NULL; v && ok; v = v->next) {
        struct json_parameter p = {.name = v->string, .required = is_required(required, v->string)};
        size_t mark = schema_enter(s, "properties", v->string);
        p.value = schema_tag_value(s, v, sink->stop, &p.text);
        ok = p.value >= 0;
        if (ok)
            schema_leave(s, mark);
        ok = ok && sink->give(sink->context, &p);
    }
    s->e = NULL;
    if (!ok && e)
        *e = mine.code ? mine
                       : (struct err){.code = ERR_NOMEM, .text = "no memory to compile a grammar"};
    return ok;
}
