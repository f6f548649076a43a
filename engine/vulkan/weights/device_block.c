/* Converts GGUF's blocks to planes. Codes pass through as words of four columns each, as they lie
 * in most blocks. */
#include "engine/vulkan/weights/device_block.h"

#include <string.h>

#include "engine/vulkan/weights/block_words.h"

/* 16 bytes: columns i in the low nibbles, i + 16 in the high ones. */
static inline void split_nibbles(const uint8_t *codes, uint32_t group[8])
{
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        uint32_t v = word(codes + 4 * g);
        group[g] = v & NIBBLES;
        group[g + 4] = v >> 4 & NIBBLES;
    }
}

/* Puts one bit per column, column i in bit i, above the 4 bits that are there. */
static inline void add_fifth_bits(uint32_t bits, uint32_t group[8])
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        group[g] |= ((bits >> (4 * g) & 15) * 0x204081u & ONES) << 4;
}

/* Takes one column's bits at `shift` of each of 32 bytes. */
static inline void take(const uint8_t *at, uint32_t shift, uint32_t mask, uint32_t group[8])
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        group[g] = word(at + 4 * g) >> shift & mask;
}

/* Does the same with bits that belong above the first `above`. */
static inline void add(const uint8_t *at, uint32_t shift, uint32_t mask, uint32_t above,
                       uint32_t group[8])
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        group[g] |= (word(at + 4 * g) >> shift & mask) << above;
}

/* Codes of chunk j of a block as 8 words of 4 columns. */
static void codes_of(enum device_block block, const uint8_t *b, uint32_t j, uint32_t group[8])
{
    switch (block) {
    case BLOCK_Q8_0:
        memcpy(group, b + 2, 32);
        return;
    case BLOCK_Q4_0:
    case BLOCK_IQ4_NL:
        split_nibbles(b + 2, group);
        return;
    case BLOCK_Q4_1:
        split_nibbles(b + 4, group);
        return;
    case BLOCK_Q5_0:
        split_nibbles(b + 6, group);
        add_fifth_bits(word(b + 2), group);
        return;
    case BLOCK_Q5_1:
        split_nibbles(b + 8, group);
        add_fifth_bits(word(b + 4), group);
        return;
    case BLOCK_IQ4_XS:
        split_nibbles(b + 8 + 16 * j, group);
        return;
    case BLOCK_Q2_K:
        take(b + 16 + j / 4 * 32, j % 4 * 2, PAIRS, group);
        return;
    case BLOCK_Q3_K:
        take(b + 32 + j / 4 * 32, j % 4 * 2, PAIRS, group);
        add(b, j, ONES, 2, group);
        return;
    case BLOCK_Q4_K:
        take(b + 16 + j / 2 * 32, j % 2 * 4, NIBBLES, group);
        return;
    case BLOCK_Q5_K:
        take(b + 48 + j / 2 * 32, j % 2 * 4, NIBBLES, group);
        add(b + 16, j, ONES, 4, group);
        return;
    case BLOCK_Q6_K:
        take(b + j / 4 * 64 + j % 2 * 32, j % 4 / 2 * 4, NIBBLES, group);
        add(b + 128 + j / 4 * 32, j % 4 * 2, PAIRS, 4, group);
        return;
    case BLOCK__N:
        return;
    }
}

/* `bits` bits of each code from bit `from` on: 8 groups to `bits` words. Inlined where bits is a
 * constant. */
static inline void pack_bits(const uint32_t group[8], int from, const int bits, const uint32_t mask,
                             uint8_t *out)
{
    const int each = 8 / bits;
#pragma GCC unroll 4
    for (int i = 0; i < bits; i++) {
        uint32_t v = 0;
#pragma GCC unroll 8
        for (int k = 0; k < each; k++)
            v |= (group[i * each + k] >> from & mask) << (k * bits);
        put(out + 4 * i, v);
    }
}

static void pack(const uint32_t group[8], int from, int bits, uint8_t *out)
{
    switch (bits) {
    case 1:
        pack_bits(group, from, 1, ONES, out);
        return;
    case 2:
        pack_bits(group, from, 2, PAIRS, out);
        return;
    case 4:
        pack_bits(group, from, 4, NIBBLES, out);
        return;
    default:
        memcpy(out, group, 32);
    }
}

/* Packs four bytes that hold nibbles into 16 bits. */
static inline uint32_t halve(uint32_t v)
{
    v |= v >> 4;
    return (v & 0xff) | (v >> 8 & 0xff00);
}

/* 12 bits of each of 8 chunks, of two 6-bit numbers: 8 bytes, then 8 nibbles. a, b: four chunks in
 * the bytes of each word. */
static void pack_twelves(const uint32_t a[2], const uint32_t b[2], uint8_t *out)
{
    uint32_t v[3] = {a[0] | (b[0] & PAIRS) << 6, a[1] | (b[1] & PAIRS) << 6,
                     halve(b[0] >> 2 & NIBBLES) | halve(b[1] >> 2 & NIBBLES) << 16};
    memcpy(out, v, sizeof v);
}

/* Even and odd bytes of two words. */
static inline uint32_t evens(uint32_t low, uint32_t high)
{
    return (low & 0xff) | (low >> 8 & 0xff00) | (high & 0xff) << 16 | (high >> 16 & 0xff) << 24;
}

static void q3_scales(const uint8_t *s, uint8_t *out)
{
    uint32_t low[2] = {word(s), word(s + 4)}, high = word(s + 8), v[4], a[2], b[2];
    for (int i = 0; i < 4; i++) /* scales 4 i .. 4 i + 3; two for each chunk */
        v[i] = (low[i % 2] >> (i / 2 * 4) & NIBBLES) | (high >> (2 * i) & PAIRS) << 4;
    for (int i = 0; i < 2; i++) {
        a[i] = evens(v[2 * i], v[2 * i + 1]);
        b[i] = evens(v[2 * i] >> 8, v[2 * i + 1] >> 8);
    }
    pack_twelves(a, b, out);
}

static void q4_scales(const uint8_t *s, uint8_t *out)
{
    const uint32_t six = 0x3f3f3f3fu;
    uint32_t x = word(s), y = word(s + 4), z = word(s + 8);
    const uint32_t scale[2] = {x & six, (z & NIBBLES) | (x >> 6 & PAIRS) << 4};
    const uint32_t min[2] = {y & six, (z >> 4 & NIBBLES) | (y >> 6 & PAIRS) << 4};
    pack_twelves(scale, min, out);
}

static void record_of(enum device_block block, const uint8_t *b, uint8_t *out)
{
    switch (block) {
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
        memcpy(out, b, 4);
        return;
    case BLOCK_Q2_K:
        memcpy(out, b + 80, 4);
        memcpy(out + 4, b, 16);
        return;
    case BLOCK_Q3_K:
        memcpy(out, b + 108, 2);
        q3_scales(b + 96, out + 2);
        return;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        memcpy(out, b, 4);
        q4_scales(b + 4, out + 4);
        return;
    case BLOCK_Q6_K:
        memcpy(out, b + 208, 2);
        memcpy(out + 2, b + 192, 16);
        return;
    case BLOCK_IQ4_XS:
        memcpy(out, b, 8);
        return;
    default: /* one half before the codes */
        memcpy(out, b, 2);
        return;
    }
}

static const struct { /* in the order of enum device_block */
    enum weight_type type;
    uint8_t chunks, low, high, record; /* chunks of a block, bits of a code, bytes of a record */
} formats[BLOCK__N] = {
    {WEIGHT_Q8_0, 1, 8, 0, 2},  {WEIGHT_Q4_0, 1, 4, 0, 2},  {WEIGHT_Q4_1, 1, 4, 0, 4},
    {WEIGHT_Q5_0, 1, 4, 1, 2},  {WEIGHT_Q5_1, 1, 4, 1, 4},  {WEIGHT_IQ4_NL, 1, 4, 0, 2},
    {WEIGHT_Q2_K, 8, 2, 0, 20}, {WEIGHT_Q3_K, 8, 2, 1, 14}, {WEIGHT_Q4_K, 8, 4, 0, 16},
    {WEIGHT_Q5_K, 8, 4, 1, 16}, {WEIGHT_Q6_K, 8, 4, 2, 18}, {WEIGHT_IQ4_XS, 8, 4, 0, 8},
};

bool device_block_format_of(enum weight_type t, struct device_block_format *f)
{
    for (int i = 0; i < BLOCK__N; i++) {
        if (formats[i].type == t) {
            uint32_t chunks = formats[i].chunks;
            *f = (struct device_block_format){.block = (enum device_block)i, .cols = 32 * chunks};
            f->bytes[0] = chunks * 4 * formats[i].low;
            f->bytes[1] = formats[i].record;
            f->bytes[2] = chunks * 4 * formats[i].high;
            return true;
        }
    }
    return false;
}

void device_block_row(const struct device_block_format *f, int plane, const uint8_t *row,
                      uint32_t n, uint8_t *out)
{
    const uint32_t size = f->bytes[0] + f->bytes[1] + f->bytes[2], chunks = f->cols / 32;
    const int low = formats[f->block].low, high = formats[f->block].high;
    for (uint32_t i = 0; i < n; i++, row += size) {
        if (plane == 1) {
            record_of(f->block, row, out);
            out += f->bytes[1];
            continue;
        }
        for (uint32_t j = 0; j < chunks; j++, out += 4 * (plane == 0 ? low : high)) {
            uint32_t group[8];
            codes_of(f->block, row, j, group);
            pack(group, plane == 0 ? 0 : low, plane == 0 ? low : high, out);
        }
    }
}

/* A chunk's codes; compilers make one register of it. */
typedef uint32_t chunk_words __attribute__((vector_size(16)));
typedef uint8_t chunk_bytes __attribute__((vector_size(16)));

/* Bits of words in column order to where MXFP4_BY_MASKS has them. */
static inline chunk_words by_masks(chunk_words q)
{
    return (q & 0x80078007u) | (q & 0x08700870u) << 2 | (q & 0x00800080u) << 5 |
           (q & 0x00080008u) << 11 | (q >> 3 & 0x0e000e00u) | (q >> 5 & 0x00380038u);
}

void device_mxfp4_codes(const uint8_t *codes, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < n; i++, codes += 16, out += 16) {
        chunk_words q;
        memcpy(&q, codes, sizeof q);
        q = by_masks(q);
        memcpy(out, &q, sizeof q);
    }
}

void device_block_mxfp4_codes(const uint8_t *row, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < n; i++, row += 17, out += 16) {
        chunk_words q;
        memcpy(&q, row + 1, sizeof q);
        chunk_words first = q & NIBBLES, last = q >> 4 & NIBBLES; /* 16 columns each */
        first |= first >> 4; /* two columns in every other byte */
        last |= last >> 4;
        q = by_masks((chunk_words)__builtin_shufflevector((chunk_bytes)first, (chunk_bytes)last, 0,
                                                          2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                                          24, 26, 28, 30));
        memcpy(out, &q, sizeof q);
    }
}

void device_block_mxfp4_row(int plane, const uint8_t *row, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < n; i++, row += 17) {
        if (plane == 1) {
            *out++ = row[0];
            continue;
        }
        uint32_t group[8];
        split_nibbles(row + 1, group);
        for (int g = 0; g < 8; g += 2, out += 4)
            put(out, halve(group[g]) | halve(group[g + 1]) << 16);
    }
}
