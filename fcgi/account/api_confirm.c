/* A session confirms that its user is still the one who logged in (auth/confirmation.h). */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/auth/credentials.h"
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
    bool fresh;
    if (!only_sessions(r, e) || !store_user_by_id(r->store, r->arena, r->who.user_id, &user, e) ||
        !store_factor_get(r->store, user.id, &factor, e) || !confirmation_fresh(r, &fresh, e))
        return false;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddBoolToObject(o, "confirmed", fresh);
    cJSON_AddBoolToObject(o, "password", credentials_has_password(&user));
    cJSON_AddBoolToObject(o, "code", factor.on);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static bool confirm(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *password = NULL, *code = NULL;
    struct store_user user;
    if (!body || !only_sessions(r, e) || !json_get_string(body, "password", &password, e) ||
        !json_get_string(body, "code", &code, e))
        return false;
    if (!password == !code)
        return err_field(e, ERR_INPUT, "password", "is needed, or a code in its place");
    if (password ? !credentials_confirm(r, "password", password, &user, e)
                 : !credentials_confirm_code(r, code, e))
        return false;
    audit_record(r, r->who.user_id, r->who.name, "session.confirm", password ? "password" : "code");
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
