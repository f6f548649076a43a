/* Public keys as providers publish them (JWK), made into OpenSSL's. Of jws.c only. */
#pragma once
#include <cjson/cJSON.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct jwk_algorithm {
    const char *name;   /* "RS256" */
    const char *kty;    /* of its keys */
    const char *crv;    /* of its keys; NULL: they have none */
    const char *group;  /* OpenSSL's name of the curve; NULL: not ECDSA */
    const char *digest; /* NULL: the algorithm has its own */
    bool pss;
    size_t half; /* ECDSA: bytes of r, and of s */
};
/* NULL: not known here, as none and HS256 are not. */
const struct jwk_algorithm *jwk_algorithm(const char *name);
/* Are kty and crv the algorithm's? */
bool jwk_fits(const cJSON *key, const struct jwk_algorithm *a);
/* NULL: *e. The caller frees it. */
EVP_PKEY *jwk_load(const cJSON *key, const struct jwk_algorithm *a, struct err *e);
/* The signature in OpenSSL's form; the caller frees *out. */
bool jwk_signature(const struct jwk_algorithm *a, const char *text, size_t len, unsigned char **out,
                   size_t *n);
