/* WebAuthn: is what an authenticator signed right? It knows no request, no user and no row: the
 * caller brings the site, the bytes as the browser sent them and the credential's public key, and
 * takes the challenge (once) itself. libfido2 parses the CBOR and checks the signature; this is its
 * only door. No attestation is asked for, so none is read.
 *
 * All of it is untrusted until a function here says true. Thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define WEBAUTHN_ORIGIN_SIZE 300
#define WEBAUTHN_RP_ID_SIZE 254
#define WEBAUTHN_CHALLENGE_SIZE 88
#define WEBAUTHN_ID_MAX 1023
#define WEBAUTHN_KEY_MAX 259 /* RS256: 2048 bits and the exponent */

/* Where passkeys belong: an authenticator answers for a site's name and for no other. */
struct webauthn_site {
    char origin[WEBAUTHN_ORIGIN_SIZE]; /* "https://chat.example.org:8443", as browsers write it */
    char rp_id[WEBAUTHN_RP_ID_SIZE];   /* "chat.example.org" */
};
/* From "https://HOST[:PORT]"; http only for localhost and what lies under it, as browsers have it.
 * ERR_INPUT: why there can be no passkeys. */
bool webauthn_site_of(const char *origin, struct webauthn_site *out, struct err *e);

struct webauthn_bytes {
    const unsigned char *data;
    size_t len;
};

/* The challenge that the client data carries, so that it can be taken before anything else is
 * looked at. ERR_INPUT: it is no client data. */
bool webauthn_challenge(struct webauthn_bytes client_data, char out[WEBAUTHN_CHALLENGE_SIZE],
                        struct err *e);

struct webauthn_credential {
    unsigned char id[WEBAUTHN_ID_MAX];
    size_t id_len;
    int algorithm;                              /* of COSE: ES256 (-7), EdDSA (-8), RS256 (-257) */
    unsigned char public_key[WEBAUTHN_KEY_MAX]; /* in libfido2's form */
    size_t public_key_len;
    uint32_t counter;
};
struct webauthn_registration {
    struct webauthn_bytes client_data, auth_data;
};
/* A new credential. ERR_INPUT: what is wrong with it. */
bool webauthn_register(const struct webauthn_site *site, const struct webauthn_registration *r,
                       struct webauthn_credential *out, struct err *e);

struct webauthn_assertion {
    struct webauthn_bytes client_data, auth_data, signature;
    int algorithm; /* of the credential, as it was registered */
    struct webauthn_bytes public_key;
};
/* Was it signed by the credential, here, by a user who was there and proved it? *counter: of the
 * authenticator's signatures, for the caller to compare. ERR_INPUT: what is wrong with it. */
bool webauthn_verify(const struct webauthn_site *site, const struct webauthn_assertion *a,
                     uint32_t *counter, struct err *e);

/* webauthn_cbor.c, for this room: whole heads of CBOR, few of them, and none that opens much. */
bool webauthn_cbor_is_small(struct webauthn_bytes b);
/* webauthn_client.c, for this room: type, origin and frame of the client data. */
bool webauthn_check_client(const struct webauthn_site *site, struct webauthn_bytes client_data,
                           const char *type, struct err *e);
