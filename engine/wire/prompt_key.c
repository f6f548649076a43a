/* Chains the keys of a prompt's blocks. Keys are stored in rows and segment files, so neither the
 * hash nor what goes into it may change without another record version. */
#include <sodium.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/wire/prompt_cache.h"

_Static_assert(ENGINE_PROMPT_KEY_BYTES == HASH128_BYTES, "a key is one hash");

static void put_le(unsigned char *at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

void prompt_key_begin(struct prompt_key *k, uint64_t identity, const char *scope, int32_t variant)
{
    unsigned char from[12 + ENGINE_SCOPE_SIZE];
    size_t len = strnlen(scope, ENGINE_SCOPE_SIZE);
    put_le(from, identity, 8);
    put_le(from + 8, (uint32_t)variant, 4);
    memcpy(from + 12, scope, len);
    hash128(from, 12 + len, 0, k->bytes);
}

void prompt_key_next(struct prompt_key *k, const struct prompt_seal *seal, const int32_t *tokens)
{
    unsigned char from[ENGINE_PROMPT_KEY_BYTES + 4 * ENGINE_STORED_TOKENS];
    memcpy(from, k->bytes, ENGINE_PROMPT_KEY_BYTES);
    for (int i = 0; i < ENGINE_STORED_TOKENS; i++)
        put_le(from + ENGINE_PROMPT_KEY_BYTES + 4 * i, (uint32_t)tokens[i], 4);
    if (seal && seal->on)
        crypto_generichash(k->bytes, sizeof k->bytes, from, sizeof from, seal->key,
                           sizeof seal->key);
    else
        hash128(from, sizeof from, 0, k->bytes);
}
