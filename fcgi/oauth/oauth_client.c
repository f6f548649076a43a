/* oauth.h: this server as a client: what it says of itself, its registration, and where it sends
 * browsers. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/oauth/oauth.h"
#include "fcgi/oidc/jws.h"
#include "fcgi/oidc/oidc_form.h"
#include "fcgi/oidc/oidc_http.h"

#define CLIENT_ID 500              /* bytes, as the store takes */
#define LAST_SECOND 253402300800.0 /* the year 10000: what is said to end later does not end */

static const char *const names[] = {[OAUTH_NONE] = "none",
                                    [OAUTH_BASIC] = "client_secret_basic",
                                    [OAUTH_POST] = "client_secret_post"};

enum oauth_method oauth_method_of(const struct oauth_about *about, bool has_secret)
{
    if (!has_secret)
        return OAUTH_NONE;
    return about->takes_basic || !about->takes_post ? OAUTH_BASIC : OAUTH_POST;
}

static bool add_list(cJSON *o, const char *name, const char *a, const char *b)
{
    cJSON *list = cJSON_AddArrayToObject(o, name);
    return list && cJSON_AddItemToArray(list, cJSON_CreateString(a)) &&
           (!b || cJSON_AddItemToArray(list, cJSON_CreateString(b)));
}

cJSON *oauth_client_json(const char *client_id, const char *redirect_uri, enum oauth_method method)
{
    cJSON *o = cJSON_CreateObject();
    if ((!client_id || cJSON_AddStringToObject(o, "client_id", client_id)) &&
        cJSON_AddStringToObject(o, "client_name", "Sluice") &&
        cJSON_AddStringToObject(o, "application_type", "web") &&
        add_list(o, "redirect_uris", redirect_uri, NULL) &&
        add_list(o, "grant_types", "authorization_code", "refresh_token") &&
        add_list(o, "response_types", "code", NULL) &&
        cJSON_AddStringToObject(o, "token_endpoint_auth_method", names[method]))
        return o;
    cJSON_Delete(o);
    return NULL;
}

static bool refused(struct err *e, long status)
{
    err_set(e, ERR_UNAVAILABLE, "the issuer does not register this server (HTTP %ld)", status);
    return err_reason(e, "tool_client");
}

static bool is_plain(const char *text, size_t most)
{
    const size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e)
            return false;
    return n > 0 && n <= most;
}

/* The method of the answer counts: an issuer may give another than it was asked for. */
static bool take_client(const struct oauth_ask *ask, const cJSON *o, struct oauth_about *about,
                        struct oauth_client_secret *secret, struct err *e)
{
    const cJSON *end = json_member(o, "client_secret_expires_at");
    const double ends = cJSON_IsNumber(end) ? end->valuedouble : 0;
    const char *id = json_text(o, "client_id"), *given = json_text(o, "client_secret"),
               *method = json_text(o, "token_endpoint_auth_method");
    *secret = (struct oauth_client_secret){0};
    if (!is_plain(id, CLIENT_ID) || (given && *given && !is_plain(given, OAUTH_TOKEN)))
        return refused(e, 200);
    const bool open = !given || !*given || (method && !strcmp(method, names[OAUTH_NONE]));
    about->method = open ? OAUTH_NONE : oauth_method_of(about, true);
    if (!open && method && !strcmp(method, names[OAUTH_POST]))
        about->method = OAUTH_POST;
    about->client_id = arena_strdup(ask->arena, id);
    if (!open)
        *secret = (struct oauth_client_secret){
            arena_strdup(ask->arena, given),
            ends >= 1 && ends < LAST_SECOND ? (int64_t)ends * 1000 : 0};
    return (about->client_id && (open || secret->text)) ||
           err_set(e, ERR_NOMEM, "no memory for a sign-in");
}

bool oauth_register(const struct oauth_ask *ask, struct oauth_about *about,
                    struct oauth_client_secret *secret, struct err *e)
{
    struct buf body = {0};
    long status = 0;
    cJSON *own = oauth_client_json(NULL, about->redirect_uri,
                                   about->takes_none ? OAUTH_NONE : oauth_method_of(about, true));
    bool ok = own && json_write(&body, own);
    cJSON_Delete(own);
    cJSON *o = NULL;
    if (!ok)
        err_set(e, ERR_NOMEM, "no memory for a sign-in");
    else
        o = oauth_ask_json(
            ask, &(struct oidc_http){.url = about->registration_endpoint, .json = body.data},
            &status, e);
    buf_fini(&body);
    ok = o && ((status == 200 || status == 201) ? take_client(ask, o, about, secret, e)
                                                : refused(e, status));
    cJSON_Delete(o);
    return ok;
}

bool oauth_departure(struct buf *url, const struct oauth_about *about, const char *state,
                     const char *verifier)
{
    char challenge[JWS_SHA256_SIZE];
    if (!jws_sha256(verifier, challenge))
        return false;
    buf_puts(url, about->authorization_endpoint);
    buf_putc(url, strchr(about->authorization_endpoint, '?') ? '&' : '?');
    buf_puts(url, "response_type=code");
    oidc_form_add(url, "client_id", about->client_id);
    oidc_form_add(url, "redirect_uri", about->redirect_uri);
    if (*about->scope)
        oidc_form_add(url, "scope", about->scope);
    oidc_form_add(url, "state", state);
    oidc_form_add(url, "code_challenge", challenge);
    oidc_form_add(url, "code_challenge_method", "S256");
    oidc_form_add(url, "resource", about->resource);
    return !url->failed;
}
