/* Login and logout of the page, the session, and a user's own password. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/session_cookie.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/core/store.h"

static bool login(struct request *r, struct err *e)
{
    struct credentials c = {0};
    const cJSON *body = request_json(r, e);
    struct store_user user;
    if (!body || !json_get_string(body, "name", &c.name, e) ||
        !json_get_string(body, "password", &c.password, e) ||
        !json_get_string(body, "code", &c.code, e))
        return false;
    if (!c.name || !c.password)
        return err_field(e, ERR_INPUT, c.name ? "password" : "name", "is needed");
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (strlen(c.password) > SECRET_PASSWORD_MAX)
        return err_field(e, ERR_INPUT, "password", "has more than %d bytes", SECRET_PASSWORD_MAX);
    return credentials_login(r, &c, &user, e) && credentials_open(r, &user, 200, e);
}

static bool logout(struct request *r, struct err *e)
{
    if (r->who.by == AUTH_SESSION) {
        if (!store_session_remove(r->store, r->who.token_hash, e))
            return false;
        audit_record(r, r->who.user_id, r->who.name, "logout", "");
    }
    session_cookie_send(r, "", 0);
    return reply_empty(r, 204);
}

static bool show_session(struct request *r, struct err *e)
{
    return credentials_reply_session(r, 200, r->who.csrf);
}

static bool change_password(struct request *r, struct err *e)
{
    const char *current = NULL, *fresh = NULL;
    const cJSON *body = request_json(r, e);
    struct store_user user;
    char hash[SECRET_PASSWORD_HASH_SIZE];
    struct store_new_password p = {
        .hash = hash, .keep_session = r->who.by == AUTH_SESSION ? r->who.token_hash : NULL};
    if (!body || !json_get_string(body, "current", &current, e) ||
        !json_get_string(body, "new", &fresh, e) ||
        !json_get_bool(body, "revoke_keys", &p.revoke_keys, e))
        return false;
    if (!current || !fresh)
        return err_field(e, ERR_INPUT, current ? "new" : "current", "is needed");
    if (!credentials_confirm(r, "current", current, &user, e) ||
        !credentials_hash(r, "new", fresh, hash, e) ||
        !store_user_set_password(r->store, r->who.user_id, &p, e))
        return false;
    audit_record(r, r->who.user_id, r->who.name, "password.change", "");
    if (p.revoke_keys)
        audit_record(r, r->who.user_id, r->who.name, "key.remove_all", "");
    return reply_empty(r, 204);
}

const struct route api_auth_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/login",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = login,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Log in: sets the session cookie",
             .body = "Login",
             .reply = "Session",
             .statuses = "200 401 429 503"}},
    {.method = HTTP_POST,
     .path = "/api/logout",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = logout,
     .scope = SCOPE_ANY,
     .doc = {.summary = "End the session", .statuses = "204"}},
    {.method = HTTP_GET,
     .path = "/api/session",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_session,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Who am I?", .reply = "Session", .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/password",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = change_password,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Change the own password; ends the other sessions",
             .body = "PasswordChange",
             .statuses = "204 429"}},
    {0},
};
