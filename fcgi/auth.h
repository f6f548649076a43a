/* Who calls: session cookie or API key to user. Secrets are compared as hashes in SQL (sql/store_users.h); each
 * request looks its key up, so that revocation takes effect at once (an indexed look-up costs tens of microseconds).
 * Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/store_limits.h"
#include "sql/store_users.h"

struct request;

#define AUTH_COOKIE "sluice_session"

enum auth_by { AUTH_NOBODY, AUTH_SESSION, AUTH_KEY, AUTH_LOOPBACK /* loopback.h */ };

struct identity {
    enum auth_by by;
    int64_t user_id; /* 0: nobody */
    const char *name; /* in the request's arena */
    bool admin;
    int64_t key_id; /* AUTH_KEY */
    struct store_key_terms terms; /* but for AUTH_SESSION: what the key may do, and how much */
    struct store_user_limits limits; /* of the user: limits_load */
    unsigned char token_hash[SECRET_HASH_BYTES]; /* AUTH_SESSION: names the session when it is ended */
    char csrf[SECRET_TOKEN_SIZE];                /* AUTH_SESSION: what X-CSRF-Token must equal */
};

/* Fills r->who from Authorization: Bearer (or X-API-Key), else from the cookie, else by the
 * setting keys_optional_on_loopback. ERR_AUTH: none, or not valid.
 * ERR_FORBIDDEN: cookie without the CSRF token on a method that changes something. */
bool auth_identify(struct request *r, struct err *e);
