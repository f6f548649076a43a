/* A user's second factor: codes of an app (sql/core/otp.h), and recovery codes that serve once
 * each. The app's secret is sealed by a key beside the database (sql/core/factor_key.h); where that
 * is lost, recovery codes still serve. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/otp.h"
#include "sql/core/secret.h"

struct store;

#define STORE_RECOVERY_CODES 10

struct store_factor {
    bool on;              /* confirmed: logins ask for it */
    int64_t confirmed_at; /* 0: not yet */
    int recovery_codes;   /* that are left */
};
/* All zero for a user without one. */
bool store_factor_get(struct store *s, int64_t user_id, struct store_factor *out, struct err *e);
/* A new secret, in the place of one that was never confirmed. ERR_CONFLICT: one is on. */
bool store_factor_begin(struct store *s, int64_t user_id,
                        const unsigned char secret[OTP_SECRET_BYTES], struct err *e);
struct store_factor_confirmation {
    int64_t user_id;
    const char *code;                                   /* that the app shows */
    const unsigned char (*recovery)[SECRET_HASH_BYTES]; /* [STORE_RECOVERY_CODES] */
    const unsigned char *keep_session; /* hash of the session that stays; NULL: none does */
};
/* From now on logins ask for it; all sessions but keep_session, which were opened without it, end.
 * ERR_INPUT (field "code"): not the app's code. ERR_CONFLICT: nothing was begun, or it is on
 * already. */
bool store_factor_confirm(struct store *s, const struct store_factor_confirmation *c,
                          struct err *e);
/* Takes a code of the app or a recovery code: each once, also of several that come at the same
 * time. *recovery: it was one of those. ERR_AUTH: neither. */
bool store_factor_check(struct store *s, int64_t user_id, const char *code, bool *recovery,
                        struct err *e);
bool store_factor_new_codes(struct store *s, int64_t user_id,
                            const unsigned char recovery[STORE_RECOVERY_CODES][SECRET_HASH_BYTES],
                            struct err *e);
/* How many that are on can't be opened by the key that is here. */
bool store_factor_lost(struct store *s, int *n, struct err *e);
bool store_factor_remove(struct store *s, int64_t user_id,
                         struct err *e); /* also when there is none */
