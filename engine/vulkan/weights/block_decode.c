/* See block_decode.h: each function undoes its namesake of device_block.c. */
#include "engine/vulkan/weights/block_decode.h"

#include <string.h>

#include "engine/vulkan/weights/block_words.h"

/* `bits` bits of each code above bit `from`: `bits` words to 8 groups of four columns. Inlined
 * where bits is a constant. */
static inline void unpack_bits(const uint8_t *in, int from, const int bits, const uint32_t mask,
                               uint32_t group[8])
{
    const int each = 8 / bits;
#pragma GCC unroll 4
    for (int i = 0; i < bits; i++) {
        const uint32_t v = word(in + 4 * i);
#pragma GCC unroll 8
        for (int k = 0; k < each; k++)
            group[i * each + k] |= (v >> (k * bits) & mask) << from;
    }
}

static void unpack(const uint8_t *in, int from, int bits, uint32_t group[8])
{
    switch (bits) {
    case 1:
        unpack_bits(in, from, 1, ONES, group);
        return;
    case 2:
        unpack_bits(in, from, 2, PAIRS, group);
        return;
    case 4:
        unpack_bits(in, from, 4, NIBBLES, group);
        return;
    default:
        memcpy(group, in, 32);
    }
}

static inline void join_nibbles(const uint32_t group[8], uint8_t *codes)
{
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++)
        put(codes + 4 * g, (group[g] & NIBBLES) | (group[g + 4] & NIBBLES) << 4);
}

static inline uint32_t fifth_bits(const uint32_t group[8])
{
    uint32_t bits = 0;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint32_t v = group[g] >> 4 & ONES;
        bits |= ((v | v >> 7 | v >> 14 | v >> 21) & 15) << (4 * g);
    }
    return bits;
}

/* Bits from `above` on of each code, to `shift` of a byte each. The block was cleared. */
static inline void give(uint8_t *at, uint32_t shift, uint32_t mask, uint32_t above,
                        const uint32_t group[8])
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        put(at + 4 * g, word(at + 4 * g) | (group[g] >> above & mask) << shift);
}

static void put_codes(enum device_block block, const uint32_t group[8], uint32_t j, uint8_t *b)
{
    switch (block) {
    case BLOCK_Q8_0:
        memcpy(b + 2, group, 32);
        return;
    case BLOCK_Q4_0:
    case BLOCK_IQ4_NL:
        join_nibbles(group, b + 2);
        return;
    case BLOCK_Q4_1:
        join_nibbles(group, b + 4);
        return;
    case BLOCK_Q5_0:
        join_nibbles(group, b + 6);
        put(b + 2, fifth_bits(group));
        return;
    case BLOCK_Q5_1:
        join_nibbles(group, b + 8);
        put(b + 4, fifth_bits(group));
        return;
    case BLOCK_IQ4_XS:
        join_nibbles(group, b + 8 + 16 * j);
        return;
    case BLOCK_Q2_K:
        give(b + 16 + j / 4 * 32, j % 4 * 2, PAIRS, 0, group);
        return;
    case BLOCK_Q3_K:
        give(b + 32 + j / 4 * 32, j % 4 * 2, PAIRS, 0, group);
        give(b, j, ONES, 2, group);
        return;
    case BLOCK_Q4_K:
        give(b + 16 + j / 2 * 32, j % 2 * 4, NIBBLES, 0, group);
        return;
    case BLOCK_Q5_K:
        give(b + 48 + j / 2 * 32, j % 2 * 4, NIBBLES, 0, group);
        give(b + 16, j, ONES, 4, group);
        return;
    case BLOCK_Q6_K:
        give(b + j / 4 * 64 + j % 2 * 32, j % 4 / 2 * 4, NIBBLES, 0, group);
        give(b + 128 + j / 4 * 32, j % 4 * 2, PAIRS, 4, group);
        return;
    case BLOCK__N:
        return;
    }
}

/* 16 bits to the low nibbles of four bytes; to every second byte. */
static inline uint32_t twice(uint32_t v)
{
    v = (v & 0xff) | (v & 0xff00) << 8;
    return (v | v << 4) & NIBBLES;
}

static inline uint32_t spread(uint32_t v)
{
    return (v & 0xff) | (v & 0xff00) << 8;
}

static void unpack_twelves(const uint8_t *in, uint32_t a[2], uint32_t b[2])
{
    const uint32_t high = word(in + 8);
    for (int i = 0; i < 2; i++) {
        const uint32_t v = word(in + 4 * i);
        a[i] = v & 0x3f3f3f3fu;
        b[i] = (v >> 6 & PAIRS) | twice(high >> (16 * i) & 0xffff) << 2;
    }
}

static void put_q3_scales(const uint8_t *record, uint8_t *s)
{
    uint32_t a[2], b[2], v[4], high = 0;
    unpack_twelves(record, a, b);
    for (int i = 0; i < 4; i++) {
        const int half = i % 2 * 16;
        v[i] = spread(a[i / 2] >> half & 0xffff) | spread(b[i / 2] >> half & 0xffff) << 8;
        high |= (v[i] >> 4 & PAIRS) << (2 * i);
    }
    put(s, (v[0] & NIBBLES) | (v[2] & NIBBLES) << 4);
    put(s + 4, (v[1] & NIBBLES) | (v[3] & NIBBLES) << 4);
    put(s + 8, high);
}

static void put_q4_scales(const uint8_t *record, uint8_t *s)
{
    uint32_t scale[2], min[2];
    unpack_twelves(record, scale, min);
    put(s, scale[0] | (scale[1] >> 4 & PAIRS) << 6);
    put(s + 4, min[0] | (min[1] >> 4 & PAIRS) << 6);
    put(s + 8, (scale[1] & NIBBLES) | (min[1] & NIBBLES) << 4);
}

static void put_record(enum device_block block, const uint8_t *record, uint8_t *b)
{
    switch (block) {
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
        memcpy(b, record, 4);
        return;
    case BLOCK_Q2_K:
        memcpy(b + 80, record, 4);
        memcpy(b, record + 4, 16);
        return;
    case BLOCK_Q3_K:
        memcpy(b + 108, record, 2);
        put_q3_scales(record + 2, b + 96);
        return;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        memcpy(b, record, 4);
        put_q4_scales(record + 4, b + 4);
        return;
    case BLOCK_Q6_K:
        memcpy(b + 208, record, 2);
        memcpy(b + 192, record + 2, 16);
        return;
    case BLOCK_IQ4_XS:
        memcpy(b, record, 8);
        return;
    default:
        memcpy(b, record, 2);
        return;
    }
}

void block_decode_row(const struct device_block_format *f,
                      const uint8_t *const planes[BLOCK_PLANES], uint32_t n, uint8_t *out)
{
    const uint32_t size = f->bytes[0] + f->bytes[1] + f->bytes[2], chunks = f->cols / 32;
    const int low = (int)(f->bytes[0] / (4 * chunks)), high = (int)(f->bytes[2] / (4 * chunks));
    const uint8_t *lows = planes[0], *highs = planes[2];
    for (uint32_t i = 0; i < n; i++, out += size) {
        memset(out, 0, size);
        for (uint32_t j = 0; j < chunks; j++, lows += 4 * low) {
            uint32_t group[8] = {0};
            unpack(lows, 0, low, group);
            if (high) {
                unpack(highs, low, high, group);
                highs += 4 * high;
            }
            put_codes(f->block, group, j, out);
        }
        put_record(f->block, planes[1] + (size_t)i * f->bytes[1], out);
    }
}
