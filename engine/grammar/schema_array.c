/* Arrays of a schema: prefixItems by place, items for the others, and how many there may be. */
#include "engine/base/json/json.h"
#include "engine/grammar/schema_internal.h"

bool schema_count(struct json_schema *s, const cJSON *schema, const char *name, int64_t *out)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(schema, name);
    if (!v)
        return true;
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > 1e15 ||
        v->valuedouble > (double)(int64_t)v->valuedouble)
        return schema_fail(s, ERR_INPUT, "'%s' must be a whole number from 0", name) >= 0;
    *out = (int64_t)v->valuedouble;
    return true;
}

/* All items as rules, each used where it may come first and where it follows. */
static bool read_items(struct json_schema *s, const cJSON *schema, struct expr_list *placed,
                       expr *rest)
{
    const cJSON *prefix = cJSON_GetObjectItemCaseSensitive(schema, "prefixItems"), *item;
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    if ((prefix && !cJSON_IsArray(prefix)) || cJSON_IsArray(items))
        return schema_fail(s, ERR_INPUT, "'prefixItems' must be a list, 'items' one schema") >= 0;
    cJSON_ArrayForEach (item, prefix) {
        expr x = schema_read_at(s, item, "prefixItems", NULL), rule = expr_rule(s->b, NULL);
        if (x < 0)
            return false;
        expr_define(s->b, rule, x);
        expr_list_add(s->b, placed, expr_is_never(s->b, x) ? x : rule);
    }
    *rest = items ? schema_read_at(s, items, "items", NULL) : json_schema_any(s);
    if (*rest >= 0 && !expr_is_never(s->b, *rest)) {
        expr rule = expr_rule(s->b, NULL);
        expr_define(s->b, rule, *rest);
        *rest = rule;
    }
    return *rest >= 0;
}

expr schema_array(struct json_schema *s, const cJSON *schema)
{
    struct builder *b = s->b;
    struct expr_list placed = {0};
    int64_t min = 0, max = -1;
    expr rest = -1, space = schema_space(s), comma = expr_text(b, ",");
    if (!schema_count(s, schema, "minItems", &min) || !schema_count(s, schema, "maxItems", &max) ||
        !read_items(s, schema, &placed, &rest))
        return -1;
    int64_t n = (int64_t)placed.n;
    for (int64_t i = 0; i < n; i++) /* an item that can't be: the array ends before it */
        if (expr_is_never(b, placed.at[i]))
            n = i;
    if ((n < (int64_t)placed.n || expr_is_never(b, rest)) && (max < 0 || max > n))
        max = n;
    if (max >= 0 && min > max)
        return schema_fail(s, ERR_INPUT, "at least %lld items can never be", (long long)min);
    if (min > EXPR_MAX_COUNT || max > EXPR_MAX_COUNT)
        return schema_fail(s, ERR_LIMIT, "more than %d items can't be counted", EXPR_MAX_COUNT);
    if (max == 0)
        return expr_seq3(b, expr_text(b, "["), space, expr_text(b, "]"));
    if (max >= 0 && n > max)
        n = max;
    /* from the end: what may come behind item i - 1 */
    int64_t first_rest = n > 0 ? n : 1; /* the first item is written without a comma */
    int64_t low = min - first_rest, high = max - first_rest;
    expr tail = expr_is_never(b, rest)
                    ? expr_empty(b)
                    : expr_repeat(b, expr_seq3(b, comma, space, rest), low > 0 ? (int32_t)low : 0,
                                  max < 0 ? EXPR_NO_MAX : (int32_t)high);
    for (int64_t i = n - 1; i >= 1; i--) {
        expr rule = expr_rule(b, NULL);
        expr_define(b, rule, expr_seq(b, (expr[]){comma, space, placed.at[i], tail}, 4));
        tail = i >= min ? expr_optional(b, rule) : rule;
    }
    expr filled = expr_seq3(b, n > 0 ? placed.at[0] : rest, tail, space);
    return expr_seq(b,
                    (expr[]){expr_text(b, "["), space, min > 0 ? filled : expr_optional(b, filled),
                             expr_text(b, "]")},
                    4);
}
