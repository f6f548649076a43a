/* Products of super-blocks (AVX2, K-quants, activations of one byte): sums of whole super-blocks in
 * int32, the blocks' scales within, then one conversion and one product of floats; super-blocks are
 * added one after the other. So few rows, which take a weight row at a time, eight blocks in the
 * lanes, and many rows, which take sixteen weight rows, give the same bits. Included after
 * super_formats.h. */
#pragma once
#include "engine/cpu/kernels/super_formats.h"

#define SUPER_ROWS 4  /* of activations at a time */
#define SUPER_NEAR 64 /* super-blocks of activations, of all rows, that stay in the first cache */

/* A format's shape is that of its octets: how many products may be added up in 16 bits, and whether
 * it has minima; else 32 is taken off its numbers, by what sums begin with. */
#define SUPER_Q4_K (OCTET_BYTES(8) | OCTET_MIN)
#define SUPER_Q5_K (OCTET_BYTES(4) | OCTET_MIN)
#define SUPER_Q6_K OCTET_BYTES(4)

/* A super-block's sums, of eight weight rows, on top of what came before them. */
static inline __attribute__((always_inline)) vf super_add(vi total, vi pairs, vf factor, vf minimum,
                                                          int shape, const uint8_t *x, vf sum)
{
    const vf scale = wide_float(x + PANEL_OCTET_SCALE);
    sum = vf_fma(vf_from_int(total), vf_mul(factor, scale), sum);
    return shape & OCTET_MIN ? vf_fma(vf_from_int(pairs), vf_mul(minimum, scale), sum) : sum;
}

typedef float super_sums[WIDE_HALVES][LANES];

/* Products of block k, without what belongs to whole super-blocks. */
static inline __attribute__((always_inline)) void super_wide_block(const struct super_block *b,
                                                                   int shape, size_t k,
                                                                   const uint8_t *const *octets,
                                                                   int count, vi total[][2])
{
    const int depth = octet_depth(shape);
    const bool min = shape & OCTET_MIN;
    const size_t place = PANEL_OCTET_LOW + 128 * (k % 2) + 4 * (k / 2),
                 less = PANEL_SUPER_LESS_32 + 32 * (k % 2) + 4 * (k / 2);
    const vi(*scale)[WIDE_HALVES] = b->scale + (min ? k : 2 * k);
    UNROLL
    for (int i = 0; i < 8; i += depth) {
        vi sum[SUPER_ROWS][WIDE_HALVES];
        UNROLL
        for (int t = 0; t < count && !min; t++)
            sum[t][0] = sum[t][1] = wide_dword(octets[t] + less + 4 * i);
        UNROLL
        for (int j = i; j < i + depth; j++) {
            vi q[WIDE_HALVES];
            __asm__ volatile("vmovdqa %2, %0\n\tvmovdqa %3, %1"
                             : "=&x"(q[0]), "=x"(q[1])
                             : "m"(b->q[k][j][0]), "m"(b->q[k][j][1]));
            UNROLL
            for (int t = 0; t < count; t++)
                wide_step_bytes(q, octets[t] + place + j % 4 * 32 + j / 4 * 16, min && j == i,
                                sum[t]);
        }
        UNROLL
        for (int t = 0; t < count; t++)
            UNROLL
        for (int r = 0; r < WIDE_HALVES; r++)
            total[t][r] =
                vi_add(total[t][r], _mm256_madd_epi16(sum[t][r], scale[min ? 0 : i / 4][r]));
    }
}

static inline __attribute__((always_inline)) void super_wide_rows(const struct super_block *b,
                                                                  int shape,
                                                                  const uint8_t *const *octets,
                                                                  int count, super_sums *sums)
{
    const int pairs = shape & OCTET_MIN ? 4 : 0;
    vi total[SUPER_ROWS][WIDE_HALVES];
    UNROLL
    for (int t = 0; t < count; t++)
        total[t][0] = total[t][1] = vi_zero();
    for (size_t k = 0; k < 8; k++)
        super_wide_block(b, shape, k, octets, count, total);
    UNROLL
    for (int t = 0; t < count; t++)
        UNROLL
    for (int r = 0; r < WIDE_HALVES; r++) {
        vi all = vi_zero();
        UNROLL
        for (int j = 0; j < pairs; j++)
            all = vi_add(all, _mm256_madd_epi16(b->pair[j][r],
                                                wide_dword(octets[t] + PANEL_SUPER_SUMS + 4 * j)));
        vf_store(sums[t][r], super_add(total[t][r], all, b->factor[r], b->minimum[r], shape,
                                       octets[t], vf_load(sums[t][r])));
    }
}

typedef void (*super_run)(const struct super_block *b, const struct octet_rows *rows, size_t at,
                          const struct wide_ahead *ahead, super_sums *sums);

/* A super-block times n rows, whose octets begin `at` bytes after x->row. */
#define SUPER_SOME(name, shape, n)                                                                 \
    static __attribute__((noinline)) void name(                                                    \
        const struct super_block *b, const uint8_t *const *rows, size_t at, super_sums *sums)      \
    {                                                                                              \
        const uint8_t *x[n];                                                                       \
        UNROLL                                                                                     \
        for (int i = 0; i < (n); i++)                                                              \
            x[i] = rows[i] + at;                                                                   \
        super_wide_rows(b, shape, x, n, sums);                                                     \
    }
#define SUPER_RUN(name, shape)                                                                     \
    SUPER_SOME(name##_1, shape, 1)                                                                 \
    SUPER_SOME(name##_2, shape, 2)                                                                 \
    SUPER_SOME(name##_3, shape, 3)                                                                 \
    SUPER_SOME(name##_4, shape, SUPER_ROWS)                                                        \
    static void name(const struct super_block *b, const struct octet_rows *rows, size_t at,        \
                     const struct wide_ahead *ahead, super_sums *sums)                             \
    {                                                                                              \
        for (int32_t t = 0; t < rows->n; t += SUPER_ROWS) {                                        \
            wide_fetch(ahead, t / SUPER_ROWS);                                                     \
            switch (rows->n - t) {                                                                 \
            case 1:                                                                                \
                name##_1(b, rows->row + t, at, sums + t);                                          \
                break;                                                                             \
            case 2:                                                                                \
                name##_2(b, rows->row + t, at, sums + t);                                          \
                break;                                                                             \
            case 3:                                                                                \
                name##_3(b, rows->row + t, at, sums + t);                                          \
                break;                                                                             \
            default:                                                                               \
                name##_4(b, rows->row + t, at, sums + t);                                          \
            }                                                                                      \
        }                                                                                          \
    }
SUPER_RUN(super_run_q4_k, SUPER_Q4_K)
SUPER_RUN(super_run_q5_k, SUPER_Q5_K)
SUPER_RUN(super_run_q6_k, SUPER_Q6_K)
#undef SUPER_RUN
#undef SUPER_SOME

struct super_format {
    super_unpack unpack;
    super_run run;
};

/* NULL: no K-quant. */
static const struct super_format *super_format(const struct weight *w)
{
    static const struct super_format formats[WEIGHT__N] = {
        [WEIGHT_Q4_K] = {super_q4_k, super_run_q4_k},
        [WEIGHT_Q5_K] = {super_q5_k, super_run_q5_k},
        [WEIGHT_Q6_K] = {super_q6_k, super_run_q6_k},
    };
    const struct super_format *f = &formats[w->type];
    return f->run ? f : NULL;
}

/* Sixteen weight rows times some rows; acc [x->n, WIDE_HALVES, LANES]. */
static void super_tile(const struct lanes l[WIDE_HALVES], const struct super_format *f,
                       const struct octet_rows *x, float *acc)
{
    super_sums *sums = (super_sums *)(void *)acc;
    struct super_block block;
    memset(sums, 0, (size_t)x->n * sizeof *sums);
    for (int32_t g = 0; 8 * g < l->blocks; g++) {
        const struct wide_ahead ahead =
            wide_ahead(l, 8 * g, 8, (x->n + SUPER_ROWS - 1) / SUPER_ROWS);
        for (int half = 0; half < WIDE_HALVES; half++)
            f->unpack(&l[half], half, g, &block);
        f->run(&block, x, (size_t)g * PANEL_OCTET_BYTES, &ahead, sums);
    }
}

/* sum + two products, in 16 bits. */
static inline vi super_two(vi sum, const struct octet *o, int i, const uint8_t *x)
{
    return octet_add_bytes(octet_add_bytes(sum, o->q[i], vi_load(x + PANEL_OCTET_LOW + 32 * i)),
                           o->q[i + 1], vi_load(x + PANEL_OCTET_LOW + 32 * (i + 1)));
}

/* The sums of two products each. */
static inline vi super_pair(const struct octet *o, int i, const uint8_t *x)
{
    return octet_add_bytes(_mm256_maddubs_epi16(o->q[i], vi_load(x + PANEL_OCTET_LOW + 32 * i)),
                           o->q[i + 1], vi_load(x + PANEL_OCTET_LOW + 32 * (i + 1)));
}

/* A super-block of a weight row times one of activations. */
static inline __attribute__((always_inline)) void
super_dot(const struct super_octet *o, int shape, const uint8_t *x, vi *total, __m128i *pairs)
{
    const struct octet *q = &o->codes;
    if (shape & OCTET_MIN) {
        const vi a = super_pair(q, 0, x), b = super_pair(q, 2, x), c = super_pair(q, 4, x),
                 d = super_pair(q, 6, x);
        *total = vi_add(_mm256_madd_epi16(_mm256_add_epi16(a, b), o->even),
                        _mm256_madd_epi16(_mm256_add_epi16(c, d), o->odd));
        *pairs =
            _mm_madd_epi16(_mm256_castsi256_si128(o->pairs),
                           _mm_loadu_si128((const __m128i *)(const void *)(x + PANEL_SUPER_SUMS)));
        return;
    }
    const vi a = super_two(vi_load(x + PANEL_SUPER_LESS_32), q, 0, x), b = super_pair(q, 2, x),
             c = super_two(vi_load(x + PANEL_SUPER_LESS_32 + 32), q, 4, x), d = super_pair(q, 6, x);
    *total = vi_add(_mm256_madd_epi16(_mm256_add_epi16(a, b), o->even),
                    _mm256_madd_epi16(_mm256_add_epi16(c, d), o->odd));
}

typedef void (*super_unpack_octet)(const uint8_t *data, struct super_octet *o);

/* What a super-block of a weight row adds to the sums of `count` rows of activations, which are in
 * the lanes as their scales are (one or two rows: twice, the second time for minima). */
static inline __attribute__((always_inline)) __m128 super_sum(const vi *totals, const __m128i *mins,
                                                              int shape, const uint8_t *data,
                                                              __m128 scale, int count, __m128 sum)
{
    const bool min = shape & OCTET_MIN;
    const __m128 head = _mm_cvtph_ps(_mm_loadu_si32(data + (min ? 0 : 206))),
                 both = min ? head : _mm_movehdup_ps(head);
    if (count > 2) { /* where there is no fourth row, the third again, which nobody takes */
        const vi total[4] = {totals[0], totals[1], totals[2], totals[count - 1]};
        const __m128 v = _mm_cvtepi32_ps(four_sums_of_eight(total));
        sum = _mm_fmadd_ps(v, _mm_mul_ps(_mm_broadcastss_ps(both), scale), sum);
        if (!min)
            return sum;
        const __m128i less[4] = {mins[0], mins[1], mins[2], mins[count - 1]};
        return _mm_fnmadd_ps(_mm_cvtepi32_ps(four_sums_of_four(less)),
                             _mm_mul_ps(_mm_shuffle_ps(both, both, 0x55), scale), sum);
    }
    if (count == 2) {
        const __m128i four = add_halves(add_dwords(totals[0], totals[1]));
        if (!min)
            return _mm_fmadd_ps(_mm_cvtepi32_ps(add_qwords4(four, four)),
                                _mm_mul_ps(_mm_broadcastss_ps(both), scale), sum);
        const __m128 v = _mm_cvtepi32_ps(add_qwords4(four, add_dwords4(mins[0], mins[1]))),
                     factor = _mm_mul_ps(_mm_unpacklo_ps(both, both), scale);
        sum = _mm_fmadd_ps(v, factor, sum);
        return _mm_fnmadd_ps(_mm_movehl_ps(v, v), _mm_movehl_ps(factor, factor), sum);
    }
    const __m128i four = add_halves(totals[0]), two = add_dwords4(four, min ? mins[0] : four);
    const __m128 v = _mm_cvtepi32_ps(add_qwords4(two, two)), factor = _mm_mul_ps(both, scale);
    sum = _mm_fmadd_ss(v, factor, sum);
    return min ? _mm_fnmadd_ss(_mm_movehdup_ps(v), _mm_movehdup_ps(factor), sum) : sum;
}

/* Rows' scales of a super-block. */
static inline __attribute__((always_inline)) __m128 super_scales(const uint8_t *const *rows,
                                                                 size_t at, int count)
{
    float v[4];
    UNROLL
    for (int t = 0; t < 4; t++)
        memcpy(&v[t], rows[t % count] + at + PANEL_OCTET_SCALE, sizeof v[t]);
    return _mm_loadu_ps(v);
}

/* Eight rows of weights times `count` rows of activations. A weight row is read in one go and
 * nothing is stored between loads of weights, for the processor's own fetching follows them then.
 */
static inline __attribute__((always_inline)) void
super_lines(const struct lanes *l, super_unpack_octet unpack, int shape, int32_t bytes,
            const uint8_t *const *rows, int count, float *acc)
{
    const int32_t octets = l->blocks / 8, part = SUPER_NEAR / count;
    const size_t ahead = octets > part ? 8 * l->tile->weight->row_bytes : SUPER_AHEAD;
    __m128 sums[8], scales[SUPER_NEAR];
    UNROLL
    for (int r = 0; r < 8; r++)
        sums[r] = _mm_setzero_ps();
    for (int32_t first = 0, n; first < octets; first += n) {
        n = octets - first < part ? octets - first : part;
        const size_t from = (size_t)first * PANEL_OCTET_BYTES;
        for (int32_t g = 0; g < n; g++)
            scales[g] = super_scales(rows, from + (size_t)g * PANEL_OCTET_BYTES, count);
        for (int r = 0; r < 8; r++) {
            const uint8_t *data = l->data[r] + (size_t)first * (size_t)bytes;
            __m128 sum = sums[r];
            for (int32_t g = 0; g < n; g++, data += bytes) {
                struct super_octet o;
                vi totals[OCTET_FEW];
                __m128i mins[OCTET_FEW];
                fetch_lines(data + ahead, (size_t)bytes);
                unpack(data, &o);
                UNROLL
                for (int t = 0; t < count; t++)
                    super_dot(&o, shape, rows[t] + from + (size_t)g * PANEL_OCTET_BYTES, &totals[t],
                              &mins[t]);
                sum = super_sum(totals, mins, shape, data, scales[g], count, sum);
            }
            sums[r] = sum;
        }
    }
    for (int r = 0; r < 8; r++) {
        float lanes[4];
        _mm_storeu_ps(lanes, sums[r]);
        UNROLL
        for (int t = 0; t < count; t++)
            acc[t * LANES + r] = lanes[t];
    }
}

#define SUPER_FEW(name, shape, bytes)                                                              \
    static __attribute__((noinline)) void super_few_##name(                                        \
        const struct lanes *l, const uint8_t *const *rows, int32_t n, float *acc)                  \
    {                                                                                              \
        if (n == 1)                                                                                \
            super_lines(l, super_octet_##name, shape, bytes, rows, 1, acc);                        \
        else if (n == 2)                                                                           \
            super_lines(l, super_octet_##name, shape, bytes, rows, 2, acc);                        \
        else if (n == 3)                                                                           \
            super_lines(l, super_octet_##name, shape, bytes, rows, 3, acc);                        \
        else                                                                                       \
            super_lines(l, super_octet_##name, shape, bytes, rows, OCTET_FEW, acc);                \
    }
SUPER_FEW(q4_k, SUPER_Q4_K, 144)
SUPER_FEW(q5_k, SUPER_Q5_K, 176)
SUPER_FEW(q6_k, SUPER_Q6_K, 210)
#undef SUPER_FEW
