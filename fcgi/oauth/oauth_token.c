/* oauth.h: tokens for a code, tokens for a refresh token, and their end. */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/utf8.h"
#include "fcgi/oauth/oauth.h"
#include "fcgi/oidc/oidc_form.h"
#include "fcgi/oidc/oidc_http.h"
#include "sql/core/base64.h"
#include "sql/core/secret.h"

#define LABEL 120 /* bytes */
#define MAX_SECONDS (400.0 * 86400)

/* A request of the client's: how it shows its secret is the issuer's choice (RFC 6749, 2.3.1). */
struct client_form {
    struct buf form, user, secret;
    struct oidc_http http;
};

static bool make_form(struct client_form *f, const struct oauth_about *about, const char *secret)
{
    const bool basic = about->method == OAUTH_BASIC && secret;
    if (!basic)
        oidc_form_add(&f->form, "client_id", about->client_id);
    if (about->method == OAUTH_POST && secret)
        oidc_form_add(&f->form, "client_secret", secret);
    if (basic) {
        oidc_form_text(&f->user, about->client_id);
        oidc_form_text(&f->secret, secret);
        f->http.user = f->user.data;
        f->http.secret = f->secret.data;
    }
    f->http.form = f->form.data;
    return !f->form.failed && !f->user.failed && !f->secret.failed;
}

static void wipe(struct buf *b)
{
    if (b->data)
        secret_wipe(b->data, b->len);
    buf_fini(b);
}

static void free_form(struct client_form *f)
{
    wipe(&f->form);
    wipe(&f->user);
    wipe(&f->secret);
}

/* What goes into a header must be one word of it. */
static bool is_token(const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x21 || (unsigned char)text[i] > 0x7e)
            return false;
    return n > 0 && n <= OAUTH_TOKEN;
}

/* Only invalid_grant says that code or refresh token are of no use any more (RFC 6749, 5.2): what
 * is wrong with the client, or with a proxy on the way, may be mended. */
static bool refused(struct err *e, const cJSON *o, long status)
{
    const char *said = json_text(o, "error");
    const size_t n = said ? strspn(said, "abcdefghijklmnopqrstuvwxyz_") : 0;
    const bool over = said && !strcmp(said, "invalid_grant");
    const bool client =
        said && (!strcmp(said, "invalid_client") || !strcmp(said, "unauthorized_client"));
    err_set(e, over ? ERR_FORBIDDEN : ERR_UNAVAILABLE, "the issuer gives no token: HTTP %ld %.*s",
            status, (int)(n > 60 ? 60 : n), said ? said : "");
    return err_reason(e, over     ? "tool_grant"
                         : client ? "tool_client_refused"
                                  : "tool_issuer_refuses");
}

static bool odd(struct err *e, const char *why)
{
    err_set(e, ERR_FORMAT, "the issuer's answer has %s", why);
    return err_reason(e, "tool_issuer_odd");
}

/* A name out of an ID token, for its owner to read and for nothing else; so its signature does not
 * matter, and it came by TLS from the issuer itself. */
static const char *label_of(struct arena *a, const char *id_token)
{
    static const char *const claims[] = {"email", "preferred_username", "name"};
    char text[4096];
    const char *from = id_token ? strchr(id_token, '.') : NULL, *label = NULL;
    const size_t len = from ? strcspn(++from, ".") : 0;
    size_t n = 0;
    if (!len || len * 3 / 4 + 4 > sizeof text ||
        !base64_decode_url(from, len, (unsigned char *)text, sizeof text, &n))
        return "";
    cJSON *o = json_parse(text, n, &(struct json_limits){.allow_duplicates = true}, NULL);
    for (int i = 0; i < 3 && !label; i++) {
        const char *said = json_text(o, claims[i]);
        const size_t bytes = said ? strlen(said) : 0;
        if (bytes)
            label = arena_copy(
                a, said, bytes <= LABEL ? bytes : utf8_valid((const unsigned char *)said, LABEL));
    }
    cJSON_Delete(o);
    return label ? label : "";
}

static bool keep(struct arena *a, const char *text, const char **out)
{
    *out = text ? arena_strdup(a, text) : NULL;
    return *out || !text;
}

static bool take_tokens(struct arena *a, const cJSON *o, struct oauth_about *about,
                        struct oauth_tokens *out, struct err *e)
{
    const char *access = json_text(o, "access_token"), *refresh = json_text(o, "refresh_token"),
               *type = json_text(o, "token_type"), *scope = json_text(o, "scope");
    const cJSON *seconds = json_member(o, "expires_in");
    char granted[OAUTH_SCOPE];
    if (!type || (strcmp(type, "Bearer") != 0 && strcmp(type, "bearer") != 0))
        return odd(e, "no token of the type Bearer");
    if (!is_token(access) || (refresh && !is_token(refresh)))
        return odd(e, "a token that can't be one");
    if (cJSON_IsNumber(seconds) && seconds->valuedouble > 0)
        out->expires_in =
            (int64_t)(seconds->valuedouble < MAX_SECONDS ? seconds->valuedouble : MAX_SECONDS);
    oauth_scope_join(scope ? scope : about->scope, "", granted);
    const bool ok = keep(a, access, &out->access) && keep(a, refresh, &out->refresh) &&
                    keep(a, granted, &about->scope);
    const char *label = label_of(a, json_text(o, "id_token"));
    if (*label)
        about->label = label;
    return ok || err_set(e, ERR_NOMEM, "no memory for tokens");
}

static bool ask_tokens(const struct oauth_ask *ask, struct oauth_about *about,
                       struct client_form *f, struct oauth_tokens *out, struct err *e)
{
    long status = 0;
    cJSON *o = NULL;
    f->http.url = about->token_endpoint;
    const bool made = make_form(f, about, out->secret);
    if (!made)
        err_set(e, ERR_NOMEM, "no memory to ask for a token");
    else
        o = oauth_ask_json(ask, &f->http, &status, e);
    free_form(f);
    bool ok = false;
    if (o && status == 200)
        ok = take_tokens(ask->arena, o, about, out, e);
    else if (o && status >= 400 && status < 500 && status != 429)
        refused(e, o, status);
    else if (o) {
        err_set(e, ERR_UNAVAILABLE, "the issuer answers %ld", status);
        err_reason(e, "tool_issuer_down");
    }
    cJSON_Delete(o);
    return ok;
}

bool oauth_redeem(const struct oauth_ask *ask, struct oauth_about *about,
                  const struct oauth_code *code, struct oauth_tokens *out, struct err *e)
{
    struct client_form f = {0};
    *out = (struct oauth_tokens){.secret = code->secret};
    oidc_form_add(&f.form, "grant_type", "authorization_code");
    oidc_form_add(&f.form, "code", code->code);
    oidc_form_add(&f.form, "redirect_uri", about->redirect_uri);
    oidc_form_add(&f.form, "code_verifier", code->verifier);
    oidc_form_add(&f.form, "resource", about->resource);
    return ask_tokens(ask, about, &f, out, e);
}

bool oauth_refresh(const struct oauth_ask *ask, struct oauth_about *about,
                   const struct oauth_tokens *old, struct oauth_tokens *out, struct err *e)
{
    struct client_form f = {0};
    *out = (struct oauth_tokens){.secret = old->secret};
    oidc_form_add(&f.form, "grant_type", "refresh_token");
    oidc_form_add(&f.form, "refresh_token", old->refresh);
    oidc_form_add(&f.form, "resource", about->resource);
    if (!ask_tokens(ask, about, &f, out, e))
        return false;
    if (!out->refresh) /* it is not rotated */
        out->refresh = old->refresh;
    return true;
}

bool oauth_revoke(const struct oauth_ask *ask, const struct oauth_about *about,
                  const struct oauth_tokens *tokens, struct err *e)
{
    struct client_form f = {0};
    struct buf body;
    long status = 0;
    if (!about->revocation_endpoint)
        return true;
    oidc_form_add(&f.form, "token", tokens->refresh ? tokens->refresh : tokens->access);
    oidc_form_add(&f.form, "token_type_hint", tokens->refresh ? "refresh_token" : "access_token");
    f.http = (struct oidc_http){
        .url = about->revocation_endpoint, .until = ask->until, .may_connect = ask->may_connect};
    bool ok = make_form(&f, about, tokens->secret) || err_set(e, ERR_NOMEM, "no memory");
    ok = ok && oidc_http_ask(&f.http, &body, &status, e);
    free_form(&f);
    if (ok)
        buf_fini(&body);
    return ok && (status == 200 || err_set(e, ERR_UNAVAILABLE,
                                           "the issuer answers the revocation with %ld", status));
}
