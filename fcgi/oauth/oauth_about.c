/* oauth.h: what is kept of a sign-in, as JSON, and one request for a JSON object. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/oauth/oauth.h"
#include "fcgi/oidc/oidc_http.h"

#define MAX_DEPTH 16
#define MAX_VALUES 20000 /* of a document: each costs 64 bytes, however short its text */

static const char *const methods[] = {[OAUTH_NONE] = "none",
                                      [OAUTH_BASIC] = "client_secret_basic",
                                      [OAUTH_POST] = "client_secret_post"};

/* The texts of both kinds of rows, by name. */
struct text {
    const char *name;
    const char **to;
    bool needed;
};

bool oauth_about_write(struct buf *out, const struct oauth_about *about)
{
    cJSON *o = cJSON_CreateObject();
    const struct {
        const char *name, *value;
    } texts[] = {{"resource", about->resource},
                 {"issuer", about->issuer},
                 {"token_endpoint", about->token_endpoint},
                 {"revocation_endpoint", about->revocation_endpoint},
                 {"client_id", about->client_id},
                 {"redirect_uri", about->redirect_uri},
                 {"scope", about->scope},
                 {"label", about->label},
                 {"method", methods[about->method]}};
    bool ok = o != NULL;
    for (size_t i = 0; ok && i < sizeof texts / sizeof texts[0]; i++)
        ok = !texts[i].value || cJSON_AddStringToObject(o, texts[i].name, texts[i].value);
    ok = ok && cJSON_AddBoolToObject(o, "names_itself", about->names_itself) &&
         cJSON_AddBoolToObject(o, "near", about->near) && json_write(out, o);
    cJSON_Delete(o);
    return ok && !out->failed;
}

static bool take_texts(struct arena *a, const cJSON *o, const struct text *texts, int n)
{
    for (int i = 0; i < n; i++) {
        const char *value = json_text(o, texts[i].name);
        *texts[i].to = value ? arena_strdup(a, value) : NULL;
        if (!*texts[i].to && (value || texts[i].needed))
            return false;
    }
    return true;
}

bool oauth_about_read(struct arena *a, const char *text, struct oauth_about *out)
{
    *out = (struct oauth_about){0};
    const struct text texts[] = {{"resource", &out->resource, true},
                                 {"issuer", &out->issuer, true},
                                 {"token_endpoint", &out->token_endpoint, true},
                                 {"revocation_endpoint", &out->revocation_endpoint, false},
                                 {"client_id", &out->client_id, true},
                                 {"redirect_uri", &out->redirect_uri, true},
                                 {"scope", &out->scope, true},
                                 {"label", &out->label, true}};
    cJSON *o = json_parse(text, strlen(text), NULL, NULL);
    const char *method = json_text(o, "method");
    const bool ok = method && take_texts(a, o, texts, (int)(sizeof texts / sizeof texts[0]));
    for (int i = 0; ok && i <= OAUTH_POST; i++)
        if (!strcmp(method, methods[i]))
            out->method = (enum oauth_method)i;
    out->names_itself = cJSON_IsTrue(json_member(o, "names_itself"));
    out->near = cJSON_IsTrue(json_member(o, "near"));
    cJSON_Delete(o);
    return ok;
}

bool oauth_tokens_write(struct buf *out, const struct oauth_tokens *tokens)
{
    cJSON *o = cJSON_CreateObject();
    const bool ok = o && cJSON_AddStringToObject(o, "access", tokens->access) &&
                    (!tokens->refresh || cJSON_AddStringToObject(o, "refresh", tokens->refresh)) &&
                    (!tokens->secret || cJSON_AddStringToObject(o, "secret", tokens->secret)) &&
                    json_write(out, o);
    cJSON_Delete(o);
    return ok && !out->failed;
}

bool oauth_tokens_read(struct arena *a, const char *text, struct oauth_tokens *out)
{
    *out = (struct oauth_tokens){0};
    const struct text texts[] = {{"access", &out->access, true},
                                 {"refresh", &out->refresh, false},
                                 {"secret", &out->secret, false}};
    cJSON *o = json_parse(text, strlen(text), NULL, NULL);
    const bool ok = o && take_texts(a, o, texts, 3);
    cJSON_Delete(o);
    return ok;
}

cJSON *oauth_ask_json(const struct oauth_ask *ask, struct oidc_http *h, long *status, struct err *e)
{
    const struct json_limits limits = {.max_depth = MAX_DEPTH, .allow_duplicates = true};
    struct buf body;
    struct err why = {0};
    h->until = ask->until;
    h->may_connect = ask->may_connect;
    if (!oidc_http_ask(h, &body, status, &why)) {
        err_set(e, ERR_UNAVAILABLE, "%s", why.text);
        err_reason(e, "tool_issuer_down");
        return NULL;
    }
    cJSON *o = json_count_values(body.data, body.len) > MAX_VALUES
                   ? NULL
                   : json_parse(body.data, body.len, &limits, NULL);
    buf_fini(&body);
    if (cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    err_set(e, ERR_FORMAT, "%.200s answers %ld with what is no JSON object", h->url, *status);
    err_reason(e, "tool_issuer_odd");
    return NULL;
}
