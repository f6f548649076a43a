/* oidc_factor.h: the cookie is a token and the user's id; the row of hashes that stands for them is
 * one of those of sign-ins under way (sql/users/store_oidc.h), so nobody can put in another id. */
#include "fcgi/oidc/oidc_factor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fcgi/auth/credentials.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/oidc/oidc_cookie.h"
#include "sql/core/secret.h"
#include "sql/users/store_factor.h"
#include "sql/users/store_oidc.h"

bool oidc_factor_is_owed(struct request *r, const struct store_user *user, bool *owed,
                         struct err *e)
{
    struct store_factor factor = {0};
    if (!server_setting_bool(r, SETTING_OIDC_SECOND_FACTOR)) {
        *owed = false;
        return true;
    }
    bool ok = store_factor_get(r->store, user->id, &factor, e);
    *owed = factor.on;
    return ok;
}

static struct store_oidc_flow flow_of(const char *token, int64_t user_id)
{
    char owner[64];
    struct store_oidc_flow flow = {0};
    snprintf(owner, sizeof owner, "second factor of %lld", (long long)user_id);
    secret_hash(token, flow.state_hash);
    secret_hash(owner, flow.browser_hash);
    return flow;
}

bool oidc_factor_ask(struct request *r, const struct store_user *user, struct err *e)
{
    char token[SECRET_TOKEN_SIZE], cookie[SECRET_TOKEN_SIZE + 24];
    secret_token(token);
    const struct store_oidc_flow flow = flow_of(token, user->id);
    snprintf(cookie, sizeof cookie, "%s.%lld", token, (long long)user->id);
    const bool ok = store_oidc_flow_add(r->store, &flow, e);
    if (ok)
        oidc_cookie_set(r, &(struct oidc_cookie){OIDC_COOKIE, cookie, STORE_OIDC_FLOW_MS / 1000});
    secret_wipe(token, sizeof token);
    secret_wipe(cookie, sizeof cookie);
    return ok;
}

/* Of the browser's cookie. False: it is none of these. */
static bool read_cookie(struct request *r, char token[SECRET_TOKEN_SIZE], int64_t *user_id)
{
    const char *cookie = oidc_cookie_get(r, OIDC_COOKIE);
    const size_t n = SECRET_TOKEN_SIZE - 1;
    if (!cookie || strlen(cookie) < n + 2 || cookie[n] != '.')
        return false;
    const char *id = cookie + n + 1;
    const size_t digits = strspn(id, "0123456789");
    if (id[digits] || digits > 18)
        return false;
    memcpy(token, cookie, n);
    token[n] = '\0';
    *user_id = strtoll(id, NULL, 10);
    return true;
}

bool oidc_factor_check(struct request *r, const char *code, struct store_user *user, struct err *e)
{
    char token[SECRET_TOKEN_SIZE];
    int64_t id = 0;
    struct err why = {0};
    const bool owed = read_cookie(r, token, &id);
    struct store_oidc_flow flow = flow_of(owed ? token : "", id);
    if (!owed || !store_oidc_flow_take(r->store, &flow, &why)) {
        if (owed && why.code != ERR_NOTFOUND) {
            *e = why;
            return false;
        }
        r->error_override.code = "oidc_state";
        return err_set(e, ERR_AUTH, "the sign-in by the provider is over; begin again");
    }
    if (!store_user_by_id(r->store, r->arena, id, user, e))
        return false;
    if (user->disabled) {
        r->error_override.code = "oidc_disabled";
        return err_set(e, ERR_AUTH, "the user is disabled");
    }
    if (credentials_check_code(r, user, code, e)) {
        oidc_cookie_set(r, &(struct oidc_cookie){OIDC_COOKIE, "", 0});
        return true;
    }
    store_oidc_flow_add(r->store, &flow, NULL); /* another code may be tried; the throttle counts */
    return false;
}
