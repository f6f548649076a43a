/* Who asks, as a request carries it. Filled by whoever authorises (http_hooks in route.h). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sql/users/store_limits.h"
#include "sql/users/store_users.h"

enum auth_by { AUTH_NOBODY, AUTH_SESSION, AUTH_KEY, AUTH_LOOPBACK /* auth/loopback.h */ };

struct identity {
    enum auth_by by;
    int64_t user_id;  /* 0: nobody */
    const char *name; /* in the request's arena */
    bool admin;
    int64_t key_id;                  /* AUTH_KEY */
    struct store_key_terms terms;    /* but for AUTH_SESSION: what the key may do, and how much */
    struct store_user_limits limits; /* of the user: limits_load */
    int64_t used_today;              /* tokens, as last read */
    int64_t used_day;                /* of which day, in days since 1970 */
    double used_ms;                  /* clock_ms, when; 0: it did not */
    unsigned char
        token_hash[SECRET_HASH_BYTES]; /* AUTH_SESSION: names the session when it is ended */
    char csrf[SECRET_TOKEN_SIZE];      /* AUTH_SESSION: what X-CSRF-Token must equal */
};
