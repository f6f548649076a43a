/* cors.h: an origin is compared with the allow-list letter by letter, since browsers send it in one
 * form only. */
#include "fcgi/http/cors.h"

#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

#define SEPARATORS " \t,"
#define MAX_ORIGIN 200
#define PREFLIGHT_S "600"

/* http://host or https://host:port, without a path */
static bool is_origin(const char *text, size_t len)
{
    size_t scheme = !strncmp(text, "https://", 8) ? 8 : !strncmp(text, "http://", 7) ? 7 : 0;
    return scheme && len > scheme && len <= MAX_ORIGIN && !memchr(text + scheme, '/', len - scheme);
}

bool cors_check(const char *origins, struct err *e)
{
    if (!strcmp(origins, "*"))
        return true;
    for (const char *p = origins + strspn(origins, SEPARATORS); *p; p += strspn(p, SEPARATORS)) {
        size_t len = strcspn(p, SEPARATORS);
        if (!is_origin(p, len))
            return err_field(e, ERR_INPUT, "cors-origins",
                             "'%.*s' is no origin such as https://chat.example",
                             (int)(len < 100 ? len : 100), p);
        p += len;
    }
    return true;
}

/* The request's Origin when it is allowed here, else NULL. */
static const char *allowed_origin(struct request *r)
{
    const char *list = r->worker->cors_origins, *origin = request_header(r, "Origin");
    if (!list || !origin || !strncmp(r->path, "/api/", 5) || strlen(origin) > MAX_ORIGIN)
        return NULL;
    if (!strcmp(list, "*"))
        return origin;
    for (const char *p = list + strspn(list, SEPARATORS); *p; p += strspn(p, SEPARATORS)) {
        size_t len = strcspn(p, SEPARATORS);
        if (len == strlen(origin) && !memcmp(p, origin, len))
            return origin;
        p += len;
    }
    return NULL;
}

void cors_headers(struct request *r)
{
    if (r->worker->cors_origins)
        reply_header(r, "Vary", "Origin");
    const char *origin = allowed_origin(r);
    if (!origin)
        return;
    reply_header(r, "Access-Control-Allow-Origin", origin);
    reply_header(
        r, "Access-Control-Expose-Headers",
        "x-request-id, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
        "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
        "x-ratelimit-reset-tokens");
}

void cors_preflight(struct request *r, const char *methods)
{
    const char *headers = request_header(r, "Access-Control-Request-Headers");
    if (!allowed_origin(r))
        return;
    reply_header(r, "Access-Control-Allow-Methods", methods);
    if (headers && strlen(headers) < 2000)
        reply_header(r, "Access-Control-Allow-Headers", headers);
    reply_header(r, "Access-Control-Max-Age", PREFLIGHT_S);
}
