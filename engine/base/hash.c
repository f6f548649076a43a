/* The one place that knows which hash it is: values are on disk (caches, packs) and in the status
 * page's layout. */
#include "engine/base/hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed)
{
    return XXH64(data, len, seed);
}

void hash128(const void *data, size_t len, uint64_t seed, unsigned char out[HASH128_BYTES])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_withSeed(data, len, seed));
    memcpy(out, c.digest, HASH128_BYTES);
}
