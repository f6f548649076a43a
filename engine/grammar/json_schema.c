/* Turns schemas into expressions: follows references, combines allOf, anyOf and oneOf, and hands
 * each kind of value to the schema_*.c file that knows it. */
#include "engine/grammar/json_schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/schema_internal.h"

struct json_schema *json_schema_create(struct builder *b, struct err *e)
{
    struct json_schema *s = calloc(1, sizeof *s);
    if (s)
        s->refs = malloc(SCHEMA_MAX_REFS * sizeof *s->refs);
    if (!s || !s->refs) {
        free(s);
        err_set(e, ERR_NOMEM, "no memory to compile a schema");
        return NULL;
    }
    s->b = b;
    s->space = s->string = s->character = s->key_character = s->number = s->integer = s->any =
        s->any_object = -1;
    return s;
}

void json_schema_destroy(struct json_schema **s)
{
    if (!*s)
        return;
    for (size_t i = 0; i < (*s)->n_made; i++)
        cJSON_Delete((*s)->made[i]);
    free((*s)->made);
    free((*s)->refs);
    free(*s);
    *s = NULL;
}

/* ---- places */

size_t schema_enter(struct json_schema *s, const char *name, const char *key)
{
    size_t mark = s->path_len, left = sizeof s->path - s->path_len;
    int n = snprintf(s->path + s->path_len, left, key ? "/%s/%s" : "/%s", name, key);
    if (n > 0)
        s->path_len += (size_t)n < left ? (size_t)n : left - 1;
    return mark;
}

void schema_leave(struct json_schema *s, size_t mark)
{
    s->path_len = mark;
    s->path[mark] = 0;
}

expr schema_fail(struct json_schema *s, enum err_code code, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s->e && s->e->code == ERR_NONE)
        err_set(s->e, code, "#%.110s: %s", s->path, text);
    return -1;
}

expr schema_read_at(struct json_schema *s, const cJSON *schema, const char *name, const char *key)
{
    size_t mark = schema_enter(s, name, key);
    expr x = schema_read(s, schema);
    if (x >= 0) /* after a failure the place stays */
        schema_leave(s, mark);
    return x;
}

/* ---- references */

static int hex(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* One part of a pointer, decoded, up to '/' or the end. */
static const char *pointer_part(const char *at, char *out, size_t size)
{
    size_t n = 0;
    while (*at && *at != '/' && n + 1 < size) {
        if (*at == '~' && (at[1] == '0' || at[1] == '1')) {
            out[n++] = at[1] == '0' ? '~' : '/';
            at += 2;
        } else if (*at == '%' && hex(at[1]) >= 0 && hex(at[2]) >= 0) {
            out[n++] = (char)(hex(at[1]) << 4 | hex(at[2]));
            at += 3;
        } else {
            out[n++] = *at++;
        }
    }
    out[n] = 0;
    return at;
}

const cJSON *schema_resolve(struct json_schema *s, const char *ref)
{
    const cJSON *at = s->root;
    char part[256];
    if (ref[0] != '#' || (ref[1] && ref[1] != '/')) {
        schema_fail(s, ERR_UNSUPPORTED,
                    "$ref '%.60s': only places in this schema (#/...) are followed", ref);
        return NULL;
    }
    const char *p = ref + 1;
    while (at && *p == '/') {
        p = pointer_part(p + 1, part, sizeof part);
        if (cJSON_IsArray(at))
            at = part[0] >= '0' && part[0] <= '9' ? cJSON_GetArrayItem(at, atoi(part)) : NULL;
        else
            at = cJSON_GetObjectItemCaseSensitive(at, part);
    }
    if (!at || *p)
        schema_fail(s, ERR_INPUT, "$ref '%.60s' leads nowhere", ref);
    return *p ? NULL : at;
}

static expr read_ref(struct json_schema *s, const char *ref)
{
    const cJSON *target = schema_resolve(s, ref);
    if (!target)
        return -1;
    for (size_t i = 0; i < s->n_refs; i++)
        if (s->refs[i].target == target && s->refs[i].strict == s->strict)
            return s->refs[i].rule;
    if (s->n_refs == SCHEMA_MAX_REFS)
        return schema_fail(s, ERR_LIMIT, "too many references");
    expr rule = expr_rule(s->b, ref);
    size_t mine = s->n_refs;
    s->refs[s->n_refs++] = (struct schema_ref){target, s->strict, rule};
    char path[sizeof s->path];
    size_t len = s->path_len;
    memcpy(path, s->path, sizeof path);
    s->path_len = 0;
    snprintf(s->path, sizeof s->path, "%s", ref + 1);
    s->path_len = strlen(s->path);
    expr body = schema_read(s, target);
    if (body < 0) { /* not to be met again as if it were there */
        s->n_refs = mine;
        return -1;
    }
    memcpy(s->path, path, sizeof path);
    s->path_len = len;
    expr_define(s->b, rule, body);
    return rule;
}

/* ---- combinations */

static bool only_annotations_beside(const cJSON *schema, const char *name)
{
    const cJSON *v;
    cJSON_ArrayForEach (v, schema)
        if (strcmp(v->string, name) && !schema_is_annotation(v->string))
            return false;
    return true;
}

static expr read_all_of(struct json_schema *s, const cJSON *schema, const cJSON *list)
{
    const cJSON *branch, *all = NULL;
    if (!cJSON_IsArray(list) || !list->child)
        return schema_fail(s, ERR_INPUT, "'allOf' must be a list of schemas");
    if (!list->child->next && only_annotations_beside(schema, "allOf"))
        return schema_read_at(s, list->child, "allOf", "0");
    if (!only_annotations_beside(schema, "allOf") && !(all = schema_without(s, schema, "allOf")))
        return -1;
    cJSON_ArrayForEach (branch, list) {
        all = all ? schema_merge(s, all, branch) : branch;
        if (!all)
            return -1;
    }
    return schema_read(s, all);
}

static expr read_any_of(struct json_schema *s, const cJSON *schema, const char *name, bool one)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, name), *branch, *rest = NULL;
    struct expr_list all = {0};
    const cJSON *read[64];
    size_t n = 0;
    if (!cJSON_IsArray(list) || !list->child)
        return schema_fail(s, ERR_INPUT, "'%s' must be a list of schemas", name);
    if (!only_annotations_beside(schema, name) && !(rest = schema_without(s, schema, name)))
        return -1;
    cJSON_ArrayForEach (branch, list) {
        char key[16];
        snprintf(key, sizeof key, "%zu", all.n);
        const cJSON *own = rest ? schema_merge(s, rest, branch) : branch;
        if (!own)
            return -1;
        for (size_t i = 0; one && i < n; i++)
            if (!schema_disjoint(s, read[i], own))
                return schema_fail(s, ERR_UNSUPPORTED,
                                   "branches %zu and %zu of 'oneOf' may both match: use 'anyOf'", i,
                                   n);
        if (one && n == sizeof read / sizeof *read)
            return schema_fail(s, ERR_LIMIT, "'oneOf' has more than %zu branches", n);
        if (one)
            read[n++] = own;
        expr x = schema_read_at(s, own, name, key);
        if (x < 0)
            return x;
        expr_list_add(s->b, &all, x);
    }
    return expr_alt_list(s->b, &all);
}

/* ---- one schema */

static expr read_types(struct json_schema *s, const cJSON *schema)
{
    unsigned types = schema_types(s, schema);
    struct expr_list all = {0};
    expr (*const readers[])(struct json_schema *, const cJSON *) = {schema_string, schema_array,
                                                                    schema_object};
    const unsigned bits[] = {TYPE_STRING, TYPE_ARRAY, TYPE_OBJECT};
    if (types == TYPE_ANY && !cJSON_GetObjectItemCaseSensitive(schema, "type"))
        return json_schema_any(s);
    if (types & TYPE_NULL)
        expr_list_add(s->b, &all, expr_text(s->b, "null"));
    if (types & TYPE_BOOLEAN)
        expr_list_add(s->b, &all,
                      expr_alt2(s->b, expr_text(s->b, "true"), expr_text(s->b, "false")));
    if (types & (TYPE_NUMBER | TYPE_INTEGER)) {
        expr x = schema_number(s, schema, !(types & TYPE_NUMBER));
        if (x < 0)
            return x;
        expr_list_add(s->b, &all, x);
    }
    for (int i = 0; i < 3; i++) {
        expr x = types & bits[i] ? readers[i](s, schema) : 0;
        if (x < 0)
            return x;
        if (types & bits[i])
            expr_list_add(s->b, &all, x);
    }
    return expr_alt_list(s->b, &all);
}

static expr read_object_form(struct json_schema *s, const cJSON *schema)
{
    const cJSON *ref = cJSON_GetObjectItemCaseSensitive(schema, "$ref");
    const cJSON *all_of = cJSON_GetObjectItemCaseSensitive(schema, "allOf");
    if (!schema_check_keywords(s, schema) || !schema_check_type(s, schema))
        return -1;
    if (ref) {
        if (!cJSON_IsString(ref))
            return schema_fail(s, ERR_INPUT, "'$ref' must be a string");
        if (only_annotations_beside(schema, "$ref"))
            return read_ref(s, ref->valuestring);
        const cJSON *target = schema_resolve(s, ref->valuestring),
                    *rest = schema_without(s, schema, "$ref");
        const cJSON *both = target && rest ? schema_merge(s, target, rest) : NULL;
        return both ? schema_read(s, both) : -1;
    }
    if (all_of)
        return read_all_of(s, schema, all_of);
    if (cJSON_GetObjectItemCaseSensitive(schema, "anyOf"))
        return read_any_of(s, schema, "anyOf", false);
    if (cJSON_GetObjectItemCaseSensitive(schema, "oneOf"))
        return read_any_of(s, schema, "oneOf", true);
    if (cJSON_GetObjectItemCaseSensitive(schema, "enum") ||
        cJSON_GetObjectItemCaseSensitive(schema, "const"))
        return schema_enum(s, schema);
    return read_types(s, schema);
}

expr schema_read(struct json_schema *s, const cJSON *schema)
{
    if (cJSON_IsTrue(schema))
        return json_schema_any(s);
    if (cJSON_IsFalse(schema))
        return expr_never(s->b);
    if (!cJSON_IsObject(schema))
        return schema_fail(s, ERR_INPUT, "a schema must be an object");
    if (s->depth >= SCHEMA_MAX_DEPTH)
        return schema_fail(s, ERR_LIMIT,
                           "schemas nest, or merge with themselves, more than %d deep",
                           SCHEMA_MAX_DEPTH);
    if (++s->n_nodes > SCHEMA_MAX_NODES || builder_failed(s->b))
        return schema_fail(s, ERR_LIMIT, "the schema is too large to be compiled");
    s->depth++;
    expr x = read_object_form(s, schema);
    s->depth--;
    return x;
}

size_t schema_items(const cJSON *v)
{
    size_t n = 1;
    for (const cJSON *child = v->child; child; child = child->next)
        n += schema_items(child);
    return n;
}

bool json_schema_is_object(struct json_schema *s, const cJSON *schema)
{
    s->root = schema;
    return schema_types(s, schema) == TYPE_OBJECT;
}

expr json_schema_read(struct json_schema *s, const cJSON *schema, bool strict, struct err *e)
{
    struct err mine = {0};
    s->root = schema;
    s->strict = strict;
    s->e = &mine;
    s->depth = 0;
    schema_leave(s, 0);
    expr x = -1;
    if (schema_items(schema) > SCHEMA_MAX_ITEMS)
        schema_fail(s, ERR_LIMIT, "the schema has more than %d parts", SCHEMA_MAX_ITEMS);
    else if (strict && (schema_types(s, schema) != TYPE_OBJECT ||
                        cJSON_GetObjectItemCaseSensitive(schema, "anyOf") ||
                        cJSON_GetObjectItemCaseSensitive(schema, "oneOf")))
        schema_fail(s, ERR_INPUT,
                    "with strict the outermost schema must have type 'object' and no 'anyOf'");
    else
        x = schema_read(s, schema);
    if (x < 0 && e)
        *e = mine;
    s->e = NULL;
    return x;
}
