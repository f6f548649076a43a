/* Fast 64-bit hash for tables and cache keys (not for secrets; libsodium is for those).
 * Formula: XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). */
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed);
