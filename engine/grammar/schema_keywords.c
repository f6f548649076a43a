/* Which keywords of a schema are enforced, which are annotations, and which types of values a
 * schema takes. */
#include <string.h>

#include "engine/grammar/schema_internal.h"

static const char *const annotations[] = {
    "title",           "description",   "default",   "examples",    "example",
    "deprecated",      "readOnly",      "writeOnly", "$schema",     "$id",
    "$comment",        "$anchor",       "$defs",     "definitions", "contentMediaType",
    "contentEncoding", "discriminator", NULL};
static const char *const assertions[] = {"type",
                                         "enum",
                                         "const",
                                         "properties",
                                         "required",
                                         "additionalProperties",
                                         "items",
                                         "prefixItems",
                                         "minItems",
                                         "maxItems",
                                         "anyOf",
                                         "oneOf",
                                         "allOf",
                                         "$ref",
                                         "pattern",
                                         "format",
                                         "minLength",
                                         "maxLength",
                                         "minimum",
                                         "maximum",
                                         "exclusiveMinimum",
                                         "exclusiveMaximum",
                                         "multipleOf",
                                         "uniqueItems",
                                         "minProperties",
                                         "maxProperties",
                                         NULL};

static bool is_in(const char *const *list, const char *word)
{
    while (*list && strcmp(*list, word))
        list++;
    return *list != NULL;
}

bool schema_is_annotation(const char *keyword)
{
    return is_in(annotations, keyword) || !strncmp(keyword, "x-", 2);
}

static bool number_is(const cJSON *v, double n)
{
    return cJSON_IsNumber(v) && !(v->valuedouble < n) && !(v->valuedouble > n);
}

/* Keywords that can only be accepted with a value that constrains nothing. */
static bool says_nothing(const cJSON *v)
{
    return (!strcmp(v->string, "uniqueItems") && cJSON_IsFalse(v)) ||
           (!strcmp(v->string, "minProperties") && number_is(v, 0)) ||
           (!strcmp(v->string, "multipleOf") && number_is(v, 1));
}

bool schema_check_keywords(struct json_schema *s, const cJSON *schema)
{
    const cJSON *v;
    cJSON_ArrayForEach (v, schema) {
        if (schema_is_annotation(v->string))
            continue;
        bool rare = !strcmp(v->string, "uniqueItems") || !strcmp(v->string, "minProperties") ||
                    !strcmp(v->string, "maxProperties") || !strcmp(v->string, "multipleOf");
        if (!is_in(assertions, v->string) || (rare && !says_nothing(v)))
            return schema_fail(s, ERR_UNSUPPORTED, "'%.60s' can't be enforced here", v->string) >=
                   0;
    }
    return true;
}

static unsigned type_bit(const char *name)
{
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER},
                 {"number", TYPE_NUMBER}, {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return types[i].bit;
    return 0;
}

static unsigned value_type(const cJSON *v)
{
    return cJSON_IsNull(v)     ? TYPE_NULL
           : cJSON_IsBool(v)   ? TYPE_BOOLEAN
           : cJSON_IsString(v) ? TYPE_STRING
           : cJSON_IsArray(v)  ? TYPE_ARRAY
           : cJSON_IsObject(v) ? TYPE_OBJECT
           : v->valuedouble >= -9e15 && v->valuedouble <= 9e15 &&
                   !(v->valuedouble < (double)(int64_t)v->valuedouble) &&
                   !(v->valuedouble > (double)(int64_t)v->valuedouble)
               ? TYPE_INTEGER
               : TYPE_NUMBER;
}

static bool has_any(const cJSON *schema, const char *const *names)
{
    for (; *names; names++)
        if (cJSON_GetObjectItemCaseSensitive(schema, *names))
            return true;
    return false;
}

/* Without "type": a schema that speaks of objects is met by objects. It would be met by a number as
 * well, by the letter; nobody means that. */
static unsigned implied_types(const cJSON *schema)
{
    static const char *const object[] = {"properties", "required", "additionalProperties", NULL};
    static const char *const array[] = {"items", "prefixItems", "minItems", "maxItems", NULL};
    static const char *const string[] = {"pattern", "format", "minLength", "maxLength", NULL};
    static const char *const number[] = {"minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum", NULL};
    unsigned types =
        (has_any(schema, object) ? TYPE_OBJECT : 0u) | (has_any(schema, array) ? TYPE_ARRAY : 0u) |
        (has_any(schema, string) ? TYPE_STRING : 0u) | (has_any(schema, number) ? TYPE_NUMBER : 0u);
    return types ? types : TYPE_ANY;
}

unsigned schema_types(struct json_schema *s, const cJSON *schema)
{
    unsigned bits = 0;
    const cJSON *v;
    for (int hops = 0; hops < 16 && cJSON_GetObjectItemCaseSensitive(schema, "$ref"); hops++) {
        struct err *e = s->e;
        s->e = NULL;
        const char *ref = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(schema, "$ref"));
        const cJSON *target = ref ? schema_resolve(s, ref) : NULL;
        s->e = e;
        if (!target)
            return TYPE_ANY;
        schema = target;
    }
    if ((v = cJSON_GetObjectItemCaseSensitive(schema, "const")))
        return value_type(v);
    if (cJSON_IsArray(v = cJSON_GetObjectItemCaseSensitive(schema, "enum"))) {
        const cJSON *item;
        cJSON_ArrayForEach (item, v)
            bits |= value_type(item);
        return bits;
    }
    if (!(v = cJSON_GetObjectItemCaseSensitive(schema, "type")))
        return implied_types(schema);
    if (cJSON_IsString(v))
        return type_bit(v->valuestring);
    const cJSON *item;
    cJSON_ArrayForEach (item, v)
        bits |= type_bit(cJSON_GetStringValue(item));
    return bits;
}

bool schema_check_type(struct json_schema *s, const cJSON *schema)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type"), *item;
    if (!type || type_bit(cJSON_GetStringValue(type)))
        return true;
    bool ok = cJSON_IsArray(type) && type->child;
    cJSON_ArrayForEach (item, type)
        ok = ok && type_bit(cJSON_GetStringValue(item));
    return ok || schema_fail(s, ERR_INPUT, "'type' must name JSON types") >= 0;
}
