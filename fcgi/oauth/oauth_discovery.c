/* oauth.h: from a server's address to its issuer's endpoints, by two documents that others write.
 * None of their addresses is asked before it was looked at here. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/json/json.h"
#include "fcgi/config/setting_checks.h"
#include "fcgi/oauth/oauth.h"
#include "fcgi/oidc/oidc_http.h"

#define RESOURCE_WELL_KNOWN "/.well-known/oauth-protected-resource"
#define OAUTH_WELL_KNOWN "/.well-known/oauth-authorization-server"
#define OPENID_WELL_KNOWN "/.well-known/openid-configuration"
#define OFFLINE "offline_access" /* by which some issuers give refresh tokens */

struct url { /* parts of one */
    const char *text;
    size_t origin; /* bytes of scheme and authority */
    size_t path;   /* of the path without a / at its end; 0: none */
};

static struct url split(const char *text)
{
    const char *host = strstr(text, "://");
    struct url u = {.text = text};
    if (!host)
        return u;
    u.origin = (size_t)(host + 3 - text) + strcspn(host + 3, "/?");
    u.path = strcspn(text + u.origin, "?");
    while (u.path && text[u.origin + u.path - 1] == '/')
        u.path--;
    return u;
}

static bool same_origin(const struct url *a, const struct url *b)
{
    return a->origin == b->origin && !strncasecmp(a->text, b->text, a->origin);
}

/* Is what the metadata speak of this server, or a part of its host that it lies in? Tokens of the
 * latter are good at its neighbours too, whose owner may be another: `exact` wants the former. */
static bool covers(const char *resource, const char *server, bool exact)
{
    const struct url r = split(resource), s = split(server);
    if (!same_origin(&r, &s) ||
        resource[r.origin + r.path + strspn(resource + r.origin + r.path, "/")])
        return false; /* nor a query of its own */
    const char *rest = server + s.origin + r.path;
    return r.path <= s.path && (!exact || r.path == s.path) &&
           !strncmp(resource + r.origin, server + s.origin, r.path) &&
           (!*rest || strchr("/?", *rest));
}

/* May this address be asked, or a browser be sent there, for a server that is at `from`? */
static bool may_follow(const char *url, const char *from)
{
    return url && strlen(url) < OAUTH_URL && setting_is_url(url, true) &&
           (strncmp(from, "https:", 6) != 0 || !strncmp(url, "https:", 6));
}

static bool odd(struct err *e, const char *what, const char *about)
{
    err_set(e, ERR_FORMAT, "%s: %.200s", what, about);
    return err_reason(e, "tool_issuer_odd");
}

/* NULL with e->code 0: there is none at this address. */
static cJSON *fetch(const struct oauth_ask *ask, const char *url, struct err *e)
{
    long status = 0;
    struct err why = {0};
    cJSON *o = oauth_ask_json(ask, &(struct oidc_http){.url = url}, &status, &why);
    if (o && status == 200)
        return o;
    cJSON_Delete(o);
    if (status == 200 || status == 0 || status >= 500) {
        if (!why.code) {
            err_set(&why, ERR_UNAVAILABLE, "%.200s answers %ld", url, status);
            err_reason(&why, "tool_issuer_down");
        }
        *e = why;
    }
    return NULL;
}

struct place { /* where a document may lie, in this order */
    const char *name;
    const struct url *of;
    bool path_first; /* the path of `of` stands before the name */
    bool with_path;
};

static cJSON *fetch_first(const struct oauth_ask *ask, const struct place *places, int n,
                          struct err *e)
{
    cJSON *o = NULL;
    for (int i = 0; i < n && !o && !e->code; i++) {
        char url[2 * OAUTH_URL];
        const struct url *u = places[i].of;
        const char *path = u->text + u->origin;
        const int len = places[i].with_path ? (int)u->path : 0;
        snprintf(url, sizeof url, "%.*s%.*s%s%.*s", (int)u->origin, u->text,
                 places[i].path_first ? len : 0, path, places[i].name,
                 places[i].path_first ? 0 : len, path);
        o = fetch(ask, url, e);
    }
    return o;
}

/* --- the resource --- */

static void put_scopes(const cJSON *list, char out[OAUTH_SCOPE])
{
    const cJSON *item;
    char all[OAUTH_SCOPE];
    cJSON_ArrayForEach (item, list)
        if (cJSON_IsString(item)) {
            memcpy(all, out, sizeof all);
            oauth_scope_join(all, item->valuestring, out);
        }
}

static bool take_resource(const struct oauth_ask *ask, const cJSON *o, const char *server,
                          struct oauth_about *out, struct err *e)
{
    const char *resource = json_text(o, "resource");
    const cJSON *list = json_member(o, "authorization_servers");
    const char *issuer = cJSON_IsArray(list) ? cJSON_GetStringValue(list->child) : NULL;
    if (!resource || !covers(resource, server, ask->exact))
        return odd(e, "the tool server's metadata are of another resource",
                   resource ? resource : "none");
    if (!may_follow(issuer, server))
        return odd(e, "the tool server names no issuer that may be asked",
                   issuer ? issuer : "none");
    out->resource = arena_strdup(ask->arena, resource);
    out->issuer = arena_strdup(ask->arena, issuer);
    return (out->resource && out->issuer) || err_set(e, ERR_NOMEM, "no memory for a sign-in");
}

/* Servers of the protocol's version of 2025-03-26 say nothing: their host is the issuer. */
static bool take_host(const struct oauth_ask *ask, const char *server, struct oauth_about *out,
                      struct err *e)
{
    const struct url u = split(server);
    out->resource = arena_copy(ask->arena, server, strcspn(server, "?"));
    out->issuer = arena_copy(ask->arena, server, u.origin);
    return (out->resource && out->issuer) || err_set(e, ERR_NOMEM, "no memory for a sign-in");
}

static bool find_resource(const struct oauth_ask *ask, const char *server,
                          const struct oauth_challenge *challenge, struct oauth_about *out,
                          char scope[OAUTH_SCOPE], struct err *e)
{
    const struct url u = split(server);
    const struct place places[] = {{.name = RESOURCE_WELL_KNOWN, .of = &u, .with_path = true},
                                   {.name = RESOURCE_WELL_KNOWN, .of = &u}};
    cJSON *o = NULL;
    if (challenge->metadata[0] && !may_follow(challenge->metadata, server))
        return odd(e, "the tool server's metadata lie where they are not asked for",
                   challenge->metadata);
    o = challenge->metadata[0] ? fetch(ask, challenge->metadata, e)
                               : fetch_first(ask, places + !u.path, 2 - !u.path, e);
    if (e->code)
        return false;
    if (!o && challenge->metadata[0])
        return odd(e, "the tool server's metadata are not there", challenge->metadata);
    const bool ok = o ? take_resource(ask, o, server, out, e) : take_host(ask, server, out, e);
    memcpy(scope, challenge->scope, OAUTH_SCOPE);
    if (ok && !scope[0])
        put_scopes(json_member(o, "scopes_supported"), scope);
    cJSON_Delete(o);
    return ok;
}

/* --- its issuer --- */

/* The one that was asked for, a / at the end aside. */
static bool is_issuer(const char *said, const char *asked)
{
    size_t n = said ? strlen(said) : 0, m = strlen(asked);
    n -= n && said[n - 1] == '/';
    m -= m && asked[m - 1] == '/';
    return said && n == m && !strncmp(said, asked, n);
}

struct host {
    const char *at;
    size_t len;
};

static struct host host_of(const char *url)
{
    const struct url u = split(url);
    const char *at = strstr(url, "://") + 3;
    const size_t n = (size_t)(url + u.origin - at);
    return (struct host){at, *at == '[' ? n : strcspn(at, ":") < n ? strcspn(at, ":") : n};
}

/* The part of an issuer's host that its endpoints may share: the host without its first label, but
 * never a bare end such as "com" or "co.uk", and an address as a whole. */
static struct host site_of(struct host h)
{
    int dots = 0;
    size_t ends[3] = {h.len, 0, 0}; /* where the last labels begin */
    const char *first = memchr(h.at, '.', h.len);
    if (h.len && (*h.at == '[' || (h.at[h.len - 1] >= '0' && h.at[h.len - 1] <= '9')))
        return h;
    for (size_t i = h.len; i > 0; i--)
        if (h.at[i - 1] == '.' && ++dots < 3)
            ends[dots] = i;
    const bool country = dots == 2 && h.len - ends[1] == 2 && ends[1] - 1 - ends[2] <= 3;
    if (!first || dots < 2 || country)
        return h;
    return (struct host){first + 1, h.len - (size_t)(first + 1 - h.at)};
}

static bool lies_in(const char *url, struct host site)
{
    const struct host h = host_of(url);
    return h.len >= site.len && !strncasecmp(h.at + h.len - site.len, site.at, site.len) &&
           (h.len == site.len || h.at[h.len - site.len - 1] == '.');
}

/* An issuer that sends browsers to another's page would get that one's codes: its answers must say
 * whose they are (RFC 9207), or both of its endpoints be of one place, or of its own. */
static bool may_mix_up(const struct oauth_about *about, const char *issuer)
{
    const struct url a = split(about->authorization_endpoint), t = split(about->token_endpoint);
    const struct host site = site_of(host_of(issuer));
    return !about->names_itself && !same_origin(&a, &t) &&
           !(lies_in(about->authorization_endpoint, site) && lies_in(about->token_endpoint, site));
}

/* *to stays NULL where there is none that may be followed. */
static bool take_endpoint(const struct oauth_ask *ask, const cJSON *o, const char *name,
                          const char *from, const char **to)
{
    const char *url = json_text(o, name);
    if (may_follow(url, from))
        *to = arena_strdup(ask->arena, url);
    return *to != NULL;
}

static void take_methods(const cJSON *o, struct oauth_about *out)
{
    const char *name = "token_endpoint_auth_methods_supported";
    out->takes_none = json_has_text(json_member(o, name), "none");
    out->takes_post = json_has_text(json_member(o, name), "client_secret_post");
    out->takes_basic =
        !json_member(o, name) || json_has_text(json_member(o, name), "client_secret_basic");
    out->takes_documents = cJSON_IsTrue(json_member(o, "client_id_metadata_document_supported"));
    out->names_itself =
        cJSON_IsTrue(json_member(o, "authorization_response_iss_parameter_supported"));
}

static bool take_issuer(const struct oauth_ask *ask, const cJSON *o, struct oauth_about *out,
                        struct err *e)
{
    const char *issuer = json_text(o, "issuer"), *from = out->issuer;
    if (!is_issuer(issuer, out->issuer))
        return odd(e, "the issuer's metadata are of another one", issuer ? issuer : "none");
    if (!json_has_text(json_member(o, "code_challenge_methods_supported"), "S256"))
        return odd(e, "the issuer does not say that it knows PKCE (S256)", issuer);
    if (!take_endpoint(ask, o, "authorization_endpoint", from, &out->authorization_endpoint) ||
        !take_endpoint(ask, o, "token_endpoint", from, &out->token_endpoint))
        return odd(e, "the issuer lacks an address that is needed and may be asked", issuer);
    take_endpoint(ask, o, "registration_endpoint", from, &out->registration_endpoint);
    take_endpoint(ask, o, "revocation_endpoint", from, &out->revocation_endpoint);
    take_methods(o, out);
    if (may_mix_up(out, from))
        return odd(e, "the issuer has its pages and its tokens at different hosts", issuer);
    out->issuer = arena_strdup(ask->arena, issuer); /* as its answers name it */
    return out->issuer || err_set(e, ERR_NOMEM, "no memory for a sign-in");
}

static bool find_issuer(const struct oauth_ask *ask, struct oauth_about *out,
                        char scope[OAUTH_SCOPE], struct err *e)
{
    const struct url u = split(out->issuer);
    const struct place places[] = {
        {.name = OAUTH_WELL_KNOWN, .of = &u, .with_path = true},
        {.name = OPENID_WELL_KNOWN, .of = &u, .with_path = true},
        {.name = OPENID_WELL_KNOWN, .of = &u, .with_path = true, .path_first = true}};
    cJSON *o = fetch_first(ask, places, u.path ? 3 : 2, e);
    if (!o)
        return e->code ? false : odd(e, "the issuer's metadata are not there", out->issuer);
    const bool ok = take_issuer(ask, o, out, e);
    char all[OAUTH_SCOPE];
    memcpy(all, scope, sizeof all);
    if (ok && scope[0] && json_has_text(json_member(o, "scopes_supported"), OFFLINE))
        oauth_scope_join(all, OFFLINE, scope);
    cJSON_Delete(o);
    return ok;
}

bool oauth_discover(const struct oauth_ask *ask, const char *server_url,
                    const struct oauth_challenge *challenge, struct oauth_about *out, struct err *e)
{
    char scope[OAUTH_SCOPE] = "";
    *out = (struct oauth_about){.label = ""};
    *e = (struct err){0};
    if (!find_resource(ask, server_url, challenge, out, scope, e) ||
        !find_issuer(ask, out, scope, e))
        return false;
    out->scope = arena_strdup(ask->arena, scope);
    return out->scope || err_set(e, ERR_NOMEM, "no memory for a sign-in");
}
