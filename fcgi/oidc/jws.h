/* Signed tokens (JWS in its compact form, RFC 7515) and the keys that verify them (JWK, RFC 7517),
 * by OpenSSL. A key set tells which keys are good; the token's header only picks one of them. Only
 * signatures by a private key are known here: `none` and the HS* are no algorithms at all.
 * Thread-safe, no state. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"

enum jws_answer {
    JWS_GOOD,
    JWS_NO_KEY, /* the set has no key of that name for that algorithm: a newer set may */
    JWS_BAD     /* *e says why */
};

/* Verifies the token by the set {"keys": [...]}. *claims: the payload, a JSON object, only when
 * JWS_GOOD; the caller frees it. */
enum jws_answer jws_verify(const char *token, const cJSON *set, cJSON **claims, struct err *e);
/* SHA-256 of a text in base64url, as PKCE wants it. out: 44 bytes. */
#define JWS_SHA256_SIZE 44
bool jws_sha256(const char *text, char out[JWS_SHA256_SIZE]);
