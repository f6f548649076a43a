/* oidc_cookie.h: one cookie for all steps of a sign-in; each step replaces it. */
#include "fcgi/oidc/oidc_cookie.h"

#include <stdio.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static const char *prefix_of(const struct request *r)
{
    return request_secure(r) ? "__Host-" : "";
}

const char *oidc_cookie_get(struct request *r, const char *cookie)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix_of(r), cookie);
    return request_cookie(r, name);
}

void oidc_cookie_set(struct request *r, const struct oidc_cookie *c)
{
    char cookie[256];
    snprintf(cookie, sizeof cookie, "%s%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%lld%s",
             prefix_of(r), c->cookie, c->value, (long long)c->max_age_s,
             request_secure(r) ? "; Secure" : "");
    reply_header(r, "Set-Cookie", cookie);
}
