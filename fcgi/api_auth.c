/* Login and logout of the page, the session, and a user's own password. */
#define LOG_MODULE "auth"
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "fcgi/credentials.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/users.h"
#include "sql/core/store.h"

void users_audit(struct request *r, int64_t user_id, const char *user, const char *action, const char *target)
{
    struct err e = {0};
    struct store_audit row = {.user_id = user_id, .user = user, .action = action, .target = target,
                              .address = request_remote(r)};
    if (!store_audit_add(r->store, &row, &e))
        log_warn("id=%s action=%s not recorded: %s", r->id, action, e.text);
}

void users_audit_id(struct request *r, const char *action, const char *kind, int64_t id)
{
    char target[48];
    snprintf(target, sizeof target, "%s:%lld", kind, (long long)id);
    users_audit(r, r->who.user_id, r->who.name, action, target);
}

void users_put_id(cJSON *o, const char *name, int64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)id);
    cJSON_AddStringToObject(o, name, text);
}

void users_put_time(cJSON *o, const char *name, int64_t ms)
{
    cJSON_AddItemToObject(o, name, ms ? cJSON_CreateNumber((double)ms) : cJSON_CreateNull());
}

void users_put(cJSON *o, int64_t id, const char *name, bool admin)
{
    users_put_id(o, "id", id);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "role", admin ? "admin" : "user");
}

bool users_reply_session(struct request *r, int status, const char *csrf)
{
    cJSON *o = cJSON_CreateObject();
    users_put(cJSON_AddObjectToObject(o, "user"), r->who.user_id, r->who.name, r->who.admin);
    cJSON_AddItemToObject(o, "csrf", csrf[0] ? cJSON_CreateString(csrf) : cJSON_CreateNull());
    reply_json(r, status, o);
    cJSON_Delete(o);
    return true;
}

static bool login(struct request *r, struct err *e)
{
    const char *name = NULL, *password = NULL, *code = NULL;
    const cJSON *body = request_json(r, e);
    struct store_user user;
    if (!body || !json_get_string(body, "name", &name, e) || !json_get_string(body, "password", &password, e) ||
        !json_get_string(body, "code", &code, e))
        return false;
    if (!name || !password)
        return err_field(e, ERR_INPUT, name ? "password" : "name", "is needed");
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (strlen(password) > SECRET_PASSWORD_MAX)
        return err_field(e, ERR_INPUT, "password", "has more than %d bytes", SECRET_PASSWORD_MAX);
    return credentials_login(r, name, password, code, &user, e) && credentials_open(r, &user, 200, e);
}

static bool logout(struct request *r, struct err *e)
{
    if (r->who.by == AUTH_SESSION) {
        if (!store_session_remove(r->store, r->who.token_hash, e))
            return false;
        users_audit(r, r->who.user_id, r->who.name, "logout", "");
    }
    credentials_cookie(r, "", 0);
    return reply_empty(r, 204);
}

static bool show_session(struct request *r, struct err *e)
{
    return users_reply_session(r, 200, r->who.csrf);
}

static bool change_password(struct request *r, struct err *e)
{
    const char *current = NULL, *fresh = NULL;
    const cJSON *body = request_json(r, e);
    struct store_user user;
    char hash[SECRET_PASSWORD_HASH_SIZE];
    if (!body || !json_get_string(body, "current", &current, e) || !json_get_string(body, "new", &fresh, e))
        return false;
    if (!current || !fresh)
        return err_field(e, ERR_INPUT, current ? "new" : "current", "is needed");
    const unsigned char *keep = r->who.by == AUTH_SESSION ? r->who.token_hash : NULL;
    if (!credentials_confirm(r, "current", current, &user, e) || !credentials_hash("new", fresh, hash, e) ||
        !store_user_set_password(r->store, r->who.user_id, hash, keep, e))
        return false;
    users_audit(r, r->who.user_id, r->who.name, "password.change", "");
    return reply_empty(r, 204);
}

const struct route api_auth_routes[] = {
    {HTTP_POST, "/api/login", ROUTE_OPEN, POOL_SHORT, USERS_BODY, login, SCOPE_ANY,
     {.summary = "Log in: sets the session cookie", .body = "Login", .reply = "Session",
      .statuses = "200 401 429 503"}},
    {HTTP_POST, "/api/logout", ROUTE_USER, POOL_SHORT, 0, logout, SCOPE_ANY,
     {.summary = "End the session", .statuses = "204"}},
    {HTTP_GET, "/api/session", ROUTE_USER, POOL_SHORT, 0, show_session, SCOPE_ANY,
     {.summary = "Who am I?", .reply = "Session", .statuses = "200"}},
    {HTTP_POST, "/api/password", ROUTE_USER, POOL_SHORT, USERS_BODY, change_password, SCOPE_ADMIN,
     {.summary = "Change the own password; ends the other sessions", .body = "PasswordChange", .statuses = "204 429"}},
    {0},
};
