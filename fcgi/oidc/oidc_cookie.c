/* oidc_cookie.h: one cookie for all steps of a sign-in; each step replaces it. */
#include "fcgi/oidc/oidc_cookie.h"

#include <stdio.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static const char *name_of(const struct request *r)
{
    return request_secure(r) ? "__Host-sluice_oidc" : "sluice_oidc";
}

const char *oidc_cookie_get(struct request *r)
{
    return request_cookie(r, name_of(r));
}

void oidc_cookie_set(struct request *r, const char *value, int64_t max_age_s)
{
    char cookie[256];
    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%lld%s",
             name_of(r), value, (long long)max_age_s, request_secure(r) ? "; Secure" : "");
    reply_header(r, "Set-Cookie", cookie);
}
