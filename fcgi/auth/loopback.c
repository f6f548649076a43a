/* loopback.h: each condition by itself, in the order in which they are told. */
#include "fcgi/auth/loopback.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"

#define KEY_HEAD "sk-sluice-"

bool loopback_on(const struct request *r)
{
    return *server_setting_text(r, SETTING_KEYS_OPTIONAL_ON_LOOPBACK) != '\0';
}

bool loopback_is_key(const char *text)
{
    return !strncmp(text, KEY_HEAD, strlen(KEY_HEAD));
}

/* 127.0.0.0/8, ::1, and the former written as the latter. */
static bool is_loopback_address(const char *text)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, text, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, text, &six) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&six) ||
           (!memcmp(&six, mapped, sizeof mapped) && six.s6_addr[12] == 127);
}

/* "localhost:8080", "127.0.0.1", "[::1]:8080": a name that no DNS server can point elsewhere. */
static bool is_loopback_host(const char *text)
{
    char host[64];
    const bool six = *text == '[';
    text += six;
    size_t len = strcspn(text, six ? "]" : ":");
    if (!len || len >= sizeof host || (six && text[len] != ']'))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    const char *port = text + len + six;
    if (*port && (*port != ':' || !port[1] || port[1 + strspn(port + 1, "0123456789")]))
        return false;
    return six == (strchr(host, ':') != NULL) &&
           (!strcasecmp(host, "localhost") || is_loopback_address(host));
}

static bool is_loopback_origin(const char *text)
{
    size_t scheme = !strncmp(text, "http://", 7) ? 7 : !strncmp(text, "https://", 8) ? 8 : 0;
    return scheme && is_loopback_host(text + scheme);
}

/* A proxy on this machine has a loopback address itself, whoever is behind it. */
static bool was_forwarded(const struct request *r)
{
    static const char *const marks[] = {"Forwarded",         "X-Forwarded-For", "X-Forwarded-Host",
                                        "X-Forwarded-Proto", "X-Real-IP",       "Via",
                                        "X-Client-IP",       "True-Client-IP",  "CF-Connecting-IP"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (request_header(r, marks[i]))
            return true;
    return false;
}

/* A browser says where a page is from that asks; older ones say nothing for what a page cannot
 * read. */
static bool is_from_elsewhere(const struct request *r)
{
    const char *origin = request_header(r, "Origin"), *site = request_header(r, "Sec-Fetch-Site");
    if (origin)
        return !is_loopback_origin(origin);
    return site && strcmp(site, "none") && strcmp(site, "same-origin");
}

/* Running the model, and what describes it; never what was kept. Under /api/ the page's own routes
 * stay closed: those that speak a dialect are Ollama's. */
static bool is_open_route(const struct route *row)
{
    static const char *const kept[] = {"/v1/responses/{", "/v1/conversations"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (!strncmp(row->path, kept[i], strlen(kept[i])))
            return false;
    return row->auth == ROUTE_USER && row->scope == SCOPE_INFERENCE &&
           (strncmp(row->path, "/api/", 5) || row->dialect);
}

/* Why this request needs a key all the same; NULL: it needs none. */
static const char *why_not(const struct request *r)
{
    const char *host = request_header(r, "Host");
    if (!is_loopback_address(request_remote(r)))
        return "without a key only requests from the server's own machine are answered";
    if (!is_open_route(r->route))
        return "this path is not answered without a key";
    if (was_forwarded(r))
        return "the request came through a proxy";
    if (!host || !is_loopback_host(host))
        return "the Host header is not localhost or a loopback address";
    if (is_from_elsewhere(r))
        return "a page of another origin sent the request";
    return NULL;
}

bool loopback_identify(struct request *r, struct err *e)
{
    struct store_user user;
    const char *why = why_not(r), *name = server_setting_text(r, SETTING_KEYS_OPTIONAL_ON_LOOPBACK);
    struct err unknown = {0};
    r->error_override.code = "missing_api_key";
    if (why)
        return err_set(e, ERR_AUTH,
                       "send an API key as 'Authorization: Bearer sk-...', or log in: %s", why);
    if (!store_user_by_name(r->store, r->arena, name, &user, &unknown) &&
        unknown.code != ERR_NOTFOUND) {
        r->error_override.code = NULL;
        *e = unknown;
        return false;
    }
    if (unknown.code == ERR_NOTFOUND || user.disabled)
        return err_set(
            e, ERR_AUTH,
            "keys_optional_on_loopback names no user who may log in, so a key is needed");
    r->error_override.code = NULL;
    r->who = (struct identity){.by = AUTH_LOOPBACK,
                               .user_id = user.id,
                               .name = user.name,
                               .terms = {.scopes = SCOPE_INFERENCE}};
    return true;
}
