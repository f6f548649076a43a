/* Passkeys: public keys by which authenticators answer for a user, and the challenges that they
 * sign. What is signed is checked elsewhere (fcgi/webauthn); here are the rows. Rules as in
 * sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"

struct arena;
struct store;

#define STORE_PASSKEYS_MAX 20 /* of one user */
#define STORE_PASSKEY_ID_MAX 1023
#define STORE_PASSKEY_TRANSPORTS_MAX 128

struct store_passkey {
    int64_t id, user_id;
    const unsigned char *credential_id; /* the authenticator's own name of it */
    size_t credential_id_len;
    int64_t algorithm; /* of COSE: -7, -8 or -257 */
    const unsigned char *public_key;
    size_t public_key_len;
    int64_t counter;        /* of signatures, as the authenticator said last; 0: it counts none */
    const char *transports; /* with blanks between them */
    const char *name;
    int64_t created_at, used_at; /* used_at 0: never */
};

/* Of *p: all but id and the times. ERR_CONFLICT: the credential is known. ERR_LIMIT: too many. */
bool store_passkey_add(struct store *s, const struct store_passkey *p, int64_t *id, struct err *e);
typedef bool (*store_passkey_fn)(void *context, const struct store_passkey *p); /* false: enough */
bool store_passkey_list(struct store *s, int64_t user_id, store_passkey_fn fn, void *context,
                        struct err *e);
bool store_passkey_count(struct store *s, int64_t user_id, int64_t *n, struct err *e);
/* Of a user who may log in; texts and bytes into the arena. ERR_NOTFOUND. */
bool store_passkey_find(struct store *s, struct arena *a, const unsigned char *credential_id,
                        size_t len, struct store_passkey *out, struct err *e);
/* Of *p: id, user_id, and the counter that came with the signature. *ahead false: it is not ahead
 * of the one that came before, so that somebody may have a copy; nothing is changed then. */
bool store_passkey_use(struct store *s, const struct store_passkey *p, bool *ahead, struct err *e);
/* Of *p: id, user_id and name. ERR_NOTFOUND. */
bool store_passkey_rename(struct store *s, const struct store_passkey *p, struct err *e);
bool store_passkey_remove(struct store *s, int64_t user_id, int64_t id, struct err *e);

struct store_challenge {
    const char *challenge;                     /* its text; only its hash is kept */
    const char *purpose;                       /* "register", "login", "confirm" */
    unsigned char asked_by[SECRET_HASH_BYTES]; /* hash of the session's token or browser's cookie */
};
#define STORE_CHALLENGE_MS ((int64_t)5 * 60 * 1000)

/* Replaces one that the same asker had for the same purpose. */
bool store_challenge_add(struct store *s, const struct store_challenge *c, struct err *e);
/* *good: it was there, for this purpose and asker, and not expired; it is gone now. */
bool store_challenge_take(struct store *s, const struct store_challenge *c, bool *good,
                          struct err *e);
