/* Who calls: session cookie or API key to user. Secrets are compared as hashes in SQL
 * (sql/users/store_users.h); each request looks its key up, so that revocation takes effect at once
 * (an indexed look-up costs tens of microseconds). Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

/* Fills r->who from Authorization: Bearer (or X-API-Key), else from the cookie, else by the
 * setting keys_optional_on_loopback. ERR_AUTH: none, or not valid.
 * ERR_FORBIDDEN: cookie without the CSRF token on a method that changes something. */
bool auth_identify(struct request *r, struct err *e);
/* The key that the request carries, else its session's token; NULL: neither. Not checked. */
const char *auth_secret(struct request *r);
/* Would r's caller be let in to a ROUTE_FIGURES? Never fails the request. */
bool auth_sees_figures(struct request *r);
/* May the caller use r->route? Identifies the caller unless the route is open, checks the route's
 * rank, the key's scopes and the limits, and sets r->strict_parameters. It is the hook `authorise`
 * of http/route.h. */
bool auth_authorise(struct request *r, struct err *e);
