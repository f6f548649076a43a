/* hash.h: XXH64 after its published specification. */
#include "engine/base/hash.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int r)
{
    return x << r | x >> (64 - r);
}

static uint64_t read64(const unsigned char *p) /* little-endian, as all hosts that we build for */
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint64_t read32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint64_t round64(uint64_t acc, uint64_t lane)
{
    return rotate(acc + lane * P2, 31) * P1;
}

static uint64_t merge(uint64_t acc, uint64_t lane)
{
    return (acc ^ round64(0, lane)) * P1 + P4;
}

static uint64_t stripes(const unsigned char **p, const unsigned char *end, uint64_t seed)
{
    uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
    do {
        a = round64(a, read64(*p));
        b = round64(b, read64(*p + 8));
        c = round64(c, read64(*p + 16));
        d = round64(d, read64(*p + 24));
        *p += 32;
    } while (end - *p >= 32);
    uint64_t h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    return merge(merge(merge(merge(h, a), b), c), d);
}

uint64_t hash64(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *p = data, *end = p ? p + len : p;
    uint64_t h = (len >= 32 ? stripes(&p, end, seed) : seed + P5) + len;
    for (; end - p >= 8; p += 8)
        h = rotate(h ^ round64(0, read64(p)), 27) * P1 + P4;
    if (end - p >= 4) {
        h = rotate(h ^ read32(p) * P1, 23) * P2 + P3;
        p += 4;
    }
    for (; p < end; p++)
        h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}
