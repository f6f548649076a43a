/* Many rows of one-byte activations (AVX512-VNNI): sixteen weight rows stand in the lanes of a
 * 512-bit vector, and every product takes four columns of a row of activations from memory into all
 * lanes. The activations are those of vnni_few.h, and each lane of an octet has a running sum of
 * its own here: the same bits. K-quants have a way of their own, vnni_super.h; how their weights
 * are unpacked is at the end. Included after vnni_few.h. */
#pragma once
#include "engine/cpu/kernels/vnni_few.h"

#define VNNI_OCTETS 2       /* of a weight row at a time: what the first cache has room for */
#define VNNI_OCTETS_WHOLE 3 /* of a row that has no more: its sums then stay in registers */
#define VNNI_ROWS 8 /* of activations at a time: four of them just hide a product's latency */

/* A row of activations has a sum for each lane of an octet. */
typedef float vnni_sums[8][WIDE_HALVES * LANES];

struct vnni_ahead { /* of the next tile, whose sixteen rows are one run of bytes */
    const uint8_t *from;
    size_t rows, lane; /* bytes to fetch for VNNI_ROWS rows of activations, for each lane of them */
};

struct vnni_octets { /* unpacked weights, and what is fetched meanwhile */
    const struct wide_block *blocks;
    int32_t count;    /* of blocks */
    bool first, last; /* the row's first, the row's last */
    struct vnni_ahead ahead;
};

struct vnni_next {                  /* what is fetched while some rows are multiplied */
    const uint8_t *rows[VNNI_ROWS]; /* octets of the rows that follow */
    const uint8_t *ahead;
    size_t lane; /* bytes from there on with each lane */
};

typedef void (*vnni_run)(const struct vnni_octets *o, const struct octet_rows *rows, size_t at,
                         vnni_sums *sums, float *acc);

static inline __m512i vnni_four(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

static inline __m512 vnni_float(const uint8_t *p)
{
    return _mm512_castsi512_ps(vnni_four(p));
}

/* total += products of bytes with the four at x, in all lanes. gcc 12 would load those by an
 * instruction of its own. */
static inline __attribute__((always_inline)) void vnni_multiply(__m512i *total, __m512i q,
                                                                const uint8_t *x)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(*total)
            : "v"(q), "m"(*(const int32_t *)(const void *)x));
}

/* The same of two words. */
static inline __attribute__((always_inline)) void vnni_multiply_words(__m512i *total, __m512i q,
                                                                      const uint8_t *x)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0"
            : "+v"(*total)
            : "v"(q), "m"(*(const int32_t *)(const void *)x));
}

/* Weights are bytes here in every format: their columns lie as wide_place() and wide_column() say
 * for those. */
#define VNNI_BYTES(shape) ((shape) | OCTET_BYTES(8))

/* What is read of an octet of activations, into the first cache: five lines, and `place` where that
 * is in none of them. */
static inline __attribute__((always_inline)) void vnni_fetch_octet(const uint8_t *x, size_t place)
{
    __asm__ volatile("prefetcht0 %0\n\tprefetcht0 %1\n\tprefetcht0 %2\n\tprefetcht0 %3\n\t"
                     "prefetcht0 %4"
                     :
                     : "m"(x[256]), "m"(x[320]), "m"(x[384]), "m"(x[448]), "m"(x[512]));
    if (place / 64 != PANEL_OCTET_SCALE / 64)
        __asm__ volatile("prefetcht0 %0" : : "m"(x[place]));
}

/* What a block of activations has beside its columns and its scale. */
static inline size_t vnni_beside(int shape)
{
    return shape & OCTET_MIN ? PANEL_OCTET_SUM : octet_less(shape);
}

/* While rows from `first` on are multiplied, the rows after them are fetched, or after the last
 * ones the first ones' next octets, in the end those with which a tile begins, and a part of the
 * next tile. */
static inline void vnni_next(const struct octet_rows *rows, int32_t first, size_t at,
                             size_t over_by, const struct vnni_ahead *ahead, struct vnni_next *next)
{
    const int32_t after = first + VNNI_ROWS;
    const bool over = after >= rows->n;
    for (int32_t i = 0; i < VNNI_ROWS; i++) {
        const int32_t row = over ? i : after + i;
        next->rows[i] = rows->row[row < rows->n ? row : rows->n - 1] + (over ? at + over_by : at);
    }
    next->ahead = ahead->from + (size_t)(first / VNNI_ROWS) * ahead->rows;
    next->lane = ahead->lane;
}

/* A few lines at a time: many at once wait for each other in the first cache's miss buffers, and
 * all loads behind them. As many with each lane, so that the loop's end is foreseen. */
static inline __attribute__((always_inline)) void vnni_fetch(const struct vnni_next *next,
                                                             size_t lane)
{
    fetch_lines(next->ahead + lane * next->lane, next->lane);
}

/* A power of two, as MXFP4 has them, is added to the exponent by units that no product of bytes
 * waits for. The bits are a product's, but that infinity (e8m0's 255) makes infinity of a NaN. */
static inline bool vnni_power(int shape)
{
    return shape == OCTET_LESS(12);
}

static inline __m512 vnni_scaled(int shape, __m512 scale, __m512 factor)
{
    return vnni_power(shape) ? _mm512_scalef_ps(factor, scale) : _mm512_mul_ps(scale, factor);
}

/* Products of one block with `count` rows, a constant. */
static inline __attribute__((always_inline)) void vnni_products(const struct wide_block *b,
                                                                int shape, size_t at,
                                                                const uint8_t *const *rows,
                                                                int count, __m512 *sum)
{
    const struct wide_place place = wide_place(VNNI_BYTES(shape), 0);
    const __m512 value = _mm512_loadu_ps(b->scale[0]),
                 scale = vnni_power(shape) ? _mm512_getexp_ps(value) : value;
    __m512i total[VNNI_ROWS];
    UNROLL
    for (int t = 0; t < count; t++)
        total[t] = shape >> OCTET_LESS_SHIFT ? vnni_four(rows[t] + at + place.less)
                                             : _mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < 8; i++) {
        const __m512i q = _mm512_loadu_si512(b->q[i]);
        UNROLL
        for (int t = 0; t < count; t++)
            vnni_multiply(&total[t], q,
                          rows[t] + at + place.columns + wide_column(VNNI_BYTES(shape), i));
    }
    UNROLL
    for (int t = 0; t < count; t++) {
        const __m512 factor = vnni_float(rows[t] + at + PANEL_OCTET_SCALE);
        sum[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[t]), vnni_scaled(shape, scale, factor),
                                 sum[t]);
        if (shape & OCTET_MIN)
            sum[t] = _mm512_fmadd_ps(_mm512_loadu_ps(b->min),
                                     vnni_float(rows[t] + at + PANEL_OCTET_SUM), sum[t]);
    }
}

/* The lanes of an octet summed as sum_lanes() does. */
static inline __m512 vnni_sum(const vnni_sums *s)
{
    __m512 v[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_load_ps((*s)[i]);
    return _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(v[0], v[1]), _mm512_add_ps(v[2], v[3])),
                         _mm512_add_ps(_mm512_add_ps(v[4], v[5]), _mm512_add_ps(v[6], v[7])));
}

/* `blocks` blocks' worth from `block` on of the next tile, while `rows` rows are multiplied. */
static inline struct vnni_ahead vnni_ahead(const struct lanes l[WIDE_HALVES], int32_t block,
                                           int32_t blocks, int32_t rows)
{
    const size_t step = WIDE_HALVES * l->ahead_step, bytes = (size_t)blocks * step,
                 parts = ((size_t)rows + VNNI_ROWS - 1) / VNNI_ROWS;
    return (struct vnni_ahead){.from = l->ahead + (size_t)block * step,
                               .rows = bytes / parts,
                               .lane = (bytes / (parts * 8) + 64) & ~(size_t)63};
}

/* A pass of `count` rows, a constant, over the blocks: lane by lane, so that a lane's sum stays in
 * its register; of the row's last blocks the lanes are added up too. */
static inline __attribute__((always_inline)) void vnni_pass(const struct vnni_octets *o, int shape,
                                                            const uint8_t *const *rows, int count,
                                                            size_t at, const struct vnni_next *next,
                                                            vnni_sums *sums, float *acc)
{
    const uint8_t *x[VNNI_ROWS];
    UNROLL
    for (int t = 0; t < count; t++)
        x[t] = rows[t] + at;
    for (size_t k = 0; k < 8; k++) {
        const struct wide_block *b = o->blocks + k;
        const uint8_t *row = next->rows[k];
        const size_t end = ((size_t)o->count + 7 - k) / 8 * PANEL_OCTET_BYTES;
        __m512 sum[VNNI_ROWS];
        vnni_fetch(next, k);
        UNROLL
        for (int t = 0; t < count; t++)
            sum[t] = o->first ? _mm512_setzero_ps() : _mm512_load_ps(sums[t][k]);
        for (size_t g = 4 * k; g < end; g += PANEL_OCTET_BYTES, b += 8) {
            __asm__("" : "+r"(g)); /* one number, not a pointer for each row of activations */
            if (count == VNNI_ROWS)
                vnni_fetch_octet(row + g, vnni_beside(shape));
            vnni_products(b, shape, g, x, count, sum);
        }
        UNROLL
        for (int t = 0; t < count; t++)
            _mm512_store_ps(sums[t][k], sum[t]);
    }
    for (int t = 0; o->last && t < count; t++)
        _mm512_storeu_ps(acc + t * WIDE_HALVES * LANES, vnni_sum(&sums[t]));
}

/* Blocks times n rows, whose octets begin `at` bytes after x->row. */
#define VNNI_CASE(name, n)                                                                         \
    case n:                                                                                        \
        name##_##n(o, rows->row + t, at, &next, to, acc + t * WIDE_HALVES * LANES);                \
        break
#define VNNI_RUN(name, shape)                                                                      \
    VNNI_SOME(name##_1, shape, 1)                                                                  \
    VNNI_SOME(name##_2, shape, 2)                                                                  \
    VNNI_SOME(name##_3, shape, 3)                                                                  \
    VNNI_SOME(name##_4, shape, 4)                                                                  \
    VNNI_SOME(name##_5, shape, 5)                                                                  \
    VNNI_SOME(name##_6, shape, 6)                                                                  \
    VNNI_SOME(name##_7, shape, 7)                                                                  \
    VNNI_SOME(name##_8, shape, VNNI_ROWS)                                                          \
    static void name(const struct vnni_octets *o, const struct octet_rows *rows, size_t at,        \
                     vnni_sums *sums, float *acc)                                                  \
    {                                                                                              \
        const size_t over_by =                                                                     \
            o->last ? (size_t)0 - at : (size_t)(o->count / 8) * PANEL_OCTET_BYTES;                 \
        for (int32_t t = 0; t < rows->n; t += VNNI_ROWS) {                                         \
            struct vnni_next next;                                                                 \
            vnni_sums *to = o->first && o->last ? sums : sums + t; /* in the first cache */        \
            vnni_next(rows, t, at, over_by, &o->ahead, &next);                                     \
            switch (rows->n - t) {                                                                 \
                VNNI_CASE(name, 1);                                                                \
                VNNI_CASE(name, 2);                                                                \
                VNNI_CASE(name, 3);                                                                \
                VNNI_CASE(name, 4);                                                                \
                VNNI_CASE(name, 5);                                                                \
                VNNI_CASE(name, 6);                                                                \
                VNNI_CASE(name, 7);                                                                \
            default:                                                                               \
                name##_8(o, rows->row + t, at, &next, to, acc + t * WIDE_HALVES * LANES);          \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
    }
#define VNNI_SOME(name, shape, n)                                                                  \
    static __attribute__((noinline)) void name(                                                    \
        const struct vnni_octets *o, const uint8_t *const *rows, size_t at,                        \
        const struct vnni_next *next, vnni_sums *sums, float *acc)                                 \
    {                                                                                              \
        vnni_pass(o, shape, rows, n, at, next, sums, acc);                                         \
    }
VNNI_RUN(vnni_wide_less_8, OCTET_LESS(8))
VNNI_RUN(vnni_wide_less_12, OCTET_LESS(12))
VNNI_RUN(vnni_wide_less_128, OCTET_LESS(128))
VNNI_RUN(vnni_wide_min, OCTET_MIN)
#undef VNNI_SOME
#undef VNNI_RUN

static inline void wide_q8_0_bytes(const struct lanes *l, int half, int32_t g, int32_t count,
                                   struct wide_block *to)
{
    for (int32_t k = 0; k < count; k++, to++) {
        const size_t at = (size_t)(8 * g + k) * 34;
        vi v[8];
        load_rows16(l->data, at + 2, v);
        load_rows16(l->data, at + 18, v + 4);
        UNROLL
        for (int i = 0; i < 8; i++)
            to->q[i][half] = _mm256_xor_si256(v[i], vi_set1((int32_t)0x80808080));
        to->scale[0][half] = _mm256_cvtph_ps(wide_words(l, at));
    }
}

/* Both halves of a tile times some rows; acc [x->n, WIDE_HALVES * LANES]. */
static void vnni_wide(struct lanes l[WIDE_HALVES], wide_unpack unpack, vnni_run run,
                      const struct octet_rows *x, float *acc)
{
    _Alignas(64) vnni_sums sums[KERNEL_MAX_TILE_ROWS];
    _Alignas(64) struct wide_block blocks[8 * VNNI_OCTETS_WHOLE];
    const int32_t most = l->blocks <= 8 * VNNI_OCTETS_WHOLE ? l->blocks : 8 * VNNI_OCTETS;
    struct vnni_octets o = {.blocks = blocks, .first = true};
    wide_fetch_next(l);
    for (int32_t b = 0; b < l->blocks; b += o.count) {
        const int32_t left = l->blocks - b;
        o.last = left <= most;
        o.count = o.last ? left : most;
        o.ahead = vnni_ahead(l, b, o.count, x->n);
        for (int half = 0; half < WIDE_HALVES; half++)
            for (int32_t k = 0; k < o.count; k += 8)
                unpack(&l[half], half, (b + k) / 8, o.count - k < 8 ? o.count - k : 8, blocks + k);
        run(&o, x, (size_t)(b / 8) * PANEL_OCTET_BYTES, sums, acc);
        o.first = false;
    }
}

/* Unpacking of super-blocks for vnni_super.h. */

struct vnni_super {         /* 256 columns of sixteen weight rows */
    __m512i q[8][8];        /* bytes without a sign */
    __m512i scale[16];      /* int32: of a block; Q6_K: of a half */
    __m512i pair[8];        /* int16: minima of two blocks; Q6_K: both scales of a block */
    __m512 factor, minimum; /* of the whole */
};

typedef void (*vnni_super_unpack)(const struct lanes l[WIDE_HALVES], int32_t g,
                                  struct vnni_super *to);

static inline __m512i vnni_four_rows(const uint8_t *const *rows, const uint8_t *const *more,
                                     size_t at)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(two_rows(rows[0] + at, rows[4] + at)),
                              two_rows(more[0] + at, more[4] + at), 1);
}

/* Sixteen bytes of sixteen rows: dword j of each in v[j]. */
static inline __attribute__((always_inline)) void vnni_load(const struct lanes l[WIDE_HALVES],
                                                            size_t at, __m512i v[4])
{
    __m512i part[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        part[i] = vnni_four_rows(l[0].data + i, l[1].data + i, at);
    const __m512i ab_low = _mm512_unpacklo_epi32(part[0], part[1]),
                  ab_high = _mm512_unpackhi_epi32(part[0], part[1]),
                  cd_low = _mm512_unpacklo_epi32(part[2], part[3]),
                  cd_high = _mm512_unpackhi_epi32(part[2], part[3]);
    v[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    v[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    v[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    v[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

static inline __m512i vnni_set1(int32_t v)
{
    return _mm512_set1_epi32(v);
}

/* The n-th byte of each dword. */
static inline __m512i vnni_byte(__m512i v, int n)
{
    return n == 3 ? _mm512_srli_epi32(v, 24)
                  : _mm512_and_si512(n ? _mm512_srli_epi32(v, 8 * (unsigned)n) : v, vnni_set1(255));
}

/* With a sign. */
static inline __m512i vnni_signed_byte(__m512i v, int n)
{
    return _mm512_srai_epi32(n == 3 ? v : _mm512_slli_epi32(v, 24 - 8 * (unsigned)n), 24);
}

/* Bytes 2n and 2n + 1 of each dword, without a sign, as int16. */
static inline __m512i vnni_two_bytes(__m512i v, int n)
{
    const __m512i order = _mm512_broadcast_i32x4(
        n ? _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1)
          : _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    return _mm512_shuffle_epi8(v, order);
}

static inline __m512 vnni_low_halves(__m512i v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

static inline __m512i vnni_and(__m512i v, int32_t mask)
{
    return _mm512_and_si512(v, vnni_set1(mask));
}

/* Q4_K's and Q5_K's six-bit numbers (see block.c). */
static inline void vnni_k4_scales(const struct lanes l[WIDE_HALVES], size_t at,
                                  struct vnni_super *to)
{
    const int32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x30303030;
    __m512i v[4];
    vnni_load(l, at, v);
    to->factor = vnni_low_halves(v[0]);
    to->minimum = _mm512_sub_ps(_mm512_setzero_ps(), vnni_low_halves(_mm512_srli_epi32(v[0], 16)));
    const __m512i high = _mm512_srli_epi32(v[1], 2), high_mins = _mm512_srli_epi32(v[2], 2),
                  low_mins = _mm512_srli_epi32(v[3], 4);
    const __m512i scales[2] = {vnni_and(v[1], six),
                               _mm512_or_si512(vnni_and(v[3], four), vnni_and(high, two))},
                  mins[2] = {vnni_and(v[2], six),
                             _mm512_or_si512(vnni_and(low_mins, four), vnni_and(high_mins, two))};
    UNROLL
    for (int j = 0; j < 8; j++)
        to->scale[j] = vnni_byte(scales[j / 4], j % 4);
    UNROLL
    for (int j = 0; j < 4; j++)
        to->pair[j] = vnni_two_bytes(mins[j / 2], j % 2);
}

/* Bit n of each byte, at 16. */
static inline __m512i vnni_bit_to_16(__m512i v, int n)
{
    return vnni_and(n < 4 ? _mm512_slli_epi32(v, 4 - (unsigned)n)
                          : _mm512_srli_epi32(v, (unsigned)n - 4),
                    0x10101010);
}

static inline __attribute__((always_inline)) void
vnni_super_k4(bool five, const struct lanes l[WIDE_HALVES], int32_t g, struct vnni_super *to)
{
    const size_t at = (size_t)g * (five ? 176 : 144), codes = at + (five ? 48 : 16);
    __m512i high[8];
    vnni_k4_scales(l, at, to);
    if (five) {
        vnni_load(l, at + 16, high);
        vnni_load(l, at + 32, high + 4);
    }
    UNROLL
    for (int k = 0; k < 16; k++) { /* half blocks, of two blocks at once */
        if (k % 4 >= 2)
            continue;
        const int even = k / 4 * 2, first = k % 4 * 4;
        __m512i v[4];
        vnni_load(l, codes + 32 * (size_t)(k / 4) + 16 * (size_t)(k % 4), v);
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m512i a = vnni_and(v[i], 0x0f0f0f0f),
                    b = vnni_and(_mm512_srli_epi32(v[i], 4), 0x0f0f0f0f);
            if (five) {
                a = _mm512_or_si512(a, vnni_bit_to_16(high[first + i], even));
                b = _mm512_or_si512(b, vnni_bit_to_16(high[first + i], even + 1));
            }
            to->q[even][first + i] = a;
            to->q[even + 1][first + i] = b;
        }
    }
}

static void vnni_super_q4_k(const struct lanes l[WIDE_HALVES], int32_t g, struct vnni_super *to)
{
    vnni_super_k4(false, l, g, to);
}

static void vnni_super_q5_k(const struct lanes l[WIDE_HALVES], int32_t g, struct vnni_super *to)
{
    vnni_super_k4(true, l, g, to);
}

/* Sixteen columns of four blocks: `first` of each block's eight vectors, from `to` on. */
static inline __attribute__((always_inline)) void vnni_q6_columns(const struct lanes l[WIDE_HALVES],
                                                                  size_t low, size_t high,
                                                                  int first, __m512i to[4][8])
{
    __m512i a[4], b[4], h[4];
    vnni_load(l, low, a);
    vnni_load(l, low + 32, b);
    vnni_load(l, high, h);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i v[4] = {a[i], b[i], _mm512_srli_epi32(a[i], 4), _mm512_srli_epi32(b[i], 4)},
                      two[4] = {_mm512_slli_epi32(h[i], 4), _mm512_slli_epi32(h[i], 2), h[i],
                                _mm512_srli_epi32(h[i], 2)};
        UNROLL
        for (int k = 0; k < 4; k++)
            to[k][first + i] =
                _mm512_or_si512(vnni_and(v[k], 0x0f0f0f0f), vnni_and(two[k], 0x30303030));
    }
}

static void vnni_super_q6_k(const struct lanes l[WIDE_HALVES], int32_t g, struct vnni_super *to)
{
    const size_t at = (size_t)g * 210;
    __m512i s[4];
    vnni_load(l, at + 192, s);
    UNROLL
    for (int i = 0; i < 16; i++)
        to->scale[i] = vnni_signed_byte(s[i / 4], i % 4);
    UNROLL
    for (int i = 0; i < 8; i++) /* -32 of both */
        to->pair[i] = _mm512_or_si512(
            vnni_and(
                _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), to->scale[2 * i]), 5),
                0xffff),
            _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), to->scale[2 * i + 1]), 21));
    to->factor =
        _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_cvtph_ps(wide_words(&l[0], at + 208))),
                           _mm256_cvtph_ps(wide_words(&l[1], at + 208)), 1);
    for (size_t part = 0; part < 2; part++)
        for (size_t half = 0; half < 2; half++)
            vnni_q6_columns(l, at + 64 * part + 16 * half, at + 128 + 32 * part + 16 * half,
                            4 * (int)half, to->q + 4 * part);
}
