/* Two schemas at once (allOf, keywords beside $ref or anyOf), and whether two exclude each other
 * (oneOf). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/schema_internal.h"

static cJSON *own(struct json_schema *s, cJSON *made)
{
    if (s->n_made == s->cap_made) {
        size_t cap = s->cap_made ? s->cap_made * 2 : 64;
        cJSON **grown = made ? realloc(s->made, cap * sizeof *grown) : NULL;
        if (!grown) {
            cJSON_Delete(made);
            schema_fail(s, ERR_NOMEM, "no memory");
            return NULL;
        }
        s->made = grown;
        s->cap_made = cap;
    }
    if (made)
        s->made[s->n_made++] = made;
    return made;
}

/* Merging must not make much more than was sent. */
static cJSON *copy_of(struct json_schema *s, const cJSON *schema)
{
    s->n_copied += schema_items(schema);
    if (s->n_copied > SCHEMA_MAX_COPIED) {
        schema_fail(s, ERR_LIMIT, "the schema is too large to be compiled");
        return NULL;
    }
    return cJSON_Duplicate(schema, true);
}

/* Lists whose values may be compared each with each. */
static bool comparable(const cJSON *a, const cJSON *b)
{
    return (int64_t)cJSON_GetArraySize(a) * cJSON_GetArraySize(b) <= SCHEMA_MAX_COMPARED;
}

const cJSON *schema_without(struct json_schema *s, const cJSON *schema, const char *name)
{
    cJSON *made = copy_of(s, schema);
    if (made)
        cJSON_DeleteItemFromObjectCaseSensitive(made, name);
    return made ? own(s, made) : NULL;
}

static void replace(cJSON *o, const char *name, cJSON *v)
{
    cJSON_DeleteItemFromObjectCaseSensitive(o, name);
    cJSON_AddItemToObject(o, name, v);
}

/* {"allOf": [a, b]} */
static cJSON *both(const cJSON *a, const cJSON *b)
{
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "allOf");
    cJSON_AddItemToArray(list, cJSON_Duplicate(a, true));
    cJSON_AddItemToArray(list, cJSON_Duplicate(b, true));
    return o;
}

static bool contains(const cJSON *list, const cJSON *value)
{
    const cJSON *v;
    cJSON_ArrayForEach (v, list)
        if (cJSON_Compare(v, value, true))
            return true;
    return false;
}

/* ---- keyword by keyword */

/* "type" as a list, freed by the caller. */
static cJSON *type_list(const cJSON *type)
{
    cJSON *list = cJSON_IsArray(type) ? cJSON_Duplicate(type, true) : cJSON_CreateArray();
    if (cJSON_IsString(type))
        cJSON_AddItemToArray(list, cJSON_CreateString(type->valuestring));
    return list;
}

static void merge_types(cJSON *out, const cJSON *type)
{
    cJSON *a = type_list(cJSON_GetObjectItemCaseSensitive(out, "type")), *b = type_list(type),
          *list = cJSON_CreateArray();
    const cJSON *x, *y;
    cJSON_ArrayForEach (x, a)
        cJSON_ArrayForEach (y, b) {
            const char *p = cJSON_GetStringValue(x), *q = cJSON_GetStringValue(y);
            if (!p || !q)
                continue;
            bool narrower = !strcmp(p, "number") && !strcmp(q, "integer"),
                 wider = !strcmp(p, "integer") && !strcmp(q, "number");
            if (!strcmp(p, q) || narrower || wider)
                cJSON_AddItemToArray(list, cJSON_CreateString(narrower ? q : p));
        }
    cJSON_Delete(a);
    cJSON_Delete(b);
    replace(out, "type", list);
}

static void merge_properties(cJSON *out, const cJSON *b, const cJSON *b_schema)
{
    cJSON *mine = cJSON_GetObjectItemCaseSensitive(out, "properties");
    const cJSON *others_a = cJSON_GetObjectItemCaseSensitive(out, "additionalProperties");
    const cJSON *others_b = cJSON_GetObjectItemCaseSensitive(b_schema, "additionalProperties"), *v;
    if (!mine)
        mine = cJSON_AddObjectToObject(out, "properties");
    cJSON_ArrayForEach (v, mine) /* names that only one side declares fall under the other's rule
                                    for additional ones */
    {
        if (cJSON_GetObjectItemCaseSensitive(b, v->string) || !others_b)
            continue;
        char *name = strdup(v->string);
        cJSON *made = both(v, others_b);
        cJSON_ReplaceItemInObjectCaseSensitive(mine, name, made);
        v = cJSON_GetObjectItemCaseSensitive(mine, name);
        free(name);
    }
    cJSON_ArrayForEach (v, b) {
        const cJSON *same = cJSON_GetObjectItemCaseSensitive(mine, v->string);
        if (same)
            cJSON_ReplaceItemInObjectCaseSensitive(mine, v->string, both(same, v));
        else
            cJSON_AddItemToObject(mine, v->string,
                                  others_a ? both(v, others_a) : cJSON_Duplicate(v, true));
    }
}

static void merge_lists(cJSON *out, const char *name, const cJSON *b, bool common)
{
    cJSON *a = cJSON_GetObjectItemCaseSensitive(out, name), *list = cJSON_CreateArray();
    const cJSON *v;
    cJSON_ArrayForEach (v, a)
        if (!common || contains(b, v))
            cJSON_AddItemToArray(list, cJSON_Duplicate(v, true));
    if (!common)
        cJSON_ArrayForEach (v, b)
            if (!contains(a, v))
                cJSON_AddItemToArray(list, cJSON_Duplicate(v, true));
    replace(out, name, list);
}

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name))
        list++;
    return *list != NULL;
}

/* b's keyword v into out. False: two that can't be joined. */
static bool merge_keyword(cJSON *out, const cJSON *v, const cJSON *b)
{
    static const char *const greater[] = {"minimum",   "exclusiveMinimum", "minItems",
                                          "minLength", "minProperties",    NULL};
    static const char *const lesser[] = {"maximum",   "exclusiveMaximum", "maxItems",
                                         "maxLength", "maxProperties",    NULL};
    static const char *const schemas[] = {"items", "additionalProperties", NULL};
    const char *name = v->string;
    const cJSON *mine = cJSON_GetObjectItemCaseSensitive(out, name);
    if (cJSON_IsArray(mine) && !comparable(mine, v))
        return false;
    if (!strcmp(name, "properties")) {
        merge_properties(out, v, b);
    } else if (!strcmp(name, "allOf") && mine) {
        merge_lists(out, name, v, false);
    } else if (!mine) {
        cJSON_AddItemToObject(out, name, cJSON_Duplicate(v, true));
    } else if (!strcmp(name, "type")) {
        merge_types(out, v);
    } else if (!strcmp(name, "required")) {
        merge_lists(out, name, v, false);
    } else if (!strcmp(name, "enum")) {
        merge_lists(out, name, v, true);
    } else if (is_one_of(name, greater) || is_one_of(name, lesser)) {
        bool take = is_one_of(name, greater) ? v->valuedouble > mine->valuedouble
                                             : v->valuedouble < mine->valuedouble;
        if (take)
            replace(out, name, cJSON_Duplicate(v, true));
    } else if (is_one_of(name, schemas)) {
        replace(out, name,
                cJSON_IsFalse(mine) || cJSON_IsFalse(v) ? cJSON_CreateFalse() : both(mine, v));
    } else if (!strcmp(name, "anyOf") || !strcmp(name, "oneOf")) {
        cJSON *wrapped = cJSON_CreateObject(),
              *list = cJSON_GetObjectItemCaseSensitive(out, "allOf");
        cJSON_AddItemToObject(wrapped, name, cJSON_Duplicate(v, true));
        if (!list)
            list = cJSON_AddArrayToObject(out, "allOf");
        cJSON_AddItemToArray(list, wrapped);
    } else {
        return cJSON_Compare(mine, v, true);
    }
    return true;
}

/* A constant becomes a list of one, so that only lists are compared; a reference becomes its
 * target. */
static const cJSON *prepare(struct json_schema *s, const cJSON *schema)
{
    const cJSON *ref = cJSON_GetObjectItemCaseSensitive(schema, "$ref");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(schema, "const");
    if (cJSON_IsTrue(schema))
        return own(s, cJSON_CreateObject());
    if (ref) {
        const cJSON *target = cJSON_IsString(ref) ? schema_resolve(s, ref->valuestring) : NULL;
        const cJSON *rest = target ? schema_without(s, schema, "$ref") : NULL;
        if (!rest)
            return NULL;
        s->depth++;
        const cJSON *made = s->depth > SCHEMA_MAX_DEPTH ? NULL : schema_merge(s, target, rest);
        s->depth--;
        if (!made)
            schema_fail(s, ERR_LIMIT, "schemas nest, or merge with themselves, more than %d deep",
                        SCHEMA_MAX_DEPTH);
        return made;
    }
    if (!value)
        return schema;
    cJSON *made = copy_of(s, schema);
    if (!made)
        return NULL;
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, cJSON_Duplicate(value, true));
    cJSON_DeleteItemFromObjectCaseSensitive(made, "const");
    if (cJSON_GetObjectItemCaseSensitive(made, "enum"))
        merge_lists(made, "enum", list, true);
    else
        cJSON_AddItemToObject(made, "enum", cJSON_Duplicate(list, true));
    cJSON_Delete(list);
    return own(s, made);
}

const cJSON *schema_merge(struct json_schema *s, const cJSON *a, const cJSON *b)
{
    const cJSON *v;
    if (cJSON_IsFalse(a) || cJSON_IsFalse(b))
        return own(s, cJSON_CreateFalse());
    a = prepare(s, a);
    b = a ? prepare(s, b) : NULL;
    if (!a || !b)
        return NULL;
    if (!cJSON_IsObject(a) || !cJSON_IsObject(b)) {
        schema_fail(s, ERR_INPUT, "a schema must be an object");
        return NULL;
    }
    cJSON *out = schema_has_names(s, a) && schema_has_names(s, b) ? copy_of(s, a) : NULL;
    if (!out || !own(s, out))
        return NULL;
    /* properties first: they look at what both sides say of the rest */
    v = cJSON_GetObjectItemCaseSensitive(b, "properties");
    if (v)
        merge_keyword(out, v, b);
    else if (cJSON_GetObjectItemCaseSensitive(b, "additionalProperties") &&
             cJSON_GetObjectItemCaseSensitive(out, "properties"))
        merge_properties(out, NULL, b);
    cJSON_ArrayForEach (v, b) {
        if (!strcmp(v->string, "properties") || schema_is_annotation(v->string))
            continue;
        if (!merge_keyword(out, v, b)) {
            schema_fail(s, ERR_UNSUPPORTED, "two different '%.40s' can't be enforced together",
                        v->string);
            return NULL;
        }
    }
    return out;
}

/* ---- exclusion */

static const cJSON *deref(struct json_schema *s, const cJSON *schema)
{
    for (int hops = 0; hops < 16; hops++) {
        const cJSON *ref = cJSON_GetObjectItemCaseSensitive(schema, "$ref");
        struct err *e = s->e;
        s->e = NULL;
        const cJSON *to = cJSON_IsString(ref) ? schema_resolve(s, ref->valuestring) : NULL;
        s->e = e;
        if (!to)
            break;
        schema = to;
    }
    return schema;
}

/* The schema's only values as a list, freed by the caller; NULL: not listed. */
static cJSON *values_of(const cJSON *schema)
{
    const cJSON *one = cJSON_GetObjectItemCaseSensitive(schema, "const");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, "enum");
    if (!one)
        return cJSON_IsArray(list) ? cJSON_Duplicate(list, true) : NULL;
    cJSON *made = cJSON_CreateArray();
    cJSON_AddItemToArray(made, cJSON_Duplicate(one, true));
    return made;
}

static bool values_differ(const cJSON *a, const cJSON *b)
{
    cJSON *x = values_of(a), *y = values_of(b);
    bool differ = x && y && comparable(x, y);
    const cJSON *v;
    for (v = x ? x->child : NULL; v && differ; v = v->next)
        differ = !contains(y, v);
    cJSON_Delete(x);
    cJSON_Delete(y);
    return differ;
}

static bool is_required(const cJSON *schema, const char *name)
{
    return json_has_text(cJSON_GetObjectItemCaseSensitive(schema, "required"), name);
}

/* Is no object that is made for a valid by b? */
static bool objects_exclude(struct json_schema *s, const cJSON *a, const cJSON *b)
{
    const cJSON *in_a = cJSON_GetObjectItemCaseSensitive(a, "properties");
    const cJSON *in_b = cJSON_GetObjectItemCaseSensitive(b, "properties"), *v;
    const cJSON *more_a = cJSON_GetObjectItemCaseSensitive(a, "additionalProperties");
    bool shut_a = in_a && (!more_a || cJSON_IsFalse(more_a));
    if (in_a && !cJSON_IsObject(in_a))
        return false; /* it is refused when it is read */
    cJSON_ArrayForEach (
        v, cJSON_GetObjectItemCaseSensitive(b, "required")) /* b wants what a never writes */
        if (cJSON_IsString(v) && shut_a &&
            !cJSON_GetObjectItemCaseSensitive(in_a, v->valuestring) &&
            !is_required(a, v->valuestring))
            return true;
    cJSON_ArrayForEach (v, in_a) {
        const cJSON *there = cJSON_GetObjectItemCaseSensitive(in_b, v->string);
        if (!is_required(a, v->string))
            continue;
        if (!there && cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(b, "additionalProperties")))
            return true; /* a writes what b forbids */
        if (there && schema_disjoint(s, v, there))
            return true;
    }
    return false;
}

/* Types of values that are valid by it, by the letter: without "type" all are. */
static unsigned types_met(struct json_schema *s, const cJSON *schema)
{
    static const char *const telling[] = {"type", "const", "enum", NULL};
    for (int i = 0; telling[i]; i++)
        if (cJSON_GetObjectItemCaseSensitive(schema, telling[i])) {
            unsigned types = schema_types(s, schema);
            return types & TYPE_NUMBER ? types | TYPE_INTEGER : types;
        }
    return TYPE_ANY | TYPE_INTEGER;
}

bool schema_disjoint(struct json_schema *s, const cJSON *a, const cJSON *b)
{
    static const char *const branching[] = {"anyOf", "oneOf", "allOf", NULL};
    a = deref(s, a);
    b = deref(s, b);
    if (cJSON_IsFalse(a) || cJSON_IsFalse(b))
        return true;
    for (int i = 0; branching[i]; i++)
        if (cJSON_GetObjectItemCaseSensitive(a, branching[i]) ||
            cJSON_GetObjectItemCaseSensitive(b, branching[i]))
            return false;
    if (!cJSON_IsObject(a) || !cJSON_IsObject(b) || s->depth > SCHEMA_MAX_DEPTH)
        return false;
    unsigned of_a = types_met(s, a), of_b = types_met(s, b);
    if (!(of_a & of_b) || values_differ(a, b))
        return true;
    s->depth++;
    bool disjoint = schema_types(s, a) == TYPE_OBJECT && schema_types(s, b) == TYPE_OBJECT &&
                    objects_exclude(s, a, b) && objects_exclude(s, b, a);
    s->depth--;
    return disjoint;
}
