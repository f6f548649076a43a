/* Cookies of sign-ins that are under way, here or at a tool server: HttpOnly, SameSite=Lax, since
 * the provider's site sends the browser back with it. By TLS its name begins with __Host-, so that
 * it can come from this host alone. Thread: the request's. */
#pragma once
#include <stdint.h>

struct request;

#define OIDC_COOKIE "sluice_oidc"       /* of a sign-in here */
#define OIDC_COOKIE_TOOLS "sluice_tool" /* at tool servers */

const char *oidc_cookie_get(struct request *r, const char *cookie); /* NULL: none */
struct oidc_cookie {
    const char *cookie, *value;
    int64_t max_age_s; /* 0 takes it away */
};
void oidc_cookie_set(struct request *r, const struct oidc_cookie *c);
