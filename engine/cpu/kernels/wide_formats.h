/* Unpacking of 32 columns of eight weight rows, a row in each lane, for tile_wide.h: into eight
 * vectors of bytes without a sign, which may become pairs of int16, or into sixteen of pairs. */
#pragma once
#include "engine/cpu/kernels/octet_formats.h"

#define WIDE_HALVES 2 /* of a tile: eight weight rows each */
#ifndef WIDE_VECTORS
#define WIDE_VECTORS 16 /* of a block: of pairs; where all are bytes, 8 and one scale */
#endif

/* Where the rows of a tile's halves lie, of which the last tile may have one; returns how many. */
static inline int wide_init(const struct tile *t, struct lanes l[WIDE_HALVES], float *acc)
{
    const int halves = t->weight->rows - t->row > LANES ? WIDE_HALVES : 1;
    struct tile half = *t;
    for (int i = 0; i < halves; i++, half.row += LANES) {
        lanes_init(&l[i], &half, acc);
        l[i].tile = t;
    }
    return halves;
}

/* Of the tiles that are asked for, those that have all their rows. */
static inline int32_t wide_whole(const struct tile *t)
{
    const int32_t whole = (t->weight->rows - t->row) / (WIDE_HALVES * LANES);
    return whole < t->more + 1 ? whole : t->more + 1;
}

/* From one whole tile to the next. */
static inline void wide_step(struct lanes *l)
{
    const struct weight *w = l->tile->weight;
    const size_t row = WIDE_HALVES * LANES * w->row_bytes,
                 scale = WIDE_HALVES * LANES * w->scale_row_bytes;
    UNROLL
    for (int r = 0; r < LANES; r++) {
        l->data[r] += row;
        l->row[r] += WIDE_HALVES * LANES;
        l->scales[r] = l->scales[r] ? l->scales[r] + scale : NULL;
        l->biases[r] = l->biases[r] ? l->biases[r] + scale : NULL;
    }
}

struct wide_block {                  /* 32 columns of sixteen weight rows */
    vi q[WIDE_VECTORS][WIDE_HALVES]; /* of bytes: 8 */
    vf scale[WIDE_VECTORS / 8][WIDE_HALVES], min[WIDE_HALVES]; /* OCTET_HALVES: two scales */
};

/* Blocks 8g and on of eight weight rows, `count` of them. */
typedef void (*wide_unpack)(const struct lanes *l, int half, int32_t g, int32_t count,
                            struct wide_block *to);

/* An instruction each; put together in general registers they were 32 of 75 of half a block. */
static inline __m128i wide_words_of(const uint8_t *const *rows, size_t at)
{
    __m128i part[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        part[i] = _mm_insert_epi16(_mm_setzero_si128(), (int)word_at(rows[4 * i] + at), 0);
        part[i] = _mm_insert_epi16(part[i], (int)word_at(rows[4 * i + 1] + at), 1);
        part[i] = _mm_insert_epi16(part[i], (int)word_at(rows[4 * i + 2] + at), 2);
        part[i] = _mm_insert_epi16(part[i], (int)word_at(rows[4 * i + 3] + at), 3);
    }
    return _mm_unpacklo_epi64(part[0], part[1]);
}

static inline __m128i wide_words(const struct lanes *l, size_t at)
{
    return wide_words_of(l->data, at);
}

static inline void wide_place_q(struct wide_block *to, int half, const vi q[8])
{
    UNROLL
    for (int i = 0; i < 8; i++)
        to->q[i][half] = q[i];
}

/* Q4_0, or with a minimum Q4_1. */
static inline __attribute__((always_inline)) void
wide_q4(bool min, const struct lanes *l, int half, int32_t g, int32_t count, struct wide_block *to)
{
    const size_t codes = min ? 4 : 2;
    for (int32_t k = 0; k < count; k++, to++) {
        const size_t at = (size_t)(8 * g + k) * (codes + 16);
        vi v[4], q[8];
        load_rows16(l->data, at + codes, v);
        split_nibbles(v, q);
        wide_place_q(to, half, q);
        to->scale[0][half] = _mm256_cvtph_ps(wide_words(l, at));
        if (min)
            to->min[half] = _mm256_cvtph_ps(wide_words(l, at + 2));
    }
}

static inline void wide_q4_0(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    wide_q4(false, l, half, g, count, to);
}

static inline void wide_q4_1(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    wide_q4(true, l, half, g, count, to);
}

static inline void wide_mxfp4_block(const struct lanes *l, int half, int32_t g, int32_t count,
                                    struct wide_block *to)
{
    for (int32_t k = 0; k < count; k++, to++) {
        const size_t at = (size_t)(8 * g + k) * 17;
        vi v[4], q[8];
        load_rows16(l->data, at + 1, v);
        split_nibbles(v, q);
        look_up_bytes(q, nibble_levels(fp4_from_12));
        wide_place_q(to, half, q);
        to->scale[0][half] =
            octet_e8m0(vi_and(_mm256_cvtepu16_epi32(wide_words(l, at)), vi_set1(255)));
    }
}

static inline void wide_mxfp4(const struct lanes *l, int half, int32_t g, int32_t count,
                              struct wide_block *to)
{
    for (int32_t k = 0; k < count; k++, to++) {
        const size_t block = (size_t)(8 * g + k);
        uint64_t scales = 0;
        vi v[4], q[8];
        UNROLL
        for (int r = 0; r < LANES; r++)
            scales |= general((uint64_t)l->scales[r][block]) << 8 * r;
        load_rows16(l->data, block * 16, v);
        alternate_nibbles(v, q);
        look_up_bytes(q, nibble_levels(fp4_from_12));
        wide_place_q(to, half, q);
        to->scale[0][half] = octet_e8m0(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)scales)));
    }
}

/* A scale or bias of each row. */
static inline vf wide_group_floats(const uint8_t *const *rows, enum scale_type type, int32_t group)
{
    if (type == SCALE_F32)
        return vf_bits(load_dwords(rows, (size_t)group * 4));
    const __m128i v = wide_words_of(rows, (size_t)group * 2);
    return type == SCALE_F16 ? _mm256_cvtph_ps(v) : vf_bits(vi_shl(_mm256_cvtepu16_epi32(v), 16));
}

/* Scales and biases of a block's groups; blocks of one group follow each other. */
static inline void wide_group(const struct lanes *l, int half, int32_t block, bool first,
                              struct wide_block *to)
{
    const struct weight *w = l->tile->weight;
    const int32_t each = w->group / 32, group = block / each;
    if (!first && block % each) {
        to->scale[0][half] = to[-1].scale[0][half];
        to->min[half] = to[-1].min[half];
        return;
    }
    to->scale[0][half] = wide_group_floats(l->scales, w->scale_type, group);
    to->min[half] = wide_group_floats(l->biases, w->scale_type, group);
}

static inline void wide_affine_4(const struct lanes *l, int half, int32_t g, int32_t count,
                                 struct wide_block *to)
{
    for (int32_t k = 0; k < count; k++, to++) {
        vi v[4], q[8];
        load_rows16(l->data, (size_t)(8 * g + k) * 16, v);
        alternate_nibbles(v, q);
        wide_place_q(to, half, q);
        wide_group(l, half, 8 * g + k, k == 0, to);
    }
}

static inline __attribute__((always_inline)) void
wide_k4(bool five, const struct lanes *l, int half, int32_t g, struct wide_block *to)
{
    const size_t at = (size_t)g * (five ? 176 : 144), codes = at + (five ? 48 : 16);
    float scales[8][LANES], mins[8][LANES];
    vi high[8];
    scales_k4(l, at, scales, mins);
    if (five) {
        load_rows16(l->data, at + 16, high);
        load_rows16(l->data, at + 32, high + 4);
    }
    UNROLL
    for (int k = 0; k < 8; k += 2) {
        vi v[8];
        load_rows16(l->data, codes + 16 * (size_t)k, v);
        load_rows16(l->data, codes + 16 * (size_t)k + 16, v + 4);
        UNROLL
        for (int i = 0; i < 8; i++) {
            vi even = low_nibbles(v[i]), odd = high_nibbles(v[i]);
            if (five) {
                even = vi_or(even, bit_to_16(high[i], k));
                odd = vi_or(odd, bit_to_16(high[i], k + 1));
            }
            to[k].q[i][half] = even;
            to[k + 1].q[i][half] = odd;
        }
    }
    UNROLL
    for (int k = 0; k < 8; k++) {
        to[k].scale[0][half] = vf_load(scales[k]);
        to[k].min[half] = vf_sub(vf_zero(), vf_load(mins[k])); /* as the panel's sums are */
    }
}

static inline void wide_q4_k(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    (void)count; /* always eight */
    wide_k4(false, l, half, g, to);
}

static inline void wide_q5_k(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    (void)count;
    wide_k4(true, l, half, g, to);
}

static inline void wide_q6_k(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    (void)count;
    const size_t at = (size_t)g * 210;
    const vf d = _mm256_cvtph_ps(wide_words(l, at + 208));
    vi s[4];
    load_rows16(l->data, at + 192, s);
    UNROLL
    for (int part = 0; part < 2; part++) {
        vi low[16], high[8];
        load_q6_half(l, at, part, low, high);
        UNROLL
        for (int quarter = 0; quarter < 4; quarter++) {
            vf scale[2];
            vi q[8];
            q6_quarter(low + quarter % 2 * 8, high, quarter, q);
            q6_scales(s[2 * part + quarter / 2], d, quarter % 2, scale);
            wide_place_q(to + 4 * part + quarter, half, q);
            to[4 * part + quarter].scale[0][half] = scale[0];
            to[4 * part + quarter].scale[1][half] = scale[1];
        }
    }
}

static inline void wide_q8_0(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    for (int32_t k = 0; k < count; k++, to++) {
        const size_t at = (size_t)(8 * g + k) * 34;
        vi v[8], q[16];
        load_rows16(l->data, at + 2, v);
        load_rows16(l->data, at + 18, v + 4);
        signed_bytes_to_pairs(v, q);
        UNROLL
        for (int i = 0; i < 16; i++)
            to->q[i][half] = q[i];
        to->scale[0][half] = _mm256_cvtph_ps(wide_words(l, at));
    }
}

static inline void wide_affine_8(const struct lanes *l, int half, int32_t g, int32_t count,
                                 struct wide_block *to)
{
    for (int32_t k = 0; k < count; k++, to++) {
        vi v[8];
        load_rows16(l->data, (size_t)(8 * g + k) * 32, v);
        load_rows16(l->data, (size_t)(8 * g + k) * 32 + 16, v + 4);
        wide_place_q(to, half, v);
        wide_group(l, half, 8 * g + k, k == 0, to);
    }
}
