/* credentials.h: argon2id passes the gate of slow work, and a failure costs the same whether the
 * name exists or not. */
#define LOG_MODULE "auth"
#include "fcgi/auth/credentials.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/auth/auth.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/auth/session_cookie.h"
#include "fcgi/auth/throttle.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/client_address.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/users/store_factor.h"
#include "sql/users/store_users.h"

/* After work_begin, which comes before the throttle: an attempt that is refused for lack of room is
 * not counted as a guess. */
static bool verify(struct request *r, const char *password, const char *hash)
{
    bool ok = secret_password_verify(password, hash);
    work_end(r, WORK_PASSWORD);
    return ok;
}

/* The gate keeps places for who comes from there again. */
static void was_right(struct request *r, const struct throttle *t)
{
    throttle_forgive(r, t);
    shared_known_note(r->worker->shared, KNOWN_ADDRESS, client_address_key(r));
}

bool credentials_hash(struct request *r, const char *field, const char *password,
                      char out[SECRET_PASSWORD_HASH_SIZE], struct err *e)
{
    if (!work_begin(r, WORK_PASSWORD, e))
        return false;
    bool ok = secret_password_hash(password, out, e);
    work_end(r, WORK_PASSWORD);
    if (!ok && e && e->code == ERR_INPUT)
        snprintf(e->field, sizeof e->field, "%s", field);
    return ok;
}

/* A code of the user's second factor, which is on. doing: what the audit log calls the attempt. */
static bool take_code(struct request *r, const struct store_user *user, const char *code,
                      const char *doing, struct err *e)
{
    struct throttle t;
    struct err why = {0};
    bool recovery = false;
    char subject[32], action[48];
    snprintf(subject, sizeof subject, "%lld", (long long)user->id);
    if (!throttle_enter(r, THROTTLE_CODE, subject, &t, e))
        return false;
    if (store_factor_check(r->store, user->id, code, &recovery, &why)) {
        throttle_forgive(r, &t);
        snprintf(action, sizeof action, "%s.recovery_code", doing);
        if (recovery)
            audit_record(r, user->id, user->name, action, "");
        return true;
    }
    if (why.code != ERR_AUTH) {
        *e = why;
        return false;
    }
    snprintf(action, sizeof action, "%s.fail", doing);
    audit_record(r, user->id, user->name, action, "second factor");
    r->error_override.code = "invalid_code";
    return err_field(e, ERR_AUTH, "code", "%s", why.text);
}

bool credentials_check_code(struct request *r, const struct store_user *user, const char *code,
                            struct err *e)
{
    struct store_factor factor;
    if (!store_factor_get(r->store, user->id, &factor, e))
        return false;
    if (!factor.on)
        return true;
    if (!code || !*code) {
        r->error_override.code = "second_factor_needed";
        return err_field(e, ERR_AUTH, "code",
                         "this account has a second factor: send the code that the app shows");
    }
    return take_code(r, user, code, "login", e);
}

bool credentials_login(struct request *r, const struct credentials *c, struct store_user *user,
                       struct err *e)
{
    struct throttle t;
    struct err why = {0};
    if (!work_begin(r, WORK_PASSWORD, e) || !throttle_enter(r, THROTTLE_LOGIN, c->name, &t, e))
        return false;
    bool known = store_user_by_name(r->store, r->arena, c->name, user, &why);
    if (!known && why.code != ERR_NOTFOUND && why.code != ERR_INPUT) {
        *e = why;
        return false;
    }
    /* An unknown name costs the same time as a wrong password. */
    if (verify(r, c->password, known ? user->password_hash : NULL) && known && !user->disabled) {
        was_right(r, &t);
        return credentials_check_code(r, user, c->code, e);
    }
    audit_record(r, known ? user->id : 0, known ? user->name : "", "login.fail", "");
    r->error_override.code = "invalid_login";
    return err_set(e, ERR_AUTH, "the name or the password is wrong");
}

bool credentials_has_password(const struct store_user *user)
{
    return strcmp(user->password_hash, secret_no_password()) != 0;
}

bool credentials_confirm(struct request *r, const char *field, const char *password,
                         struct store_user *user, struct err *e)
{
    struct throttle t;
    if (!password) {
        if (!store_user_by_id(r->store, r->arena, r->who.user_id, user, e))
            return false;
        if (r->who.by == AUTH_SESSION && !credentials_has_password(user))
            return confirmation_check(r, e);
        return err_field(e, ERR_INPUT, field, "is needed");
    }
    if (strlen(password) > SECRET_PASSWORD_MAX)
        return err_field(e, ERR_INPUT, field, "has more than %d bytes", SECRET_PASSWORD_MAX);
    if (!work_begin(r, WORK_PASSWORD, e) ||
        !throttle_enter(r, THROTTLE_LOGIN, r->who.name, &t, e) ||
        !store_user_by_id(r->store, r->arena, r->who.user_id, user, e))
        return false;
    if (!verify(r, password, user->password_hash)) {
        audit_record(r, user->id, user->name, "password.fail", r->route->path);
        err_field(e, ERR_FORBIDDEN, field, "is not the password");
        return err_reason(e, "wrong_password");
    }
    was_right(r, &t);
    return confirmation_renew(r, e);
}

bool credentials_confirm_code(struct request *r, const char *code, struct err *e)
{
    const struct store_user user = {.id = r->who.user_id, .name = r->who.name};
    struct store_factor factor;
    struct err why = {0};
    if (!store_factor_get(r->store, user.id, &factor, e))
        return false;
    if (!factor.on)
        return err_field(e, ERR_INPUT, "code", "this account has no second factor");
    if (take_code(r, &user, code, "confirm", &why))
        return confirmation_renew(r, e);
    *e = why;
    if (e->code == ERR_AUTH)
        e->code = ERR_FORBIDDEN; /* the session goes on: 401 would say that it has ended */
    return false;
}

static void end_presented(struct request *r)
{
    const char *tokens[SESSION_COOKIES_MAX];
    const int n = session_cookie_all(r, tokens);
    for (int i = 0; i < n; i++) {
        unsigned char hash[SECRET_HASH_BYTES];
        struct err e = {0};
        secret_hash(tokens[i], hash);
        if (!store_session_remove(r->store, hash, &e))
            log_warn("id=%s a former session was not ended: %s", r->id, e.text);
    }
}

void credentials_put_identity(cJSON *o, int64_t id, const char *name, bool admin)
{
    json_put_id(o, "id", id);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "role", admin ? "admin" : "user");
}

/* With the session, so that the page needs no second request before its keys are right. */
static void add_preferences(struct request *r, cJSON *o)
{
    const char *stored = "{}";
    struct err e = {0};
    if (r->store)
        store_user_preferences(r->store, r->arena, r->who.user_id, &stored, &e);
    cJSON_AddItemToObject(o, "preferences", json_parse(stored, strlen(stored), NULL, NULL));
}

bool credentials_reply_session(struct request *r, int status, const char *csrf)
{
    cJSON *o = cJSON_CreateObject();
    credentials_put_identity(cJSON_AddObjectToObject(o, "user"), r->who.user_id, r->who.name,
                             r->who.admin);
    add_preferences(r, o);
    cJSON_AddItemToObject(o, "csrf", csrf[0] ? cJSON_CreateString(csrf) : cJSON_CreateNull());
    reply_json(r, status, o);
    cJSON_Delete(o);
    return true;
}

bool credentials_begin_session(struct request *r, const struct store_user *user, const char *how,
                               char csrf[SECRET_TOKEN_SIZE], struct err *e)
{
    char token[SECRET_TOKEN_SIZE];
    const char *agent = request_header(r, "User-Agent");
    struct store_session s = {.user_id = user->id,
                              .created_at = clock_wall_ms(),
                              .address = request_remote(r),
                              .agent = agent ? agent : ""};
    s.expires_at = s.created_at + STORE_SESSION_MS;
    secret_token(token);
    secret_hash(token, s.token_hash);
    secret_csrf(s.token_hash, csrf);
    end_presented(r);
    if (!store_session_add(r->store, &s, e))
        return false;
    r->who = (struct identity){
        .by = AUTH_SESSION, .user_id = user->id, .name = user->name, .admin = user->admin};
    audit_record(r, user->id, user->name, "login", how);
    session_cookie_send(r, token, STORE_SESSION_MS / 1000);
    secret_wipe(token, sizeof token);
    return true;
}

bool credentials_open(struct request *r, const struct store_user *user, int status, struct err *e)
{
    char csrf[SECRET_TOKEN_SIZE];
    return credentials_begin_session(r, user, "", csrf, e) &&
           credentials_reply_session(r, status, csrf);
}
