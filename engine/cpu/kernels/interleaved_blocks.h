/* Q4_0, MXFP4 and Q8_0 that lie interleaved, with activations of one byte (AVX2): tile_wide.h's
 * sums, with the same bits, without its unpacking. */
#pragma once
#include "engine/cpu/kernels/interleaved_super.h"

enum side_blocks { SIDE_Q4_0, SIDE_MXFP4, SIDE_Q8_0 };

/* Of a row's block, in data. */
static inline int side_code_bytes(enum side_blocks f)
{
    return f == SIDE_Q8_0 ? 32 : 16;
}

/* Codes of columns 4j to 4j + 3 of block c, from 0 on. */
static inline __attribute__((always_inline)) vi side_nibbles(const uint8_t *data,
                                                             enum side_blocks f, int c, int j,
                                                             int half)
{
    const int at = 4 * c + j % 4;
    const vi q = j / 4 ? high_nibbles(side_anew(data, at, half)) : side_low(data, at, half);
    return f == SIDE_MXFP4 ? _mm256_shuffle_epi8(nibble_levels(fp4_from_12), q) : q;
}

/* Q4_0's and MXFP4's sums of products, in int32, of block 2 pair + odd, the latter a constant. */
static inline __attribute__((always_inline)) void
side_nibble_sums(const uint8_t *data, enum side_blocks f, int pair, int odd,
                 const uint8_t *const *x, int count, vi total[WIDE_ROWS][WIDE_HALVES])
{
    const int c = 2 * pair + odd, depth = f == SIDE_MXFP4 ? 4 : 8; /* what 16 bits hold */
    UNROLL
    for (int t = 0; t < count; t++)
        total[t][0] = total[t][1] = octet_hold(wide_dword(
            x[t] + (f == SIDE_MXFP4 ? PANEL_OCTET_LESS_12 : PANEL_OCTET_LESS_8) + 4 * c));
    UNROLL
    for (int i = 0; i < 8; i += depth) {
        vi sum[WIDE_ROWS][WIDE_HALVES];
        UNROLL
        for (int j = i; j < i + depth; j++) {
            vi q[WIDE_HALVES];
            side_fetch(data + 64 * 9 * pair, 9, 16, 8 * odd + j, true);
            UNROLL
            for (int h = 0; h < WIDE_HALVES; h++)
                q[h] = octet_hold(side_nibbles(data, f, c, j, h));
            UNROLL
            for (int t = 0; t < count; t++)
                wide_step_bytes(q, x[t] + PANEL_OCTET_LOW + 32 * j + 4 * c, j == i, sum[t]);
        }
        UNROLL
        for (int t = 0; t < count; t++)
            UNROLL
        for (int h = 0; h < WIDE_HALVES; h++)
            total[t][h] = vi_add(total[t][h], _mm256_madd_epi16(sum[t][h], _mm256_set1_epi16(1)));
    }
}

/* Q8_0's sums, 256 times as large: a weight's byte is the upper one of its int16 (eight_few.h). */
static inline __attribute__((always_inline)) void side_byte_sums(const uint8_t *data, int pair,
                                                                 int odd, const uint8_t *const *x,
                                                                 int count,
                                                                 vi total[WIDE_ROWS][WIDE_HALVES])
{
    const int c = 2 * pair + odd;
    UNROLL
    for (int i = 0; i < 16; i++) {
        vi q[WIDE_HALVES];
        side_fetch(data + 64 * 17 * pair, 17, 32, 16 * odd + i, false);
        UNROLL
        for (int h = 0; h < WIDE_HALVES; h++) {
            const vi v = side_anew(data, 8 * c + i / 2, h);
            q[h] = octet_hold(i % 2 ? vi_and(v, _mm256_set1_epi16((short)0xff00)) : vi_shl16(v, 8));
        }
        UNROLL
        for (int t = 0; t < count; t++)
            wide_step_pairs(q, x[t] + 32 * i + 4 * c, i == 0, total[t]);
    }
}

/* Scales of block c, eight rows. */
static inline __attribute__((always_inline)) vf side_block_scales(const uint8_t *data,
                                                                  enum side_blocks f, int c,
                                                                  int half)
{
    const uint8_t *scales = data + 2 * side_code_bytes(f) * SIDE_DWORD;
    const int row = INTERLEAVE_ROWS * c + LANES * half;
    if (f == SIDE_MXFP4)
        return octet_e8m0(_mm256_cvtepu8_epi32(load8(scales + row)));
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(scales + 2 * row)));
}

/* Block 2 pair + odd of sixteen weight rows times `count` rows of activations, a constant: adds to
 * its lane's sums. */
static inline __attribute__((always_inline)) void side_block(const uint8_t *data,
                                                             enum side_blocks f, int pair, int odd,
                                                             const uint8_t *const *x, int count,
                                                             wide_sums *sums)
{
    const int c = 2 * pair + odd;
    vi total[WIDE_ROWS][WIDE_HALVES];
    vf scale[WIDE_HALVES];
    if (f == SIDE_Q8_0)
        side_byte_sums(data, pair, odd, x, count, total);
    else
        side_nibble_sums(data, f, pair, odd, x, count, total);
    UNROLL
    for (int h = 0; h < WIDE_HALVES; h++) {
        scale[h] = side_block_scales(data, f, c, h);
        if (f == SIDE_Q8_0)
            scale[h] = vf_mul(scale[h], vf_set1(0x1p-8f));
    }
    UNROLL
    for (int t = 0; t < count; t++) {
        const vf factor = wide_float(x[t] + PANEL_OCTET_SCALE + 4 * c);
        UNROLL
        for (int h = 0; h < WIDE_HALVES; h++)
            vf_store(sums[t][c][h], vf_fma(vf_from_int(total[t][h]), vf_mul(scale[h], factor),
                                           vf_load(sums[t][c][h])));
    }
}

/* Eight blocks. */
static inline __attribute__((always_inline)) void side_octet(const uint8_t *data,
                                                             enum side_blocks f,
                                                             const uint8_t *const *x, int count,
                                                             wide_sums *sums)
{
    for (int pair = 0; pair < 4; pair++) {
        side_block(data, f, pair, 0, x, count, sums);
        side_block(data, f, pair, 1, x, count, sums);
    }
}

/* The same for many rows of activations, unpacked once for all of them. */
static inline __attribute__((always_inline)) void
side_unpack_nibbles(enum side_blocks f, const struct lanes *l, int half, int32_t g, int32_t count,
                    struct wide_block *to)
{
    const uint8_t *data =
        side_data(l, half) + (size_t)g * (size_t)(INTERLEAVE_ROWS * (f == SIDE_MXFP4 ? 136 : 144));
    for (int32_t c = 0; c < count; c++, to++) {
        UNROLL
        for (int j = 0; j < 8; j++)
            to->q[j][half] = side_nibbles(data, f, c, j, half);
        to->scale[0][half] = side_block_scales(data, f, c, half);
    }
}

static void side_unpack_q4_0(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    side_unpack_nibbles(SIDE_Q4_0, l, half, g, count, to);
}

static void side_unpack_mxfp4(const struct lanes *l, int half, int32_t g, int32_t count,
                              struct wide_block *to)
{
    side_unpack_nibbles(SIDE_MXFP4, l, half, g, count, to);
}

static void side_unpack_q8_0(const struct lanes *l, int half, int32_t g, int32_t count,
                             struct wide_block *to)
{
    const uint8_t *data = side_data(l, half) + (size_t)g * (size_t)(INTERLEAVE_ROWS * 272);
    for (int32_t c = 0; c < count; c++, to++) {
        UNROLL
        for (int j = 0; j < 8; j++) {
            const vi v = side_dwords(data, 8 * c + j, half);
            to->q[2 * j][half] = vi_sar16(vi_shl16(v, 8), 8);
            to->q[2 * j + 1][half] = vi_sar16(v, 8);
        }
        to->scale[0][half] = side_block_scales(data, SIDE_Q8_0, c, half);
    }
}
