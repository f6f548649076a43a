/* jwk.h: RSA of 2048 to 8192 bits, the curves P-256 and P-384, Ed25519. */
#include "fcgi/oidc/jwk.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "sql/core/base64.h"

#define RSA_BITS_MIN 2048
#define NUMBER_BYTES 1024 /* RSA of 8192 bits */
#define SIGNATURE_BYTES 1024
#define POINT_BYTES 48 /* of a coordinate on P-384 */

static const struct jwk_algorithm algorithms[] = {
    {.name = "RS256", .kty = "RSA", .digest = "SHA256"},
    {.name = "RS384", .kty = "RSA", .digest = "SHA384"},
    {.name = "RS512", .kty = "RSA", .digest = "SHA512"},
    {.name = "PS256", .kty = "RSA", .digest = "SHA256", .pss = true},
    {.name = "PS384", .kty = "RSA", .digest = "SHA384", .pss = true},
    {.name = "PS512", .kty = "RSA", .digest = "SHA512", .pss = true},
    {.name = "ES256",
     .kty = "EC",
     .crv = "P-256",
     .group = "P-256",
     .digest = "SHA256",
     .half = 32},
    {.name = "ES384",
     .kty = "EC",
     .crv = "P-384",
     .group = "P-384",
     .digest = "SHA384",
     .half = 48},
    {.name = "EdDSA", .kty = "OKP", .crv = "Ed25519"},
};

const struct jwk_algorithm *jwk_algorithm(const char *name)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
        if (!strcmp(algorithms[i].name, name))
            return &algorithms[i];
    return NULL;
}

bool jwk_fits(const cJSON *key, const struct jwk_algorithm *a)
{
    const char *kty = json_text(key, "kty"), *crv = json_text(key, "crv");
    return kty && !strcmp(kty, a->kty) && (!a->crv || (crv && !strcmp(crv, a->crv)));
}

/* A member in base64url; 0: it is none, or longer than size. */
static size_t bytes_of(const cJSON *key, const char *name, unsigned char *out, size_t size)
{
    size_t n = 0;
    const char *text = json_text(key, name);
    return text && base64_decode_url(text, strlen(text), out, size, &n) ? n : 0;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *b)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(b);
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (!params || !c || EVP_PKEY_fromdata_init(c) != 1 ||
        EVP_PKEY_fromdata(c, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(c);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *load_rsa(const cJSON *jwk)
{
    unsigned char n[NUMBER_BYTES], e[8];
    const size_t n_len = bytes_of(jwk, "n", n, sizeof n), e_len = bytes_of(jwk, "e", e, sizeof e);
    if (!n_len || !e_len)
        return NULL;
    EVP_PKEY *key = NULL;
    BIGNUM *modulus = BN_bin2bn(n, (int)n_len, NULL), *exponent = BN_bin2bn(e, (int)e_len, NULL);
    OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
    if (modulus && exponent && b && BN_num_bits(modulus) >= RSA_BITS_MIN && BN_is_odd(exponent) &&
        !BN_is_one(exponent) && OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, modulus) &&
        OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, exponent))
        key = from_params("RSA", b);
    OSSL_PARAM_BLD_free(b);
    BN_free(modulus);
    BN_free(exponent);
    return key;
}

/* The point is checked to lie on the curve as it is taken. */
static EVP_PKEY *load_ec(const cJSON *jwk, const struct jwk_algorithm *a)
{
    unsigned char point[1 + 2 * POINT_BYTES] = {4 /* uncompressed */};
    if (bytes_of(jwk, "x", point + 1, a->half) != a->half ||
        bytes_of(jwk, "y", point + 1 + a->half, a->half) != a->half)
        return NULL;
    EVP_PKEY *key = NULL;
    OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
    if (b && OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, a->group, 0) &&
        OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * a->half))
        key = from_params("EC", b);
    OSSL_PARAM_BLD_free(b);
    return key;
}

static EVP_PKEY *load_ed25519(const cJSON *jwk)
{
    unsigned char x[32];
    return bytes_of(jwk, "x", x, sizeof x) == sizeof x
               ? EVP_PKEY_new_raw_public_key_ex(NULL, "ED25519", NULL, x, sizeof x)
               : NULL;
}

EVP_PKEY *jwk_load(const cJSON *jwk, const struct jwk_algorithm *a, struct err *e)
{
    EVP_PKEY *key = a->group                 ? load_ec(jwk, a)
                    : !strcmp(a->kty, "RSA") ? load_rsa(jwk)
                                             : load_ed25519(jwk);
    if (!key)
        err_set(e, ERR_INPUT, "the provider's key for %s is none that is taken", a->name);
    return key;
}

/* r and s, one after the other, become DER. */
static bool ecdsa_signature(const struct jwk_algorithm *a, const unsigned char *raw,
                            unsigned char **out, size_t *n)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, (int)a->half, NULL),
           *s = BN_bin2bn(raw + a->half, (int)a->half, NULL);
    unsigned char *der = NULL;
    int len = -1;
    if (sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL; /* its own now */
        len = i2d_ECDSA_SIG(sig, &der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    *out = len > 0 ? malloc((size_t)len) : NULL;
    if (*out)
        memcpy(*out, der, (size_t)len);
    *n = (size_t)(len > 0 ? len : 0);
    OPENSSL_free(der);
    return *out != NULL;
}

bool jwk_signature(const struct jwk_algorithm *a, const char *text, size_t len, unsigned char **out,
                   size_t *n)
{
    unsigned char raw[SIGNATURE_BYTES];
    *out = NULL;
    if (!base64_decode_url(text, len, raw, sizeof raw, n) || !*n)
        return false;
    if (a->group)
        return *n == 2 * a->half && ecdsa_signature(a, raw, out, n);
    *out = malloc(*n);
    if (*out)
        memcpy(*out, raw, *n);
    return *out != NULL;
}
