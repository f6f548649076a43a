/* openapi.h: the server's rule for bodies is that a null asks for nothing. Said once, here, rather
 * than at each member. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/openapi/openapi.h"

#define REF_START "#/components/schemas/"

static bool holds(const cJSON *list, const char *word)
{
    const cJSON *item;
    cJSON_ArrayForEach (item, list) {
        const char *own =
            cJSON_GetStringValue(cJSON_IsObject(item) ? json_member(item, "type") : item);
        if (own && !strcmp(own, word))
            return true;
    }
    return false;
}

static bool lists_null(const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach (item, list)
        if (cJSON_IsNull(item))
            return true;
    return false;
}

static cJSON *null_schema(void)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", "null");
    return o;
}

/* {"$ref"} as {"anyOf": [{"$ref"}, null]} */
static void wrap_ref(cJSON *schema)
{
    cJSON *own = cJSON_CreateObject(), *any = cJSON_CreateArray();
    cJSON_AddItemToObject(own, "$ref", cJSON_DetachItemFromObjectCaseSensitive(schema, "$ref"));
    cJSON_AddItemToArray(any, own);
    cJSON_AddItemToArray(any, null_schema());
    cJSON_AddItemToObject(schema, "anyOf", any);
}

static void allow_null(cJSON *schema)
{
    cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type"),
          *list = cJSON_GetObjectItemCaseSensitive(schema, "enum"),
          *any = cJSON_GetObjectItemCaseSensitive(schema, "anyOf");
    if (cJSON_GetObjectItemCaseSensitive(schema, "$ref"))
        wrap_ref(schema);
    if (cJSON_IsString(type) && strcmp(type->valuestring, "null")) {
        cJSON *both = cJSON_CreateArray();
        cJSON_AddItemToArray(both, cJSON_CreateString(type->valuestring));
        cJSON_ReplaceItemInObjectCaseSensitive(schema, "type", both);
        cJSON_AddItemToArray(both, cJSON_CreateString("null"));
    } else if (cJSON_IsArray(type) && !holds(type, "null")) {
        cJSON_AddItemToArray(type, cJSON_CreateString("null"));
    }
    if (cJSON_HasObjectItem(schema, "const")) {
        cJSON *only = cJSON_DetachItemFromObjectCaseSensitive(schema, "const");
        cJSON_AddItemToArray(list = cJSON_AddArrayToObject(schema, "enum"), only);
    }
    if (list && !lists_null(list))
        cJSON_AddItemToArray(list, cJSON_CreateNull());
    if (any && !holds(any, "null"))
        cJSON_AddItemToArray(any, null_schema());
}

static void walk(cJSON *schemas, cJSON *seen, cJSON *schema);

static void walk_ref(cJSON *schemas, cJSON *seen, const char *ref)
{
    const size_t start = strlen(REF_START);
    if (!ref || strncmp(ref, REF_START, start) ||
        cJSON_GetObjectItemCaseSensitive(seen, ref + start))
        return;
    cJSON_AddTrueToObject(seen, ref + start);
    walk(schemas, seen, cJSON_GetObjectItemCaseSensitive(schemas, ref + start));
}

static void walk(cJSON *schemas, cJSON *seen, cJSON *schema)
{
    static const char *const lists[] = {"anyOf", "allOf", "oneOf"};
    const cJSON *required = json_member(schema, "required");
    cJSON *p;
    walk_ref(schemas, seen, json_text(schema, "$ref"));
    cJSON_ArrayForEach (p, cJSON_GetObjectItemCaseSensitive(schema, "properties")) {
        walk(schemas, seen, p);
        if (!holds(required, p->string))
            allow_null(p);
    }
    if (cJSON_IsObject(json_member(schema, "items")))
        walk(schemas, seen, cJSON_GetObjectItemCaseSensitive(schema, "items"));
    for (int i = 0; i < 3; i++)
        cJSON_ArrayForEach (p, cJSON_GetObjectItemCaseSensitive(schema, lists[i]))
            walk(schemas, seen, p);
}

void openapi_allow_nulls(cJSON *schemas, cJSON *seen, const char *name)
{
    if (cJSON_GetObjectItemCaseSensitive(seen, name))
        return;
    cJSON_AddTrueToObject(seen, name);
    walk(schemas, seen, cJSON_GetObjectItemCaseSensitive(schemas, name));
}
