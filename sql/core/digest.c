/* libsodium's SHA-256 in memory of the caller, so that hashing allocates nothing. */
#include "sql/core/digest.h"

#include <sodium.h>

_Static_assert(sizeof(crypto_hash_sha256_state) <= sizeof((struct digest *)0)->state,
               "room for libsodium's state");

static crypto_hash_sha256_state *state(struct digest *d)
{
    return (crypto_hash_sha256_state *)(void *)d->state;
}

void digest_begin(struct digest *d)
{
    crypto_hash_sha256_init(state(d));
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    crypto_hash_sha256_update(state(d), data, len);
}

void digest_end(struct digest *d, char out[DIGEST_TEXT_SIZE])
{
    unsigned char raw[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(state(d), raw);
    sodium_bin2hex(out, DIGEST_TEXT_SIZE, raw, sizeof raw);
}
