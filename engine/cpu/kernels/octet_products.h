/* Products of octets of weights with octets of activations. The products of a block are summed
 * exactly in int32; lane c of a row's sum takes blocks c, c + 8, c + 16 and so on one after the
 * other (as PANEL_K_OCTETS has them: its own), so a row's result is the same whatever else is
 * computed. Where a weight row's octets lie, and in which parts a few rows of activations take
 * them. */
#pragma once
#include "engine/cpu/kernels/octet_formats.h"

#define OCTET_FEW 4   /* rows that a weight row at once is read for */
#define OCTET_PART 32 /* rows whose sums and activations lie in the first cache together */

struct octet_rows {                           /* the activations that a call is about */
    const uint8_t *row[KERNEL_MAX_TILE_ROWS]; /* each one's first octet */
    int32_t n;
};

/* acc + the products of pairs, in place. Left alone, gcc 12 first computes all products of a block,
 * in memory, and then adds them up. */
static inline vi octet_add(vi acc, vi a, vi b)
{
    const vi product = _mm256_madd_epi16(a, b);
    __asm__("vpaddd %1, %0, %0" : "+x"(acc) : "x"(product));
    return acc;
}

/* The same for bytes, those of q without a sign, in 16 bits. */
static inline vi octet_add_bytes(vi acc, vi q, vi x)
{
    const vi product = _mm256_maddubs_epi16(q, x);
    __asm__("vpaddw %1, %0, %0" : "+x"(acc) : "x"(product));
    return acc;
}

/* A vector that stays in its register for several uses, which gcc would rather load each time. */
static inline vi octet_hold(vi v)
{
    __asm__("" : "+x"(v));
    return v;
}

static inline vf floats_at(const uint8_t *p)
{
    return vf_load((const float *)(const void *)p);
}

/* Four floats in both halves. */
static inline vf four_floats(const uint8_t *p)
{
    return _mm256_broadcast_ps((const __m128 *)(const void *)p);
}

struct octet_join { /* constants that the compiler shall not make anew for each octet */
    vi high, low;
};

static inline struct octet_join octet_join(void)
{
    return (struct octet_join){octet_hold(_mm256_set1_epi16(256)),
                               octet_hold(_mm256_set1_epi16(1))};
}

/* Sums of products with bytes: 256 high + low. */
static inline vi join_planes(const struct octet_join *j, vi high, vi low)
{
    return vi_add(_mm256_madd_epi16(high, j->high), _mm256_madd_epi16(low, j->low));
}

/* Where what is taken off for the offset lies. */
static inline size_t octet_less(int shape)
{
    const int less = shape >> OCTET_LESS_SHIFT;
    return less == 128  ? PANEL_OCTET_LESS_128
           : less == 12 ? PANEL_OCTET_LESS_12
                        : PANEL_OCTET_LESS_8;
}

/* Adds to a row's running sum the sums of products with the first and the second half of q, from
 * which the offset is taken off already. */
static inline __attribute__((always_inline)) vf octet_scale_sums(vi first, vi second,
                                                                 const struct octet *o, int shape,
                                                                 const uint8_t *x, vf sum)
{
    if (shape & OCTET_HALVES) {
        sum = vf_fma(vf_from_int(first), vf_mul(o->scale[0], four_floats(x + PANEL_OCTET_SCALE)),
                     sum);
        return vf_fma(vf_from_int(second),
                      vf_mul(o->scale[1], four_floats(x + PANEL_OCTET_SCALE + 16)), sum);
    }
    if (shape & OCTET_SPLIT) /* one shuffle, for a blend takes no shuffle unit */
        first = vi_add(_mm256_permute2x128_si256(first, second, 0x21),
                       _mm256_blend_epi32(first, second, 0xf0));
    else
        first = vi_add(first, second);
    sum = vf_fma(vf_from_int(first), vf_mul(o->scale[0], floats_at(x + PANEL_OCTET_SCALE)), sum);
    return shape & OCTET_MIN ? vf_fma(o->min, floats_at(x + PANEL_OCTET_SUM), sum) : sum;
}

/* The same of sums with the offset. Blocks that are split and not halved have a minimum instead. */
static inline __attribute__((always_inline)) vf octet_finish(vi first, vi second,
                                                             const struct octet *o, int shape,
                                                             const uint8_t *x, vf sum)
{
    if (shape & OCTET_HALVES) {
        first = vi_add(first, vi_load(x + PANEL_OCTET_LESS_32));
        second = vi_add(second, vi_load(x + PANEL_OCTET_LESS_32 + 32));
    } else if (shape >> OCTET_LESS_SHIFT) {
        first = vi_add(first, vi_load(x + octet_less(shape)));
    }
    return octet_scale_sums(first, second, o, shape, x, sum);
}

/* One octet of pairs, one row of activations. */
static inline __attribute__((always_inline)) vf octet_dot_pairs(const struct octet *o, int shape,
                                                                const uint8_t *x, vf sum)
{
    vi first = _mm256_madd_epi16(o->q[0], vi_load(x)),
       second = _mm256_madd_epi16(o->q[8], vi_load(x + 256));
    UNROLL
    for (int i = 1; i < 8; i++) {
        first = octet_add(first, o->q[i], vi_load(x + 32 * i));
        second = octet_add(second, o->q[8 + i], vi_load(x + 256 + 32 * i));
    }
    return octet_finish(first, second, o, shape, x, sum);
}

/* The same where an activation is one byte. */
static inline __attribute__((always_inline)) vi octet_dot_byte(const struct octet *o, int at, int n,
                                                               const uint8_t *x,
                                                               const struct octet_join *j)
{
    vi sum = _mm256_maddubs_epi16(o->q[at], vi_load(x + PANEL_OCTET_LOW + 32 * at));
    if (n > 2) { /* two chains */
        vi other = _mm256_maddubs_epi16(o->q[at + 1], vi_load(x + PANEL_OCTET_LOW + 32 * (at + 1)));
        UNROLL
        for (int i = at + 2; i < at + n; i += 2) {
            sum = octet_add_bytes(sum, o->q[i], vi_load(x + PANEL_OCTET_LOW + 32 * i));
            other =
                octet_add_bytes(other, o->q[i + 1], vi_load(x + PANEL_OCTET_LOW + 32 * (i + 1)));
        }
        return _mm256_madd_epi16(_mm256_add_epi16(sum, other), j->low);
    }
    UNROLL
    for (int i = at + 1; i < at + n; i++)
        sum = octet_add_bytes(sum, o->q[i], vi_load(x + PANEL_OCTET_LOW + 32 * i));
    return _mm256_madd_epi16(sum, j->low);
}

/* One octet of bytes, one row of activations: the sum of products with q[at] to q[at + n - 1]. */
static inline __attribute__((always_inline)) vi octet_dot_bytes(const struct octet *o, int at,
                                                                int n, const uint8_t *x,
                                                                const struct octet_join *j, int one)
{
    if (one)
        return octet_dot_byte(o, at, n, x, j);
    vi high = _mm256_maddubs_epi16(o->q[at], vi_load(x + 32 * at)),
       low = _mm256_maddubs_epi16(o->q[at], vi_load(x + PANEL_OCTET_LOW + 32 * at));
    UNROLL
    for (int i = at + 1; i < at + n; i++) {
        high = octet_add_bytes(high, o->q[i], vi_load(x + 32 * i));
        low = octet_add_bytes(low, o->q[i], vi_load(x + PANEL_OCTET_LOW + 32 * i));
    }
    return join_planes(j, high, low);
}

#ifdef __AVX512VNNI__
static inline vi octet_four_vnni(vi sum, const struct octet *o, int at, const uint8_t *x)
{
    UNROLL
    for (int i = at; i < at + 4; i++)
        sum = _mm256_dpbusd_epi32(sum, o->q[i], vi_load(x + PANEL_OCTET_LOW + 32 * i));
    return sum;
}

/* One octet of bytes, one row of activations of one byte. */
static inline __attribute__((always_inline)) vf octet_dot_vnni(const struct octet *o, int shape,
                                                               const uint8_t *x, vf sum)
{
    const bool less = shape >> OCTET_LESS_SHIFT;
    const vi first = octet_four_vnni(less ? vi_load(x + octet_less(shape)) : vi_zero(), o, 0, x),
             second = octet_four_vnni(vi_zero(), o, 4, x);
    return octet_scale_sums(first, second, o, shape, x, sum);
}
#endif

static inline __attribute__((always_inline)) vf octet_dot(const struct octet *o, int shape,
                                                          const uint8_t *x,
                                                          const struct octet_join *j, vf sum)
{
    const int depth = octet_depth(shape);
    if (!depth)
        return octet_dot_pairs(o, shape, x, sum);
    if (depth == 8)
        return octet_finish(octet_dot_bytes(o, 0, 8, x, j, shape & OCTET_ONE), vi_zero(), o, shape,
                            x, sum);
    vi half[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
        half[h] = octet_dot_bytes(o, 4 * h, depth, x, j, shape & OCTET_ONE);
        if (depth == 2)
            half[h] =
                vi_add(half[h], octet_dot_bytes(o, 4 * h + 2, depth, x, j, shape & OCTET_ONE));
    }
    return octet_finish(half[0], half[1], o, shape, x, sum);
}

/* sum += products with q[from..to - 1] of two octets of pairs, of `count` rows. */
static inline __attribute__((always_inline)) void octet_pairs(const struct octet o[2], int from,
                                                              int to, const uint8_t *const *x,
                                                              size_t at, int count, vi sum[4][2])
{
    for (int k = from; k < to; k++) {
        const vi a = octet_hold(o[0].q[k]), b = octet_hold(o[1].q[k]);
        UNROLL
        for (int t = 0; t < count; t++) {
            const vi v = octet_hold(vi_load(x[t] + at + 32 * k));
            sum[t][0] = octet_add(sum[t][0], a, v);
            sum[t][1] = octet_add(sum[t][1], b, v);
        }
    }
}

/* Sums of numbers of the same vector, those of a and of b in turn. */
static inline __attribute__((always_inline)) vi add_dwords(vi a, vi b)
{
    return vi_add(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

static inline __attribute__((always_inline)) vi add_qwords(vi a, vi b)
{
    return vi_add(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* The sums of a half's lanes and the other's. */
static inline __attribute__((always_inline)) __m128i add_halves(vi v)
{
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline __attribute__((always_inline)) __m128i add_dwords4(__m128i a, __m128i b)
{
    return _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
}

static inline __attribute__((always_inline)) __m128i add_qwords4(__m128i a, __m128i b)
{
    return _mm_add_epi32(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b));
}

/* Lane i: the sum of the lanes of v[i]; of four lanes each, of eight. */
static inline __attribute__((always_inline)) __m128i four_sums_of_four(const __m128i v[4])
{
    return add_qwords4(add_dwords4(v[0], v[1]), add_dwords4(v[2], v[3]));
}

static inline __attribute__((always_inline)) __m128i four_sums_of_eight(const vi v[4])
{
    return add_halves(add_qwords(add_dwords(v[0], v[1]), add_dwords(v[2], v[3])));
}

/* The same of eight vectors. */
static inline vi add_lanes(const vi v[8])
{
    const vi low = add_qwords(add_dwords(v[0], v[1]), add_dwords(v[2], v[3])),
             high = add_qwords(add_dwords(v[4], v[5]), add_dwords(v[6], v[7]));
    return vi_add(_mm256_permute2x128_si256(low, high, 0x20),
                  _mm256_permute2x128_si256(low, high, 0x31));
}

/* Two octets of pairs times `count` rows, a constant; sums[t][r] of row t, weight row r. */
static inline __attribute__((always_inline)) void octet_block(const struct octet o[2], int shape,
                                                              const uint8_t *const *x, size_t at,
                                                              int count, float sums[][2][LANES])
{
    const bool halves = shape & OCTET_SPLIT;
    vi sum[4][2];
    _Alignas(32) int32_t first[4][2][LANES]; /* for sixteen sums there are too few registers */
    UNROLL
    for (int t = 0; t < count; t++)
        sum[t][0] = sum[t][1] = vi_zero();
    octet_pairs(o, 0, halves ? 8 : 16, x, at, count, sum);
    if (halves) {
        UNROLL
        for (int t = 0; t < count; t++)
            UNROLL
        for (int r = 0; r < 2; r++) {
            vi_store(first[t][r], sum[t][r]);
            sum[t][r] = vi_zero();
        }
        __asm__ volatile("" : : "r"(first) : "memory");
        octet_pairs(o, 8, 16, x, at, count, sum);
    }
    UNROLL
    for (int t = 0; t < count; t++)
        UNROLL
    for (int r = 0; r < 2; r++) {
        const vi low = halves ? vi_load(first[t][r]) : sum[t][r],
                 high = halves ? sum[t][r] : vi_zero();
        vf_store(sums[t][r], octet_finish(low, high, &o[r], shape, x[t] + at, vf_load(sums[t][r])));
    }
}

#define OCTET_ROWS(name, shape)                                                                    \
    static __attribute__((noinline)) void name(const struct octet *o, const struct octet_rows *x,  \
                                               size_t at, float sums[][2][LANES])                  \
    {                                                                                              \
        int32_t i = 0;                                                                             \
        for (; i + 4 <= x->n; i += 4)                                                              \
            octet_block(o, shape, x->row + i, at, 4, sums + i);                                    \
        switch (x->n - i) {                                                                        \
        case 3:                                                                                    \
            octet_block(o, shape, x->row + i, at, 3, sums + i);                                    \
            break;                                                                                 \
        case 2:                                                                                    \
            octet_block(o, shape, x->row + i, at, 2, sums + i);                                    \
            break;                                                                                 \
        case 1:                                                                                    \
            octet_block(o, shape, x->row + i, at, 1, sums + i);                                    \
            break;                                                                                 \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }
OCTET_ROWS(octet_rows_plain, OCTET_PLAIN)
OCTET_ROWS(octet_rows_min, OCTET_MIN)
OCTET_ROWS(octet_rows_less_8, OCTET_LESS(8))
OCTET_ROWS(octet_rows_less_12, OCTET_LESS(12))
OCTET_ROWS(octet_rows_less_127, OCTET_LESS(127))
OCTET_ROWS(octet_rows_k, OCTET_K)
OCTET_ROWS(octet_rows_q6_k, OCTET_Q6_K)
#undef OCTET_ROWS

/* Blocks left of a row whose number is no multiple of eight, zeros after them. */
struct octet_tail {
    uint8_t data[8 * 34 + 32], scales[32], biases[32];
};

static size_t scale_bytes(const struct weight *w)
{
    return w->scale_type == SCALE_F32 ? 4 : w->scale_type == SCALE_E8M0 ? 1 : 2;
}

/* Bytes of an octet's scales, where they lie apart. */
static inline size_t octet_scales(const struct weight *w)
{
    if (w->type != WEIGHT_AFFINE)
        return w->type == WEIGHT_MXFP4 ? 8 : 0;
    return (w->group == 32 ? 8 : w->group == 64 ? 4 : 2) * scale_bytes(w);
}

/* Where octet g of row r lies in the weight. */
static inline __attribute__((always_inline)) struct octet_at
octet_place(const struct lanes *l, int32_t bytes, int32_t r, int32_t g)
{
    const size_t first = (size_t)g * octet_scales(l->tile->weight);
    struct octet_at at = {.data = l->data[r] + (size_t)g * (size_t)bytes};
    at.scales = l->scales[r] ? l->scales[r] + first : NULL;
    at.biases = l->biases[r] ? l->biases[r] + first : NULL;
    return at;
}

/* A copy of what is left of row r from octet g on, in `tail`. */
static __attribute__((noinline)) struct octet_at octet_place_tail(const struct lanes *l,
                                                                  int32_t bytes, int32_t r,
                                                                  int32_t g,
                                                                  struct octet_tail *tail)
{
    const struct weight *w = l->tile->weight;
    const struct octet_at at = octet_place(l, bytes, r, g);
    const size_t n = (size_t)(l->blocks - g * 8);
    const size_t scales = w->type == WEIGHT_AFFINE ? n * 32 / (size_t)w->group * scale_bytes(w) : n;
    memset(tail, 0, sizeof *tail);
    memcpy(tail->data, at.data, n * (size_t)bytes / 8);
    if (at.scales)
        memcpy(tail->scales, at.scales, scales);
    if (at.biases)
        memcpy(tail->biases, at.biases, scales);
    return (struct octet_at){tail->data, tail->scales, tail->biases};
}

/* What follows row r's last block is blocks of the same matrix: they may be read as the rest of its
 * last octet, in which activations are zeros, so they add nothing. */
static inline bool octet_goes_on(const struct lanes *l, int32_t bytes, int32_t r)
{
    const struct weight *w = l->tile->weight;
    const size_t blocks = (size_t)l->blocks, scales = octet_scales(w) * blocks / 8;
    return l->row[r] + 8 < w->rows && w->row_bytes == (size_t)bytes * blocks / 8 && blocks >= 4 &&
           (!scales || w->scale_row_bytes == scales);
}

/* Whether row r's last octet is read from a copy. */
static inline __attribute__((always_inline)) bool octet_copied(const struct lanes *l, int32_t bytes,
                                                               int32_t r)
{
    return l->blocks % 8 && !octet_goes_on(l, bytes, r);
}

/* Lane r of the result: the lanes of v[r] summed. */
static inline vf sum_lanes(const vf v[8])
{
    vf a[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_hadd_ps(v[2 * i], v[2 * i + 1]);
    const vf low = _mm256_hadd_ps(a[0], a[1]), high = _mm256_hadd_ps(a[2], a[3]);
    return vf_add(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

/* Bytes fetched ahead of a few rows, of one too: where one core's own fetching reads less than the
 * memory gives, that gains 7 to 34 % of one row's time and 4 to 47 % of two rows' (Zen 3, AVX2), or
 * a quarter to half of whole steps (Xeon of 2023, AVX512-VNNI); where it keeps up (Zen 4), it costs
 * one row 3 to 12 % with AVX2, 1 to 3 % with AVX512-VNNI. */
#define SUPER_AHEAD 6144
#define OCTET_SIZE 544         /* bytes of an octet of activations that products read, */
#define OCTET_ONE_SIZE 352     /* and of activations of one byte */
#define OCTET_NEAR_BYTES 19456 /* of them that the first cache has room for, */
#define OCTET_PART_BYTES 17408 /* and so many at a time where there are more */

/* Some octets of eight weight rows, of which a few rows of activations meet all before the next.
 * Where a row's activations do not fit the first cache, a weight row at a time would read all of
 * them from the second one. */
struct octet_run_part {
    int32_t first, end, most;
    bool last;       /* the rows end here */
    size_t distance; /* bytes from a weight to the one that is fetched meanwhile */
};

static inline bool octet_next_part(const struct lanes *l, struct octet_run_part *p)
{
    const int32_t octets = (l->blocks + 7) / 8;
    p->first = p->end;
    p->last = octets - p->first <= p->most;
    p->end = p->last ? octets : p->first + p->most;
    return p->first < octets;
}

static inline __attribute__((always_inline)) struct octet_run_part
octet_first_part(const struct lanes *l, int count, int shape)
{
    const int32_t octets = (l->blocks + 7) / 8,
                  size = shape & OCTET_ONE ? OCTET_ONE_SIZE : OCTET_SIZE,
                  all = octets * count * size,
                  parts = (all + OCTET_PART_BYTES - 1) / OCTET_PART_BYTES;
    struct octet_run_part p = {.most = octets, .distance = SUPER_AHEAD};
    if (all > OCTET_NEAR_BYTES) {
        p.most = (octets + parts - 1) / parts;
        p.distance = 8 * l->tile->weight->row_bytes;
    }
    octet_next_part(l, &p);
    return p;
}

/* Adds the products of what is left of row r after its whole octets. */
typedef vf (*octet_last)(const struct lanes *l, int32_t r, const uint8_t *x, vf sum);
