/* K-quants with activations of one byte (AVX512-VNNI). As super_tile.h: one scale of the
 * activations for 256 columns, the blocks' own scales multiplied in integers, floats once a
 * super-block; sums within one are exact, so all ways give the same bits. Up to VNNI_FEW rows take
 * a weight row at a time, eight blocks in the lanes; more take sixteen weight rows, one in each
 * lane. Included after vnni_wide.h. */
#pragma once
#include "engine/cpu/kernels/vnni_wide.h"

/* A format's shape: whether it has minima; else 32 is taken off its numbers. */
#define VNNI_SUPER_MIN OCTET_MIN
#define VNNI_SUPER_Q6 OCTET_HALVES

#define SUPER_SUMS 4        /* super-blocks of a row whose sums' lanes are added up together */
#define VNNI_SUPER_FEW 3    /* rows up to which weights are read row after row, */
#define VNNI_SUPER_FEW_Q6 6 /* where unpacking sixteen rows takes longer */

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

/* A row of activations has four sums: of super-blocks 0, 4, 8 and so on, 1, 5 and so on. */
typedef float vnni_super_sums[SUPER_SUMS][WIDE_HALVES * LANES];

/* What is read of an octet of activations, into the first cache. */
static inline __attribute__((always_inline)) void vnni_fetch_octet(const uint8_t *x)
{
    __asm__ volatile("prefetcht0 %0\n\tprefetcht0 %1\n\tprefetcht0 %2\n\tprefetcht0 %3\n\t"
                     "prefetcht0 %4\n\tprefetcht0 %5"
                     :
                     : "m"(x[0]), "m"(x[256]), "m"(x[320]), "m"(x[384]), "m"(x[448]), "m"(x[512]));
}

/* A super-block of sixteen weight rows times `count` rows of activations, a constant;
 * sums: of their four the one that takes it. */
static inline __attribute__((always_inline)) void
vnni_super_rows(const struct vnni_super *b, int shape, const uint8_t *const *octets, int count,
                const uint8_t *const *next, bool begins,
                float (*sums)[SUPER_SUMS * WIDE_HALVES * LANES])
{
    const bool min = shape & VNNI_SUPER_MIN;
    const int pairs = min ? 4 : 8;
    const size_t at = min ? SUPER_BLOCK_SUMS : SUPER_HALF_SUMS;
    __m512i total[VNNI_ROWS];
    UNROLL
    for (int t = 0; t < count; t++)
        total[t] = _mm512_setzero_si512();
    UNROLL
    for (int j = 0; j < pairs; j++)
        UNROLL
    for (int t = 0; t < count; t++)
        vnni_multiply_words(&total[t], b->pair[j], octets[t] + at + 4 * j);
    __m512 sum[VNNI_ROWS];
    UNROLL
    for (int t = 0; t < count; t++) {
        sum[t] = begins ? _mm512_setzero_ps() : _mm512_load_ps(sums[t]);
        if (min) {
            sum[t] = _mm512_fmadd_ps(
                _mm512_cvtepi32_ps(total[t]),
                _mm512_mul_ps(b->minimum, vnni_float(octets[t] + PANEL_OCTET_SCALE)), sum[t]);
            total[t] = _mm512_setzero_si512();
        }
        _mm512_store_ps(sums[t], sum[t]);
    }
    for (size_t k = 0; k < 8; k++) {
        const size_t place = PANEL_OCTET_LOW + 128 * (k % 2) + 4 * (k / 2);
        if (count == VNNI_ROWS)
            vnni_fetch_octet(next[k]);
        __m512i part[VNNI_ROWS];
        UNROLL
        for (int i = 0; i < 8; i++) {
            const __m512i q = _mm512_load_si512(&b->q[k][i]);
            UNROLL
            for (int t = 0; t < count; t++) {
                if (i == 0 || (!min && i == 4))
                    part[t] = _mm512_setzero_si512();
                vnni_multiply(&part[t], q, octets[t] + place + i % 4 * 32 + i / 4 * 16);
            }
            if (i == 7 || (!min && i == 3)) {
                const __m512i scale = b->scale[min ? k : 2 * k + (size_t)i / 4];
                UNROLL
                for (int t = 0; t < count; t++)
                    total[t] = _mm512_add_epi32(total[t], _mm512_mullo_epi32(part[t], scale));
            }
        }
    }
    UNROLL
    for (int t = 0; t < count; t++)
        _mm512_store_ps(
            sums[t],
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[t]),
                            _mm512_mul_ps(b->factor, vnni_float(octets[t] + PANEL_OCTET_SCALE)),
                            _mm512_load_ps(sums[t])));
}

/* The rows from `first` on; after the last ones, the first ones' next octets. */
static inline void vnni_super_next(const struct octet_rows *rows, int32_t first, size_t at,
                                   const uint8_t *next[VNNI_ROWS])
{
    const bool over = first >= rows->n;
    for (int32_t i = 0; i < VNNI_ROWS; i++) {
        const int32_t row = over ? i : first + i;
        next[i] =
            rows->row[row < rows->n ? row : rows->n - 1] + at + (over ? PANEL_OCTET_BYTES : 0);
    }
}

#define VNNI_SUPER_SOME(name, shape, n)                                                            \
    static __attribute__((noinline)) void name##_##n(                                              \
        const struct vnni_super *b, const uint8_t *const *rows, size_t at,                         \
        const uint8_t *const *next, vnni_super_sums *sums)                                         \
    {                                                                                              \
        const uint8_t *x[n];                                                                       \
        UNROLL                                                                                     \
        for (int i = 0; i < (n); i++)                                                              \
            x[i] = rows[i] + at;                                                                   \
        vnni_super_rows(b, shape, x, n, next, at < SUPER_SUMS * PANEL_OCTET_BYTES,                 \
                        (void *)sums[0][at / PANEL_OCTET_BYTES % SUPER_SUMS]);                     \
    }
#define VNNI_SUPER_CASE(name, n)                                                                   \
    case n:                                                                                        \
        name##_##n(b, rows->row + t, at, next, sums + t);                                          \
        break
/* A super-block times n rows, whose octets begin `at` bytes after x->row. */
#define VNNI_SUPER_RUN(name, shape)                                                                \
    VNNI_SUPER_SOME(name, shape, 1)                                                                \
    VNNI_SUPER_SOME(name, shape, 2)                                                                \
    VNNI_SUPER_SOME(name, shape, 3)                                                                \
    VNNI_SUPER_SOME(name, shape, 4)                                                                \
    VNNI_SUPER_SOME(name, shape, 5)                                                                \
    VNNI_SUPER_SOME(name, shape, 6)                                                                \
    VNNI_SUPER_SOME(name, shape, 7)                                                                \
    VNNI_SUPER_SOME(name, shape, 8)                                                                \
    static void name(const struct vnni_super *b, const struct octet_rows *rows, size_t at,         \
                     const struct vnni_octets *ahead, vnni_super_sums *sums)                       \
    {                                                                                              \
        for (int32_t t = 0; t < rows->n; t += VNNI_ROWS) {                                         \
            const uint8_t *next[VNNI_ROWS];                                                        \
            vnni_super_next(rows, t + VNNI_ROWS, at, next);                                        \
            vnni_fetch(ahead, t / VNNI_ROWS);                                                      \
            switch (rows->n - t) {                                                                 \
                VNNI_SUPER_CASE(name, 1);                                                          \
                VNNI_SUPER_CASE(name, 2);                                                          \
                VNNI_SUPER_CASE(name, 3);                                                          \
                VNNI_SUPER_CASE(name, 4);                                                          \
                VNNI_SUPER_CASE(name, 5);                                                          \
                VNNI_SUPER_CASE(name, 6);                                                          \
                VNNI_SUPER_CASE(name, 7);                                                          \
            default:                                                                               \
                name##_8(b, rows->row + t, at, next, sums + t);                                    \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
    }
VNNI_SUPER_RUN(vnni_super_run_k4, VNNI_SUPER_MIN)
VNNI_SUPER_RUN(vnni_super_run_q6_k, VNNI_SUPER_Q6)
#undef VNNI_SUPER_RUN
#undef VNNI_SUPER_CASE
#undef VNNI_SUPER_SOME

typedef void (*vnni_super_run)(const struct vnni_super *b, const struct octet_rows *rows, size_t at,
                               const struct vnni_octets *ahead, vnni_super_sums *sums);

/* Both halves of a tile times some rows; acc [x->n, WIDE_HALVES * LANES]. */
static void vnni_super_wide(struct lanes l[WIDE_HALVES], vnni_super_unpack unpack,
                            vnni_super_run run, const struct octet_rows *x, float *acc)
{
    struct vnni_super block;
    struct vnni_octets ahead = {.step =
                                    vnni_share(l, 8, ((size_t)x->n + VNNI_ROWS - 1) / VNNI_ROWS)};
    _Alignas(64) vnni_super_sums sums[KERNEL_MAX_TILE_ROWS];
    for (int32_t t = 0; t < x->n && l->blocks < 8 * SUPER_SUMS; t++)
        memset(sums[t], 0, sizeof sums[t]);
    wide_fetch_next(l);
    for (int32_t b = 0; b < l->blocks; b += 8) {
        for (int half = 0; half < WIDE_HALVES; half++)
            ahead.ahead[half] = l[half].ahead + (size_t)b * l->ahead_step;
        unpack(l, b / 8, &block);
        run(&block, x, (size_t)(b / 8) * PANEL_OCTET_BYTES, &ahead, sums);
    }
    for (int32_t t = 0; t < x->n; t++)
        _mm512_storeu_ps(
            acc + t * WIDE_HALVES * LANES,
            _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(sums[t][0]), _mm512_load_ps(sums[t][1])),
                          _mm512_add_ps(_mm512_load_ps(sums[t][2]), _mm512_load_ps(sums[t][3]))));
}

/* Lane t: the sum of v[t]'s lanes. */
static inline __attribute__((always_inline)) __m128i vnni_sums_of_four(const __m128i v[4])
{
    const __m128i ab =
                      _mm_add_epi32(_mm_unpacklo_epi32(v[0], v[1]), _mm_unpackhi_epi32(v[0], v[1])),
                  cd =
                      _mm_add_epi32(_mm_unpacklo_epi32(v[2], v[3]), _mm_unpackhi_epi32(v[2], v[3]));
    return _mm_add_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd));
}

static inline __m128i vnni_halves_added(vi v)
{
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

struct vnni_super_octet { /* 256 columns of one weight row */
    struct octet codes;   /* as PANEL_K_OCTETS has them */
    vi even, odd;         /* int32: the lanes' scales */
    vi pairs; /* int16: Q4_K, Q5_K: minima, in the low half; Q6_K: all scales in order */
};

static inline __attribute__((always_inline)) void vnni_octet_k4(bool five, const uint8_t *data,
                                                                struct vnni_super_octet *o)
{
    const vi even = _mm256_setr_epi8(0, -1, -1, -1, 2, -1, -1, -1, 4, -1, -1, -1, 6, -1, -1, -1, 0,
                                     -1, -1, -1, 2, -1, -1, -1, 4, -1, -1, -1, 6, -1, -1, -1),
             odd = _mm256_setr_epi8(1, -1, -1, -1, 3, -1, -1, -1, 5, -1, -1, -1, 7, -1, -1, -1, 1,
                                    -1, -1, -1, 3, -1, -1, -1, 5, -1, -1, -1, 7, -1, -1, -1);
    const struct octet_at at = {.data = data};
    uint64_t mins;
    const vi scales = _mm256_set1_epi64x((int64_t)octet_k4_numbers(data, &mins));
    o->even = _mm256_shuffle_epi8(scales, even);
    o->odd = _mm256_shuffle_epi8(scales, odd);
    o->pairs = _mm256_castsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)mins)));
    octet_k4_codes(five, &at, &o->codes);
}

static inline __attribute__((always_inline)) void vnni_octet_q6(const uint8_t *data,
                                                                struct vnni_super_octet *o)
{
    const __m128i even = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, -1, -1, -1, -1, -1, -1, -1, -1),
                  odd = _mm_setr_epi8(2, 6, 10, 14, 3, 7, 11, 15, -1, -1, -1, -1, -1, -1, -1, -1);
    const struct octet_at at = {.data = data};
    const __m128i scales = _mm_loadu_si128((const __m128i *)(const void *)(data + 192));
    o->even = _mm256_cvtepi8_epi32(_mm_shuffle_epi8(scales, even));
    o->odd = _mm256_cvtepi8_epi32(_mm_shuffle_epi8(scales, odd));
    o->pairs = _mm256_cvtepi8_epi16(scales);
    octet_q6_codes(&at, &o->codes);
}

static inline __attribute__((always_inline)) void
vnni_octet(enum weight_type type, const uint8_t *data, struct vnni_super_octet *o)
{
    if (type == WEIGHT_Q6_K)
        vnni_octet_q6(data, o);
    else
        vnni_octet_k4(type == WEIGHT_Q5_K, data, o);
}

/* A super-block of a weight row times one of activations: four parts of its sum, and of the
 * minima's. */
static inline __attribute__((always_inline)) void vnni_super_dot(const struct vnni_super_octet *o,
                                                                 bool min, const uint8_t *x,
                                                                 __m128i *total, __m128i *mins)
{
    const vi even = octet_four_vnni(vi_zero(), &o->codes, 0, x),
             odd = octet_four_vnni(vi_zero(), &o->codes, 4, x);
    vi all = vi_add(_mm256_mullo_epi32(even, o->even), _mm256_mullo_epi32(odd, o->odd));
    if (min)
        *mins =
            _mm_madd_epi16(_mm256_castsi256_si128(o->pairs),
                           _mm_loadu_si128((const __m128i *)(const void *)(x + SUPER_BLOCK_SUMS)));
    else
        all = _mm256_sub_epi32(
            all, vi_shl(_mm256_madd_epi16(o->pairs, vi_load(x + SUPER_HALF_SUMS)), 5));
    *total = vnni_halves_added(all);
}

static inline int32_t vnni_dword(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The dwords of `n` places, at most four, `apart` bytes from each other; zeros after them. */
static inline __attribute__((always_inline)) __m128i vnni_dwords(const uint8_t *p, size_t apart,
                                                                 int32_t n)
{
    return _mm_setr_epi32(vnni_dword(p), n > 1 ? vnni_dword(p + apart) : 0,
                          n > 2 ? vnni_dword(p + 2 * apart) : 0,
                          n > 3 ? vnni_dword(p + 3 * apart) : 0);
}

static inline __m128 vnni_halves(__m128i dwords, bool second)
{
    const __m128i order =
        second ? _mm_setr_epi8(2, 3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1)
               : _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    return _mm_cvtph_ps(_mm_shuffle_epi8(dwords, order));
}

/* Super-blocks of a weight row, four at most, times `count` rows of activations. */
static inline __attribute__((always_inline)) void
vnni_super_four(const uint8_t *data, int32_t n, enum weight_type type, int32_t bytes,
                const uint8_t *const *rows, int count, size_t at, __m128 *sum)
{
    const bool min = type != WEIGHT_Q6_K;
    __m128i total[VNNI_SUPER_FEW_Q6][SUPER_SUMS], mins[VNNI_SUPER_FEW_Q6][SUPER_SUMS];
    UNROLL
    for (int j = 0; j < SUPER_SUMS; j++) {
        struct vnni_super_octet o;
        if (j < n)
            vnni_octet(type, data + j * (size_t)bytes, &o);
        UNROLL
        for (int t = 0; t < count; t++) {
            total[t][j] = mins[t][j] = _mm_setzero_si128();
            if (j < n)
                vnni_super_dot(&o, min, rows[t] + at + j * (size_t)PANEL_OCTET_BYTES, &total[t][j],
                               &mins[t][j]);
        }
    }
    /* Q6_K: the last two bytes of a super-block. */
    const __m128i d = vnni_dwords(data + (min ? 0 : 206), (size_t)bytes, n);
    const __m128 factor = vnni_halves(d, !min),
                 minimum = _mm_sub_ps(_mm_setzero_ps(), vnni_halves(d, true));
    UNROLL
    for (int t = 0; t < count; t++) {
        const __m128 scale =
            _mm_castsi128_ps(vnni_dwords(rows[t] + at + PANEL_OCTET_SCALE, PANEL_OCTET_BYTES, n));
        if (min)
            sum[t] = _mm_fmadd_ps(_mm_cvtepi32_ps(vnni_sums_of_four(mins[t])),
                                  _mm_mul_ps(minimum, scale), sum[t]);
        sum[t] = _mm_fmadd_ps(_mm_cvtepi32_ps(vnni_sums_of_four(total[t])),
                              _mm_mul_ps(factor, scale), sum[t]);
    }
}

static inline __attribute__((always_inline)) void
vnni_super_lines(const struct lanes *l, enum weight_type type, int32_t bytes,
                 const uint8_t *const *rows, int count, float *acc)
{
    __m128 sum[8][VNNI_SUPER_FEW_Q6];
    const int32_t octets = l->blocks / 8;
    for (int r = 0; r < 8; r++) {
        const uint8_t *data = l->data[r];
        __m128 s[VNNI_SUPER_FEW_Q6];
        int32_t g = 0;
        UNROLL
        for (int t = 0; t < count; t++)
            s[t] = _mm_setzero_ps();
        for (; g + SUPER_SUMS <= octets; g += SUPER_SUMS, data += SUPER_SUMS * (size_t)bytes)
            vnni_super_four(data, SUPER_SUMS, type, bytes, rows, count,
                            (size_t)g * PANEL_OCTET_BYTES, s);
        if (g < octets)
            vnni_super_four(data, octets - g, type, bytes, rows, count,
                            (size_t)g * PANEL_OCTET_BYTES, s);
        UNROLL
        for (int t = 0; t < count; t++)
            sum[r][t] = s[t];
    }
    UNROLL
    for (int t = 0; t < count; t++)
        UNROLL
    for (int r = 0; r < 8; r += 4)
        _mm_storeu_ps(acc + t * WIDE_HALVES * LANES + r,
                      _mm_hadd_ps(_mm_hadd_ps(sum[r][t], sum[r + 1][t]),
                                  _mm_hadd_ps(sum[r + 2][t], sum[r + 3][t])));
}

#define VNNI_SUPER_CASE(type, bytes, n)                                                            \
    case n:                                                                                        \
        vnni_super_lines(l, type, bytes, rows, n, acc);                                            \
        break
#define VNNI_SUPER_LINES(name, type, bytes, more)                                                  \
    static __attribute__((noinline)) void vnni_few_##name(                                         \
        const struct lanes *l, const uint8_t *const *rows, int32_t n, float *acc)                  \
    {                                                                                              \
        switch (n) {                                                                               \
            VNNI_SUPER_CASE(type, bytes, 1);                                                       \
            VNNI_SUPER_CASE(type, bytes, 2);                                                       \
            VNNI_SUPER_CASE(type, bytes, 3);                                                       \
            more;                                                                                  \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }
VNNI_SUPER_LINES(q4_k, WEIGHT_Q4_K, 144, break)
VNNI_SUPER_LINES(q5_k, WEIGHT_Q5_K, 176, break)
VNNI_SUPER_LINES(q6_k, WEIGHT_Q6_K, 210, VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 4);
                 VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 5); VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 6))
#undef VNNI_SUPER_LINES
#undef VNNI_SUPER_CASE
