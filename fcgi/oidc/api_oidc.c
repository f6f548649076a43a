/* Sign-in by an OpenID provider: two addresses that a browser goes to, which answer by sending it
 * on, and what the account page asks. What fails on the way is told to the page as a code behind
 * the #: words that come from elsewhere are never shown. */
#define LOG_MODULE "oidc"
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/oidc/oidc_account.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/oidc/oidc_factor.h"
#include "fcgi/oidc/oidc_sign_in.h"
#include "sql/users/store_oidc.h"

static const char *const ways_on[] = {[OIDC_SIGNED_IN] = "/",
                                      [OIDC_LINKED] = "/#/sign-in/oidc_done",
                                      [OIDC_CODE_OWED] = "/#/sign-in/oidc_code"};

static bool go_to(struct request *r, const char *url)
{
    reply_header(r, "Location", url);
    return reply_empty(r, 303);
}

/* Errors without a code of their own. */
static const char *code_of(const struct request *r, const struct err *e)
{
    if (r->error_override.code && !strncmp(r->error_override.code, "oidc_", 5))
        return r->error_override.code;
    switch (e->code) {
    case ERR_BUSY:
        return "oidc_busy";
    case ERR_UNAVAILABLE:
        return "oidc_unreachable";
    case ERR_FORMAT:
    case ERR_INPUT:
        return "oidc_provider";
    default:
        return "oidc_failed";
    }
}

static bool go_back(struct request *r, const struct err *e)
{
    char url[64];
    const char *code = code_of(r, e);
    log_warn("id=%s sign-in by the provider: %s: %s", r->id, code, e->text);
    snprintf(url, sizeof url, "/#/sign-in/%s", code);
    return go_to(r, url);
}

static bool show(struct request *r, struct err *e)
{
    const bool on = oidc_on(r);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "policy", on ? server_setting_text(r, SETTING_OIDC_POLICY) : "off");
    cJSON_AddItemToObject(o, "name", on ? cJSON_CreateString(oidc_name(r)) : cJSON_CreateNull());
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static bool begin(struct request *r, struct err *e)
{
    struct buf url = {0};
    struct err why = {0};
    const bool ok = oidc_sign_in_begin(r, NULL, &url, &why);
    ok ? go_to(r, url.data) : go_back(r, &why);
    buf_fini(&url);
    return true;
}

static bool end(struct request *r, struct err *e)
{
    struct err why = {0};
    enum oidc_end how;
    return oidc_sign_in_end(r, &how, &why) ? go_to(r, ways_on[how]) : go_back(r, &why);
}

static bool take_code(struct request *r, struct err *e)
{
    struct store_user user;
    const char *code = NULL;
    char csrf[SECRET_TOKEN_SIZE];
    const cJSON *body = request_json(r, e);
    if (!body || !json_get_string(body, "code", &code, e))
        return false;
    if (!code || !*code)
        return err_field(e, ERR_INPUT, "code", "is needed");
    return oidc_factor_check(r, code, &user, e) &&
           credentials_begin_session(r, &user, "oidc", csrf, e) &&
           credentials_reply_session(r, 200, csrf);
}

static bool list_one(void *context, const struct store_oidc_identity *i)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "issuer", i->issuer);
    cJSON_AddStringToObject(o, "label", i->label);
    cJSON_AddNumberToObject(o, "created_at", (double)i->created_at);
    cJSON_AddNumberToObject(o, "last_used_at", (double)i->used_at);
    return cJSON_AddItemToArray(context, o);
}

static bool list(struct request *r, struct err *e)
{
    struct store_user user;
    cJSON *o = cJSON_CreateObject();
    bool ok = store_oidc_list(r->store, r->who.user_id, list_one,
                              cJSON_AddArrayToObject(o, "items"), e) &&
              store_user_by_id(r->store, r->arena, r->who.user_id, &user, e);
    if (ok) {
        cJSON_AddBoolToObject(o, "has_password", credentials_has_password(&user));
        reply_json(r, 200, o);
    }
    cJSON_Delete(o);
    return ok;
}

/* The body's password, checked: who has found an open page must not make themselves a way in. */
/* Only a session: an account is linked in a browser. */
static bool confirm(struct request *r, const char *password, struct store_user *user, struct err *e)
{
    if (r->who.by != AUTH_SESSION)
        return err_set(e, ERR_FORBIDDEN, "only the page does this: log in there");
    return credentials_confirm(r, "password", password, user, e);
}

static bool link_account(struct request *r, struct err *e)
{
    struct store_user user;
    struct buf url = {0};
    const char *password = NULL;
    const cJSON *body = request_json(r, e);
    if (!body || !json_get_string(body, "password", &password, e) ||
        !confirm(r, password, &user, e))
        return false;
    const bool ok = oidc_sign_in_begin(r, r->who.token_hash, &url, e);
    if (ok) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "url", url.data);
        reply_json(r, 200, o);
        cJSON_Delete(o);
    } else if (e->code == ERR_UNAVAILABLE || e->code == ERR_FORMAT) {
        r->error_override.code = code_of(r, e);
        r->error_override.status = 503;
    }
    buf_fini(&url);
    return ok;
}

static bool unlink_account(struct request *r, struct err *e)
{
    struct store_user user;
    const char *issuer = NULL, *password = NULL;
    const cJSON *body = request_json(r, e);
    if (!body || !json_get_string(body, "issuer", &issuer, e) ||
        !json_get_string(body, "password", &password, e))
        return false;
    if (!issuer)
        return err_field(e, ERR_INPUT, "issuer", "is needed");
    if (!store_user_by_id(r->store, r->arena, r->who.user_id, &user, e))
        return false;
    if (!credentials_has_password(&user))
        return err_set(e, ERR_CONFLICT,
                       "this account has no password, so nobody could log in to it any more");
    return confirm(r, password, &user, e) && oidc_account_unlink(r, &user, issuer, e) &&
           reply_empty(r, 204);
}

const struct route api_oidc_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/oidc",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = show,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Is there a sign-in by an OpenID provider, and what is it called?",
             .reply = "OidcFacts",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/oidc/sign-in",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = begin,
     .scope = SCOPE_ANY,
     .doc = {.summary = "For browsers: go to the provider, or back to / with a code",
             .statuses = "303 429 503"}},
    {.method = HTTP_GET,
     .path = "/api/oidc/callback",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = end,
     .scope = SCOPE_ANY,
     .doc = {.summary = "For browsers that come from the provider: a session, then on to /",
             .query = "OidcAnswer",
             .statuses = "303 429 503"}},
    {.method = HTTP_POST,
     .path = "/api/oidc/code",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = take_code,
     .scope = SCOPE_ANY,
     .doc = {.summary =
                 "After the callback, where the own second factor is asked for too: its code",
             .body = "CodeProof",
             .reply = "Session",
             .statuses = "200 401 429"}},
    {.method = HTTP_GET,
     .path = "/api/oidc/identities",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "The own accounts at providers that sign in here",
             .reply = "OidcIdentities",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/oidc/link",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = link_account,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Begin to link an account at the provider: where to go for it",
             .body = "PasswordProof",
             .reply = "OidcDeparture",
             .statuses = "200 403 429 503"}},
    {.method = HTTP_POST,
     .path = "/api/oidc/unlink",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = unlink_account,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Unlink an account: it signs in here no more",
             .body = "OidcUnlink",
             .statuses = "204 404 409 429"}},
    {0},
};
