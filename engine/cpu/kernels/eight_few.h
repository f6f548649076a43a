/* Q8_0 with few rows of activations of one byte (AVX2). Included after super_tile.h. */
#pragma once
#include "engine/cpu/kernels/super_tile.h"

/* Several rows: pairs of int16 are the bytes of a weight in their upper halves. Sums are 256 times
 * too large, still exact in int32, and a pair costs one instruction where the sign had to be drawn
 * down to the lower half. What is multiplied next is unpacked piece by piece between products:
 * unpacked at once it waits behind all of them, and its sixteen vectors find no registers. */
#define EIGHT_BLOCK 34 /* bytes */
#define EIGHT_OCTET (8 * EIGHT_BLOCK)

/* Where the compiler shall compute v: it would rather do so right before v's first use. */
static inline vi eight_now(vi v)
{
    __asm__ volatile("" : "+x"(v));
    return v;
}

/* One row's products with a vector of pairs, in this place. */
static inline __attribute__((always_inline)) void eight_step(vi q, const uint8_t *x, bool first,
                                                             vi *sum)
{
    const vi *columns = (const vi *)(const void *)x;
    vi product;
    if (first)
        __asm__ volatile("vpmaddwd %1, %2, %0" : "=x"(*sum) : "m"(*columns), "x"(q));
    else
        __asm__ volatile("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0"
                         : "+x"(*sum), "=&x"(product)
                         : "m"(*columns), "x"(q));
}

/* Products of all rows with four columns of eight blocks, of which x + at has the activations. */
static inline __attribute__((always_inline)) void
eight_columns(vi v, const uint8_t *const *x, size_t at, bool first, int count, vi *sum)
{
    const vi even = eight_now(vi_shl16(v, 8));
    UNROLL
    for (int t = 0; t < count; t++)
        eight_step(even, x[t] + at, first, &sum[t]);
    const vi odd = eight_now(vi_and(v, _mm256_set1_epi16((short)0xff00)));
    UNROLL
    for (int t = 0; t < count; t++)
        eight_step(odd, x[t] + at + 32, false, &sum[t]);
}

/* Products with sixteen columns of eight blocks in v, and v becomes those at `next`. */
static inline __attribute__((always_inline)) void
eight_half(vi v[4], const uint8_t *next, const uint8_t *const *x, size_t at, int count, vi *sum)
{
    vi part[4], ab[2], cd[2];
    UNROLL
    for (int i = 0; i < 4; i++)
        part[i] = eight_now(two_rows(next + i * EIGHT_BLOCK, next + (i + 4) * EIGHT_BLOCK));
    eight_columns(v[0], x, at, at == 0, count, sum);
    ab[0] = eight_now(_mm256_unpacklo_epi32(part[0], part[1]));
    ab[1] = eight_now(_mm256_unpackhi_epi32(part[0], part[1]));
    eight_columns(v[1], x, at + 64, false, count, sum);
    cd[0] = eight_now(_mm256_unpacklo_epi32(part[2], part[3]));
    cd[1] = eight_now(_mm256_unpackhi_epi32(part[2], part[3]));
    eight_columns(v[2], x, at + 128, false, count, sum);
    v[0] = eight_now(_mm256_unpacklo_epi64(ab[0], cd[0]));
    v[1] = eight_now(_mm256_unpackhi_epi64(ab[0], cd[0]));
    eight_columns(v[3], x, at + 192, false, count, sum);
    v[2] = eight_now(_mm256_unpacklo_epi64(ab[1], cd[1]));
    v[3] = eight_now(_mm256_unpackhi_epi64(ab[1], cd[1]));
}

/* What is left of row r after its whole octets. */
static __attribute__((noinline)) vf eight_last(const struct lanes *l, int32_t r, const uint8_t *x,
                                               vf sum)
{
    struct octet o;
    struct octet_tail tail;
    const struct octet_join join = octet_join();
    const struct octet_at at = octet_place_tail(l, EIGHT_OCTET, r, l->blocks / 8, &tail);
    octet_q8_0(&at, &o);
    return octet_dot(&o, OCTET_PLAIN, x, &join, sum);
}

/* A part of a row of weights times a few rows of activations: adds to the lanes' sums. */
static inline __attribute__((always_inline)) void eight_line(const struct lanes *l, int32_t r,
                                                             const struct octet_run_part *p,
                                                             const uint8_t *const *rows, int count,
                                                             vf *out)
{
    const uint8_t *data = l->data[r] + (size_t)p->first * EIGHT_OCTET, *x[OCTET_FEW];
    vf sum[OCTET_FEW];
    vi v[4];
    UNROLL
    for (int t = 0; t < count; t++) {
        x[t] = rows[t] + (size_t)p->first * PANEL_OCTET_BYTES;
        sum[t] = p->first ? out[8 * t] : vf_zero();
    }
    const bool copied = p->last && octet_copied(l, EIGHT_OCTET, r);
    int32_t g = p->end - p->first - (copied ? 1 : 0);
    if (g) {
        BLOCKS_APART(blocks, data, EIGHT_BLOCK);
        load_rows16(blocks, 2, v);
    }
    for (; g > 0; g--) {
        const uint8_t *next = g > 1 ? data + EIGHT_OCTET : data; /* nothing is past the last */
        vi all[OCTET_FEW];
        fetch_lines(data + p->distance, EIGHT_OCTET);
        eight_half(v, data + 18, x, 0, count, all);
        const vf scale = _mm256_cvtph_ps(words_apart(data, EIGHT_BLOCK));
        eight_half(v, next + 2, x, 256, count, all);
        UNROLL
        for (int t = 0; t < count; t++) {
            sum[t] = vf_fma(vf_from_int(vi_sar(all[t], 8)),
                            vf_mul(scale, floats_at(x[t] + PANEL_OCTET_SCALE)), sum[t]);
            x[t] += PANEL_OCTET_BYTES;
        }
        data = next;
    }
    UNROLL
    for (int t = 0; t < count; t++)
        out[8 * t] = copied ? eight_last(l, r, x[t], sum[t]) : sum[t];
}

/* The products of a weight row's eight blocks with one row of activations, whose bytes lie in
 * order. A product of bytes takes one of them without a sign: the weight's goes to the activation.
 */
static inline __attribute__((always_inline)) vi eight_blocks(const uint8_t *data,
                                                             const uint8_t *columns,
                                                             const struct octet_join *j)
{
    vi v[8];
    UNROLL
    for (int b = 0; b < 8; b++) {
        const vi w = vi_load(data + EIGHT_BLOCK * b + 2),
                 turned = _mm256_sign_epi8(vi_load(columns + 32 * b), w);
        v[b] = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), turned), j->low);
    }
    return add_lanes(v);
}

/* Octets of a weight row times those of one row of activations: adding up a block's products, which
 * lie side by side, takes less time than bringing eight blocks into the lanes. */
static inline __attribute__((always_inline)) vf eight_octets(const uint8_t *data, int32_t n,
                                                             size_t ahead, const uint8_t *x,
                                                             const uint8_t *columns, vf sum)
{
    const struct octet_join join = octet_join();
    for (; n > 0; n--) {
        fetch_lines(data + ahead, EIGHT_OCTET);
        sum = vf_fma(vf_from_int(eight_blocks(data, columns, &join)),
                     vf_mul(_mm256_cvtph_ps(words_apart(data, EIGHT_BLOCK)),
                            floats_at(x + PANEL_OCTET_SCALE)),
                     sum);
        data += EIGHT_OCTET;
        x += PANEL_OCTET_BYTES;
        columns += PANEL_OCTET_COLUMNS;
    }
    return sum;
}

/* As eight_line(), for one row of activations. */
static inline __attribute__((always_inline)) void eight_line_one(const struct lanes *l, int32_t r,
                                                                 const struct octet_run_part *p,
                                                                 const uint8_t *row, vf *out)
{
    const bool copied = p->last && octet_copied(l, EIGHT_OCTET, r);
    const size_t first = (size_t)p->first;
    const int32_t n = p->end - p->first - (copied ? 1 : 0);
    const uint8_t *x = row + first * PANEL_OCTET_BYTES;
    *out = eight_octets(l->data[r] + first * EIGHT_OCTET, n, p->distance, x,
                        row + panel_octet_columns(l->blocks) + first * PANEL_OCTET_COLUMNS,
                        p->first ? *out : vf_zero());
    if (copied)
        *out = eight_last(l, r, x + (size_t)n * PANEL_OCTET_BYTES, *out);
}

/* One row of activations. As in octet_whole(), whole rows of whole octets have their own loop. */
static inline __attribute__((always_inline)) void
eight_lines_one(const struct lanes *l, const uint8_t *row, struct octet_run_part p, vf *out)
{
    const uint8_t *columns = row + panel_octet_columns(l->blocks);
    if (!p.last || l->blocks % 8)
        do
            for (int32_t r = 0; r < 8; r++)
                eight_line_one(l, r, &p, row, out + r);
        while (octet_next_part(l, &p));
    else
        for (int r = 0; r < 8; r++)
            out[r] = eight_octets(l->data[r], p.end, p.distance, row, columns, vf_zero());
}

/* Eight rows of weights times `count` rows of activations. */
static inline __attribute__((always_inline)) void
eight_lines(const struct lanes *l, const uint8_t *const *rows, int count, float *acc)
{
    vf v[8 * OCTET_FEW];
    struct octet_run_part p = octet_first_part(l, count, OCTET_PLAIN);
    if (count == 1)
        eight_lines_one(l, rows[0], p, v);
    else
        do
            for (int32_t r = 0; r < 8; r++)
                eight_line(l, r, &p, rows, count, v + r);
        while (octet_next_part(l, &p));
    UNROLL
    for (int t = 0; t < count; t++)
        vf_store(acc + t * LANES, sum_lanes(v + 8 * t));
}

static __attribute__((noinline)) void eight_few(const struct lanes *l, const uint8_t *const *rows,
                                                int32_t n, float *acc)
{
    if (n == 1)
        eight_lines(l, rows, 1, acc);
    else if (n == 2)
        eight_lines(l, rows, 2, acc);
    else if (n == 3)
        eight_lines(l, rows, 3, acc);
    else
        eight_lines(l, rows, OCTET_FEW, acc);
}
