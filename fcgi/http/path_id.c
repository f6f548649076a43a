/* One strict reader for all ids: "+5" or "05" beside "5" would be several URLs of one resource. */
#include "fcgi/http/path_id.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "sql/users/store_groups.h"

#define DIGITS_MAX 18 /* whatever they are, they fit an int64_t */

bool path_id_parse(const char *text, int64_t *id)
{
    size_t n = text ? strlen(text) : 0;
    if (!n || n > DIGITS_MAX || *text == '0' || strspn(text, "0123456789") != n)
        return false;
    *id = strtoll(text, NULL, 10);
    return true;
}

bool path_id_param(const struct request *r, const char *name, int64_t *id, struct err *e)
{
    return path_id_parse(request_param(r, name), id) ||
           err_set(e, ERR_NOTFOUND, "there is no such thing");
}

static bool read_one(const cJSON *item, int64_t *id)
{
    if (!cJSON_IsNumber(item))
        return path_id_parse(cJSON_GetStringValue(item), id);
    *id = (int64_t)item->valuedouble;
    return item->valuedouble >= 1 && item->valuedouble <= 9007199254740991.0 &&
           (double)*id == item->valuedouble;
}

bool path_id_list(struct request *r, const cJSON *body, const struct path_id_ask *ask,
                  const struct store_ids **out, struct err *e)
{
    const cJSON *list = NULL, *item;
    *out = NULL;
    if (!json_get_array(body, ask->name, &list, e))
        return false;
    if (!list)
        return true;
    const int n = cJSON_GetArraySize(list);
    struct store_ids *ids = arena_alloc(r->arena, sizeof *ids);
    int64_t *at = arena_alloc(r->arena, ((size_t)n + 1) * sizeof *at);
    if (!ids || !at)
        return err_set(e, ERR_NOMEM, "no memory for a list");
    *ids = (struct store_ids){.at = at};
    cJSON_ArrayForEach (item, list)
        if (ids->n == ask->most || !read_one(item, &at[ids->n++]))
            return err_field(e, ERR_INPUT, ask->name, "must be a list of at most %d ids",
                             ask->most);
    *out = ids;
    return true;
}
