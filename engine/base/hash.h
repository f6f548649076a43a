/* Fast 64-bit hash for tables and cache keys (not for secrets; libsodium is for those): XXH64, by
 * libxxhash. Values are kept in files, so neither the algorithm nor its byte order may change. Any
 * thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* data may be NULL when len is 0. */
uint64_t hash64(const void *data, size_t len, uint64_t seed);
