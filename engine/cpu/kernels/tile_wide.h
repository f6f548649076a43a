/* Many rows of activations (AVX2): sixteen weight rows stand in the lanes of two vectors, so that
 * one load of four bytes of activations, in every lane, serves both, and eight sums of four rows
 * stay in registers. The bytes are four columns, or a pair of int16. The activations are those of
 * octet_tile.h, and each lane of an octet has a running sum of its own here, so that a row's bits
 * are those of the octets, with which few rows are faster. Included after octet_products.h. */
#pragma once
#include "engine/cpu/kernels/octet_products.h"
#include "engine/cpu/kernels/wide_formats.h"

#define WIDE_ROWS 4 /* of activations at a time */

/* A row of activations has a sum for each lane of an octet. */
typedef float wide_sums[8][WIDE_HALVES][LANES];

/* What a row begins with, which is read instead of being written first. */
static const wide_sums wide_zeros[WIDE_ROWS];

struct wide_totals { /* of some rows: those so far, and where they go */
    const wide_sums *from;
    wide_sums *to;
};

static inline bool wide_pairs(int shape)
{
    return !octet_depth(shape);
}

/* Where the columns that vector i is multiplied with lie, from the block's own place in an octet of
 * activations on. */
static inline size_t wide_column(int shape, int i)
{
    const int half = wide_pairs(shape) ? 8 : 4;
    return shape & OCTET_SPLIT ? (size_t)(i % half * 32 + i / half * 16) : (size_t)i * 32;
}

struct wide_place { /* of a block in an octet of activations */
    size_t columns, lane, less;
};

static inline __attribute__((always_inline)) struct wide_place wide_place(int shape, size_t block)
{
    const size_t odd = block % 2, pair = block / 2, first = wide_pairs(shape) ? 0 : PANEL_OCTET_LOW;
    struct wide_place p = {first + 4 * block, block, 0};
    if (shape & OCTET_SPLIT)
        p = (struct wide_place){first + (wide_pairs(shape) ? 256 : 128) * odd + 4 * pair,
                                4 * odd + pair, 0};
    if (shape & OCTET_HALVES)
        p.less = PANEL_OCTET_LESS_32 + 32 * odd + 4 * pair;
    else if (shape >> OCTET_LESS_SHIFT)
        p.less = octet_less(shape) + 4 * block;
    return p;
}

static inline vi wide_dword(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return vi_set1(v);
}

static inline vf wide_float(const uint8_t *p)
{
    return vf_bits(wide_dword(p));
}

/* One row's columns times both vectors of weights. The order of the instructions is kept: left
 * alone, gcc 12 loads a whole block first and has no registers left. */
#define WIDE_STEP(name, multiply, add)                                                             \
    static inline __attribute__((always_inline)) void name(                                        \
        const vi q[WIDE_HALVES], const uint8_t *x, bool first, vi sum[WIDE_HALVES])                \
    {                                                                                              \
        const int32_t *columns = (const int32_t *)(const void *)x;                                 \
        vi v, u;                                                                                   \
        if (first)                                                                                 \
            __asm__ volatile("vpbroadcastd %3, %2\n\t" multiply " %2, %4, %0\n\t" multiply         \
                             " %2, %5, %1"                                                         \
                             : "=&x"(sum[0]), "=x"(sum[1]), "=&x"(v)                               \
                             : "m"(*columns), "x"(q[0]), "x"(q[1]));                               \
        else                                                                                       \
            __asm__ volatile("vpbroadcastd %4, %2\n\t" multiply " %2, %5, %3\n\t" multiply         \
                             " %2, %6, %2\n\t" add " %3, %0, %0\n\t" add " %2, %1, %1"             \
                             : "+x"(sum[0]), "+x"(sum[1]), "=&x"(v), "=&x"(u)                      \
                             : "m"(*columns), "x"(q[0]), "x"(q[1]));                               \
    }
WIDE_STEP(wide_step_bytes, "vpmaddubsw", "vpaddw")
WIDE_STEP(wide_step_pairs, "vpmaddwd", "vpaddd")
#undef WIDE_STEP

/* Products of q[from] to q[from + n - 1], of bytes added up in 16 bits. */
static inline __attribute__((always_inline)) void wide_products(const struct wide_block *b,
                                                                int shape, int from, int n,
                                                                const uint8_t *const *x, int count,
                                                                vi sum[WIDE_ROWS][WIDE_HALVES])
{
    UNROLL
    for (int i = from; i < from + n; i++) {
        vi q[WIDE_HALVES];
        __asm__ volatile("vmovdqa %2, %0\n\tvmovdqa %3, %1"
                         : "=&x"(q[0]), "=x"(q[1])
                         : "m"(b->q[i][0]), "m"(b->q[i][1]));
        UNROLL
        for (int t = 0; t < count; t++)
            if (wide_pairs(shape))
                wide_step_pairs(q, x[t] + wide_column(shape, i), i == from, sum[t]);
            else
                wide_step_bytes(q, x[t] + wide_column(shape, i), i == from, sum[t]);
    }
}

/* Products of a block, or of its h-th half, in int32. */
static inline __attribute__((always_inline)) void wide_total(const struct wide_block *b, int shape,
                                                             int h, const uint8_t *const *x,
                                                             int count,
                                                             vi total[WIDE_ROWS][WIDE_HALVES])
{
    const vi ones = _mm256_set1_epi16(1);
    const int all = wide_pairs(shape) ? 16 : 8, n = shape & OCTET_HALVES ? all / 2 : all,
              depth = octet_depth(shape) < n ? octet_depth(shape) : n;
    if (wide_pairs(shape)) {
        wide_products(b, shape, n * h, n, x, count, total);
        return;
    }
    for (int i = 0; i < n; i += depth) {
        vi sum[WIDE_ROWS][WIDE_HALVES];
        wide_products(b, shape, n * h + i, depth, x, count, sum);
        UNROLL
        for (int t = 0; t < count; t++)
            UNROLL
        for (int r = 0; r < WIDE_HALVES; r++) {
            sum[t][r] = _mm256_madd_epi16(sum[t][r], ones);
            total[t][r] = i ? vi_add(total[t][r], sum[t][r]) : sum[t][r];
        }
    }
}

struct wide_part { /* a block, or (OCTET_HALVES) the h-th half of one */
    const struct wide_block *weights;
    const uint8_t *const *octets;
    struct wide_place place;
    size_t lane;
    int h;
};

/* ... times `count` rows, a constant. */
static inline __attribute__((always_inline)) void wide_part(const struct wide_part *p, int shape,
                                                            const uint8_t *const *x, int count,
                                                            const struct wide_totals *sums)
{
    const struct wide_block *b = p->weights;
    vi total[WIDE_ROWS][WIDE_HALVES];
    wide_total(b, shape, p->h, x, count, total);
    vf scale[WIDE_HALVES];
    UNROLL
    for (int r = 0; r < WIDE_HALVES; r++) {
        scale[r] = b->scale[p->h][r];
        if (shape & OCTET_MIN) /* two loads less a row; without a minimum it gains nothing */
            __asm__("" : "+x"(scale[r]));
    }
    UNROLL
    for (int t = 0; t < count; t++) {
        const uint8_t *octet = p->octets[t];
        const vf factor = wide_float(octet + PANEL_OCTET_SCALE + 4 * p->place.lane);
        vi less = vi_zero();
        if (shape >> OCTET_LESS_SHIFT)
            less = octet_hold(wide_dword(octet + p->place.less + 16 * (size_t)p->h));
        UNROLL
        for (int r = 0; r < WIDE_HALVES; r++) {
            vi all = total[t][r];
            if (shape >> OCTET_LESS_SHIFT)
                all = vi_add(all, less);
            vf sum = vf_fma(vf_from_int(all), vf_mul(scale[r], factor),
                            vf_load(sums->from[t][p->lane][r]));
            if (shape & OCTET_MIN)
                sum =
                    vf_fma(b->min[r], wide_float(octet + PANEL_OCTET_SUM + 4 * p->place.lane), sum);
            vf_store(sums->to[t][p->lane][r], sum);
        }
    }
}

/* One block times `count` rows, a constant. */
static inline __attribute__((always_inline)) void wide_few(const struct wide_block *b, int shape,
                                                           size_t block,
                                                           const uint8_t *const *octets, int count,
                                                           const struct wide_totals *sums)
{
    struct wide_part p = {.weights = b, .octets = octets, .place = wide_place(shape, block)};
    const uint8_t *x[WIDE_ROWS];
    UNROLL
    for (int t = 0; t < count; t++)
        x[t] = octets[t] + p.place.columns;
    p.lane = shape & OCTET_HALVES ? block / 2 : p.place.lane;
    wide_part(&p, shape, x, count, sums);
    if (shape & OCTET_HALVES) {
        p.lane += 4;
        p.h = 1;
        wide_part(&p, shape, x, count, sums);
    }
}

struct wide_ahead { /* bytes of each half to fetch while some rows are multiplied: at once they
                       would fill the first cache's miss buffers, and the next loads wait */
    const uint8_t *from[WIDE_HALVES];
    size_t step;
};

/* `count` blocks' worth from `block` on, in so many parts. */
static inline struct wide_ahead wide_ahead(const struct lanes l[WIDE_HALVES], int32_t block,
                                           int32_t count, int32_t parts)
{
    struct wide_ahead a = {.step =
                               ((size_t)count * l->ahead_step / (size_t)parts + 63) & ~(size_t)63};
    for (int half = 0; half < WIDE_HALVES; half++)
        a.from[half] = l[half].ahead + (size_t)block * l->ahead_step;
    return a;
}

static inline void wide_fetch(const struct wide_ahead *a, int32_t part)
{
    fetch_lines(a->from[0] + (size_t)part * a->step, a->step);
    fetch_lines(a->from[1] + (size_t)part * a->step, a->step);
}

struct wide_octet { /* blocks that are unpacked */
    const struct wide_block *blocks;
    int32_t count;
    size_t at; /* in a row of activations */
    struct wide_ahead ahead;
};

/* Blocks times n rows. */
#define WIDE_RUN(name, shape)                                                                      \
    WIDE_FEW(name##_1, shape, 1)                                                                   \
    WIDE_FEW(name##_2, shape, 2)                                                                   \
    WIDE_FEW(name##_3, shape, 3)                                                                   \
    WIDE_FEW(name##_4, shape, 4)                                                                   \
    static void name(const struct wide_octet *o, const struct octet_rows *rows, wide_sums *sums)   \
    {                                                                                              \
        for (int32_t t = 0; t < rows->n; t += WIDE_ROWS) {                                         \
            wide_fetch(&o->ahead, t / WIDE_ROWS);                                                  \
            switch (rows->n - t) {                                                                 \
            case 1:                                                                                \
                name##_1(o, rows->row + t, sums + t);                                              \
                break;                                                                             \
            case 2:                                                                                \
                name##_2(o, rows->row + t, sums + t);                                              \
                break;                                                                             \
            case 3:                                                                                \
                name##_3(o, rows->row + t, sums + t);                                              \
                break;                                                                             \
            default:                                                                               \
                name##_4(o, rows->row + t, sums + t);                                              \
            }                                                                                      \
        }                                                                                          \
    }
#define WIDE_FEW(name, shape, n)                                                                   \
    static __attribute__((noinline)) void name(const struct wide_octet *o,                         \
                                               const uint8_t *const *rows, wide_sums *sums)        \
    {                                                                                              \
        const uint8_t *x[n];                                                                       \
        UNROLL                                                                                     \
        for (int i = 0; i < n; i++)                                                                \
            x[i] = rows[i] + o->at;                                                                \
        const struct wide_block *b = o->blocks; /* in registers: sums might change them */         \
        const int32_t count = o->count;                                                            \
        const bool begins = !o->at;                                                                \
        for (int32_t k = 0; k < count; k++) {                                                      \
            /* Two blocks share a lane where their halves have one each. */                        \
            const bool first = begins && !((shape) & OCTET_HALVES && k % 2);                       \
            const struct wide_totals totals = {first ? wide_zeros : sums, sums};                   \
            wide_few(b + k, shape, (size_t)k, x, n, &totals);                                      \
        }                                                                                          \
    }
WIDE_RUN(wide_bytes_less_8, OCTET_BYTES(8) | OCTET_LESS(8))
WIDE_RUN(wide_bytes_less_12, OCTET_BYTES(4) | OCTET_LESS(12))
WIDE_RUN(wide_bytes_min, OCTET_BYTES(8) | OCTET_MIN)
WIDE_RUN(wide_pairs_plain, OCTET_PLAIN)
WIDE_RUN(wide_pairs_less_8, OCTET_LESS(8))
WIDE_RUN(wide_pairs_less_12, OCTET_LESS(12))
WIDE_RUN(wide_pairs_min, OCTET_MIN)
WIDE_RUN(wide_pairs_k, OCTET_SPLIT | OCTET_MIN)
WIDE_RUN(wide_pairs_q6_k, OCTET_SPLIT | OCTET_HALVES | OCTET_LESS(32))
#undef WIDE_FEW
#undef WIDE_RUN

typedef void (*wide_run)(const struct wide_octet *o, const struct octet_rows *rows,
                         wide_sums *sums);

struct wide_format {
    wide_unpack unpack;
    wide_run bytes, pairs; /* bytes: NULL where 16 bits do not hold the sums */
    bool narrow;           /* unpacked to bytes: pairs are made of them */
};

/* NULL: the format has no such way. */
static const struct wide_format *wide_format(const struct weight *w)
{
    static const struct wide_format affine[9] = {
        [4] = {wide_affine_4, wide_bytes_min, wide_pairs_min, true},
        [8] = {wide_affine_8, NULL, wide_pairs_min, true},
    };
    static const struct wide_format others[WEIGHT__N] = {
        [WEIGHT_MXFP4] = {wide_mxfp4, wide_bytes_less_12, wide_pairs_less_12, true},
        [WEIGHT_Q8_0] = {wide_q8_0, NULL, wide_pairs_plain, false},
        [WEIGHT_Q4_0] = {wide_q4_0, wide_bytes_less_8, wide_pairs_less_8, true},
        [WEIGHT_Q4_1] = {wide_q4_1, wide_bytes_min, wide_pairs_min, true},
        [WEIGHT_Q4_K] = {wide_q4_k, NULL, wide_pairs_k, true},
        [WEIGHT_Q5_K] = {wide_q5_k, NULL, wide_pairs_k, true},
        [WEIGHT_Q6_K] = {wide_q6_k, NULL, wide_pairs_q6_k, true},
        [WEIGHT_MXFP4_BLOCK] = {wide_mxfp4_block, wide_bytes_less_12, wide_pairs_less_12, true},
    };
    const struct wide_format *f = w->type == WEIGHT_AFFINE ? &affine[w->bits] : &others[w->type];
    return f->unpack ? f : NULL;
}

/* Bytes of a half become pairs. */
static void wide_widen(struct wide_block *b, int half, int32_t count)
{
    for (int32_t k = 0; k < count; k++)
        for (int i = 7; i >= 0; i--) {
            const vi v = b[k].q[i][half];
            b[k].q[2 * i][half] = vi_and(v, vi_set1(0x00ff00ff));
            b[k].q[2 * i + 1][half] = vi_shr16(v, 8);
        }
}

/* The lanes of an octet summed as sum_lanes() does. */
static inline vf wide_sum(const wide_sums *s, int half)
{
    vf v[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = vf_load((*s)[i][half]);
    return vf_add(vf_add(vf_add(v[0], v[1]), vf_add(v[2], v[3])),
                  vf_add(vf_add(v[4], v[5]), vf_add(v[6], v[7])));
}

/* Each half fetches ahead what is its own of the next tile: what follows the first half's rows is
 * the second half, whose turn comes too soon. Of the tile that the caller tells, the first half's
 * place is enough: its rows are one run. */
static inline void wide_fetch_next(struct lanes l[WIDE_HALVES])
{
    const struct weight *w = l->tile->weight;
    const uint8_t *ahead = l->tile->ahead;
    if (ahead && !l->tile->more) {
        l[0].ahead = ahead;
        l[1].ahead = ahead + (size_t)LANES * w->row_bytes;
        return;
    }
    for (int half = 0; half < WIDE_HALVES; half++) {
        const bool more = l[half].row[0] + (WIDE_HALVES + 1) * LANES <= w->rows;
        l[half].ahead = l[half].data[0] + (more ? (size_t)(WIDE_HALVES * LANES) * w->row_bytes : 0);
    }
}

/* Both halves of a tile times some rows; acc [x->n, WIDE_HALVES, LANES]. */
static void wide_tile(const struct lanes l[WIDE_HALVES], const struct wide_format *f, bool pairs,
                      const struct octet_rows *x, float *acc)
{
    wide_sums sums[KERNEL_MAX_TILE_ROWS];
    if (l->blocks < 8) /* some lanes of an octet have no block */
        memset(sums, 0, (size_t)x->n * sizeof *sums);
    struct wide_block blocks[8];
    for (int32_t g = 0; 8 * g < l->blocks; g++) {
        const int32_t left = l->blocks - 8 * g, count = left < 8 ? left : 8;
        const struct wide_octet octet = {
            blocks, count, (size_t)g * PANEL_OCTET_BYTES,
            wide_ahead(l, 8 * g, count, (x->n + WIDE_ROWS - 1) / WIDE_ROWS)};
        for (int half = 0; half < WIDE_HALVES; half++) {
            f->unpack(&l[half], half, g, count, blocks);
            if (pairs && f->narrow)
                wide_widen(blocks, half, count);
        }
        (pairs ? f->pairs : f->bytes)(&octet, x, sums);
    }
    for (int32_t t = 0; t < x->n; t++)
        for (int half = 0; half < WIDE_HALVES; half++)
            vf_store(acc + (t * WIDE_HALVES + half) * LANES, wide_sum(&sums[t], half));
}
