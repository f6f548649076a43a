/* K-quants with activations of one byte (AVX2; AVX512-VNNI: vnni_super.h): a super-block of 256
 * columns has one scale in the activations too, so its blocks' own scales are multiplied in
 * integers, and floats come in once a super-block: exact sums, in whatever order. The activations'
 * form is in panel.h. Here: unpacking of weights for super_tile.h. Included after tile_wide.h. */
#pragma once
#include "engine/cpu/kernels/tile_wide.h"

struct super_block {                              /* 256 columns of sixteen weight rows */
    vi q[8][8][WIDE_HALVES];                      /* bytes without a sign */
    vi scale[16][WIDE_HALVES];                    /* int16, twice: of a block; Q6_K: of a half */
    vi pair[4][WIDE_HALVES];                      /* int16: minima of two blocks each */
    vf factor[WIDE_HALVES], minimum[WIDE_HALVES]; /* of the whole */
};

/* Super-block g of eight weight rows. */
typedef void (*super_unpack)(const struct lanes *l, int half, int32_t g, struct super_block *to);

/* Byte n of each dword to both its int16; bytes 2n and 2n + 1 to one each. Shifted: to the int16s'
 * high bytes, for numbers with a sign. */
#define SUPER_DWORDS(a, b, c, d)                                                                   \
    {(a),     (b),     (c),     (d),     (a) + 4,  (b) + 4,  (c) + 4,  (d) + 4,                    \
     (a) + 8, (b) + 8, (c) + 8, (d) + 8, (a) + 12, (b) + 12, (c) + 12, (d) + 12}
static const uint8_t super_twice[4][16] = {
    SUPER_DWORDS(0, 128, 0, 128), SUPER_DWORDS(1, 128, 1, 128), SUPER_DWORDS(2, 128, 2, 128),
    SUPER_DWORDS(3, 128, 3, 128)};
static const uint8_t super_both[2][16] = {SUPER_DWORDS(0, 128, 1, 128),
                                          SUPER_DWORDS(2, 128, 3, 128)};
static const uint8_t super_twice_high[4][16] = {
    SUPER_DWORDS(128, 0, 128, 0), SUPER_DWORDS(128, 1, 128, 1), SUPER_DWORDS(128, 2, 128, 2),
    SUPER_DWORDS(128, 3, 128, 3)};
#undef SUPER_DWORDS

/* Q4_K's and Q5_K's six-bit numbers (see block.c) from a super-block's first sixteen bytes, eight
 * rows in the lanes. */
static inline void super_k4_numbers(const vi v[4], int half, struct super_block *to)
{
    const vi six = vi_set1(0x3f3f3f3f), four = vi_set1(0x0f0f0f0f), two = vi_set1(0x30303030);
    to->factor[half] = vf_from_half_lanes(v[0]);
    to->minimum[half] = vf_sub(vf_zero(), vf_from_half_lanes(vi_shr(v[0], 16)));
    const vi scales[2] = {vi_and(v[1], six),
                          vi_or(vi_and(v[3], four), vi_and(vi_shr(v[1], 2), two))};
    const vi mins[2] = {vi_and(v[2], six),
                        vi_or(vi_and(vi_shr(v[3], 4), four), vi_and(vi_shr(v[2], 2), two))};
    UNROLL
    for (int j = 0; j < 8; j++)
        to->scale[j][half] = vi_shuffle8(scales[j / 4], super_twice[j % 4]);
    UNROLL
    for (int j = 0; j < 4; j++)
        to->pair[j][half] = vi_shuffle8(mins[j / 2], super_both[j % 2]);
}

static inline void super_place(struct super_block *to, int block, int half, const vi q[8])
{
    UNROLL
    for (int i = 0; i < 8; i++)
        to->q[block][i][half] = q[i];
}

static inline __attribute__((always_inline)) void
super_k4(bool five, const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    const size_t at = (size_t)g * (five ? 176 : 144), codes = at + (five ? 48 : 16);
    vi numbers[4], high[8];
    load_rows16(l->data, at, numbers);
    super_k4_numbers(numbers, half, to);
    if (five) {
        load_rows16(l->data, at + 16, high);
        load_rows16(l->data, at + 32, high + 4);
    }
    UNROLL
    for (int k = 0; k < 8; k += 2) {
        vi v[8], even[8], odd[8];
        load_rows16(l->data, codes + 16 * (size_t)k, v);
        load_rows16(l->data, codes + 16 * (size_t)k + 16, v + 4);
        UNROLL
        for (int i = 0; i < 8; i++) {
            even[i] = low_nibbles(v[i]);
            odd[i] = high_nibbles(v[i]);
            if (five) {
                even[i] = vi_or(even[i], bit_to_16(high[i], k));
                odd[i] = vi_or(odd[i], bit_to_16(high[i], k + 1));
            }
        }
        super_place(to, k, half, even);
        super_place(to, k + 1, half, odd);
    }
}

static void super_q4_k(const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    super_k4(false, l, half, g, to);
}

static void super_q5_k(const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    super_k4(true, l, half, g, to);
}

static void super_q6_k(const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    const size_t at = (size_t)g * 210;
    vi s[4];
    to->factor[half] = _mm256_cvtph_ps(wide_words(l, at + 208));
    load_rows16(l->data, at + 192, s);
    UNROLL
    for (int i = 0; i < 16; i++)
        to->scale[i][half] = vi_sar16(vi_shuffle8(s[i / 4], super_twice_high[i % 4]), 8);
    UNROLL
    for (int part = 0; part < 2; part++) {
        vi low[16], high[8], q[8];
        load_q6_half(l, at, part, low, high);
        UNROLL
        for (int quarter = 0; quarter < 4; quarter++) {
            q6_quarter(low + quarter % 2 * 8, high, quarter, q);
            super_place(to, 4 * part + quarter, half, q);
        }
    }
}

struct super_octet {    /* 256 columns of one weight row */
    struct octet codes; /* as PANEL_K_OCTETS has them */
    vi even, odd;       /* int16, twice: the lanes' scales */
    vi pairs;           /* int16: minima, in the low half */
};

static inline __attribute__((always_inline)) void super_octet_k4(bool five, const uint8_t *data,
                                                                 struct super_octet *o)
{
    static const uint8_t even[16] = {0, 128, 0, 128, 2, 128, 2, 128,
                                     4, 128, 4, 128, 6, 128, 6, 128},
                         odd[16] = {1, 128, 1, 128, 3, 128, 3, 128, 5, 128, 5, 128, 7, 128, 7, 128};
    const struct octet_at at = {.data = data};
    uint64_t mins;
    const vi scales = _mm256_set1_epi64x((int64_t)octet_k4_numbers(data, &mins));
    o->even = vi_shuffle8(scales, even);
    o->odd = vi_shuffle8(scales, odd);
    o->pairs = _mm256_castsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)mins)));
    octet_k4_codes(five, &at, &o->codes);
}

static inline __attribute__((always_inline)) void super_octet_q4_k(const uint8_t *data,
                                                                   struct super_octet *o)
{
    super_octet_k4(false, data, o);
}

static inline __attribute__((always_inline)) void super_octet_q5_k(const uint8_t *data,
                                                                   struct super_octet *o)
{
    super_octet_k4(true, data, o);
}

static inline __attribute__((always_inline)) void super_octet_q6_k(const uint8_t *data,
                                                                   struct super_octet *o)
{
    const vi even = _mm256_setr_epi8(-1, 0, -1, 0, -1, 4, -1, 4, -1, 8, -1, 8, -1, 12, -1, 12, -1,
                                     1, -1, 1, -1, 5, -1, 5, -1, 9, -1, 9, -1, 13, -1, 13),
             two = _mm256_setr_epi8(0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0,
                                    2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2);
    const struct octet_at at = {.data = data};
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(data + 192));
    const vi scales = _mm256_broadcastsi128_si256(bytes);
    o->even = vi_sar16(_mm256_shuffle_epi8(scales, even), 8);
    o->odd = vi_sar16(_mm256_shuffle_epi8(scales, vi_or(even, two)), 8);
    octet_q6_codes(&at, &o->codes);
}
