/* user_groups.h: both are read with each request, so that they show what counts for the next. */
#include "fcgi/account/user_groups.h"

#include "fcgi/auth/limits.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/request.h"
#include "sql/users/store_groups.h"

static bool put_group(void *context, const struct store_group *g)
{
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", g->id);
    cJSON_AddStringToObject(o, "name", g->name);
    cJSON_AddStringToObject(o, "description", g->description);
    return cJSON_AddItemToArray(context, o);
}

bool user_groups_put(struct request *r, int64_t user_id, cJSON *o, struct err *e)
{
    struct store_limits_given given;
    cJSON *groups = cJSON_AddArrayToObject(o, "groups");
    if (!store_groups_of_user(r->store, user_id, put_group, groups, e) ||
        !limits_given(r, user_id, &given, e))
        return false;
    limits_put_given(o, &given, groups);
    return true;
}
