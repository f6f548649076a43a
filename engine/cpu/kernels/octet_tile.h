/* Products of eight blocks at a time (AVX2): eight successive blocks of a weight row stand in the
 * lanes, and the activations lie in the same order (panel.h), so that no product needs a shuffle
 * and sums never cross lanes before a row's end. The products of a block are summed exactly in
 * int32; lane c of a row's sum takes blocks c, c + 8, c + 16 and so on one after the other, and the
 * lanes are summed in one order at the end: a row's result is the same whatever else is computed.
 *
 * One row of activations, or two, takes a weight row at once. More rows share the
 * unpacking of two weight rows, eight sums at a time in registers. */
#pragma once
#include "engine/cpu/kernels/octet_formats.h"

#define OCTET_FEW 4   /* rows up to which weights are read row after row */
#define OCTET_PART 32 /* rows whose sums and activations lie in the first cache together */

typedef void (*octet_unpack)(const struct weight *w, const struct octet_at *at, struct octet *o);

struct octet_format {
    octet_unpack unpack;
    int shape, bytes; /* of an octet, in data */
    /* Weight rows one after the other, for one row of activations or two. */
    void (*one)(const struct lanes *l, const uint8_t *const *rows, float *acc);
    void (*two)(const struct lanes *l, const uint8_t *const *rows, float *acc);
};

struct octet_rows {                 /* the activations that a call is about */
    const uint8_t *row[OCTET_PART]; /* each one's first octet */
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

/* A vector that stays in its register for several uses, which gcc would rather load each time. */
static inline vi octet_hold(vi v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* Adds to a row's running sum the sums of products with q[0..7] and q[8..15]. */
static inline __attribute__((always_inline)) vf octet_finish(vi low, vi high, const struct octet *o,
                                                             int shape, const uint8_t *x, vf sum)
{
    const vf factor = vf_load((const float *)(const void *)(x + PANEL_OCTET_SCALE));
    if (shape & OCTET_SPLIT)
        low = vi_add(_mm256_permute2x128_si256(low, high, 0x20),
                     _mm256_permute2x128_si256(low, high, 0x31));
    else if (!(shape & OCTET_HALVES))
        low = vi_add(low, high);
    sum = vf_fma(vf_from_int(low), vf_mul(o->scale[0], factor), sum);
    if (shape & OCTET_HALVES)
        sum = vf_fma(vf_from_int(high), vf_mul(o->scale[1], factor), sum);
    if (shape & OCTET_MIN)
        sum = vf_fma(o->min, vf_load((const float *)(const void *)(x + PANEL_OCTET_SUM)), sum);
    return sum;
}

/* What the sum of products starts with. */
static inline __attribute__((always_inline)) vi octet_start(int shape, const uint8_t *x)
{
    const int less = shape >> OCTET_LESS_SHIFT;
    const vi total = vi_load(x + PANEL_OCTET_TOTAL);
    return less ? _mm256_sub_epi32(vi_zero(), less == 8 ? vi_shl(total, 3)
                                                        : _mm256_mullo_epi32(total, vi_set1(less)))
                : vi_zero();
}

static inline __attribute__((always_inline)) vf octet_dot(const struct octet *o, int shape,
                                                          const uint8_t *x, vf sum)
{
    vi low = octet_start(shape, x), high = _mm256_madd_epi16(o->q[8], vi_load(x + 256));
    UNROLL
    for (int i = 0; i < 8; i++) {
        low = octet_add(low, o->q[i], vi_load(x + 32 * i));
        if (i)
            high = octet_add(high, o->q[8 + i], vi_load(x + 256 + 32 * i));
    }
    return octet_finish(low, high, o, shape, x, sum);
}

/* sum += products with q[from..to - 1] of two octets of weights, of `count` rows. */
static inline __attribute__((always_inline)) void octet_products(const struct octet o[2], int from,
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

/* Two octets of weights times `count` rows, a constant; sums[t][r] of row t, weight row r. */
static inline __attribute__((always_inline)) void octet_block(const struct octet o[2], int shape,
                                                              const uint8_t *const *x, size_t at,
                                                              int count, float sums[][2][LANES])
{
    const bool halves = shape & (OCTET_HALVES | OCTET_SPLIT);
    vi sum[4][2];
    _Alignas(32) int32_t first[4][2][LANES]; /* for sixteen sums there are too few registers */
    UNROLL
    for (int t = 0; t < count; t++)
        sum[t][0] = sum[t][1] = octet_start(shape, x[t] + at);
    octet_products(o, 0, halves ? 8 : 16, x, at, count, sum);
    if (halves) {
        UNROLL
        for (int t = 0; t < count; t++)
            UNROLL
        for (int r = 0; r < 2; r++) {
            vi_store(first[t][r], sum[t][r]);
            sum[t][r] = vi_zero();
        }
        __asm__ volatile("" : : "r"(first) : "memory");
        octet_products(o, 8, 16, x, at, count, sum);
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
OCTET_ROWS(octet_rows_halves, OCTET_HALVES)
OCTET_ROWS(octet_rows_split, OCTET_SPLIT | OCTET_MIN)
OCTET_ROWS(octet_rows_less_8, OCTET_LESS(8))
OCTET_ROWS(octet_rows_less_12, OCTET_LESS(12))
OCTET_ROWS(octet_rows_less_127, OCTET_LESS(127))
#undef OCTET_ROWS

/* sums[0] is of the pair's first weight row, sums[.][1] of its second. */
static void octet_rows_run(const struct octet *o, int shape, const struct octet_rows *x, size_t at,
                           float sums[][2][LANES])
{
    switch (shape) {
    case OCTET_MIN:
        octet_rows_min(o, x, at, sums);
        break;
    case OCTET_SPLIT | OCTET_MIN:
        octet_rows_split(o, x, at, sums);
        break;
    case OCTET_HALVES:
        octet_rows_halves(o, x, at, sums);
        break;
    case OCTET_LESS(8):
        octet_rows_less_8(o, x, at, sums);
        break;
    case OCTET_LESS(12):
        octet_rows_less_12(o, x, at, sums);
        break;
    case OCTET_LESS(127):
        octet_rows_less_127(o, x, at, sums);
        break;
    default:
        octet_rows_plain(o, x, at, sums);
    }
}

/* Blocks left of a row whose number is no multiple of eight, zeros after them. */
struct octet_tail {
    uint8_t data[8 * 34 + 32], scales[32], biases[32];
};

static size_t scale_bytes(const struct weight *w)
{
    return w->scale_type == SCALE_F32 ? 4 : w->scale_type == SCALE_E8M0 ? 1 : 2;
}

/* Octet g of row r: where it lies in the weight, or a copy of what is left in `tail`. */
static inline __attribute__((always_inline)) struct octet_at
octet_place(const struct lanes *l, int32_t bytes, int32_t r, int32_t g)
{
    const struct weight *w = l->tile->weight;
    struct octet_at at = {.data = l->data[r] + (size_t)g * (size_t)bytes};
    if (l->scales[r]) {
        const size_t first = (size_t)g * (w->type != WEIGHT_AFFINE ? 8
                                          : w->group == 32         ? 8 * scale_bytes(w)
                                          : w->group == 64         ? 4 * scale_bytes(w)
                                                                   : 2 * scale_bytes(w));
        at.scales = l->scales[r] + first;
        at.biases = l->biases[r] ? l->biases[r] + first : NULL;
    }
    return at;
}

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

/* A row of weights times one row of activations or two: the lanes' sums. */
static inline __attribute__((always_inline)) void
octet_line(const struct lanes *l, octet_unpack unpack, int shape, int32_t bytes, int32_t r,
           const uint8_t *const *rows, int count, vf *out)
{
    const int32_t whole = l->blocks / 8, octets = (l->blocks + 7) / 8;
    vf sum[2] = {vf_zero(), vf_zero()};
    for (int32_t g = 0; g < octets; g++) {
        struct octet o;
        struct octet_tail tail;
        const struct octet_at at =
            g < whole ? octet_place(l, bytes, r, g) : octet_place_tail(l, bytes, r, g, &tail);
        unpack(l->tile->weight, &at, &o);
        UNROLL
        for (int t = 0; t < count; t++)
            sum[t] = octet_dot(&o, shape, rows[t] + (size_t)g * PANEL_OCTET_BYTES, sum[t]);
    }
    UNROLL
    for (int t = 0; t < count; t++)
        out[8 * t] = sum[t];
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

/* Each format: its unpacking for several rows, and one row or two with it inlined. */
#define OCTET_FORMAT(name, call, shape, bytes)                                                     \
    static inline __attribute__((always_inline)) void name##_inline(                               \
        const struct weight *w, const struct octet_at *at, struct octet *o)                        \
    {                                                                                              \
        (void)w;                                                                                   \
        call;                                                                                      \
    }                                                                                              \
    static __attribute__((noinline)) void name##_unpack(                                           \
        const struct weight *w, const struct octet_at *at, struct octet *o)                        \
    {                                                                                              \
        name##_inline(w, at, o);                                                                   \
    }                                                                                              \
    static __attribute__((noinline)) void name##_one(const struct lanes *l,                        \
                                                     const uint8_t *const *rows, float *acc)       \
    {                                                                                              \
        vf v[8];                                                                                   \
        for (int32_t r = 0; r < 8; r++)                                                            \
            octet_line(l, name##_inline, shape, bytes, r, rows, 1, v + r);                         \
        vf_store(acc, sum_lanes(v));                                                               \
    }                                                                                              \
    static __attribute__((noinline)) void name##_two(const struct lanes *l,                        \
                                                     const uint8_t *const *rows, float *acc)       \
    {                                                                                              \
        vf v[16];                                                                                  \
        for (int32_t r = 0; r < 8; r++)                                                            \
            octet_line(l, name##_inline, shape, bytes, r, rows, 2, v + r);                         \
        vf_store(acc, sum_lanes(v));                                                               \
        vf_store(acc + LANES, sum_lanes(v + 8));                                                   \
    }
OCTET_FORMAT(octet_q8_0, octet_q8_0(at, o), OCTET_PLAIN, 272)
OCTET_FORMAT(octet_q4_0, octet_q4_0(at, o), OCTET_LESS(8), 144)
OCTET_FORMAT(octet_q4_1, octet_q4_1(at, o), OCTET_MIN, 160)
OCTET_FORMAT(octet_iq4_nl, octet_iq4_nl(at, o), OCTET_LESS(127), 144)
OCTET_FORMAT(octet_mxfp4_block, octet_mxfp4_block(at, o), OCTET_LESS(12), 136)
OCTET_FORMAT(octet_mxfp4, octet_mxfp4(at, o), OCTET_LESS(12), 128)
OCTET_FORMAT(octet_affine_4, octet_affine(w, 4, at, o), OCTET_MIN, 128)
OCTET_FORMAT(octet_affine_5, octet_affine(w, 5, at, o), OCTET_MIN, 160)
OCTET_FORMAT(octet_affine_6, octet_affine(w, 6, at, o), OCTET_MIN, 192)
OCTET_FORMAT(octet_affine_8, octet_affine(w, 8, at, o), OCTET_MIN, 256)
OCTET_FORMAT(octet_q4_k, octet_k4(false, at, o), OCTET_SPLIT | OCTET_MIN, 144)
OCTET_FORMAT(octet_q5_k, octet_k4(true, at, o), OCTET_SPLIT | OCTET_MIN, 176)
OCTET_FORMAT(octet_q6_k, octet_q6_k(at, o), OCTET_HALVES, 210)
OCTET_FORMAT(octet_iq4_xs, octet_iq4_xs(at, o), OCTET_LESS(127), 136)
#undef OCTET_FORMAT

/* NULL: the format has no form of this kind. */
static const struct octet_format *octet_format(const struct weight *w)
{
#define OCTET_ENTRY(name, shape, bytes) {name##_unpack, shape, bytes, name##_one, name##_two}
    static const struct octet_format affine[9] = {[4] = OCTET_ENTRY(octet_affine_4, OCTET_MIN, 128),
                                                  [5] = OCTET_ENTRY(octet_affine_5, OCTET_MIN, 160),
                                                  [6] = OCTET_ENTRY(octet_affine_6, OCTET_MIN, 192),
                                                  [8] =
                                                      OCTET_ENTRY(octet_affine_8, OCTET_MIN, 256)};
    static const struct octet_format others[WEIGHT__N] = {
        [WEIGHT_MXFP4] = OCTET_ENTRY(octet_mxfp4, OCTET_LESS(12), 128),
        [WEIGHT_Q8_0] = OCTET_ENTRY(octet_q8_0, OCTET_PLAIN, 272),
        [WEIGHT_Q4_0] = OCTET_ENTRY(octet_q4_0, OCTET_LESS(8), 144),
        [WEIGHT_Q4_1] = OCTET_ENTRY(octet_q4_1, OCTET_MIN, 160),
        [WEIGHT_Q4_K] = OCTET_ENTRY(octet_q4_k, OCTET_SPLIT | OCTET_MIN, 144),
        [WEIGHT_Q5_K] = OCTET_ENTRY(octet_q5_k, OCTET_SPLIT | OCTET_MIN, 176),
        [WEIGHT_Q6_K] = OCTET_ENTRY(octet_q6_k, OCTET_HALVES, 210),
        [WEIGHT_IQ4_NL] = OCTET_ENTRY(octet_iq4_nl, OCTET_LESS(127), 144),
        [WEIGHT_IQ4_XS] = OCTET_ENTRY(octet_iq4_xs, OCTET_LESS(127), 136),
        [WEIGHT_MXFP4_BLOCK] = OCTET_ENTRY(octet_mxfp4_block, OCTET_LESS(12), 136),
    };
#undef OCTET_ENTRY
    const struct octet_format *f = w->type == WEIGHT_AFFINE ? &affine[w->bits] : &others[w->type];
    return f->unpack ? f : NULL;
}

#define OCTET_KINDS (PANEL_NIBBLE_OCTETS | PANEL_BYTE_OCTETS | PANEL_K_OCTETS)

/* The form that octet_tile() reads for this weight; 0: it has none. */
static inline unsigned octet_kinds(const struct weight *w)
{
    if (!octet_format(w))
        return 0;
    if (w->type == WEIGHT_Q4_K || w->type == WEIGHT_Q5_K)
        return PANEL_K_OCTETS;
    const bool nibble = w->type == WEIGHT_MXFP4 || (w->type == WEIGHT_AFFINE && w->bits == 4);
    return nibble ? PANEL_NIBBLE_OCTETS : PANEL_BYTE_OCTETS;
}

/* Two rows of weights, octet g, unpacked. */
static void octet_pair(const struct lanes *l, const struct octet_format *f, int32_t r, int32_t g,
                       struct octet o[2])
{
    for (int i = 0; i < 2; i++) {
        struct octet_tail tail;
        const struct octet_at at = g * 8 + 8 <= l->blocks
                                       ? octet_place(l, f->bytes, r + i, g)
                                       : octet_place_tail(l, f->bytes, r + i, g, &tail);
        f->unpack(l->tile->weight, &at, &o[i]);
    }
}

/* Some rows of activations, at most OCTET_PART. */
static void octet_part(const struct lanes *l, const struct octet_format *f,
                       const struct octet_rows *x, float *acc)
{
    float sums[LANES / 2][OCTET_PART][2][LANES];
    struct octet o[2];
    const int32_t octets = (l->blocks + 7) / 8;
    for (int32_t pair = 0; pair < LANES / 2; pair++)
        memset(sums[pair], 0, (size_t)x->n * sizeof sums[pair][0]);
    if (x->n <= OCTET_FEW) {
        for (int32_t pair = 0; pair < LANES / 2; pair++)
            for (int32_t g = 0; g < octets; g++) {
                const size_t row = l->tile->weight->row_bytes;
                const uint8_t *next = l->data[2 * pair] + 2 * row + (size_t)g * (size_t)f->bytes;
                fetch_lines(next, (size_t)f->bytes);
                fetch_lines(next + row, (size_t)f->bytes);
                octet_pair(l, f, 2 * pair, g, o);
                octet_rows_run(o, f->shape, x, (size_t)g * PANEL_OCTET_BYTES, sums[pair]);
            }
    } else {
        for (int32_t g = 0; g < octets; g++) {
            for (int32_t b = g * 8; b < g * 8 + 8 && b < l->blocks; b++)
                fetch_ahead(l, b);
            for (int32_t pair = 0; pair < LANES / 2; pair++) {
                octet_pair(l, f, 2 * pair, g, o);
                octet_rows_run(o, f->shape, x, (size_t)g * PANEL_OCTET_BYTES, sums[pair]);
            }
        }
    }
    for (int32_t i = 0; i < x->n; i++) {
        vf v[8];
        UNROLL
        for (int r = 0; r < 8; r++)
            v[r] = vf_load(sums[r / 2][i][r % 2]);
        vf_store(acc + i * LANES, sum_lanes(v));
    }
}

static void octet_tile(const struct lanes *l, float *acc)
{
    const struct tile *t = l->tile;
    const struct panel *p = t->panel;
    const struct octet_format *f = octet_format(t->weight);
    const unsigned kind = octet_kinds(t->weight);
    const uint8_t *from = kind == PANEL_K_OCTETS        ? p->k_octets
                          : kind == PANEL_NIBBLE_OCTETS ? p->nibble_octets
                                                        : p->byte_octets;
    struct octet_rows x;
    for (int32_t first = 0; first < t->n; first += OCTET_PART) {
        x.n = t->n - first < OCTET_PART ? t->n - first : OCTET_PART;
        for (int32_t i = 0; i < x.n; i++)
            x.row[i] = from + (size_t)l->index[first + i] * panel_octet_row(p->blocks);
        if (x.n == 1)
            f->one(l, x.row, acc + first * LANES);
        else if (x.n == 2)
            f->two(l, x.row, acc + first * LANES);
        else
            octet_part(l, f, &x, acc + first * LANES);
    }
}
