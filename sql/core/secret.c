/* Tokens, keys and passwords by libsodium, with the cost of argon2id fixed here. */
#include "sql/core/secret.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define RANDOM_BYTES 32
#define KEY_HEAD "sk-sluice-"

const char *secret_library_version(void)
{
    return sodium_version_string();
}

bool secret_init(struct err *e)
{
    return sodium_init() >= 0 ||
           err_set(e, ERR_INTERNAL, "libsodium can't start: no random source");
}

void secret_token(char out[SECRET_TOKEN_SIZE])
{
    unsigned char raw[RANDOM_BYTES];
    randombytes_buf(raw, sizeof raw);
    sodium_bin2base64(out, SECRET_TOKEN_SIZE, raw, sizeof raw,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(raw, sizeof raw);
}

void secret_api_key(char out[SECRET_KEY_SIZE], char prefix[SECRET_PREFIX_SIZE])
{
    const size_t head = sizeof KEY_HEAD - 1;
    memcpy(out, KEY_HEAD, head);
    secret_token(out + head);
    if (prefix) {
        memcpy(prefix, out, SECRET_PREFIX_SIZE - 1);
        prefix[SECRET_PREFIX_SIZE - 1] = 0;
    }
}

void secret_password(char out[SECRET_PASSWORD_SIZE])
{
    static const char letters[] = "abcdefghjkmnpqrstuvwxyz23456789";
    for (int i = 0; i < SECRET_PASSWORD_SIZE - 1; i++)
        out[i] = i % 6 == 5 ? '-' : letters[randombytes_uniform(sizeof letters - 1)];
    out[SECRET_PASSWORD_SIZE - 1] = 0;
}

void secret_hash(const char *text, unsigned char out[SECRET_HASH_BYTES])
{
    crypto_generichash(out, SECRET_HASH_BYTES, (const unsigned char *)text, strlen(text), NULL, 0);
}

void secret_csrf(const unsigned char token_hash[SECRET_HASH_BYTES], char out[SECRET_TOKEN_SIZE])
{
    static const unsigned char label[] = "csrf";
    unsigned char raw[RANDOM_BYTES];
    crypto_generichash(raw, sizeof raw, label, sizeof label - 1, token_hash, SECRET_HASH_BYTES);
    sodium_bin2base64(out, SECRET_TOKEN_SIZE, raw, sizeof raw,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

void secret_derive(const char *token, const char *label, char out[SECRET_TOKEN_SIZE])
{
    unsigned char raw[RANDOM_BYTES];
    const size_t n = strnlen(token, crypto_generichash_KEYBYTES_MAX);
    crypto_generichash(raw, sizeof raw, (const unsigned char *)label, strlen(label),
                       (const unsigned char *)token, n);
    sodium_bin2base64(out, SECRET_TOKEN_SIZE, raw, sizeof raw,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(raw, sizeof raw);
}

bool secret_equal(const char *a, const char *b)
{
    size_t n = strlen(a);
    return n == strlen(b) && sodium_memcmp(a, b, n) == 0;
}

bool secret_password_hash(const char *password, char out[SECRET_PASSWORD_HASH_SIZE], struct err *e)
{
    size_t n = strlen(password);
    if (n < SECRET_PASSWORD_MIN || n > SECRET_PASSWORD_MAX) {
        err_field(e, ERR_INPUT, "password", "a password has %d to %d bytes; this one has %zu",
                  SECRET_PASSWORD_MIN, SECRET_PASSWORD_MAX, n);
        err_reason(e, "password_length");
        err_param(e, "min", SECRET_PASSWORD_MIN);
        return err_param(e, "max", SECRET_PASSWORD_MAX);
    }
    _Static_assert(SECRET_PASSWORD_HASH_SIZE >= crypto_pwhash_STRBYTES,
                   "room for libsodium's string");
    if (crypto_pwhash_str_alg(out, password, n, crypto_pwhash_OPSLIMIT_INTERACTIVE,
                              crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13))
        return err_set(e, ERR_NOMEM, "memory ran out while hashing the password");
    return true;
}

const char *secret_no_password(void)
{
    return "$argon2id$v=19$m=65536,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$"
           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
}

bool secret_password_verify(const char *password, const char *hash)
{
    /* It has the parameters above, so that an unknown name takes as long as a known one. */
    const char *nobody = secret_no_password();
    size_t n = strlen(password);
    if (n > SECRET_PASSWORD_MAX)
        return false;
    bool same = crypto_pwhash_str_verify(hash ? hash : nobody, password, n) == 0;
    return hash && same;
}

void secret_wipe(void *data, size_t len)
{
    sodium_memzero(data, len);
}

static pthread_once_t table_once = PTHREAD_ONCE_INIT;
static unsigned char table_key[crypto_shorthash_KEYBYTES];

static void draw_table_key(void)
{
    randombytes_buf(table_key, sizeof table_key);
}

uint64_t secret_table_hash(const char *text)
{
    pthread_once(&table_once, draw_table_key);
    return secret_keyed_hash(table_key, text, strlen(text));
}

_Static_assert(SECRET_HASH_KEY_BYTES == crypto_shorthash_KEYBYTES, "libsodium's SipHash");

uint64_t secret_keyed_hash(const unsigned char key[SECRET_HASH_KEY_BYTES], const void *data,
                           size_t len)
{
    uint64_t hash;
    unsigned char out[crypto_shorthash_BYTES];
    crypto_shorthash(out, data, len, key);
    memcpy(&hash, out, sizeof hash);
    return hash;
}
