/* jws.h: the algorithm is a row of a table; a key must fit the row in every respect. */
#include "fcgi/oidc/jws.h"

#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/oidc/jwk.h"
#include "sql/core/base64.h"

#define TOKEN_BYTES ((size_t)64 << 10)
#define KEYS_MAX 64

struct piece {
    const char *text;
    size_t len;
};

struct token {
    struct piece header, payload, signature;
    size_t signed_len; /* of header, dot and payload, from the token's first byte */
};

static bool split(const char *token, struct token *t, struct err *e)
{
    const char *first = strchr(token, '.'), *second = first ? strchr(first + 1, '.') : NULL;
    if (strlen(token) > TOKEN_BYTES)
        return err_set(e, ERR_INPUT, "the token has more than %zu bytes", TOKEN_BYTES);
    if (!second || strchr(second + 1, '.'))
        return err_set(e, ERR_INPUT, "the token is no signed token of three parts");
    *t = (struct token){.header = {token, (size_t)(first - token)},
                        .payload = {first + 1, (size_t)(second - first - 1)},
                        .signature = {second + 1, strlen(second + 1)},
                        .signed_len = (size_t)(second - token)};
    return true;
}

static cJSON *object_of(struct piece p, const char *what, struct err *e)
{
    size_t n = 0;
    unsigned char *bytes = malloc(p.len + 1);
    cJSON *o = NULL;
    if (bytes && base64_decode_url(p.text, p.len, bytes, p.len + 1, &n))
        o = json_parse((const char *)bytes, n, &(struct json_limits){.max_depth = 16}, NULL);
    free(bytes);
    if (o && cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    err_set(e, ERR_INPUT, "the token's %s is no JSON object in base64url", what);
    return NULL;
}

static bool same_or_absent(const cJSON *key, const char *name, const char *want)
{
    const cJSON *v = json_member(key, name);
    return !v || (cJSON_IsString(v) && !strcmp(v->valuestring, want));
}

/* The key for that algorithm and name. Without a name in the header it must be the only one. */
static const cJSON *pick(const cJSON *set, const struct jwk_algorithm *a, const char *kid)
{
    const cJSON *key, *found = NULL, *keys = json_member(set, "keys");
    int n = 0, matches = 0;
    cJSON_ArrayForEach (key, keys) {
        if (++n > KEYS_MAX)
            break;
        const char *own = json_text(key, "kid");
        if (!cJSON_IsObject(key) || !jwk_fits(key, a) || !same_or_absent(key, "use", "sig") ||
            !same_or_absent(key, "alg", a->name) || (kid && (!own || strcmp(own, kid) != 0)))
            continue;
        found = key;
        matches++;
    }
    return matches == 1 ? found : NULL;
}

static bool check_signature(EVP_PKEY *key, const struct jwk_algorithm *a, const char *token,
                            const struct token *t)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    EVP_PKEY_CTX *p = NULL;
    unsigned char *signature = NULL;
    size_t n = 0;
    bool ok = c && jwk_signature(a, t->signature.text, t->signature.len, &signature, &n) &&
              EVP_DigestVerifyInit_ex(c, &p, a->digest, NULL, NULL, key, NULL) == 1;
    if (ok && a->pss)
        ok = EVP_PKEY_CTX_set_rsa_padding(p, RSA_PKCS1_PSS_PADDING) == 1 &&
             EVP_PKEY_CTX_set_rsa_pss_saltlen(p, RSA_PSS_SALTLEN_DIGEST) == 1;
    ok = ok && EVP_DigestVerify(c, signature, n, (const unsigned char *)token, t->signed_len) == 1;
    EVP_MD_CTX_free(c);
    free(signature);
    return ok;
}

static enum jws_answer verify(const char *token, const struct token *t, const cJSON *header,
                              const cJSON *set, struct err *e)
{
    const char *alg = json_text(header, "alg"), *kid = json_text(header, "kid");
    const struct jwk_algorithm *a = jwk_algorithm(alg ? alg : "");
    if (!a || json_member(header, "crit") || (json_member(header, "kid") && !kid)) {
        err_set(e, ERR_INPUT, "the token's header asks for what is not done here (alg '%.20s')",
                alg ? alg : "");
        return JWS_BAD;
    }
    const cJSON *chosen = pick(set, a, kid);
    if (!chosen) {
        err_set(e, ERR_INPUT, "the provider has no key '%.60s' for %s", kid ? kid : "", a->name);
        return JWS_NO_KEY;
    }
    EVP_PKEY *key = jwk_load(chosen, a, e);
    const bool good = key && check_signature(key, a, token, t);
    if (key && !good)
        err_set(e, ERR_INPUT, "the token's signature is not the provider's");
    EVP_PKEY_free(key);
    return good ? JWS_GOOD : JWS_BAD;
}

enum jws_answer jws_verify(const char *token, const cJSON *set, cJSON **claims, struct err *e)
{
    struct token t = {0};
    enum jws_answer answer = JWS_BAD;
    *claims = NULL;
    cJSON *header = split(token, &t, e) ? object_of(t.header, "header", e) : NULL;
    if (header)
        answer = verify(token, &t, header, set, e);
    cJSON_Delete(header);
    if (answer == JWS_GOOD && !(*claims = object_of(t.payload, "payload", e)))
        answer = JWS_BAD;
    return answer;
}

bool jws_sha256(const char *text, char out[JWS_SHA256_SIZE])
{
    unsigned char digest[32];
    size_t n = 0;
    if (EVP_Q_digest(NULL, "SHA256", NULL, text, strlen(text), digest, &n) != 1)
        return false;
    base64_encode_url(digest, n, out, JWS_SHA256_SIZE);
    return true;
}
