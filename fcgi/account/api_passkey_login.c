/* Login by a passkey: no name and no password, since the authenticator knows the account and has
 * verified its user. */
#include <stdio.h>
#include <string.h>

#include "fcgi/account/account_lists.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/passkeys.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static void set_cookie(struct request *r, const char *token, int64_t max_age_s)
{
    char cookie[200];
    snprintf(cookie, sizeof cookie,
             PASSKEYS_COOKIE
             "=%s; Path=/api/login/passkey; HttpOnly; SameSite=Strict; Max-Age=%lld%s",
             token, (long long)max_age_s, request_secure(r) ? "; Secure" : "");
    reply_header(r, "Set-Cookie", cookie);
}

static bool begin(struct request *r, struct err *e)
{
    struct webauthn_site site;
    struct passkeys_asker who = {.purpose = "login"};
    char token[SECRET_TOKEN_SIZE];
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (!passkeys_site(r, &site, e))
        return false;
    secret_token(token);
    secret_hash(token, who.by);
    cJSON *o = passkeys_options(r, &who, &site, e);
    if (!o)
        return false;
    cJSON_AddArrayToObject(o, "allowCredentials"); /* the authenticator offers what it has */
    set_cookie(r, token, STORE_CHALLENGE_MS / 1000);
    reply_json(r, 201, o);
    cJSON_Delete(o);
    return true;
}

static bool login(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *token = request_cookie(r, PASSKEYS_COOKIE);
    struct passkeys_asker who = {.purpose = "login"};
    struct store_passkey p;
    struct store_user user;
    if (!body)
        return false;
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (!token || strlen(token) != SECRET_TOKEN_SIZE - 1)
        return err_set(e, ERR_INPUT, "ask for a challenge first: /api/login/passkey/options");
    secret_hash(token, who.by);
    if (!passkeys_verify(r, body, &who, &p, e) ||
        !store_user_by_id(r->store, r->arena, p.user_id, &user, e))
        return false;
    set_cookie(r, "", 0);
    r->who = (struct identity){.user_id = user.id, .name = user.name};
    audit_record_id(r, "login.passkey", "passkey", p.id);
    return credentials_open(r, &user, 200, e);
}

const struct route api_passkey_login_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/login/passkey/options",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = begin,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Begin a login by passkey: a challenge for this browser",
             .reply = "PasskeyRequest",
             .statuses = "201 403 409 429 503"}},
    {.method = HTTP_POST,
     .path = "/api/login/passkey",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = login,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Log in by passkey: sets the session cookie",
             .body = "PasskeyProof",
             .reply = "Session",
             .statuses = "200 401 403 409 429 503"}},
    {0},
};
