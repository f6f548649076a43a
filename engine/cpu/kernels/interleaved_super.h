/* Q4_K and Q5_K that lie interleaved, with activations of one byte (AVX2): super_tile.h's sums,
 * with the same bits, without its unpacking: a vector of codes is one of the weights', so that a
 * mask and a shift unpack it. */
#pragma once
#include "engine/cpu/interleave/interleave.h"
#include "engine/cpu/kernels/octet_tile.h"

/* Where a super-block's numbers begin, in dwords of one row: d and dmin, scales and minima, then */
#define SIDE_SCALES 1
#define SIDE_Q4_CODES 4
#define SIDE_Q5_HIGH 4
#define SIDE_Q5_CODES 12

/* Bytes of a dword of all sixteen rows. */
#define SIDE_DWORD (4 * INTERLEAVE_ROWS)

/* One dword of eight rows: of both halves, sixteen. */
static inline vi side_dwords(const uint8_t *data, int dword, int half)
{
    return vi_load(data + SIDE_DWORD * dword + 4 * LANES * half);
}

/* The same, read anew where it stands: gcc would keep what it meets again, such as the other
 * nibbles of a vector, through all products in between, and has no registers for it. */
static inline vi side_anew(const uint8_t *data, int dword, int half)
{
    const vi *at = (const vi *)(const void *)(data + SIDE_DWORD * dword + 4 * LANES * half);
    vi v;
    __asm__ volatile("vmovdqu %1, %0" : "=x"(v) : "m"(*at));
    return v;
}

/* Its low nibbles, with the mask's instruction as what reads it. */
static inline vi side_low(const uint8_t *data, int dword, int half)
{
    const vi *at = (const vi *)(const void *)(data + SIDE_DWORD * dword + 4 * LANES * half);
    vi v;
    __asm__ volatile("vpand %1, %2, %0" : "=x"(v) : "m"(*at), "x"(vi_set1(0x0f0f0f0f)));
    return v;
}

#define SIDE_NEAR 512 /* bytes ahead, from where lines come to the first cache */

/* Fetches lines [vector * lines / vectors, (vector + 1) * lines / vectors) from SUPER_AHEAD behind
 * `data` on: a few with each vector's products. At once they would fill the first cache's miss
 * buffers, and the next loads wait. `near`: the same lines once more when their turn comes. */
static inline __attribute__((always_inline)) void side_fetch(const uint8_t *data, int lines,
                                                             int vectors, int vector, bool near)
{
    UNROLL
    for (int i = vector * lines / vectors; i < (vector + 1) * lines / vectors; i++) {
        __asm__ volatile("prefetcht1 %0" : : "m"(data[SUPER_AHEAD + 64 * i]));
        if (near)
            __asm__ volatile("prefetcht0 %0" : : "m"(data[SIDE_NEAR + 64 * i]));
    }
}

/* Codes of columns 4j to 4j + 3 of block 2 pair + odd, the latter a constant. */
static inline __attribute__((always_inline)) vi side_super_codes(const uint8_t *data, bool five,
                                                                 int pair, int odd, int j, int half)
{
    const int at = (five ? SIDE_Q5_CODES : SIDE_Q4_CODES) + 8 * pair + j;
    const vi code = odd ? high_nibbles(side_anew(data, at, half)) : side_low(data, at, half);
    if (!five)
        return code;
    const vi high =
        _mm256_srl_epi16(side_anew(data, SIDE_Q5_HIGH + j, half), _mm_cvtsi32_si128(2 * pair));
    return vi_or(code, vi_and(odd ? vi_shl16(high, 3) : vi_shl16(high, 4), vi_set1(0x10101010)));
}

struct side_scales { /* of blocks 0 to 3, of blocks 4 to 7; six bits each */
    vi of[2][WIDE_HALVES];
};

/* As super_k4_numbers() has them. */
static inline __attribute__((always_inline)) struct side_scales side_scales(const uint8_t *data)
{
    struct side_scales s;
    UNROLL
    for (int h = 0; h < WIDE_HALVES; h++) {
        const vi a = side_dwords(data, SIDE_SCALES, h), c = side_dwords(data, SIDE_SCALES + 2, h);
        s.of[0][h] = vi_and(a, vi_set1(0x3f3f3f3f));
        s.of[1][h] = vi_or(low_nibbles(c), vi_and(vi_shr(a, 2), vi_set1(0x30303030)));
    }
    return s;
}

/* Adds the products of block 2 pair + odd. */
static inline __attribute__((always_inline)) void
side_super_block(const uint8_t *data, const struct side_scales *s, int shape, int pair, int odd,
                 const uint8_t *const *x, int count, vi total[SUPER_ROWS][WIDE_HALVES])
{
    const bool five = shape == SUPER_Q5_K;
    const int depth = octet_depth(shape);
    const size_t place = PANEL_OCTET_LOW + 128 * (size_t)odd + 4 * (size_t)pair;
    vi scale[WIDE_HALVES];
    UNROLL
    for (int h = 0; h < WIDE_HALVES; h++)
        scale[h] = vi_shuffle8(s->of[pair / 2][h], super_twice[pair % 2 * 2 + odd]);
    UNROLL
    for (int i = 0; i < 8; i += depth) {
        vi sum[SUPER_ROWS][WIDE_HALVES];
        UNROLL
        for (int j = i; j < i + depth; j++) {
            vi q[WIDE_HALVES];
            side_fetch(data + 64 * (five ? 11 : 9) * pair, five ? 11 : 9, 16, 8 * odd + j, true);
            UNROLL
            for (int h = 0; h < WIDE_HALVES; h++)
                q[h] = octet_hold(side_super_codes(data, five, pair, odd, j, h));
            UNROLL
            for (int t = 0; t < count; t++)
                wide_step_bytes(q, x[t] + place + j % 4 * 32 + j / 4 * 16, j == i, sum[t]);
        }
        UNROLL
        for (int h = 0; h < WIDE_HALVES; h++)
            UNROLL
        for (int t = 0; t < count; t++)
            total[t][h] = vi_add(total[t][h], _mm256_madd_epi16(sum[t][h], scale[h]));
    }
}

/* Minima times the activations' sums. */
static inline __attribute__((always_inline)) void
side_minima(const uint8_t *data, int half, const uint8_t *const *x, int count, vi all[SUPER_ROWS])
{
    const vi b = side_dwords(data, SIDE_SCALES + 1, half),
             c = side_dwords(data, SIDE_SCALES + 2, half);
    const vi mins[2] = {
        vi_and(b, vi_set1(0x3f3f3f3f)),
        vi_or(low_nibbles(vi_shr(c, 4)), vi_and(vi_shr(b, 2), vi_set1(0x30303030)))};
    UNROLL
    for (int t = 0; t < count; t++)
        all[t] = vi_zero();
    UNROLL
    for (int j = 0; j < 4; j++) {
        const vi pair = vi_shuffle8(mins[j / 2], super_both[j % 2]);
        UNROLL
        for (int t = 0; t < count; t++)
            all[t] = vi_add(all[t],
                            _mm256_madd_epi16(pair, wide_dword(x[t] + PANEL_SUPER_SUMS + 4 * j)));
    }
}

/* A super-block of sixteen weight rows times `count` rows of activations, a constant. */
static inline __attribute__((always_inline)) void
side_super(const uint8_t *data, int shape, const uint8_t *const *x, int count, super_sums *sums)
{
    const struct side_scales s = side_scales(data);
    vi total[SUPER_ROWS][WIDE_HALVES];
    UNROLL
    for (int t = 0; t < count; t++)
        total[t][0] = total[t][1] = vi_zero();
    for (int pair = 0; pair < 4; pair++) {
        side_super_block(data, &s, shape, pair, 0, x, count, total);
        side_super_block(data, &s, shape, pair, 1, x, count, total);
    }
    UNROLL
    for (int h = 0; h < WIDE_HALVES; h++) {
        vi all[SUPER_ROWS];
        const vi head = side_dwords(data, 0, h);
        const vf factor = vf_from_half_lanes(head),
                 minimum = vf_sub(vf_zero(), vf_from_half_lanes(vi_shr(head, 16)));
        side_minima(data, h, x, count, all);
        UNROLL
        for (int t = 0; t < count; t++)
            vf_store(sums[t][h], super_add(total[t][h], all[t], factor, minimum, shape, x[t],
                                           vf_load(sums[t][h])));
    }
}

/* Where the group of sixteen rows lies of which this is a half. */
static inline const uint8_t *side_data(const struct lanes *l, int half)
{
    return l->data[0] - (size_t)(LANES * half) * l->tile->weight->row_bytes;
}

/* The same for many rows of activations, unpacked once for all of them. */
static inline __attribute__((always_inline)) void
side_unpack_k4(bool five, const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    const uint8_t *data =
        side_data(l, half) + (size_t)g * (size_t)(INTERLEAVE_ROWS * (five ? 176 : 144));
    vi v[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = side_dwords(data, i, half);
    super_k4_numbers(v, half, to);
    for (int pair = 0; pair < 4; pair++)
        UNROLL
    for (int i = 0; i < 16; i++)
        to->q[2 * pair + i / 8][i % 8][half] =
            side_super_codes(data, five, pair, i / 8, i % 8, half);
}

static void side_unpack_q4_k(const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    side_unpack_k4(false, l, half, g, to);
}

static void side_unpack_q5_k(const struct lanes *l, int half, int32_t g, struct super_block *to)
{
    side_unpack_k4(true, l, half, g, to);
}
