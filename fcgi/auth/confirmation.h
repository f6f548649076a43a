/* Step-up: what matters asks a session for a password, a code or a passkey again, unless its user
 * has proved who they are within the setting confirm_minutes, by logging in or since. So a session
 * that someone found open, or stole, makes no keys and changes no users. Only sessions are asked:
 * an API key can't answer, and is bounded by its scopes.
 *
 * A route says it in its row (route.h: confirmed); a handler that sees only in the body whether it
 * matters calls confirmation_check. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

/* ERR_FORBIDDEN with the code confirmation_required. Where the setting is 0 a confirmation serves
 * for one request, the next one within a minute. */
bool confirmation_check(struct request *r, struct err *e);
/* The same as an answer, without using it up. */
bool confirmation_fresh(struct request *r, bool *fresh, struct err *e);
/* The session's user has just proved who they are. Harmless for who is no session. */
bool confirmation_renew(struct request *r, struct err *e);
