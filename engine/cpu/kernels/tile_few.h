/* Up to eight rows of activations times whole tiles of the formats that decoding
 * meets most (MXFP4, affine 8 bit), AVX512-VNNI, 16-bit activations: the products of tile_bytes.h
 * and tile_one.h, to the same bits, for several tiles in one call. What a tile costs beside its
 * products is kept small, because the matrices of a small expert have tiles of four blocks; and
 * while a block is multiplied the next one is unpacked, piece by piece: products alone would fill
 * the processor's queue of waiting instructions, and the unpacking behind them would not begin
 * before they end. */
#pragma once
#include "engine/cpu/kernels/tile_one.h"

#define FEW_ROWS_MOST 8

struct few {                /* a tile, and the rows that it is multiplied with */
    const uint8_t *rows[4]; /* weight rows 0, 4, 8 and 12 */
    const uint8_t *scales, *biases;
    const uint8_t *ahead; /* what is fetched meanwhile */
    size_t stride, scale_stride;
    const struct weight *weight;
    const struct panel *panel;
    int32_t index[FEW_ROWS_MOST]; /* of the panel's rows */
    int32_t blocks;
};

/* Sixteen bytes of weight rows i, i + 4, i + 8 and i + 12. By halves of two plain loads: one that
 * broadcasts into a part takes the unit that shuffles. */
static inline vi few_part(const uint8_t *const rows[4], size_t at)
{
    const __m256i low = _mm256_inserti128_si256(
                      _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows[0] + at))),
                      _mm_loadu_si128((const __m128i *)(rows[1] + at)), 1),
                  high = _mm256_inserti128_si256(
                      _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows[2] + at))),
                      _mm_loadu_si128((const __m128i *)(rows[3] + at)), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Four such parts: dword j of weight row r comes to lane r of part[j]. */
static inline __attribute__((always_inline)) void turn_dwords(vi part[4])
{
    const vi a = _mm512_unpacklo_epi32(part[0], part[1]),
             b = _mm512_unpackhi_epi32(part[0], part[1]);
    part[0] = _mm512_unpacklo_epi32(part[2], part[3]);
    part[1] = _mm512_unpackhi_epi32(part[2], part[3]);
    part[2] = a;
    part[3] = b;
}

static inline __attribute__((always_inline)) void turn_qwords(vi part[4], vi out[4])
{
    out[0] = _mm512_unpacklo_epi64(part[2], part[0]);
    out[1] = _mm512_unpackhi_epi64(part[2], part[0]);
    out[2] = _mm512_unpacklo_epi64(part[3], part[1]);
    out[3] = _mm512_unpackhi_epi64(part[3], part[1]);
}

/* Sixteen bytes of sixteen rows, dword j in out[j]. */
static inline __attribute__((always_inline)) void few_words(const uint8_t *first, size_t stride,
                                                            vi out[4])
{
    vi part[4];
    if (stride == 16) { /* one run */
        const vi rows[4] = {vi_load(first), vi_load(first + 64), vi_load(first + 128),
                            vi_load(first + 192)};
        transpose_parts(rows, part);
    } else {
        const uint8_t *const rows[4] = {first, first + 4 * stride, first + 8 * stride,
                                        first + 12 * stride};
        UNROLL
        for (int i = 0; i < 4; i++)
            part[i] = few_part(rows, (size_t)i * stride);
    }
    turn_dwords(part);
    turn_qwords(part, out);
}

/* A dword of each of sixteen rows. */
static inline vi few_dwords(const uint8_t *first, size_t stride)
{
    const vi lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (stride == 4)
        return vi_load(first);
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(lane, vi_set1((int32_t)stride)), first, 1);
}

/* Of n blocks from `first` on, a multiple of four. */
static inline void few_scales_mxfp4(const struct few *f, int32_t first, int32_t n, struct scales *s)
{
    const uint8_t *at = f->scales + first;
    int32_t b = 0;
    for (; b + 16 <= n; b += 16) {
        vi v[4];
        few_words(at + b, f->scale_stride, v);
        UNROLL
        for (int j = 0; j < 4; j++)
            e8m0_four(v[j], s->scale + b + 4 * j);
    }
    for (; b < n; b += 4)
        e8m0_four(few_dwords(at + b, f->scale_stride), s->scale + b);
}

/* Two groups' 16-bit scales in each dword. */
static inline void few_pair(vi v, bool half, float out[2][LANES])
{
    vf_store(out[0], half ? vf_from_half_lanes(v) : vf_bf16_low(v));
    vf_store(out[1], half ? vf_from_half_lanes(vi_shr(v, 16)) : vf_bf16_high(v));
}

/* n groups from `first` on, a multiple of two. */
static inline void few_groups(const uint8_t *at, size_t stride, int32_t n, bool half,
                              float out[][LANES])
{
    int32_t g = 0;
    for (; g + 8 <= n; g += 8) {
        vi v[4];
        few_words(at + (size_t)g * 2, stride, v);
        UNROLL
        for (int j = 0; j < 4; j++)
            few_pair(v[j], half, out + g + 2 * j);
    }
    for (; g < n; g += 2)
        few_pair(few_dwords(at + (size_t)g * 2, stride), half, out + g);
}

static inline __attribute__((always_inline)) void
few_scales(const struct few *f, int bits, int32_t first, int32_t n, struct scales *s)
{
    if (bits == 4) {
        few_scales_mxfp4(f, first, n, s);
        return;
    }
    const bool half = f->weight->scale_type == SCALE_F16;
    few_groups(f->scales + first, f->scale_stride, n / 2, half, s->scale);
    few_groups(f->biases + first, f->scale_stride, n / 2, half, s->min);
}

struct few_next { /* the block that is being unpacked */
    vi part[2][4], q[8];
    size_t at;
};

/* Piece i of eight. */
static inline __attribute__((always_inline)) void few_unpack(const struct few *f, int bits,
                                                             vi table, struct few_next *n, int i)
{
    const int parts = bits / 4;
    if (i < 4) {
        n->part[0][i] = few_part(f->rows, n->at + (size_t)i * f->stride);
        if (parts == 2)
            n->part[1][i] = few_part(f->rows, n->at + 16 + (size_t)i * f->stride);
        return;
    }
    if (i == 4) {
        for (int p = 0; p < parts; p++)
            turn_dwords(n->part[p]);
        return;
    }
    if (i == 5) {
        for (int p = 0; p < parts; p++)
            turn_qwords(n->part[p], n->q + 4 * p);
        return;
    }
    if (bits == 8)
        return;
    UNROLL
    for (int j = 0; j < 4; j++) /* the high nibbles first: the low ones' place holds both */
        n->q[i == 6 ? 4 + j : j] =
            _mm512_shuffle_epi8(table, i == 6 ? high_nibbles(n->q[j]) : low_nibbles(n->q[j]));
}

/* A block's products with n rows, up to four, while the next one is unpacked; next NULL: that is
 * left to others. */
static inline __attribute__((always_inline)) void few_products(const struct few *f, int bits, int n,
                                                               vi table, const vi q[8],
                                                               const int8_t *const *x,
                                                               struct few_next *next, vi *sum)
{
    vi high[4], low[4];
    UNROLL
    for (int t = 0; t < n; t++)
        high[t] = low[t] = vi_zero();
    UNROLL
    for (int i = 0; i < 8; i++) {
        UNROLL
        for (int t = 0; t < n; t++) {
            high[t] = _mm512_dpbusd_epi32(high[t], q[i], four_columns(x[t] + 128, i, bits == 4));
            low[t] = _mm512_dpbusd_epi32(low[t], q[i], four_columns(x[t], i, bits == 4));
        }
        if (next)
            few_unpack(f, bits, table, next, i);
    }
    UNROLL
    for (int t = 0; t < n; t++)
        sum[t] = vi_add(vi_shl(high[t], 8), low[t]);
}

/* One tile. `bits`, 4: MXFP4, 8: affine with groups of 64; n, 2 to 8: constants. */
static inline __attribute__((always_inline)) void few_tile(const struct few *f, int bits, int n,
                                                           float *acc)
{
    const struct panel *p = f->panel;
    const vi table = byte_table(fp4_from_16);
    const int shape = bits == 4 ? PLAIN : WITH_MIN;
    const int first_rows = n > 4 ? n - 4 : 0; /* before the four that the unpacking goes with */
    vf all[FEW_ROWS_MOST];
    struct few_next next = {.at = 0};
    UNROLL
    for (int t = 0; t < n; t++)
        all[t] = vf_zero();
    UNROLL
    for (int i = 0; i < 8; i++)
        few_unpack(f, bits, table, &next, i);
    for (int32_t first = 0; first < f->blocks; first += SEGMENT_BLOCKS) {
        const int32_t left = f->blocks - first,
                      count = left < SEGMENT_BLOCKS ? left : SEGMENT_BLOCKS;
        struct scales s;
        few_scales(f, bits, first, count, &s);
        for (int32_t b = 0; b < count; b++) {
            const int32_t block = first + b;
            const size_t span = (size_t)(block >> 2) * (size_t)p->rows, k = (size_t)(block & 3);
            const int8_t *x[FEW_ROWS_MOST];
            vi q[8], sum[FEW_ROWS_MOST];
            UNROLL
            for (int i = 0; i < 8; i++)
                q[i] = next.q[i];
            UNROLL
            for (int t = 0; t < n; t++)
                x[t] = (bits == 4 ? p->nibble_halves : p->byte_halves) +
                       (span + (size_t)f->index[t]) * PANEL_SPAN_HALVES + (size_t)(4 * bits) * k;
            next.at = block + 1 < f->blocks ? (size_t)(block + 1) * (size_t)(4 * bits) : 0;
            fetch_lines(f->ahead + (size_t)block * (size_t)(64 * bits), (size_t)(64 * bits));
            if (first_rows)
                few_products(f, bits, first_rows, table, q, x, NULL, sum);
            few_products(f, bits, n - first_rows, table, q, x + first_rows, &next,
                         sum + first_rows);
            const vf scale[2] = {vf_load(s.scale[bits == 4 ? b : b >> 1])},
                     min[2] = {vf_load(s.min[b >> 1]), vf_load(s.min[b >> 1])};
            UNROLL
            for (int t = 0; t < n; t++) {
                const size_t row = (size_t)f->index[t];
                if (bits == 4)
                    sum[t] = less_total(sum[t], p->total[(span + row) * (2 * PANEL_SPAN) + k], 4);
                all[t] = finish(p, (size_t)block * (size_t)p->rows + row, sum[t], vi_zero(), scale,
                                min, shape, all[t]);
            }
        }
    }
    UNROLL
    for (int t = 0; t < n; t++)
        vf_store(acc + t * LANES, all[t]);
}

#define FEW_TILE(name, bits, n)                                                                    \
    static __attribute__((noinline)) void name(const struct few *f, float *acc)                    \
    {                                                                                              \
        few_tile(f, bits, n, acc);                                                                 \
    }
FEW_TILE(few_mxfp4_2, 4, 2)
FEW_TILE(few_mxfp4_3, 4, 3)
FEW_TILE(few_mxfp4_4, 4, 4)
FEW_TILE(few_mxfp4_5, 4, 5)
FEW_TILE(few_mxfp4_6, 4, 6)
FEW_TILE(few_mxfp4_7, 4, 7)
FEW_TILE(few_mxfp4_8, 4, 8)
FEW_TILE(few_affine_2, 8, 2)
FEW_TILE(few_affine_3, 8, 3)
FEW_TILE(few_affine_4, 8, 4)
FEW_TILE(few_affine_5, 8, 5)
FEW_TILE(few_affine_6, 8, 6)
FEW_TILE(few_affine_7, 8, 7)
FEW_TILE(few_affine_8, 8, 8)
#undef FEW_TILE

/* One tile times one row, by tile_one.h's products. */
static inline __attribute__((always_inline)) void few_alone(const struct few *f, int bits,
                                                            const uint8_t *levels, float *acc)
{
    const struct one_format format = {.levels = levels, .bits = bits};
    const struct panel *p = f->panel;
    const size_t row = (size_t)f->index[0];
    const vi table = levels ? byte_table((const int8_t *)levels) : vi_zero();
    vf all = vf_zero();
    for (int32_t first = 0; first < f->blocks; first += SEGMENT_BLOCKS) {
        const int32_t left = f->blocks - first,
                      count = left < SEGMENT_BLOCKS ? left : SEGMENT_BLOCKS;
        struct scales s;
        few_scales(f, bits, first, count, &s);
        for (int32_t b = 0; b < count; b += PANEL_SPAN) {
            const size_t at = cell(p, (first + b) / PANEL_SPAN, f->index[0]);
            const int8_t *halves =
                (bits == 8 ? p->byte_halves : p->nibble_halves) + at * PANEL_SPAN_HALVES;
            const size_t offset = (size_t)(first + b) * (size_t)(4 * bits);
            const struct span_halves x = {.low = {vi_load(halves), vi_load(halves + 64)},
                                          .high = {vi_load(halves + 128), vi_load(halves + 192)}};
            vi sums[4], minus = vi_zero();
            if (bits == 4) {
                const vi total = _mm512_permutexvar_epi32(
                    _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                    vi_load_bytes(p->total + at * 2 * PANEL_SPAN, 16));
                minus = vi_add(vi_shl(total, 3), vi_shl(total, 2)); /* the levels' offset is 12 */
            }
            UNROLL
            for (int i = 0; i < 4; i++) {
                vi v[4];
                UNROLL
                for (int r = 0; r < 4; r++)
                    v[r] = dot_row(format, table, f->rows[i] + offset + (size_t)r * f->stride,
                                   PANEL_SPAN, &x);
                fetch_lines(f->ahead + (size_t)(first + b + i) * (size_t)(64 * bits),
                            (size_t)(64 * bits));
                sums[i] = add_quads(v);
                if (bits == 4)
                    sums[i] = _mm512_sub_epi32(sums[i], minus);
            }
            vi turned[4];
            transpose_parts(sums, turned);
            UNROLL
            for (int k = 0; k < PANEL_SPAN; k++) {
                const int32_t group = bits == 4 ? b + k : (b + k) >> 1;
                const vf scale[2] = {vf_load(s.scale[group])},
                         min[2] = {vf_load(s.min[group]), vf_load(s.min[group])};
                all = finish(p, (size_t)(first + b + k) * (size_t)p->rows + row, turned[k],
                             vi_zero(), scale, min, bits == 4 ? PLAIN : WITH_MIN, all);
            }
        }
    }
    vf_store(acc, all);
}

static __attribute__((noinline)) void few_mxfp4_1(const struct few *f, float *acc)
{
    few_alone(f, 4, fp4_from_12, acc);
}

static __attribute__((noinline)) void few_affine_1(const struct few *f, float *acc)
{
    few_alone(f, 8, NULL, acc);
}

typedef void (*few_run)(const struct few *f, float *acc);

/* NULL: not for this tile. */
static few_run few_way(const struct tile *t)
{
    static const few_run mxfp4[] = {few_mxfp4_1, few_mxfp4_2, few_mxfp4_3, few_mxfp4_4,
                                    few_mxfp4_5, few_mxfp4_6, few_mxfp4_7, few_mxfp4_8},
                         affine[] = {few_affine_1, few_affine_2, few_affine_3, few_affine_4,
                                     few_affine_5, few_affine_6, few_affine_7, few_affine_8};
    const struct weight *w = t->weight;
    if (t->n > FEW_ROWS_MOST || !t->panel->total || t->panel->kinds & PANEL_ONE_BYTE ||
        w->cols % (PANEL_SPAN * PANEL_BLOCK))
        return NULL;
    if (w->type == WEIGHT_MXFP4)
        return mxfp4[t->n - 1];
    if (w->type == WEIGHT_AFFINE && w->bits == 8 && w->group == 64 && w->scale_type != SCALE_F32)
        return affine[t->n - 1];
    return NULL;
}

static void few_ahead(struct few *f, bool more)
{
    const size_t run = (size_t)LANES * f->scale_stride;
    f->ahead = f->rows[0] + (more ? (size_t)LANES * f->stride : 0);
    if (!more)
        return;
    fetch_lines(f->scales + run, run);
    if (f->biases)
        fetch_lines(f->biases + run, run);
}

/* Returns how many of the tiles are done: all whole ones, or none. */
static int32_t few_tiles(const struct tile *t, float *acc)
{
    const struct weight *w = t->weight;
    const few_run run = few_way(t);
    const int32_t whole = (w->rows - t->row) / LANES;
    const int32_t count = whole < t->more + 1 ? whole : t->more + 1;
    if (!run)
        return 0;
    const struct weight_planes planes = weight_planes(w, t->matrix);
    const size_t row = (size_t)t->row;
    struct few f = {.stride = w->row_bytes,
                    .scale_stride = w->scale_row_bytes,
                    .scales = planes.scales + row * w->scale_row_bytes,
                    .biases = planes.biases ? planes.biases + row * w->scale_row_bytes : NULL,
                    .weight = w,
                    .panel = t->panel,
                    .blocks = t->panel->blocks};
    for (int i = 0; i < 4; i++)
        f.rows[i] = planes.data + (row + 4 * (size_t)i) * w->row_bytes;
    for (int32_t i = 0; i < t->n; i++)
        f.index[i] = t->index ? t->index[i] : t->first + i;
    for (int32_t i = 0; i < count; i++, acc += t->n * LANES) {
        few_ahead(&f, i + 1 < whole);
        run(&f, acc);
        for (int r = 0; r < 4; r++)
            f.rows[r] += (size_t)LANES * f.stride;
        f.scales += (size_t)LANES * f.scale_stride;
        if (f.biases)
            f.biases += (size_t)LANES * f.scale_stride;
    }
    return count;
}
