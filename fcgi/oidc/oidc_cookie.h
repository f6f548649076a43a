/* The cookie of a sign-in that is under way: HttpOnly, SameSite=Lax, since the provider's site
 * sends the browser back with it. By TLS its name begins with __Host-, so that it can come from
 * this host alone. Thread: the request's. */
#pragma once
#include <stdint.h>

struct request;

const char *oidc_cookie_get(struct request *r);                                /* NULL: none */
void oidc_cookie_set(struct request *r, const char *value, int64_t max_age_s); /* 0 takes it away */
