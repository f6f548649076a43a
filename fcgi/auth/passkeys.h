/* Passkeys of a request: where they hold (fcgi/webauthn), the challenges that wait for an answer
 * (rows, so that any worker process may get it), and the check of what an authenticator says. A
 * passkey verified its user itself, by a finger, a face or a PIN, so it is a whole login. Thread:
 * the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/webauthn/webauthn.h"
#include "sql/users/store_passkeys.h"

struct request;

#define PASSKEYS_COOKIE "sluice_passkey" /* of the browser that asked for a login's challenge */

/* The setting passkey_origin, else how the page was asked for. ERR_FORBIDDEN, code passkeys_off:
 * the setting passkeys is off. ERR_CONFLICT, code passkeys_unavailable: not by this address. */
bool passkeys_site(struct request *r, struct webauthn_site *out, struct err *e);
/* What the page needs to know before it offers them: {available, reason: the error's code
 * or null}. */
void passkeys_put_state(struct request *r, cJSON *o);

/* Who is asked to prove something, and what for. */
struct passkeys_asker {
    const char *purpose; /* of struct store_challenge */
    unsigned char by[SECRET_HASH_BYTES];
};
/* A new challenge for the asker, with the members that creation and request have in common. */
cJSON *passkeys_options(struct request *r, const struct passkeys_asker *who,
                        const struct webauthn_site *site, struct err *e);
/* Adds the user's passkeys to a list of descriptors. */
bool passkeys_describe(struct request *r, int64_t user_id, cJSON *list, struct err *e);

/* Takes the challenge, then checks body.passkey. ERR_INPUT names the member that is wrong. */
bool passkeys_register(struct request *r, const cJSON *body, const struct passkeys_asker *who,
                       struct webauthn_credential *out, struct err *e);
/* The same for a proof: *out is the passkey, whose counter is ahead and noted. A wrong one is
 * audited, and ERR_AUTH with the code invalid_passkey; so is one of somebody else than who is
 * logged in. */
bool passkeys_verify(struct request *r, const cJSON *body, const struct passkeys_asker *who,
                     struct store_passkey *out, struct err *e);
/* Opaque, and the same for all passkeys of one account: what an authenticator calls its user. */
#define PASSKEYS_HANDLE_SIZE SECRET_TOKEN_SIZE
bool passkeys_handle(struct request *r, int64_t user_id, char out[PASSKEYS_HANDLE_SIZE],
                     struct err *e);
