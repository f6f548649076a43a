/* K-quants with activations of one byte (AVX512-VNNI). As super_tile.h: one scale of the
 * activations for 256 columns, the blocks' own scales multiplied in integers, floats once a
 * super-block; sums within one are exact, so all ways give the same bits. Up to VNNI_SUPER_FEW rows
 * (Q6_K: VNNI_SUPER_FEW_Q6) take a weight row at a time, eight blocks in the lanes; more take
 * sixteen weight rows, one in each lane. Included after vnni_wide.h. */
#pragma once
#include "engine/cpu/kernels/vnni_wide.h"

/* A format's shape: whether it has minima; else 32 is taken off its numbers. */
#define VNNI_SUPER_MIN OCTET_MIN
#define VNNI_SUPER_Q6 OCTET_HALVES

/* Super-blocks of a row whose sums' lanes are added up together */
#define SUPER_SUMS PANEL_SUPER_FOUR
#define VNNI_SUPER_FEW 3    /* rows up to which weights are read row after row, */
#define VNNI_SUPER_FEW_Q6 8 /* where unpacking sixteen rows takes longer */
#define VNNI_SUPER_NEAR 64  /* super-blocks of all rows that the first cache has room for */
#define VNNI_SUPER_PART 32  /* and so many at a time where there are more */

/* A row of activations has four sums: of super-blocks 0, 4, 8 and so on, 1, 5 and so on. */
typedef float vnni_super_sums[SUPER_SUMS][WIDE_HALVES * LANES];

/* A super-block of sixteen weight rows times `count` rows of activations, a constant;
 * sums: of their four the one that takes it. */
static inline __attribute__((always_inline)) void
vnni_super_rows(const struct vnni_super *b, int shape, const uint8_t *const *octets, int count,
                const struct vnni_next *next, bool begins,
                float (*sums)[SUPER_SUMS * WIDE_HALVES * LANES])
{
    const bool min = shape & VNNI_SUPER_MIN;
    const int pairs = min ? 4 : 8;
    const size_t at = min ? PANEL_SUPER_SUMS : PANEL_SUPER_HALF_SUMS;
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
        vnni_fetch(next, k);
        if (count == VNNI_ROWS)
            vnni_fetch_octet(next->rows[k], at);
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

#define VNNI_SUPER_SOME(name, shape, n)                                                            \
    static __attribute__((noinline)) void name##_##n(                                              \
        const struct vnni_super *b, const uint8_t *const *rows, size_t at,                         \
        const struct vnni_next *next, vnni_super_sums *sums)                                       \
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
        name##_##n(b, rows->row + t, at, &next, sums + t);                                         \
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
                     const struct vnni_ahead *ahead, vnni_super_sums *sums)                        \
    {                                                                                              \
        for (int32_t t = 0; t < rows->n; t += VNNI_ROWS) {                                         \
            struct vnni_next next;                                                                 \
            vnni_next(rows, t, at, PANEL_OCTET_BYTES, ahead, &next);                               \
            switch (rows->n - t) {                                                                 \
                VNNI_SUPER_CASE(name, 1);                                                          \
                VNNI_SUPER_CASE(name, 2);                                                          \
                VNNI_SUPER_CASE(name, 3);                                                          \
                VNNI_SUPER_CASE(name, 4);                                                          \
                VNNI_SUPER_CASE(name, 5);                                                          \
                VNNI_SUPER_CASE(name, 6);                                                          \
                VNNI_SUPER_CASE(name, 7);                                                          \
            default:                                                                               \
                name##_8(b, rows->row + t, at, &next, sums + t);                                   \
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
                               const struct vnni_ahead *ahead, vnni_super_sums *sums);

/* Both halves of a tile times some rows; acc [x->n, WIDE_HALVES * LANES]. */
static void vnni_super_wide(struct lanes l[WIDE_HALVES], vnni_super_unpack unpack,
                            vnni_super_run run, const struct octet_rows *x, float *acc)
{
    struct vnni_super block;
    _Alignas(64) vnni_super_sums sums[KERNEL_MAX_TILE_ROWS];
    for (int32_t t = 0; t < x->n && l->blocks < 8 * SUPER_SUMS; t++)
        memset(sums[t], 0, sizeof sums[t]);
    wide_fetch_next(l);
    for (int32_t b = 0; b < l->blocks; b += 8) {
        const struct vnni_ahead ahead = vnni_ahead(l, b, 8, x->n);
        unpack(l, b / 8, &block);
        run(&block, x, (size_t)(b / 8) * PANEL_OCTET_BYTES, &ahead, sums);
    }
    for (int32_t t = 0; t < x->n; t++)
        _mm512_storeu_ps(
            acc + t * WIDE_HALVES * LANES,
            _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(sums[t][0]), _mm512_load_ps(sums[t][1])),
                          _mm512_add_ps(_mm512_load_ps(sums[t][2]), _mm512_load_ps(sums[t][3]))));
}

struct vnni_super_octet { /* 256 columns of one weight row */
    struct octet codes;   /* as PANEL_K_OCTETS has them */
    vi even, odd;         /* int32: the lanes' scales */
    __m128i pairs;        /* int16: Q4_K, Q5_K: minima */
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
    o->pairs = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)mins));
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

/* A super-block of a weight row times one of activations: eight parts of its sum, and four of the
 * minima's. */
static inline __attribute__((always_inline)) void vnni_super_dot(const struct vnni_super_octet *o,
                                                                 bool min, const uint8_t *x,
                                                                 vi *total, __m128i *mins)
{
    const vi even =
                 octet_four_vnni(min ? vi_zero() : vi_load(x + PANEL_SUPER_LESS), &o->codes, 0, x),
             odd = octet_four_vnni(min ? vi_zero() : vi_load(x + PANEL_SUPER_LESS + 32), &o->codes,
                                   4, x);
    *total = vi_add(_mm256_mullo_epi32(even, o->even), _mm256_mullo_epi32(odd, o->odd));
    if (min)
        *mins = _mm_madd_epi16(
            o->pairs, _mm_loadu_si128((const __m128i *)(const void *)(x + PANEL_SUPER_SUMS)));
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
                const struct vnni_part *p, const uint8_t *const *rows, int count, size_t at,
                __m128 *sum)
{
    const bool min = type != WEIGHT_Q6_K;
    vi total[VNNI_SUPER_FEW_Q6][SUPER_SUMS];
    __m128i mins[VNNI_SUPER_FEW_Q6][SUPER_SUMS];
    UNROLL
    for (int j = 0; j < SUPER_SUMS; j++) {
        struct vnni_super_octet o;
        if (j < n)
            fetch_lines(data + j * (size_t)bytes + p->ahead, (size_t)bytes);
        if (j < n)
            vnni_octet(type, data + j * (size_t)bytes, &o);
        UNROLL
        for (int t = 0; t < count; t++) {
            total[t][j] = vi_zero();
            mins[t][j] = _mm_setzero_si128();
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
            _mm_loadu_ps((const float *)(const void *)(rows[t] + at + PANEL_SUPER_SCALES));
        if (min)
            sum[t] = _mm_fmadd_ps(_mm_cvtepi32_ps(four_sums_of_four(mins[t])),
                                  _mm_mul_ps(minimum, scale), sum[t]);
        sum[t] = _mm_fmadd_ps(_mm_cvtepi32_ps(four_sums_of_eight(total[t])),
                              _mm_mul_ps(factor, scale), sum[t]);
    }
}

/* A part of a weight row, which ends with it or has a multiple of four super-blocks, times `count`
 * rows of activations: adds to the four sums of each. */
static inline __attribute__((always_inline)) void
vnni_super_line(const uint8_t *data, enum weight_type type, int32_t bytes,
                const struct vnni_part *p, const uint8_t *const *rows, int count, __m128 *sum)
{
    __m128 s[VNNI_SUPER_FEW_Q6];
    int32_t g = p->first;
    data += (size_t)g * (size_t)bytes;
    UNROLL
    for (int t = 0; t < count; t++)
        s[t] = g ? sum[t] : _mm_setzero_ps();
    for (; g + SUPER_SUMS <= p->end; g += SUPER_SUMS, data += SUPER_SUMS * (size_t)bytes)
        vnni_super_four(data, SUPER_SUMS, type, bytes, p, rows, count,
                        (size_t)g * PANEL_OCTET_BYTES, s);
    if (p->end - g == 3) /* 768 columns, as many experts have */
        vnni_super_four(data, 3, type, bytes, p, rows, count, (size_t)g * PANEL_OCTET_BYTES, s);
    else if (g < p->end)
        vnni_super_four(data, p->end - g, type, bytes, p, rows, count,
                        (size_t)g * PANEL_OCTET_BYTES, s);
    UNROLL
    for (int t = 0; t < count; t++)
        sum[t] = s[t];
}

static inline __attribute__((always_inline)) void
vnni_super_lines(const struct lanes *l, enum weight_type type, int32_t bytes,
                 const uint8_t *const *rows, int count, float *acc)
{
    __m128 sum[8][VNNI_SUPER_FEW_Q6];
    const int32_t octets = l->blocks / 8,
                  near = octets * count > VNNI_SUPER_NEAR || octets > VNNI_ROW
                             ? VNNI_SUPER_PART / count / SUPER_SUMS * SUPER_SUMS
                             : octets;
    struct vnni_part p = {.ahead = near < octets ? 8 * l->tile->weight->row_bytes : SUPER_AHEAD};
    for (; p.first < octets; p.first = p.end) {
        p.end = octets - p.first <= near ? octets : p.first + near;
        for (int r = 0; r < 8; r++)
            vnni_super_line(l->data[r], type, bytes, &p, rows, count, sum[r]);
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
                 VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 5); VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 6);
                 VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 7); VNNI_SUPER_CASE(WEIGHT_Q6_K, 210, 8))
#undef VNNI_SUPER_LINES
#undef VNNI_SUPER_CASE
