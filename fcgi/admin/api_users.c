/* Users, for admins: their roles, limits, sessions and keys. */
#include <stddef.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/account/user_groups.h"
#include "fcgi/account/user_jobs.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/limits.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "sql/users/store_factor.h"
#include "sql/users/store_users.h"

#define PAGE_MAX 500

static bool put_person(void *context, const struct store_user_overview *p)
{
    cJSON *o = cJSON_CreateObject(), *used;
    credentials_put_identity(o, p->user.id, p->user.name, p->user.admin);
    cJSON_AddBoolToObject(o, "disabled", p->user.disabled);
    cJSON_AddNumberToObject(o, "created_at", (double)p->user.created_at);
    json_put_time(o, "last_seen_at", p->last_seen);
    cJSON_AddBoolToObject(o, "second_factor", p->second_factor);
    cJSON_AddNumberToObject(o, "sessions", (double)p->sessions);
    cJSON_AddNumberToObject(o, "keys", (double)p->keys);
    used = cJSON_AddObjectToObject(o, "used");
    cJSON_AddNumberToObject(used, "tokens_today", (double)p->tokens_today);
    cJSON_AddNumberToObject(used, "storage_bytes", (double)p->stored_bytes);
    if (p->own_limits)
        limits_put(cJSON_AddObjectToObject(o, "limits"), &p->limits);
    else
        cJSON_AddNullToObject(o, "limits");
    return cJSON_AddItemToArray(context, o);
}

/* After the rows: each takes statements of its own. */
static bool add_groups(struct request *r, cJSON *items, struct err *e)
{
    cJSON *o;
    int64_t id;
    cJSON_ArrayForEach (o, items)
        if (path_id_parse(json_text(o, "id"), &id) && !user_groups_put(r, id, o, e))
            return false;
    return true;
}

/* What they have used today is in the list. */
static void count_used(struct request *r)
{
    struct err e = {0};
    usage_ledger_count(r->worker->shared, r->store, &e); /* the recorder says so where it fails */
}

static bool list_users(struct request *r, struct err *e)
{
    int64_t after = 0, limit = PAGE_MAX;
    cJSON *o = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(o, "items");
    count_used(r);
    bool ok = request_query_int(r, "after", 0, INT64_C(1) << 52, &after, e) &&
              request_query_int(r, "limit", 1, PAGE_MAX, &limit, e) &&
              store_user_overview_list(
                  r->store, &(struct store_user_page){.after = after, .limit = (int)limit},
                  put_person, items, e) &&
              add_groups(r, items, e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool reply_person(struct request *r, int status, int64_t id, struct err *e)
{
    cJSON *list = cJSON_CreateArray();
    count_used(r);
    bool ok = store_user_overview_list(r->store, &(struct store_user_page){.limit = 1, .only = id},
                                       put_person, list, e) &&
              (list->child || err_set(e, ERR_NOTFOUND, "there is no such user")) &&
              add_groups(r, list, e);
    if (ok)
        reply_json(r, status, list->child);
    cJSON_Delete(list);
    return ok;
}

static bool read_role(const cJSON *body, bool *given, bool *admin, struct err *e)
{
    const char *role = NULL;
    if (!json_get_string(body, "role", &role, e))
        return false;
    *given = role != NULL;
    *admin = role && !strcmp(role, "admin");
    return !role || *admin || !strcmp(role, "user") ||
           err_field(e, ERR_INPUT, "role", "must be admin or user");
}

static bool add_user(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *name = NULL, *password = NULL;
    char hash[SECRET_PASSWORD_HASH_SIZE];
    bool admin, given;
    int64_t id;
    if (!body || !json_get_string(body, "name", &name, e) ||
        !json_get_string(body, "password", &password, e) || !read_role(body, &given, &admin, e))
        return false;
    if (!name || !password)
        return err_field(e, ERR_INPUT, name ? "password" : "name", "is needed");
    if (!credentials_hash(r, "password", password, hash, e) ||
        !store_user_add(r->store,
                        &(struct store_user){.name = name, .password_hash = hash, .admin = admin},
                        &id, e))
        return false;
    audit_record_id(r, "user.add", "user", id);
    return reply_person(r, 201, id, e);
}

struct change {
    struct store_user_change row;
    const char *password;
    char hash[SECRET_PASSWORD_HASH_SIZE];
    struct store_user_limits limits;
};

/* Those that are not said stay as they are. */
static bool read_limits(struct request *r, int64_t id, const cJSON *body, struct change *c,
                        struct err *e)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"requests_per_minute", offsetof(struct store_user_limits, requests_per_minute)},
                {"tokens_per_minute", offsetof(struct store_user_limits, tokens_per_minute)},
                {"max_jobs", offsetof(struct store_user_limits, max_jobs)},
                {"tokens_per_day", offsetof(struct store_user_limits, tokens_per_day)},
                {"storage_bytes", offsetof(struct store_user_limits, storage_bytes)}};
    const cJSON *sent = cJSON_GetObjectItemCaseSensitive(body, "limits"), *o = NULL;
    bool own;
    c->row.has_limits = sent != NULL;
    if (!sent || !json_get_object(body, "limits", &o, e))
        return !sent;
    c->row.limits = o ? &c->limits : NULL;
    if (!o || !limits_of_user(r, id, &c->limits, &own, e))
        return !o;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t *at = (int64_t *)(void *)((char *)&c->limits + rows[i].offset);
        const int64_t most = i < 3 ? STORE_LIMIT_MAX : STORE_USER_LIMIT_MAX;
        if (!json_get_int(o, rows[i].name, 0, most, at, e))
            return false;
    }
    return true;
}

static const struct field_row changeable[] = {{"role", FIELD_READ},
                                              {"disabled", FIELD_READ},
                                              {"password", FIELD_READ},
                                              {"second_factor", FIELD_READ},
                                              {"limits", FIELD_READ},
                                              {"revoke_keys", FIELD_READ},
                                              {0}};

static bool read_change(struct request *r, int64_t id, struct change *c, struct err *e)
{
    const cJSON *body = request_json(r, e);
    struct store_user_change *row = &c->row;
    bool factor = true;
    row->password.revoke_keys = true; /* whoever has the old password may have made keys by it */
    if (!body || !fields_check(r, body, changeable, e) ||
        !read_role(body, &row->has_role, &row->admin, e) ||
        !json_get_bool(body, "disabled", &row->disabled, e) ||
        !json_get_bool(body, "second_factor", &factor, e) ||
        !json_get_string(body, "password", &c->password, e) ||
        !json_get_bool(body, "revoke_keys", &row->password.revoke_keys, e) ||
        !read_limits(r, id, body, c, e))
        return false;
    row->has_disabled = json_member(body, "disabled") != NULL;
    row->drop_factor = !factor;
    if (json_member(body, "second_factor") && factor)
        return err_field(e, ERR_INPUT, "second_factor",
                         "only its owner can turn it on; false takes it away");
    if (id == r->who.user_id &&
        ((row->has_disabled && row->disabled) || (row->has_role && !row->admin)))
        return err_set(e, ERR_CONFLICT, "another admin has to do this to your own account") ||
               err_reason(e, "own_account");
    if (!c->password)
        return !json_member(body, "revoke_keys") ||
               err_field(e, ERR_INPUT, "revoke_keys", "goes with a new password only");
    row->password.hash = c->hash;
    row->password.revoke_passkeys = row->password.revoke_keys; /* for the same reason */
    return credentials_hash(r, "password", c->password, c->hash, e);
}

static void log_change(struct request *r, int64_t id, const struct store_user_change *row)
{
    const struct {
        bool done;
        const char *action;
    } rows[] = {{row->password.hash, "user.password"},
                {row->password.hash && row->password.revoke_keys, "key.remove_all"},
                {row->has_role, row->admin ? "user.role.admin" : "user.role.user"},
                {row->has_disabled, row->disabled ? "user.disable" : "user.enable"},
                {row->drop_factor, "second_factor.reset"},
                {row->has_limits, "user.limits"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].done)
            audit_record_id(r, rows[i].action, "user", id);
}

static bool change_user(struct request *r, struct err *e)
{
    struct store_user user;
    struct change c = {0};
    int64_t id;
    if (!request_json(r, e) || !path_id_param(r, "id", &id, e) ||
        !store_user_by_id(r->store, r->arena, id, &user, e) || !read_change(r, id, &c, e) ||
        !store_user_change(r->store, id, &c.row, e))
        return false;
    log_change(r, id, &c.row);
    if (c.row.has_disabled && c.row.disabled)
        user_jobs_cancel(r, id);
    return reply_person(r, 200, id, e);
}

static bool remove_user(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_user_remove(r->store, id, e))
        return false;
    audit_record_id(r, "user.remove", "user", id);
    user_jobs_cancel(r, id);
    return reply_empty(r, 204);
}

/* The {id} of a user who is there. */
static bool path_user(struct request *r, int64_t *id, struct err *e)
{
    struct store_user user;
    return path_id_param(r, "id", id, e) && store_user_by_id(r->store, r->arena, *id, &user, e);
}

static bool list_sessions(struct request *r, struct err *e)
{
    int64_t id;
    return path_user(r, &id, e) && account_reply_sessions(r, id, e);
}

static bool end_session(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_user(r, &id, e) || !store_session_end(r->store, id, request_param(r, "session"), e))
        return false;
    audit_record_id(r, "session.end", "user", id);
    return reply_empty(r, 204);
}

static bool end_sessions(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_user(r, &id, e) || !store_session_end_all(r->store, id, NULL, NULL, e))
        return false;
    audit_record_id(r, "session.end_all", "user", id);
    return reply_empty(r, 204);
}

static bool list_keys(struct request *r, struct err *e)
{
    int64_t id;
    return path_user(r, &id, e) && account_reply_keys(r, id, e);
}

static bool remove_key(struct request *r, struct err *e)
{
    int64_t id, key;
    if (!path_user(r, &id, e) || !path_id_param(r, "key", &key, e) ||
        !store_key_remove(r->store, id, key, e))
        return false;
    audit_record_id(r, "key.remove", "key", key);
    return reply_empty(r, 204);
}

const struct route api_users_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/users",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list_users,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "List the users",
             .query = "UserQuery",
             .reply = "PersonList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/users",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = add_user,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Make a user",
             .body = "UserRequest",
             .reply = "Person",
             .statuses = "201 409"}},
    {.method = HTTP_PATCH,
     .path = "/api/users/{id}",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = change_user,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Change a user's role, limits or password, disable the account, take its "
                        "second factor away",
             .body = "PersonChange",
             .reply = "Person",
             .statuses = "200 409"}},
    {.method = HTTP_DELETE,
     .path = "/api/users/{id}",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = remove_user,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Remove a user and all that was theirs", .statuses = "204 409"}},
    {.method = HTTP_GET,
     .path = "/api/users/{id}/sessions",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list_sessions,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Where a user is logged in", .reply = "SessionList", .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/users/{id}/sessions",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = end_sessions,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "End all sessions of a user", .statuses = "204"}},
    {.method = HTTP_DELETE,
     .path = "/api/users/{id}/sessions/{session}",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = end_session,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "End one session of a user", .statuses = "204"}},
    {.method = HTTP_GET,
     .path = "/api/users/{id}/keys",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list_keys,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "List a user's keys", .reply = "KeyList", .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/users/{id}/keys/{key}",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = remove_key,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Revoke a user's key at once", .statuses = "204"}},
    {0},
};
