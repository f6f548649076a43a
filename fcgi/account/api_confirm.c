/* A session confirms that its user is still the one who logged in (auth/confirmation.h). */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/passkeys.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/users/store_factor.h"

static bool only_sessions(const struct request *r, struct err *e)
{
    return r->who.by == AUTH_SESSION ||
           err_set(e, ERR_FORBIDDEN,
                   "only sessions are asked to confirm; a key may do what its scopes allow");
}

/* What its user can confirm by, so that nobody is asked for what they have not. */
static bool show(struct request *r, struct err *e)
{
    struct store_user user;
    struct store_factor factor;
    struct webauthn_site site;
    struct err unused = {0};
    int64_t passkeys = 0;
    bool fresh;
    if (!only_sessions(r, e) || !store_user_by_id(r->store, r->arena, r->who.user_id, &user, e) ||
        !store_factor_get(r->store, user.id, &factor, e) ||
        !store_passkey_count(r->store, user.id, &passkeys, e) || !confirmation_fresh(r, &fresh, e))
        return false;
    const bool passkey = passkeys && passkeys_site(r, &site, &unused);
    r->error_override.code = NULL;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddBoolToObject(o, "confirmed", fresh);
    cJSON_AddBoolToObject(o, "password", credentials_has_password(&user));
    cJSON_AddBoolToObject(o, "code", factor.on);
    cJSON_AddBoolToObject(o, "passkey", passkey);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static struct passkeys_asker asker(const struct request *r)
{
    struct passkeys_asker who = {.purpose = "confirm"};
    memcpy(who.by, r->who.token_hash, sizeof who.by);
    return who;
}

static bool begin(struct request *r, struct err *e)
{
    struct webauthn_site site;
    const struct passkeys_asker who = asker(r);
    if (!only_sessions(r, e) || !passkeys_site(r, &site, e))
        return false;
    cJSON *o = passkeys_options(r, &who, &site, e);
    bool ok =
        o && passkeys_describe(r, r->who.user_id, cJSON_AddArrayToObject(o, "allowCredentials"), e);
    if (ok)
        reply_json(r, 201, o);
    cJSON_Delete(o);
    return ok;
}

static bool by_passkey(struct request *r, const cJSON *body, struct err *e)
{
    const struct passkeys_asker who = asker(r);
    struct store_passkey p;
    if (passkeys_verify(r, body, &who, &p, e))
        return confirmation_renew(r, e);
    if (e->code == ERR_AUTH)
        e->code = ERR_FORBIDDEN; /* the session goes on: 401 would say that it has ended */
    return false;
}

static bool confirm(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *password = NULL, *code = NULL;
    const cJSON *passkey = NULL;
    struct store_user user;
    if (!body || !json_get_string(body, "password", &password, e) ||
        !json_get_string(body, "code", &code, e) ||
        !json_get_object(body, "passkey", &passkey, e) || !only_sessions(r, e))
        return false;
    if (!!password + !!code + !!passkey != 1)
        return err_field(e, ERR_INPUT, "password",
                         "is needed, or a code or a passkey in its place");
    if (password ? !credentials_confirm(r, "password", password, &user, e)
        : code   ? !credentials_confirm_code(r, code, e)
                 : !by_passkey(r, body, e))
        return false;
    audit_record(r, r->who.user_id, r->who.name, "session.confirm",
                 password ? "password"
                 : code   ? "code"
                          : "passkey");
    return reply_empty(r, 204);
}

const struct route api_confirm_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/session/confirm",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Is the session confirmed, and by what can its user confirm it?",
             .reply = "Confirmation",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/session/confirm/options",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = begin,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Begin a confirmation by passkey: a challenge for this session",
             .reply = "PasskeyRequest",
             .statuses = "201 409"}},
    {.method = HTTP_POST,
     .path = "/api/session/confirm",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = confirm,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Confirm the session, for what answers confirmation_required without",
             .body = "ConfirmationProof",
             .statuses = "204"}},
    {0},
};
