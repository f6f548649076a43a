/* Secrets: made at random, kept as hashes. Beside digest.h, base64.h, otp.h and factor_key.h the
 * only door to libsodium.
 *
 * Tokens and keys have 256 random bits, so a plain keyless BLAKE2b is a safe hash of them;
 * passwords are people's, so they take argon2id. Thread-safe after secret_init; no state. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define SECRET_HASH_BYTES 32
#define SECRET_TOKEN_SIZE 44          /* 43 characters of base64url and a NUL */
#define SECRET_KEY_SIZE 54            /* "sk-sluice-" and 43 characters and a NUL */
#define SECRET_PREFIX_SIZE 17         /* "sk-sluice-" and 6 characters and a NUL */
#define SECRET_PASSWORD_SIZE 24       /* made passwords: "abcde-fghjk-mnpqr-stuvw" and a NUL */
#define SECRET_PASSWORD_HASH_SIZE 128 /* argon2id string with parameters and salt */
#define SECRET_PASSWORD_MIN 8         /* bytes of a password that people choose */
#define SECRET_PASSWORD_MAX 1024

/* Once per process, before threads start; calling it again does no harm. */
bool secret_init(struct err *e);

void secret_token(char out[SECRET_TOKEN_SIZE]); /* of a session */
/* prefix (may be NULL): the part that may be shown again. */
void secret_api_key(char out[SECRET_KEY_SIZE], char prefix[SECRET_PREFIX_SIZE]);
void secret_password(char out[SECRET_PASSWORD_SIZE]); /* 92 bits, no characters that look alike */
/* BLAKE2b-256 of a token's or key's text. */
void secret_hash(const char *text, unsigned char out[SECRET_HASH_BYTES]);
/* The CSRF token of a session: derived from the hash of the session's token (BLAKE2b keyed by it),
 * so that it is stored nowhere and dies with the session. */
void secret_csrf(const unsigned char token_hash[SECRET_HASH_BYTES], char out[SECRET_TOKEN_SIZE]);
/* Compares two strings in a time that depends on their lengths only. */
bool secret_equal(const char *a, const char *b);

/* argon2id, 64 MiB and 2 passes, some 100 ms: callers bound how many run at once.
 * ERR_INPUT (field "password"): shorter or longer than allowed. ERR_NOMEM. */
bool secret_password_hash(const char *password, char out[SECRET_PASSWORD_HASH_SIZE], struct err *e);
/* hash == NULL (no such user) costs the same time and says false. */
bool secret_password_verify(const char *password, const char *hash);

/* What stands for the hash of an account that has no password: none fits it. */
const char *secret_no_password(void);

const char *secret_library_version(void); /* libsodium's */
void secret_wipe(void *data, size_t len); /* not optimised away */
/* For hash tables whose keys strangers choose: SipHash under a key that this process drew at
 * random. */
uint64_t secret_table_hash(const char *text);
#define SECRET_HASH_KEY_BYTES 16
/* The same under a key of the caller's, for tables that processes share. */
uint64_t secret_keyed_hash(const unsigned char key[SECRET_HASH_KEY_BYTES], const void *data,
                           size_t len);
