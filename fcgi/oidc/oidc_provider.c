/* oidc_provider.h: two documents of one provider, kept as text; who needs one parses it. */
#include "fcgi/oidc/oidc_provider.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/config/setting_checks.h"
#include "fcgi/oidc/jws.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/oidc/oidc_http.h"

#define KEEP_MS 600000.0 /* of the documents */
#define AGAIN_MS 30000.0 /* of keys, when one is missing */
#define REST_MS 2000.0   /* after a failure: who waited for a turn meanwhile fails at once */
#define URL_BYTES 700
#define WELL_KNOWN "/.well-known/openid-configuration"

struct document {
    char url[URL_BYTES];
    char *text;    /* NULL: none */
    double at;     /* clock_ms */
    double failed; /* clock_ms of the last failure, of this address; 0: none */
};

static struct {
    pthread_mutex_t lock; /* guards the rest; never held while the provider is asked */
    struct document discovery, keys;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A copy of what is kept, or NULL; the caller frees it. */
static char *recall(const struct document *d, const char *url, double max_age)
{
    pthread_mutex_lock(&kept.lock);
    const bool good = d->text && !strcmp(d->url, url) && clock_ms() - d->at < max_age;
    char *text = good ? strdup(d->text) : NULL;
    pthread_mutex_unlock(&kept.lock);
    return text;
}

static void keep(struct document *d, const char *url, const char *text)
{
    char *copy = strdup(text);
    pthread_mutex_lock(&kept.lock);
    free(d->text);
    d->text = copy;
    d->at = clock_ms();
    d->failed = 0;
    snprintf(d->url, sizeof d->url, "%s", url);
    pthread_mutex_unlock(&kept.lock);
}

/* Notes a failure, or tells of one a moment ago. */
static bool failing(struct document *d, const char *url, bool now)
{
    pthread_mutex_lock(&kept.lock);
    if (now && strcmp(d->url, url) != 0) {
        free(d->text);
        d->text = NULL;
        snprintf(d->url, sizeof d->url, "%s", url);
    }
    if (now)
        d->failed = clock_ms();
    const bool recent = d->failed != 0 && !strcmp(d->url, url) && clock_ms() - d->failed < REST_MS;
    pthread_mutex_unlock(&kept.lock);
    return recent;
}

static cJSON *parse(const char *text, const char *url, struct err *e)
{
    cJSON *o = json_parse(text, strlen(text),
                          &(struct json_limits){.max_depth = 32, .allow_duplicates = true}, e);
    if (o && cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    err_set(e, ERR_FORMAT, "%.200s is no JSON object", url);
    return NULL;
}

static cJSON *document(struct document *d, const char *url, double max_age, double until,
                       struct err *e)
{
    struct buf body;
    long status = 0;
    char *text = recall(d, url, max_age);
    if (text) {
        cJSON *o = parse(text, url, e);
        free(text);
        return o;
    }
    if (failing(d, url, false)) {
        err_set(e, ERR_UNAVAILABLE, "%.200s did not answer a moment ago", url);
        return NULL;
    }
    if (!oidc_http_ask(&(struct oidc_http){.url = url, .until = until}, &body, &status, e)) {
        failing(d, url, true);
        return NULL;
    }
    cJSON *o = NULL;
    if (status != 200)
        err_set(e, ERR_UNAVAILABLE, "%.200s answers %ld", url, status);
    else if ((o = parse(body.data, url, e)))
        keep(d, url, body.data);
    buf_fini(&body);
    return o;
}

/* An address of the document. Who is asked by TLS must not send us elsewhere without. */
static bool endpoint(const cJSON *o, const char *name, const struct oidc_config *c, struct arena *a,
                     const char **out)
{
    const char *url = json_text(o, name);
    *out = NULL;
    if (!url || strlen(url) >= URL_BYTES || !setting_is_url(url, true) ||
        (!strncmp(c->issuer, "https:", 6) && strncmp(url, "https:", 6) != 0))
        return false;
    return (*out = arena_strdup(a, url)) != NULL;
}

static bool read_document(const cJSON *o, const struct oidc_config *c, struct arena *a,
                          struct oidc_provider *out)
{
    const char *methods = "token_endpoint_auth_methods_supported";
    out->secret_in_body = json_member(o, methods) &&
                          !json_has_text(json_member(o, methods), "client_secret_basic") &&
                          json_has_text(json_member(o, methods), "client_secret_post");
    out->names_itself =
        cJSON_IsTrue(json_member(o, "authorization_response_iss_parameter_supported"));
    endpoint(o, "userinfo_endpoint", c, a, &out->userinfo_endpoint);
    return endpoint(o, "authorization_endpoint", c, a, &out->authorization_endpoint) &&
           endpoint(o, "token_endpoint", c, a, &out->token_endpoint) &&
           endpoint(o, "jwks_uri", c, a, &out->jwks_uri);
}

bool oidc_provider_find(const struct oidc_config *c, struct arena *a, double until,
                        struct oidc_provider *out, struct err *e)
{
    char url[URL_BYTES];
    size_t n = strlen(c->issuer);
    if (n && c->issuer[n - 1] == '/')
        n--;
    snprintf(url, sizeof url, "%.*s" WELL_KNOWN, (int)n, c->issuer);
    cJSON *o = document(&kept.discovery, url, KEEP_MS, until, e);
    if (!o)
        return false;
    const char *issuer = json_text(o, "issuer");
    bool ok = true;
    *out = (struct oidc_provider){0};
    if (!issuer || strcmp(issuer, c->issuer) != 0)
        ok = err_set(e, ERR_FORMAT, "%.120s is of the issuer '%.120s', not of '%.120s'", url,
                     issuer ? issuer : "", c->issuer);
    else if (!read_document(o, c, a, out))
        ok = err_set(e, ERR_FORMAT, "%.200s lacks an address that is needed and may be asked", url);
    cJSON_Delete(o);
    return ok;
}

cJSON *oidc_provider_verify(const struct oidc_provider *p, const char *token, double until,
                            struct err *e)
{
    cJSON *claims = NULL;
    enum jws_answer answer = JWS_NO_KEY;
    for (int again = 0; again < 2 && answer == JWS_NO_KEY; again++) {
        cJSON *set = document(&kept.keys, p->jwks_uri, again ? AGAIN_MS : KEEP_MS, until, e);
        if (!set)
            return NULL;
        answer = jws_verify(token, set, &claims, e);
        cJSON_Delete(set);
    }
    return claims;
}
