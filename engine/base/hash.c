/* The one place that knows which hash it is: values are on disk (caches, packs) and in the status
 * page's layout. */
#include "engine/base/hash.h"

#include <xxhash.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed)
{
    return XXH64(data, len, seed);
}
