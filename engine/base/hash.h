/* Fast hashes for tables, cache keys and checksums (not for secrets; libsodium is for those): XXH64
 * and XXH3-128, by libxxhash. Values are kept in files, so neither the algorithm nor its byte order
 * may change. Any thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* data may be NULL when len is 0. */
uint64_t hash64(const void *data, size_t len, uint64_t seed);

#define HASH128_BYTES 16
/* In XXH3-128's canonical order of bytes, the same on every machine. */
void hash128(const void *data, size_t len, uint64_t seed, unsigned char out[HASH128_BYTES]);
