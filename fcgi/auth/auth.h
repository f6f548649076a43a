/* Who calls: session cookie or API key to user. Secrets are compared as hashes in SQL (sql/users/store_users.h); each
 * request looks its key up, so that revocation takes effect at once (an indexed look-up costs tens of microseconds).
 * Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

#define AUTH_COOKIE "sluice_session"

/* Fills r->who from Authorization: Bearer (or X-API-Key), else from the cookie. ERR_AUTH: none, or not valid.
 * ERR_FORBIDDEN: cookie without the CSRF token on a method that changes something. */
bool auth_identify(struct request *r, struct err *e);
/* May the caller have r->route? Identifies unless the route is open, then holds the route's rank, the key's scopes and the limits
 * against the caller, and sets r->strict_parameters. The hook that http/route.h asks. */
bool auth_authorise(struct request *r, struct err *e);
