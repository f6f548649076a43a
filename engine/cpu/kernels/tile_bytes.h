/* Few rows of activations by byte products (AVX512-VNNI), weight rows in lanes: four columns of a
 * weight row stand in each lane, as bytes without a sign, so a block unpacks to eight vectors
 * instead of the sixteen of int16 pairs. An activation is two signed bytes, 256 high + low, and a
 * weight level + offset:
 *   sum of level * x = 256 * sum of weight * high + sum of weight * low - offset * sum of x
 * The sums are exact and scales enter as in tile_core.h, so the bits are those of every other way.
 * Activations of one byte are low ones, in any number of rows.
 * One row of some formats is faster by tile_one.h, which turns sums instead of weights. */
#pragma once
#include "engine/cpu/kernels/tile_formats.h"

struct byte_shape {
    int scales;  /* enum scale_shape */
    int less;    /* offset: 1 << less; 0: none */
    bool nibble; /* the panel's nibble_halves, else byte_halves */
    bool one;    /* activations of one byte */
};

struct byte_block {
    vi q[8];
    vf scale[2], min[2];
};

struct byte_row { /* of activations: a block's bytes, low ones; the high ones are 128 further */
    const int8_t *x;
    const int32_t *total; /* of the block; of its first half: PANEL_SPAN further */
    size_t cell;
};

static inline __attribute__((always_inline)) struct byte_row
byte_row(const struct panel *p, int32_t block, int32_t row, bool nibble)
{
    const size_t span = cell(p, block / PANEL_SPAN, row), k = (size_t)(block % PANEL_SPAN);
    return (struct byte_row){
        .x = nibble ? p->nibble_halves + span * PANEL_SPAN_HALVES + 16 * k
                    : p->byte_halves + span * PANEL_SPAN_HALVES + 32 * k,
        .total = p->total + span * (2 * PANEL_SPAN) + k,
        .cell = cell(p, block, row),
    };
}

/* The activations that vector i of a block is multiplied with, in every lane. */
static inline vi four_columns(const int8_t *x, int i, bool nibble)
{
    int32_t v;
    memcpy(&v, x + (nibble ? i / 4 * 64 + i % 4 * 4 : 4 * i), sizeof v);
    return vi_set1(v);
}

/* Sums of products with q[from] to q[to - 1] of `count` rows, a constant. */
static inline __attribute__((always_inline)) void byte_sums(const vi q[8], int from, int to,
                                                            const struct byte_row *rows, int count,
                                                            struct byte_shape s, vi *sum)
{
    vi high[4], low[4];
    UNROLL
    for (int t = 0; t < count; t++)
        high[t] = low[t] = vi_zero();
    UNROLL
    for (int i = from; i < to; i++)
        UNROLL
    for (int t = 0; t < count; t++) {
        if (!s.one)
            high[t] =
                _mm512_dpbusd_epi32(high[t], q[i], four_columns(rows[t].x + 128, i, s.nibble));
        low[t] = _mm512_dpbusd_epi32(low[t], q[i], four_columns(rows[t].x, i, s.nibble));
    }
    UNROLL
    for (int t = 0; t < count; t++)
        sum[t] = s.one ? low[t] : vi_add(vi_shl(high[t], 8), low[t]);
}

static inline vi less_total(vi sum, int32_t total, int less)
{
    return _mm512_sub_epi32(sum, _mm512_slli_epi32(vi_set1(total), (unsigned)less));
}

static inline __attribute__((always_inline)) void byte_few(const struct lanes *l, int32_t block,
                                                           const struct byte_block *b,
                                                           struct byte_shape s, int32_t first,
                                                           int count, float *acc)
{
    const struct panel *p = l->tile->panel;
    const bool halves = s.scales & HALVES;
    struct byte_row rows[4];
    vi sum[4], second[4];
    UNROLL
    for (int t = 0; t < count; t++) {
        rows[t] = byte_row(p, block, l->index[first + t], s.nibble);
        second[t] = vi_zero();
    }
    byte_sums(b->q, 0, halves ? 4 : 8, rows, count, s, sum);
    if (halves)
        byte_sums(b->q, 4, 8, rows, count, s, second);
    UNROLL
    for (int t = 0; t < count; t++) {
        float *to = acc + (first + t) * LANES;
        if (s.less && halves) {
            const int32_t half = rows[t].total[PANEL_SPAN];
            sum[t] = less_total(sum[t], half, s.less);
            second[t] = less_total(second[t], rows[t].total[0] - half, s.less);
        } else if (s.less) {
            sum[t] = less_total(sum[t], rows[t].total[0], s.less);
        }
        vf_store(to, finish(p, rows[t].cell, sum[t], second[t], b->scale, b->min, s.scales,
                            vf_load(to)));
    }
}

static inline __attribute__((always_inline)) void byte_groups(const struct lanes *l, int32_t block,
                                                              const struct byte_block *b,
                                                              struct byte_shape s, float *acc)
{
    const int32_t n = l->tile->n;
    int32_t i = 0;
    for (; i + 4 <= n; i += 4)
        byte_few(l, block, b, s, i, 4, acc);
    switch (n - i) {
    case 3:
        byte_few(l, block, b, s, i, 3, acc);
        break;
    case 2:
        byte_few(l, block, b, s, i, 2, acc);
        break;
    case 1:
        byte_few(l, block, b, s, i, 1, acc);
        break;
    default:
        break;
    }
}

/* One unpacked block times all rows of the tile. */
static inline __attribute__((always_inline)) void byte_rows(const struct lanes *l, int32_t block,
                                                            const struct byte_block *b,
                                                            struct byte_shape s, float *acc)
{
    fetch_ahead(l, block);
    s.one = true;
    if (l->tile->panel->kinds & PANEL_ONE_BYTE) {
        byte_groups(l, block, b, s, acc);
        return;
    }
    s.one = false;
    byte_groups(l, block, b, s, acc);
}

static inline vi low_nibbles(vi v)
{
    return vi_and(v, vi_set1(0x0f0f0f0f));
}

static inline vi high_nibbles(vi v)
{
    return low_nibbles(vi_shr16(v, 4));
}

static inline vi byte_table(const int8_t levels[16])
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)levels));
}

/* Sixteen bytes of each row to vectors of their low nibbles, then of their high ones. */
static inline __attribute__((always_inline)) void byte_nibbles(const struct lanes *l, size_t at,
                                                               vi q[8])
{
    vi v[4];
    load_rows16(l->data, at, v);
    UNROLL
    for (int j = 0; j < 4; j++) {
        q[j] = low_nibbles(v[j]);
        q[4 + j] = high_nibbles(v[j]);
    }
}

static inline void byte_look_up(vi q[8], vi table)
{
    UNROLL
    for (int j = 0; j < 8; j++)
        q[j] = _mm512_shuffle_epi8(table, q[j]);
}

/* Levels of the tables of tile_formats.h, without a sign. */
static const int8_t fp4_from_16[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                       16, 15, 14, 13, 12, 10, 8,  4};
/* One scale a block. */
static inline void set_scale(struct byte_block *b, vf scale)
{
    b->scale[0] = b->scale[1] = scale;
}

static inline void set_min(struct byte_block *b, vf min)
{
    b->min[0] = b->min[1] = min;
}

static __attribute__((noinline)) void bytes_mxfp4(const struct lanes *l, float *acc)
{
    const struct byte_shape shape = {.scales = PLAIN, .less = 4, .nibble = true};
    const vi table = byte_table(fp4_from_16);
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_mxfp4(l, first, n, &s);
        for (int32_t i = 0; i < n; i++) {
            struct byte_block b;
            byte_nibbles(l, (size_t)(first + i) * 16, b.q);
            byte_look_up(b.q, table);
            set_scale(&b, vf_load(s.scale[i]));
            byte_rows(l, first + i, &b, shape, acc);
        }
    }
}

static inline __attribute__((always_inline)) void bytes_affine(const struct lanes *l, int bits,
                                                               float *acc)
{
    const struct byte_shape shape = {.scales = WITH_MIN, .nibble = bits == 4};
    const int32_t per_group = l->tile->weight->group / 32;
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_affine(l, first, n, &s);
        for (int32_t i = 0; i < n; i++) {
            struct byte_block b;
            if (bits == 4) {
                byte_nibbles(l, (size_t)(first + i) * 16, b.q);
            } else {
                load_rows16(l->data, (size_t)(first + i) * 32, b.q);
                load_rows16(l->data, (size_t)(first + i) * 32 + 16, b.q + 4);
            }
            set_scale(&b, vf_load(s.scale[i / per_group]));
            set_min(&b, vf_load(s.min[i / per_group]));
            byte_rows(l, first + i, &b, shape, acc);
        }
    }
}

static __attribute__((noinline)) void bytes_affine_4(const struct lanes *l, float *acc)
{
    bytes_affine(l, 4, acc);
}

static __attribute__((noinline)) void bytes_affine_8(const struct lanes *l, float *acc)
{
    bytes_affine(l, 8, acc);
}

static inline uint64_t four_words(const uint8_t *const *rows, size_t at)
{
    return general(word_at(rows[0] + at)) | general(word_at(rows[1] + at)) << 16 |
           general(word_at(rows[2] + at)) << 32 | general(word_at(rows[3] + at)) << 48;
}

/* One 16-bit word of each row, put together in general registers, which have nothing else to do:
 * a vector load of what was just stored word by word would have to wait. */
static inline __attribute__((always_inline)) __m256i words_of_rows(const struct lanes *l, size_t at)
{
    return _mm256_set_epi64x(
        (int64_t)four_words(l->data + 12, at), (int64_t)four_words(l->data + 8, at),
        (int64_t)four_words(l->data + 4, at), (int64_t)four_words(l->data, at));
}

static inline __attribute__((always_inline)) vf halves_of_rows(const struct lanes *l, size_t at)
{
    return _mm512_cvtph_ps(words_of_rows(l, at));
}

/* GGUF's 32-column blocks of nibbles. */
static inline __attribute__((always_inline)) void
bytes_blocks(const struct lanes *l, struct nibble_format f, struct byte_shape shape, float *acc)
{
    const vi table = byte_table(f.levels ? f.levels : plain_levels);
    for (int32_t i = 0; i < l->blocks; i++) {
        const size_t at = (size_t)i * f.block_bytes;
        struct byte_block b;
        byte_nibbles(l, at + f.at, b.q);
        if (f.levels)
            byte_look_up(b.q, table);
        if (f.e8m0)
            set_scale(&b, vf_mul(vf_e8m0(vi_and(_mm512_cvtepu16_epi32(words_of_rows(l, at)),
                                                vi_set1(255))),
                                 vf_set1(0.5f)));
        else
            set_scale(&b, halves_of_rows(l, at));
        set_min(&b, shape.scales & WITH_MIN ? halves_of_rows(l, at + 2) : vf_zero());
        byte_rows(l, i, &b, shape, acc);
    }
}

#define BYTES_BLOCKS(name, format, shape)                                                          \
    static __attribute__((noinline)) void name(const struct lanes *l, float *acc)                  \
    {                                                                                              \
        bytes_blocks(l, (struct nibble_format)format, (struct byte_shape)shape, acc);              \
    }
#define WORDS(...) {__VA_ARGS__} /* one argument of a macro */
BYTES_BLOCKS(bytes_q4_0, WORDS(.block_bytes = 18, .at = 2), WORDS(.less = 3))
BYTES_BLOCKS(bytes_mxfp4_block,
             WORDS(.block_bytes = 17, .at = 1, .levels = fp4_from_16, .e8m0 = true),
             WORDS(.less = 4))
#undef WORDS
#undef BYTES_BLOCKS

static __attribute__((noinline)) void bytes_q8_0(const struct lanes *l, float *acc)
{
    const struct byte_shape shape = {.less = 7};
    const vi sign = vi_set1((int32_t)0x80808080);
    for (int32_t i = 0; i < l->blocks; i++) {
        const size_t at = (size_t)i * 34;
        struct byte_block b;
        load_rows16(l->data, at + 2, b.q);
        load_rows16(l->data, at + 18, b.q + 4);
        UNROLL
        for (int j = 0; j < 8; j++)
            b.q[j] = _mm512_xor_si512(b.q[j], sign);
        set_scale(&b, halves_of_rows(l, at));
        byte_rows(l, i, &b, shape, acc);
    }
}

/* 32 bytes hold two blocks, the even one in the low nibbles. */
static __attribute__((noinline)) void bytes_q4_k(const struct lanes *l, float *acc)
{
    const struct byte_shape shape = {.scales = WITH_MIN};
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        float scales[8][LANES], mins[8][LANES];
        const size_t at = (size_t)super * 144;
        scales_k4(l, at, scales, mins);
        for (int pair = 0; pair < 4; pair++) {
            vi v[8];
            load_rows16(l->data, at + 16 + (size_t)pair * 32, v);
            load_rows16(l->data, at + 32 + (size_t)pair * 32, v + 4);
            UNROLL
            for (int odd = 0; odd < 2; odd++) {
                const int sub = 2 * pair + odd;
                struct byte_block b;
                UNROLL
                for (int j = 0; j < 8; j++)
                    b.q[j] = odd ? high_nibbles(v[j]) : low_nibbles(v[j]);
                set_scale(&b, vf_load(scales[sub]));
                set_min(&b, vf_load(mins[sub]));
                byte_rows(l, super * 8 + sub, &b, shape, acc);
            }
        }
    }
}

static __attribute__((noinline)) void bytes_q6_k(const struct lanes *l, float *acc)
{
    const struct byte_shape shape = {.scales = HALVES, .less = 5};
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        const size_t at = (size_t)super * 210;
        vi s[4];
        load_rows16(l->data, at + 192, s);
        const vf d = halves_of_rows(l, at + 208);
        for (int half = 0; half < 2; half++) {
            vi low[16], high[8];
            load_q6_half(l, at, half, low, high);
            UNROLL
            for (int quarter = 0; quarter < 4; quarter++) {
                const int sub = 4 * half + quarter;
                struct byte_block b;
                q6_quarter(low + quarter % 2 * 8, high, quarter, b.q);
                q6_scales(s[2 * half + quarter / 2], d, quarter % 2, b.scale);
                byte_rows(l, super * 8 + sub, &b, shape, acc);
            }
        }
    }
}

typedef void (*bytes_run)(const struct lanes *l, float *acc);

/* NULL: the format has no such way. */
static bytes_run bytes_of(const struct weight *w)
{
    static const bytes_run others[WEIGHT__N] = {
        [WEIGHT_MXFP4] = bytes_mxfp4, [WEIGHT_Q8_0] = bytes_q8_0,
        [WEIGHT_Q4_0] = bytes_q4_0,   [WEIGHT_MXFP4_BLOCK] = bytes_mxfp4_block,
        [WEIGHT_Q4_K] = bytes_q4_k,   [WEIGHT_Q6_K] = bytes_q6_k,
    };
    if (w->type == WEIGHT_AFFINE)
        return w->bits == 4 ? bytes_affine_4 : w->bits == 8 ? bytes_affine_8 : NULL;
    return others[w->type];
}

/* The form that they read beside an int16 one; 0: none. */
static unsigned bytes_kind(const struct weight *w)
{
    if (!bytes_of(w))
        return 0;
    return w->type == WEIGHT_MXFP4 || (w->type == WEIGHT_AFFINE && w->bits == 4)
               ? PANEL_NIBBLE_HALVES
               : PANEL_BYTE_HALVES;
}

/* For n rows, as measured (docs/speed/cpu.md). */
static bool bytes_are_faster(const struct weight *w, int32_t n, bool one)
{
    if (one)
        return bytes_of(w) != NULL;
    if (w->type == WEIGHT_Q6_K)
        return true;
    return n <= (w->type == WEIGHT_MXFP4 || w->type == WEIGHT_AFFINE ? 4 : 8) &&
           (n > 1 || w->type != WEIGHT_Q4_K);
}
