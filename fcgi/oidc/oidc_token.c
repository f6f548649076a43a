/* oidc_token.h: redeems and checks as OpenID Connect Core 3.1.3 says. */
#include "fcgi/oidc/oidc_token.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/oidc/oidc_form.h"
#include "fcgi/oidc/oidc_http.h"
#include "fcgi/oidc/oidc_provider.h"
#include "sql/core/secret.h"
#include "sql/users/store_oidc.h"

#define SKEW_S 120 /* by which the two clocks may differ */
#define OLD_S 600  /* a token is made when its code is redeemed: an older one is another's */

static bool is_for(const cJSON *claims, const char *client_id, struct err *e)
{
    const cJSON *aud = json_member(claims, "aud");
    const cJSON *azp = json_member(claims, "azp");
    const bool alone = cJSON_IsString(aud) && !strcmp(aud->valuestring, client_id);
    if (!alone && !json_has_text(aud, client_id))
        return err_set(e, ERR_INPUT, "the token is for another client (aud)");
    if (azp ? !cJSON_IsString(azp) || strcmp(azp->valuestring, client_id) != 0
            : cJSON_IsArray(aud) && cJSON_GetArraySize(aud) > 1)
        return err_set(e, ERR_INPUT, "the token was made for another client (azp)");
    return true;
}

static bool is_of_now(const cJSON *claims, int64_t now, struct err *e)
{
    const cJSON *exp = json_member(claims, "exp"), *iat = json_member(claims, "iat");
    const cJSON *nbf = json_member(claims, "nbf");
    if (!cJSON_IsNumber(exp) || !cJSON_IsNumber(iat) || (nbf && !cJSON_IsNumber(nbf)))
        return err_set(e, ERR_INPUT, "the token does not say when it holds (exp, iat)");
    if (exp->valuedouble <= (double)(now - SKEW_S))
        return err_set(e, ERR_INPUT, "the token has expired; do the two clocks agree?");
    if (iat->valuedouble > (double)(now + SKEW_S) ||
        (nbf && nbf->valuedouble > (double)(now + SKEW_S)))
        return err_set(e, ERR_INPUT, "the token is of the future; do the two clocks agree?");
    return iat->valuedouble >= (double)(now - SKEW_S - OLD_S) ||
           err_set(e, ERR_INPUT, "the token is old; do the two clocks agree?");
}

bool oidc_token_check(const cJSON *claims, const struct oidc_expected *x, struct err *e)
{
    const char *iss = json_text(claims, "iss"), *sub = json_text(claims, "sub");
    const char *nonce = json_text(claims, "nonce");
    if (!iss || strcmp(iss, x->issuer) != 0)
        return err_set(e, ERR_INPUT, "the token is of another issuer (iss)");
    if (!sub || !*sub || strlen(sub) > STORE_OIDC_SUBJECT_MAX)
        return err_set(e, ERR_INPUT, "the token's subject is empty or too long (sub)");
    if (!nonce || !secret_equal(nonce, x->nonce))
        return err_set(e, ERR_INPUT, "the token is of another sign-in (nonce)");
    return is_for(claims, x->client_id, e) && is_of_now(claims, x->now_s, e);
}

static const char *kept(struct request *r, const cJSON *o, const char *name, const char *before)
{
    const char *text = json_text(o, name);
    return before || !text || !*text ? before : arena_strdup(r->arena, text);
}

/* A list of names, or one. */
static const char *groups_of(struct request *r, const cJSON *claim)
{
    struct buf out = {0};
    cJSON *list = cJSON_CreateArray();
    const cJSON *item;
    if (cJSON_IsString(claim))
        cJSON_AddItemToArray(list, cJSON_CreateString(claim->valuestring));
    if (cJSON_IsArray(claim))
        cJSON_ArrayForEach (item, claim)
            if (cJSON_IsString(item))
                cJSON_AddItemToArray(list, cJSON_CreateString(item->valuestring));
    const char *text = json_write(&out, list) ? arena_strdup(r->arena, out.data) : NULL;
    cJSON_Delete(list);
    buf_fini(&out);
    return text;
}

static void take_profile(struct request *r, const struct oidc_exchange *x, const cJSON *o,
                         struct oidc_claims *c)
{
    const cJSON *groups = *x->config->groups_claim ? json_member(o, x->config->groups_claim) : NULL;
    if (groups && !c->groups)
        c->groups = groups_of(r, groups);
    const cJSON *verified = json_member(o, "email_verified");
    const char *email = json_text(o, "email");
    c->user_name = kept(r, o, "preferred_username", c->user_name);
    c->full_name = kept(r, o, "name", c->full_name);
    c->email = kept(r, o, "email", c->email);
    if (c->email && email && !strcmp(c->email, email)) /* it speaks of the address beside it */
        c->email_verified |= cJSON_IsTrue(verified) ||
                             (cJSON_IsString(verified) && !strcmp(verified->valuestring, "true"));
}

static bool make_form(const struct oidc_exchange *x, struct buf *form)
{
    const bool in_body = !x->config->secret[0] || x->provider->secret_in_body;
    oidc_form_add(form, "grant_type", "authorization_code");
    oidc_form_add(form, "code", x->code);
    oidc_form_add(form, "redirect_uri", x->config->redirect_uri);
    oidc_form_add(form, "code_verifier", x->verifier);
    if (in_body)
        oidc_form_add(form, "client_id", x->config->client_id);
    if (in_body && x->config->secret[0])
        oidc_form_add(form, "client_secret", x->config->secret);
    return !form->failed;
}

/* RFC 6749, 2.3.1: both are encoded as in a form before HTTP Basic encodes them again. */
static bool ask_token(const struct oidc_exchange *x, struct buf *body, long *status, struct err *e)
{
    struct buf form = {0}, user = {0}, secret = {0};
    struct oidc_http h = {.url = x->provider->token_endpoint, .until = x->until};
    bool ok = make_form(x, &form) && oidc_form_text(&user, x->config->client_id) &&
              oidc_form_text(&secret, x->config->secret);
    h.form = form.data;
    if (x->config->secret[0] && !x->provider->secret_in_body) {
        h.user = user.data;
        h.secret = secret.data;
    }
    ok = ok ? oidc_http_ask(&h, body, status, e) : err_set(e, ERR_NOMEM, "no memory");
    if (form.data)
        secret_wipe(form.data, form.len);
    if (secret.data)
        secret_wipe(secret.data, secret.len);
    buf_fini(&form);
    buf_fini(&user);
    buf_fini(&secret);
    return ok;
}

/* The provider's own word, as far as it is one: it goes into the log. */
static bool refused(const cJSON *answer, long status, struct err *e)
{
    const char *why = json_text(answer, "error");
    const size_t n = why ? strspn(why, "abcdefghijklmnopqrstuvwxyz_") : 0;
    return err_set(e, ERR_UNAVAILABLE, "the token endpoint answers %ld %.*s", status,
                   (int)(n > 60 ? 60 : n), why ? why : "");
}

static bool take_token(struct request *r, const struct oidc_exchange *x, const char *token,
                       struct oidc_claims *out, struct err *e)
{
    cJSON *claims = oidc_provider_verify(x->provider, token, x->until, e);
    const struct oidc_expected expected = {.issuer = x->config->issuer,
                                           .client_id = x->config->client_id,
                                           .nonce = x->nonce,
                                           .now_s = clock_wall_s()};
    bool ok = claims && oidc_token_check(claims, &expected, e);
    if (ok) {
        out->issuer = x->config->issuer;
        out->subject = kept(r, claims, "sub", NULL);
        take_profile(r, x, claims, out);
        ok = out->subject || err_set(e, ERR_NOMEM, "no memory");
    }
    cJSON_Delete(claims);
    return ok;
}

bool oidc_token_redeem(struct request *r, const struct oidc_exchange *x, struct oidc_claims *out,
                       struct err *e)
{
    struct buf body;
    long status = 0;
    *out = (struct oidc_claims){0};
    if (!ask_token(x, &body, &status, e))
        return false;
    cJSON *answer =
        json_parse(body.data, body.len,
                   &(struct json_limits){.max_depth = 32, .allow_duplicates = true}, NULL);
    const char *token = json_text(answer, "id_token");
    bool ok = status == 200 ? token || err_set(e, ERR_INPUT,
                                               "the provider gave no ID token; do the "
                                               "scopes have openid?")
                            : refused(answer, status, e);
    out->access_token = ok ? kept(r, answer, "access_token", NULL) : NULL;
    ok = ok && take_token(r, x, token, out, e);
    cJSON_Delete(answer);
    secret_wipe(body.data, body.len);
    buf_fini(&body);
    return ok;
}

bool oidc_token_ask_more(struct request *r, const struct oidc_exchange *x, struct oidc_claims *c,
                         struct err *e)
{
    struct buf body;
    long status = 0;
    const bool groups_known = !*x->config->groups_claim || c->groups;
    if (!x->provider->userinfo_endpoint || !c->access_token ||
        (c->user_name && c->email_verified && groups_known))
        return true;
    if (!oidc_http_ask(&(struct oidc_http){.url = x->provider->userinfo_endpoint,
                                           .bearer = c->access_token,
                                           .until = x->until},
                       &body, &status, e))
        return false;
    cJSON *o = json_parse(body.data, body.len,
                          &(struct json_limits){.max_depth = 32, .allow_duplicates = true}, NULL);
    const char *sub = json_text(o, "sub");
    bool ok = status == 200 && sub && !strcmp(sub, c->subject);
    if (ok)
        take_profile(r, x, o, c);
    cJSON_Delete(o);
    buf_fini(&body);
    return ok ||
           err_set(e, ERR_UNAVAILABLE, "the userinfo endpoint answers %ld, or of another", status);
}
