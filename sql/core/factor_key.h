/* The key that seals second factors' secrets (and settings that are secrets: store_setting_seal in
 * store.h) in the database: both sides compute with such a
 * secret, so a hash of it would not do. 32 random bytes in the file factor.key beside the database,
 * 0600, made once and in no backup: whoever gets a copy of the database has no codes of it. Each
 * user's secrets have a key of their own that is derived from it, so that no row opens as another
 * user's. Inside sql/ only; a thread's own connection. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/otp.h"

struct store;

#define FACTOR_KEY_FILE "factor.key"
#define FACTOR_SEALED_BYTES                                                                        \
    60 /* nonce, authenticator, OTP_SECRET_BYTES: the schema says so too                           \
        */

#define FACTOR_DERIVED_BYTES 32

struct factor_salt {
    unsigned char bytes[32];
};

/* Makes the key's file where there is none. */
bool factor_key_make(struct store *s, struct err *e);
/* Makes the key's file where there is none. */
bool factor_seal(struct store *s, int64_t user_id, const unsigned char secret[OTP_SECRET_BYTES],
                 unsigned char out[FACTOR_SEALED_BYTES], struct err *e);
/* 1: opened; 0: the key is not there, or not the one that this was sealed with; -1: *e, the file
 * can't be read. */
int factor_open(struct store *s, int64_t user_id, const unsigned char sealed[FACTOR_SEALED_BYTES],
                unsigned char secret[OTP_SECRET_BYTES], struct err *e);
/* A key of the user's that the file's and the salt make: it is gone with either. Makes the key's
 * file where there is none. */
bool factor_derive(struct store *s, int64_t user_id, const struct factor_salt *salt,
                   unsigned char out[FACTOR_DERIVED_BYTES], struct err *e);
/* factor_sealed(user_id, secret) in SQL, for the migration of secrets that were kept as they are.
 */
bool factor_functions(struct store *s, struct err *e);
