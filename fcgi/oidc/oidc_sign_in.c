/* oidc_sign_in.h: OpenID Connect Core 3.1 with PKCE (RFC 7636) and, where the provider does it, the
 * issuer in its answers (RFC 9207). */
#include "fcgi/oidc/oidc_sign_in.h"

#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/oidc/jws.h"
#include "fcgi/oidc/oidc_account.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/oidc/oidc_cookie.h"
#include "fcgi/oidc/oidc_factor.h"
#include "fcgi/oidc/oidc_form.h"
#include "fcgi/oidc/oidc_provider.h"
#include "fcgi/oidc/oidc_token.h"
#include "sql/core/secret.h"
#include "sql/users/store_oidc.h"

#define DEADLINE_MS 20000.0 /* of all that the provider is asked in one request */
#define CODE_BYTES 4096

/* What both ends of a sign-in make of the browser's cookie. */
struct proof {
    char verifier[SECRET_TOKEN_SIZE], nonce[SECRET_TOKEN_SIZE];
};

static void derive(const char *browser, struct proof *out)
{
    secret_derive(browser, "verifier", out->verifier);
    secret_derive(browser, "nonce", out->nonce);
}

static bool put_url(struct buf *url, const struct oidc_config *c, const struct oidc_provider *p,
                    const char *state, const struct proof *proof)
{
    char challenge[JWS_SHA256_SIZE];
    if (!jws_sha256(proof->verifier, challenge))
        return false;
    buf_puts(url, p->authorization_endpoint);
    buf_putc(url, strchr(p->authorization_endpoint, '?') ? '&' : '?');
    buf_puts(url, "response_type=code");
    oidc_form_add(url, "client_id", c->client_id);
    oidc_form_add(url, "redirect_uri", c->redirect_uri);
    oidc_form_add(url, "scope", c->scopes);
    oidc_form_add(url, "state", state);
    oidc_form_add(url, "nonce", proof->nonce);
    oidc_form_add(url, "code_challenge", challenge);
    oidc_form_add(url, "code_challenge_method", "S256");
    return !url->failed;
}

static bool provider_of(struct request *r, const struct oidc_config *c, double until,
                        struct oidc_provider *p, struct err *e)
{
    return r->store ? work_begin(r, WORK_SIGN_IN, e) && oidc_provider_find(c, r->arena, until, p, e)
                    : err_set(e, ERR_UNAVAILABLE, "the database is not open");
}

bool oidc_sign_in_begin(struct request *r, const unsigned char *session_hash, struct buf *url,
                        struct err *e)
{
    struct oidc_config c;
    struct oidc_provider p;
    struct store_oidc_flow flow = {.links = session_hash != NULL};
    struct proof proof;
    char browser[SECRET_TOKEN_SIZE], state[SECRET_TOKEN_SIZE];
    bool ok = oidc_config_read(r, &c, e) && provider_of(r, &c, clock_ms() + DEADLINE_MS, &p, e);
    oidc_config_wipe(&c);
    work_end(r, WORK_SIGN_IN);
    if (!ok)
        return false;
    secret_token(browser);
    secret_token(state);
    secret_hash(browser, flow.browser_hash);
    secret_hash(state, flow.state_hash);
    if (session_hash)
        memcpy(flow.session_hash, session_hash, SECRET_HASH_BYTES);
    derive(browser, &proof);
    ok = put_url(url, &c, &p, state, &proof) || err_set(e, ERR_NOMEM, "no memory for the address");
    ok = ok && store_oidc_flow_add(r->store, &flow, e);
    if (ok)
        oidc_cookie_set(r, &(struct oidc_cookie){OIDC_COOKIE, browser, STORE_OIDC_FLOW_MS / 1000});
    secret_wipe(browser, sizeof browser);
    secret_wipe(&proof, sizeof proof);
    return ok;
}

/* Takes the sign-in that was begun by this browser under this state. */
static bool take_flow(struct request *r, const char *browser, struct store_oidc_flow *flow,
                      struct err *e)
{
    struct err why = {0};
    const char *state = request_query(r, "state");
    if (browser && strlen(browser) == SECRET_TOKEN_SIZE - 1 && state &&
        strlen(state) == SECRET_TOKEN_SIZE - 1) {
        secret_hash(state, flow->state_hash);
        secret_hash(browser, flow->browser_hash);
        if (store_oidc_flow_take(r->store, flow, &why))
            return true;
        if (why.code != ERR_NOTFOUND) {
            *e = why;
            return false;
        }
    }
    return oidc_refuse(r, "oidc_state", e,
                       "no such sign-in is under way: it is over, or another browser began it");
}

/* What the provider says in the address: an error, or a code. */
static bool take_answer(struct request *r, const struct oidc_config *c,
                        const struct oidc_provider *p, const char **code, struct err *e)
{
    const char *error = request_query(r, "error"), *iss = request_query(r, "iss");
    *code = request_query(r, "code");
    if (iss ? strcmp(iss, c->issuer) != 0 : p->names_itself)
        return oidc_refuse(r, "oidc_token", e, "the answer is of another issuer (iss)");
    if (error) {
        const size_t n = strspn(error, "abcdefghijklmnopqrstuvwxyz_");
        return oidc_refuse(r, strcmp(error, "access_denied") ? "oidc_provider" : "oidc_denied", e,
                           "the provider answers %.*s", (int)(n > 60 ? 60 : n), error);
    }
    return (*code && **code && strlen(*code) <= CODE_BYTES) ||
           oidc_refuse(r, "oidc_provider", e, "the provider's answer has no code");
}

static bool finish(struct request *r, const struct oidc_exchange *x,
                   const struct store_oidc_flow *flow, enum oidc_end *how, struct err *e)
{
    bool owed;
    struct oidc_claims claims;
    struct store_user user;
    char csrf[SECRET_TOKEN_SIZE];
    if (!oidc_token_redeem(r, x, &claims, e)) {
        if (e->code == ERR_INPUT)
            r->error_override.code = "oidc_token";
        return false;
    }
    if (flow->links)
        return (!oidc_token_ask_more(r, x, &claims, NULL) || true) &&
               oidc_account_link(r, flow->session_hash, &claims, e);
    if (!oidc_account_find(r, x, &claims, &user, e))
        return false;
    work_end(r, WORK_SIGN_IN);
    if (!oidc_factor_is_owed(r, &user, &owed, e))
        return false;
    *how = owed ? OIDC_CODE_OWED : OIDC_SIGNED_IN;
    return owed ? oidc_factor_ask(r, &user, e)
                : credentials_begin_session(r, &user, "oidc", csrf, e);
}

bool oidc_sign_in_end(struct request *r, enum oidc_end *how, struct err *e)
{
    struct oidc_config c;
    struct oidc_provider p;
    struct store_oidc_flow flow = {0};
    struct proof proof;
    const char *browser = oidc_cookie_get(r, OIDC_COOKIE);
    struct oidc_exchange x = {.config = &c,
                              .provider = &p,
                              .verifier = proof.verifier,
                              .nonce = proof.nonce,
                              .until = clock_ms() + DEADLINE_MS};
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    bool ok = oidc_config_read(r, &c, e) && take_flow(r, browser, &flow, e);
    *how = OIDC_LINKED; /* else finish says so */
    if (ok) {
        derive(browser, &proof);
        ok = provider_of(r, &c, x.until, &p, e) && take_answer(r, &c, &p, &x.code, e) &&
             finish(r, &x, &flow, how, e);
        secret_wipe(&proof, sizeof proof);
        if (!ok || *how != OIDC_CODE_OWED) /* which has a cookie of its own */
            oidc_cookie_set(r, &(struct oidc_cookie){OIDC_COOKIE, "", 0});
    }
    oidc_config_wipe(&c);
    work_end(r, WORK_SIGN_IN);
    return ok;
}
