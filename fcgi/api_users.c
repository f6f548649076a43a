/* Users, for admins. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/users.h"

static bool list_user(void *context, const struct store_user *u)
{
    cJSON *o = cJSON_CreateObject();
    users_put(o, u->id, u->name, u->admin);
    cJSON_AddBoolToObject(o, "disabled", u->disabled);
    cJSON_AddNumberToObject(o, "created_at", (double)u->created_at);
    return cJSON_AddItemToArray(context, o);
}

static bool list_users(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = store_user_list(r->store, list_user, cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool add_user(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *name = NULL, *password = NULL, *role = "user";
    char hash[SECRET_PASSWORD_HASH_SIZE], target[32];
    int64_t id;
    if (!body || !json_get_string(body, "name", &name, e) || !json_get_string(body, "password", &password, e) ||
        !json_get_string(body, "role", &role, e))
        return false;
    if (!name || !password)
        return err_field(e, ERR_INPUT, name ? "password" : "name", "is needed");
    bool admin = !strcmp(role, "admin");
    if (!admin && strcmp(role, "user"))
        return err_field(e, ERR_INPUT, "role", "must be admin or user");
    if (!users_hash_password(password, hash, e) || !store_user_add(r->store, name, hash, admin, &id, e))
        return false;
    snprintf(target, sizeof target, "user:%lld", (long long)id);
    users_audit(r, r->who.user_id, r->who.name, "user.add", target);
    cJSON *o = cJSON_CreateObject();
    users_put(o, id, name, admin);
    reply_json(r, 201, o);
    cJSON_Delete(o);
    return true;
}

static bool remove_user(struct request *r, struct err *e)
{
    int64_t id;
    char target[32];
    if (!users_path_id(r, &id, e) || !store_user_remove(r->store, id, e))
        return false;
    snprintf(target, sizeof target, "user:%lld", (long long)id);
    users_audit(r, r->who.user_id, r->who.name, "user.remove", target);
    return reply_empty(r, 204);
}

#define SMALL_BODY ((size_t)16 << 10)

const struct route api_users_routes[] = {
    {HTTP_GET, "/api/users", ROUTE_ADMIN, POOL_SHORT, 0, list_users, SCOPE_ADMIN,
     {.summary = "List the users", .reply = "UserList", .statuses = "200"}},
    {HTTP_POST, "/api/users", ROUTE_ADMIN, POOL_SHORT, SMALL_BODY, add_user, SCOPE_ADMIN,
     {.summary = "Add a user", .body = "UserRequest", .reply = "User", .statuses = "201 409"}},
    {HTTP_DELETE, "/api/users/{id}", ROUTE_ADMIN, POOL_SHORT, 0, remove_user, SCOPE_ADMIN,
     {.summary = "Remove a user and all that is theirs", .statuses = "204 409"}},
    {0},
};
