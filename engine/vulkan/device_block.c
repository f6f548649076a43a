/* From GGUF's blocks to planes. Codes pass through as words of four columns each, as they lie in most blocks. */
#include "engine/vulkan/device_block.h"

#include <string.h>

#define NIBBLES 0x0f0f0f0fu
#define PAIRS 0x03030303u
#define ONES 0x01010101u

static uint32_t word(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* 16 bytes: columns i in the low nibbles, i + 16 in the high ones. */
static void split_nibbles(const uint8_t *codes, uint32_t group[8])
{
    for (int g = 0; g < 4; g++) {
        uint32_t v = word(codes + 4 * g);
        group[g] = v & NIBBLES;
        group[g + 4] = v >> 4 & NIBBLES;
    }
}

/* One bit per column, column i in bit i, put above 4 bits. */
static void add_fifth_bits(uint32_t bits, uint32_t group[8])
{
    for (int g = 0; g < 8; g++) {
        group[g] |= ((bits >> (4 * g) & 15) * 0x204081u & ONES) << 4;
    }
}

/* Codes of chunk j of a block as 8 words of 4 columns. */
static void codes_of(enum device_block block, const uint8_t *b, uint32_t j, uint32_t group[8])
{
    const uint8_t *at;
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
    case BLOCK_Q3_K:
        at = b + (block == BLOCK_Q2_K ? 16 : 32) + j / 4 * 32;
        for (uint32_t g = 0; g < 8; g++) {
            group[g] = word(at + 4 * g) >> (j % 4 * 2) & PAIRS;
            group[g] |= block == BLOCK_Q3_K ? (word(b + 4 * g) >> j & ONES) << 2 : 0;
        }
        return;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        at = b + (block == BLOCK_Q4_K ? 16 : 48) + j / 2 * 32;
        for (uint32_t g = 0; g < 8; g++) {
            group[g] = word(at + 4 * g) >> (j % 2 * 4) & NIBBLES;
            group[g] |= block == BLOCK_Q5_K ? (word(b + 16 + 4 * g) >> j & ONES) << 4 : 0;
        }
        return;
    case BLOCK_Q6_K:
        at = b + j / 4 * 64 + j % 2 * 32;
        for (uint32_t g = 0; g < 8; g++) {
            group[g] = word(at + 4 * g) >> (j % 4 / 2 * 4) & NIBBLES;
            group[g] |= (word(b + 128 + j / 4 * 32 + 4 * g) >> (j % 4 * 2) & PAIRS) << 4;
        }
        return;
    case BLOCK__N:
        return;
    }
}

/* `bits` bits of each code from bit `from` on: 8 groups to `bits` words. */
static void pack(const uint32_t group[8], int from, int bits, uint8_t *out)
{
    const uint32_t mask = bits == 8 ? UINT32_MAX : bits == 4 ? NIBBLES : bits == 2 ? PAIRS : ONES;
    const int each = 8 / bits;
    for (int i = 0; i < bits; i++, out += 4) {
        uint32_t v = 0;
        for (int k = 0; k < each; k++) {
            v |= (group[i * each + k] >> from & mask) << (k * bits);
        }
        memcpy(out, &v, 4);
    }
}

/* 12 bits of each of 8 chunks: 8 bytes, then 8 nibbles. */
static void pack_twelves(const unsigned v[8], uint8_t *out)
{
    for (int j = 0; j < 8; j++) {
        out[j] = (uint8_t)v[j];
    }
    for (int j = 0; j < 4; j++) {
        out[8 + j] = (uint8_t)(v[2 * j] >> 8 | v[2 * j + 1] >> 8 << 4);
    }
}

static unsigned q3_scale(const uint8_t *s, int i)
{
    unsigned low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    return low | (s[8 + i % 4] >> (i / 4 * 2) & 3u) << 4;
}

static unsigned q4_scale_min(const uint8_t *s, int j)
{
    unsigned scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    unsigned min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
    return scale | min << 6;
}

static void record_of(enum device_block block, const uint8_t *b, uint8_t *out)
{
    unsigned twelve[8];
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
        for (int j = 0; j < 8; j++) {
            twelve[j] = q3_scale(b + 96, 2 * j) | q3_scale(b + 96, 2 * j + 1) << 6;
        }
        pack_twelves(twelve, out + 2);
        return;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        memcpy(out, b, 4);
        for (int j = 0; j < 8; j++) {
            twelve[j] = q4_scale_min(b + 4, j);
        }
        pack_twelves(twelve, out + 4);
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
    {WEIGHT_Q8_0, 1, 8, 0, 2},   {WEIGHT_Q4_0, 1, 4, 0, 2},  {WEIGHT_Q4_1, 1, 4, 0, 4},  {WEIGHT_Q5_0, 1, 4, 1, 2},
    {WEIGHT_Q5_1, 1, 4, 1, 4},   {WEIGHT_IQ4_NL, 1, 4, 0, 2}, {WEIGHT_Q2_K, 8, 2, 0, 20}, {WEIGHT_Q3_K, 8, 2, 1, 14},
    {WEIGHT_Q4_K, 8, 4, 0, 16},  {WEIGHT_Q5_K, 8, 4, 1, 16}, {WEIGHT_Q6_K, 8, 4, 2, 18}, {WEIGHT_IQ4_XS, 8, 4, 0, 8},
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

void device_block_row(const struct device_block_format *f, int plane, const uint8_t *row, uint32_t n, uint8_t *out)
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

void device_block_mxfp4_row(int plane, const uint8_t *row, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < n; i++, row += 17) {
        if (plane == 1) {
            *out++ = row[0];
            continue;
        }
        uint32_t group[8];
        split_nibbles(row + 1, group);
        for (int g = 0; g < 8; g++, out += 2) { /* bytes a, b, c, d to nibbles abcd */
            uint32_t v = group[g] | group[g] >> 4;
            uint16_t packed = (uint16_t)((v & 0xff) | (v >> 8 & 0xff00));
            memcpy(out, &packed, 2);
        }
    }
}
