/* One row of activations, by byte products (AVX512-VNNI): a matrix row's bytes stand in the lanes,
 * 64 of them at a time, and only the blocks' sums are turned to have rows in lanes. An activation
 * is two signed bytes, 256 high + low, and a weight one unsigned byte, level + offset: sum of level
 * * x = 256 * sum of weight * high + sum of weight * low - offset * sum of x The sums are exact,
 * and scales enter as in tile_core.h: the same bits, from fewer instructions. */
#pragma once
#include "engine/cpu/kernels/tile_bytes.h"

struct span_halves { /* 128 activations in the order of the weights' bytes that multiply them */
    vi low[2], high[2];
    bool one; /* byte each, the low one; a constant where this is read */
};

/* 4 vectors of sums by [block][4] become one by [block][vector]. */
static inline vi add_quads(const vi v[4])
{
    vi ab = vi_add(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    vi cd = vi_add(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return vi_add(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* The 128-bit parts as a 4 x 4 matrix, transposed. */
static inline void transpose_parts(const vi in[4], vi out[4])
{
    vi a = _mm512_shuffle_i32x4(in[0], in[1], 0x44), b = _mm512_shuffle_i32x4(in[2], in[3], 0x44);
    vi c = _mm512_shuffle_i32x4(in[0], in[1], 0xee), d = _mm512_shuffle_i32x4(in[2], in[3], 0xee);
    out[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    out[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
    out[2] = _mm512_shuffle_i32x4(c, d, 0x88);
    out[3] = _mm512_shuffle_i32x4(c, d, 0xdd);
}

/* Sums of four bytes' products with the activations of one vector, */
static inline vi dot_one(vi v, const struct span_halves *x, int i)
{
    if (x->one)
        return _mm512_dpbusd_epi32(vi_zero(), v, x->low[i]);
    return _mm512_dpbusd_epi32(vi_shl(_mm512_dpbusd_epi32(vi_zero(), v, x->high[i]), 8), v,
                               x->low[i]);
}

/* and of both. */
static inline vi dot_both(vi first, vi second, const struct span_halves *x)
{
    if (x->one)
        return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(vi_zero(), first, x->low[0]), second,
                                   x->low[1]);
    vi sum =
        _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(vi_zero(), first, x->high[0]), second, x->high[1]);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(vi_shl(sum, 8), first, x->low[0]), second,
                               x->low[1]);
}

struct one_format {
    const uint8_t *levels; /* [16] of nibbles, offset added; NULL: the nibbles themselves */
    int32_t offset;
    int bits;
    bool one; /* activations of one byte */
};

/* 4 blocks of one row: sums by [block][4]. `n`, 1 to 4: how many of them there are. */
static inline __attribute__((always_inline)) vi dot_row(struct one_format f, vi table,
                                                        const uint8_t *at, int32_t n,
                                                        const struct span_halves *x)
{
    if (f.bits == 8) {
        vi a = dot_one(vi_load_bytes(at, 32 * n), x, 0),
           b = dot_one(vi_load_bytes(at + 64, 32 * n - 64), x, 1);
        return vi_add(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    }
    vi v = vi_load_bytes(at, 16 * n), low = vi_set1(0x0f0f0f0f);
    vi first = vi_and(v, low), second = vi_and(vi_shr16(v, 4), low);
    if (f.levels) {
        first = _mm512_shuffle_epi8(table, first);
        second = _mm512_shuffle_epi8(table, second);
    }
    return dot_both(first, second, x);
}

/* Sums of 4 blocks from `block` on, rows in lanes. */
static inline __attribute__((always_inline)) void
dot_span(const struct lanes *l, struct one_format f, vi table, int32_t block, int32_t n, vi out[4])
{
    const struct panel *p = l->tile->panel;
    const size_t stride = l->tile->weight->row_bytes, at = cell(p, block / PANEL_SPAN, l->index[0]);
    const int8_t *halves =
        (f.bits == 8 ? p->byte_halves : p->nibble_halves) + at * PANEL_SPAN_HALVES;
    const uint8_t *row = l->data[0] + (size_t)block * (size_t)(4 * f.bits);
    const struct span_halves x = {.one = f.one,
                                  .low = {vi_load(halves), vi_load(halves + 64)},
                                  .high = {vi_load(halves + 128), vi_load(halves + 192)}};
    vi sums[4], minus = vi_zero();
    if (f.offset)
        minus = _mm512_mullo_epi32(
            vi_set1(f.offset),
            _mm512_permutexvar_epi32(
                _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                vi_load_bytes(p->total + at * 2 * PANEL_SPAN, 16)));
    UNROLL
    for (int i = 0; i < 4; i++) {
        vi v[4];
        UNROLL
        for (int r = 0; r < 4; r++)
            v[r] = dot_row(f, table, row + (size_t)r * stride, n, &x);
        row += 4 * stride;
        fetch_ahead(l, block + i);
        sums[i] = _mm512_sub_epi32(add_quads(v), minus);
    }
    transpose_parts(sums, out);
}

static inline __attribute__((always_inline)) void dot_blocks(const struct lanes *l,
                                                             struct one_format f, vi table,
                                                             int32_t block, int32_t left, vi out[4])
{
    if (left >= PANEL_SPAN)
        dot_span(l, f, table, block, PANEL_SPAN, out);
    else
        dot_span(l, f, table, block, left, out);
}

/* n blocks from `first` on, their scales prepared; per_group blocks share one. */
static inline __attribute__((always_inline)) vf one_segment(const struct lanes *l,
                                                            struct one_format f, int shape,
                                                            int32_t first, int32_t n,
                                                            int32_t per_group,
                                                            const struct scales *s, vf sum)
{
    const struct panel *p = l->tile->panel;
    const vi table =
        f.levels ? _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)f.levels)) : vi_zero();
    for (int32_t b = 0; b < n; b += PANEL_SPAN) {
        const int32_t left = n - b;
        vi sums[4];
        f.one = true;
        if (p->kinds & PANEL_ONE_BYTE) {
            dot_blocks(l, f, table, first + b, left, sums);
        } else {
            f.one = false;
            dot_blocks(l, f, table, first + b, left, sums);
        }
        UNROLL
        for (int k = 0; k < PANEL_SPAN; k++) {
            if (k >= left)
                break;
            const int32_t group = (b + k) / per_group;
            const vf scale[2] = {vf_load(s->scale[group])},
                     min[2] = {vf_load(s->min[group]), vf_load(s->min[group])};
            sum = finish(p, cell(p, first + b + k, l->index[0]), sums[k], vi_zero(), scale, min,
                         shape, sum);
        }
    }
    return sum;
}

static inline __attribute__((always_inline)) vf one_affine(const struct lanes *l, int bits)
{
    const int32_t per_group = l->tile->weight->group / 32;
    vf sum = vf_zero();
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_affine(l, first, n, &s);
        sum = one_segment(l, (struct one_format){.bits = bits}, WITH_MIN, first, n, per_group, &s,
                          sum);
    }
    return sum;
}

static const uint8_t fp4_from_12[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                        12, 11, 10, 9,  8,  6,  4,  0}; /* doubled, and 12 */

static __attribute__((noinline)) vf one_mxfp4(const struct lanes *l)
{
    vf sum = vf_zero();
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_mxfp4(l, first, n, &s);
        sum = one_segment(l, (struct one_format){.levels = fp4_from_12, .offset = 12, .bits = 4},
                          PLAIN, first, n, 1, &s, sum);
    }
    return sum;
}

static inline bool has_one_row(const struct weight *w)
{
    return w->type == WEIGHT_MXFP4 || (w->type == WEIGHT_AFFINE && (w->bits == 4 || w->bits == 8));
}

/* Sixteen whole rows of such a weight. */
static inline vf one_row(const struct lanes *l)
{
    const struct weight *w = l->tile->weight;
    if (w->type == WEIGHT_MXFP4)
        return one_mxfp4(l);
    return w->bits == 4 ? one_affine(l, 4) : one_affine(l, 8);
}
