/* Login and logout of the page, the session, and a user's own password. */
#define LOG_MODULE "auth"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/shared.h"
#include "fcgi/users.h"
#include "fcgi/worker.h"
#include "sql/store.h"

#define FREE_BY_PAIR 5     /* failures of a name from one address before waiting begins */
#define FREE_BY_ADDRESS 20 /* of an address, whatever the names */
#define FREE_BY_NAME 100   /* of a name from anywhere: high, or strangers could lock a user out */

/* argon2id takes 64 MiB a piece: one at a time in each process. */
static pthread_mutex_t argon_lock = PTHREAD_MUTEX_INITIALIZER;

bool users_verify_password(const char *password, const char *hash)
{
    pthread_mutex_lock(&argon_lock);
    bool ok = secret_password_verify(password, hash);
    pthread_mutex_unlock(&argon_lock);
    return ok;
}

bool users_hash_password(const char *password, char out[SECRET_PASSWORD_HASH_SIZE], struct err *e)
{
    pthread_mutex_lock(&argon_lock);
    bool ok = secret_password_hash(password, out, e);
    pthread_mutex_unlock(&argon_lock);
    return ok;
}

void users_audit(struct request *r, int64_t user_id, const char *user, const char *action, const char *target)
{
    struct err e = {0};
    struct store_audit row = {.user_id = user_id, .user = user, .action = action, .target = target,
                              .address = request_remote(r)};
    if (!store_audit_add(r->store, &row, &e))
        log_warn("id=%s action=%s not recorded: %s", r->id, action, e.text);
}

struct throttle_keys {
    uint64_t pair, address, name;
};

static struct throttle_keys throttle_keys(const struct request *r, const char *name)
{
    char lower[256];
    size_t n = 0;
    for (; name[n] && n < sizeof lower - 1; n++)
        lower[n] = name[n] >= 'A' && name[n] <= 'Z' ? (char)(name[n] | 0x20) : name[n];
    const char *address = request_remote(r);
    uint64_t by_address = hash64(address, strlen(address), 1);
    return (struct throttle_keys){.pair = hash64(lower, n, by_address), .address = by_address,
                                  .name = hash64(lower, n, 2)};
}

static bool throttle(struct request *r, const struct throttle_keys *k, struct err *e)
{
    struct shared *s = r->worker->shared;
    int64_t wait = shared_throttle_wait(s, k->pair, FREE_BY_PAIR);
    int64_t other = shared_throttle_wait(s, k->address, FREE_BY_ADDRESS);
    wait = other > wait ? other : wait;
    other = shared_throttle_wait(s, k->name, FREE_BY_NAME);
    wait = other > wait ? other : wait;
    if (wait <= 0)
        return true;
    atomic_fetch_add_explicit(&s->login_throttled, 1, memory_order_relaxed);
    r->hint.status = 429;
    r->hint.code = "too_many_attempts";
    r->hint.retry_after_s = (int)(wait / 1000) + 1;
    return err_set(e, ERR_LIMIT, "too many failed logins; try again in %d s", r->hint.retry_after_s);
}

static bool check_password(struct request *r, const char *name, const char *password, struct store_user *user,
                           struct err *e)
{
    struct throttle_keys keys = throttle_keys(r, name);
    struct err why = {0};
    if (!throttle(r, &keys, e))
        return false;
    bool known = store_user_by_name(r->store, r->arena, name, user, &why);
    if (!known && why.code != ERR_NOTFOUND && why.code != ERR_INPUT) {
        *e = why;
        return false;
    }
    /* an unknown name costs the same time as a wrong password */
    if (users_verify_password(password, known ? user->password_hash : NULL) && known && !user->disabled) {
        shared_throttle_clear(r->worker->shared, keys.pair);
        return true;
    }
    shared_throttle_fail(r->worker->shared, keys.pair);
    shared_throttle_fail(r->worker->shared, keys.address);
    shared_throttle_fail(r->worker->shared, keys.name);
    users_audit(r, known ? user->id : 0, known ? user->name : "", "login.fail", "");
    r->hint.code = "invalid_login";
    return err_set(e, ERR_AUTH, "the name or the password is wrong");
}

/* Sets the cookie; max_age 0 takes it away. */
static void set_cookie(struct request *r, const char *token, int64_t max_age_s)
{
    char cookie[256];
    snprintf(cookie, sizeof cookie, AUTH_COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%lld%s", token,
             (long long)max_age_s, request_secure(r) ? "; Secure" : "");
    reply_header(r, "Set-Cookie", cookie);
}

void users_put(cJSON *o, int64_t id, const char *name, bool admin)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)id);
    cJSON_AddStringToObject(o, "id", text);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "role", admin ? "admin" : "user");
}

static bool reply_session(struct request *r, int64_t id, const char *name, bool admin, const char *csrf)
{
    cJSON *o = cJSON_CreateObject();
    users_put(cJSON_AddObjectToObject(o, "user"), id, name, admin);
    if (csrf[0])
        cJSON_AddStringToObject(o, "csrf", csrf);
    else
        cJSON_AddNullToObject(o, "csrf");
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static bool open_session(struct request *r, const struct store_user *user, struct err *e)
{
    char token[SECRET_TOKEN_SIZE], csrf[SECRET_TOKEN_SIZE];
    const char *agent = request_header(r, "User-Agent");
    struct store_session s = {.user_id = user->id, .created_at = clock_wall_ms(), .address = request_remote(r),
                              .agent = agent ? agent : ""};
    s.expires_at = s.created_at + STORE_SESSION_MS;
    secret_token(token);
    secret_hash(token, s.token_hash);
    secret_csrf(s.token_hash, csrf);
    if (!store_session_add(r->store, &s, e))
        return false;
    set_cookie(r, token, STORE_SESSION_MS / 1000);
    secret_wipe(token, sizeof token);
    return reply_session(r, user->id, user->name, user->admin, csrf);
}

static bool login(struct request *r, struct err *e)
{
    const char *name = NULL, *password = NULL;
    const cJSON *body = request_json(r, e);
    struct store_user user;
    if (!body || !json_get_string(body, "name", &name, e) || !json_get_string(body, "password", &password, e))
        return false;
    if (!name || !password)
        return err_field(e, ERR_INPUT, name ? "password" : "name", "is needed");
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (strlen(password) > SECRET_PASSWORD_MAX)
        return err_field(e, ERR_INPUT, "password", "has more than %d bytes", SECRET_PASSWORD_MAX);
    if (!check_password(r, name, password, &user, e))
        return false;
    r->who = (struct identity){.by = AUTH_SESSION, .user_id = user.id, .name = user.name, .admin = user.admin};
    return open_session(r, &user, e);
}

static bool logout(struct request *r, struct err *e)
{
    if (r->who.by == AUTH_SESSION && !store_session_remove(r->store, r->who.token_hash, e))
        return false;
    set_cookie(r, "", 0);
    return reply_empty(r, 204);
}

static bool show_session(struct request *r, struct err *e)
{
    return reply_session(r, r->who.user_id, r->who.name, r->who.admin, r->who.csrf);
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
    if (strlen(current) > SECRET_PASSWORD_MAX)
        return err_field(e, ERR_INPUT, "current", "has more than %d bytes", SECRET_PASSWORD_MAX);
    struct throttle_keys keys = throttle_keys(r, r->who.name);
    if (!throttle(r, &keys, e) || !store_user_by_id(r->store, r->arena, r->who.user_id, &user, e))
        return false;
    if (!users_verify_password(current, user.password_hash)) {
        shared_throttle_fail(r->worker->shared, keys.pair);
        return err_field(e, ERR_FORBIDDEN, "current", "is not the password");
    }
    if (!users_hash_password(fresh, hash, e)) {
        if (e->code == ERR_INPUT)
            snprintf(e->field, sizeof e->field, "new");
        return false;
    }
    const unsigned char *keep = r->who.by == AUTH_SESSION ? r->who.token_hash : NULL;
    if (!store_user_set_password(r->store, r->who.user_id, hash, keep, e))
        return false;
    users_audit(r, r->who.user_id, r->who.name, "password.change", "");
    return reply_empty(r, 204);
}

#define SMALL_BODY ((size_t)16 << 10)

const struct route api_auth_routes[] = {
    {HTTP_POST, "/api/login", ROUTE_OPEN, POOL_SHORT, SMALL_BODY, login, SCOPE_ANY,
     {.summary = "Log in: sets the session cookie", .body = "Login", .reply = "Session",
      .statuses = "200 401 429 503"}},
    {HTTP_POST, "/api/logout", ROUTE_USER, POOL_SHORT, 0, logout, SCOPE_ANY,
     {.summary = "End the session", .statuses = "204"}},
    {HTTP_GET, "/api/session", ROUTE_USER, POOL_SHORT, 0, show_session, SCOPE_ANY,
     {.summary = "Who am I?", .reply = "Session", .statuses = "200"}},
    {HTTP_POST, "/api/password", ROUTE_USER, POOL_SHORT, SMALL_BODY, change_password, SCOPE_ADMIN,
     {.summary = "Change the own password; ends the other sessions", .body = "PasswordChange", .statuses = "204 429"}},
    {0},
};
