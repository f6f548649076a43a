/* Who calls: session cookie or API key to user. Secrets are compared as hashes in SQL (sql/store.h); each call looks
 * the key up, so that revocation takes effect at once (an indexed look-up costs tens of microseconds).
 * Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

enum auth_by { AUTH_NOBODY, AUTH_SESSION, AUTH_KEY };

#define AUTH_NAME_SIZE 65
#define AUTH_TOKEN_BYTES 32
#define AUTH_TOKEN_TEXT 44 /* base64url without padding, and a NUL */

struct identity {
    enum auth_by by;
    int64_t user_id; /* 0: nobody */
    char name[AUTH_NAME_SIZE];
    bool admin;
    int64_t key_id;              /* AUTH_KEY */
    char csrf[AUTH_TOKEN_TEXT];  /* AUTH_SESSION: what X-CSRF-Token must equal */
    unsigned char token_hash[32]; /* of the cookie or the key: names the session when it is ended */
};

/* Fills r->who from Authorization: Bearer (or X-API-Key), else from the cookie. ERR_AUTH: none, or not valid.
 * ERR_FORBIDDEN: cookie without the CSRF token on a method that changes something. */
bool auth_identify(struct request *r, struct err *e);

/* Random secrets and their hashes (BLAKE2b-256). */
void auth_token_make(char text[AUTH_TOKEN_TEXT]);
void auth_token_hash(const char *text, unsigned char hash[32]);
void auth_csrf_of(const unsigned char token_hash[32], char csrf[AUTH_TOKEN_TEXT]);
/* "sk-sluice-" and 43 letters; prefix: the part that is shown in lists. */
#define AUTH_KEY_TEXT 64
#define AUTH_KEY_PREFIX 20
void auth_key_make(char key[AUTH_KEY_TEXT], char prefix[AUTH_KEY_PREFIX]);
/* argon2id, as libsodium's string; false: memory ran out. */
#define AUTH_PASSWORD_TEXT 128
#define AUTH_PASSWORD_MIN 8
#define AUTH_PASSWORD_MAX 1024
bool auth_password_hash(const char *password, char out[AUTH_PASSWORD_TEXT], struct err *e);
bool auth_password_verify(const char *hash, const char *password);
