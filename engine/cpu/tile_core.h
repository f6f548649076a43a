/* What every weight format shares: LANES weight rows stand in the lanes of a vector, so that no sum crosses
 * lanes, and one unpacking of a block serves all activation rows. Included after simd_<isa>.h.
 *
 * 16-bit path: the products of a block are summed exactly in int32, then
 *   acc += float(sum) * (weight scale * activation scale) [+ minimum * activation sum]
 * block after block: a row's result has one order of additions, whatever else is in the step. */
#pragma once
#include "engine/cpu/block.h"
#include "engine/cpu/kernels.h"

#define SEGMENT_BLOCKS 64 /* blocks whose scales are prepared together: 4 KiB of them per plane */

struct lanes { /* the tile being computed */
    const struct tile *tile;
    const uint8_t *data[LANES], *scales[LANES], *biases[LANES]; /* rows */
    struct weight_planes planes;
    int32_t row[LANES];
    int32_t index[KERNEL_MAX_TILE_ROWS]; /* panel rows */
    int32_t blocks;
    const uint8_t *ahead; /* the next tile's bytes, fetched a block's worth at a time while this one is computed */
    size_t ahead_step;
};

struct scales { /* of a segment, rows in lanes */
    float scale[SEGMENT_BLOCKS][LANES], min[SEGMENT_BLOCKS][LANES];
};

static inline void fetch_lines(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __asm__ volatile("prefetcht1 %0" : : "m"(at[i])); /* gcc 12 drops loops of __builtin_prefetch */
}

static inline void lanes_init(struct lanes *l, const struct tile *t, float *acc)
{
    const struct weight *w = t->weight;
    l->tile = t;
    l->planes = weight_planes(w, t->matrix);
    l->blocks = t->panel->blocks;
    for (int32_t i = 0; i < LANES; i++) {
        int32_t row = t->row + i < w->rows ? t->row + i : w->rows - 1;
        l->row[i] = row;
        l->data[i] = l->planes.data + (size_t)row * w->row_bytes;
        l->scales[i] = l->planes.scales ? l->planes.scales + (size_t)row * w->scale_row_bytes : NULL;
        l->biases[i] = l->planes.biases ? l->planes.biases + (size_t)row * w->scale_row_bytes : NULL;
    }
    /* Sixteen rows are more streams than the hardware follows; the tile's bytes are one run, so name them. */
    l->ahead_step = (size_t)LANES * w->row_bytes / (size_t)l->blocks;
    bool more = t->row + 2 * LANES <= w->rows;
    l->ahead = more ? l->data[0] + (size_t)LANES * w->row_bytes : l->data[0];
    if (more && l->scales[0])
        fetch_lines(l->scales[0] + (size_t)LANES * w->scale_row_bytes, (size_t)LANES * w->scale_row_bytes);
    if (more && l->biases[0])
        fetch_lines(l->biases[0] + (size_t)LANES * w->scale_row_bytes, (size_t)LANES * w->scale_row_bytes);
    for (int32_t i = 0; i < t->n; i++) {
        l->index[i] = t->index ? t->index[i] : t->first + i;
        vf_store(acc + i * LANES, vf_zero());
    }
}

static inline void fetch_ahead(const struct lanes *l, int32_t block)
{
    fetch_lines(l->ahead + (size_t)block * l->ahead_step, l->ahead_step);
}

static inline size_t cell(const struct panel *p, int32_t block, int32_t row)
{
    return (size_t)block * (size_t)p->rows + (size_t)row;
}

/* What is computed with an unpacked block. Constants where the format functions are inlined: with one row its
 * sum stays in a register and nothing else needs any. */
enum mode { MODE_ONE, MODE_MANY, MODE_EXACT };

struct sums {
    vf one;      /* MODE_ONE */
    float *many; /* [n, LANES] */
};

/* How a format's scales enter: one per block; one and a minimum; one per half block; one and a minimum each. */
enum scale_shape { PLAIN = 0, WITH_MIN = 1, HALVES = 2 };

static inline __attribute__((always_inline)) vf finish(const struct panel *p, size_t at, vi low, vi high,
                                                       const vf scale[2], const vf min[2], int shape, vf sum)
{
    vf factor = vf_set1(p->scale[at]);
    if (shape & HALVES) {
        sum = vf_fma(vf_from_int(low), vf_mul(scale[0], factor), sum);
        sum = vf_fma(vf_from_int(high), vf_mul(scale[1], factor), sum);
    } else {
        sum = vf_fma(vf_from_int(vi_add(low, high)), vf_mul(scale[0], factor), sum);
    }
    if (shape & WITH_MIN) {
        sum = vf_fma(min[0], vf_set1(p->sum[2 * at]), sum);
        sum = vf_fma(min[1], vf_set1(p->sum[2 * at + 1]), sum);
    }
    return sum;
}

static inline __attribute__((always_inline)) vf block_one(const vi q[16], const vf scale[2], const vf min[2], int shape,
                                                          const struct panel *p, const int16_t *values, size_t at,
                                                          vf acc)
{
    const int16_t *x = values + at * PANEL_BLOCK;
    vi sum[4];
    UNROLL
    for (int c = 0; c < 4; c++)
        sum[c] = vi_zero();
    UNROLL
    for (int i = 0; i < 4; i++)
        UNROLL
        for (int c = 0; c < 4; c++)
            sum[c] = vi_dot(sum[c], q[4 * c + i], vi_pair(x + 2 * (4 * c + i)));
    return finish(p, at, vi_add(sum[0], sum[1]), vi_add(sum[2], sum[3]), scale, min, shape, acc);
}

/* `count` rows, a constant: 1 to 4. */
static inline __attribute__((always_inline)) void block_few(const vi q[16], const vf scale[2], const vf min[2],
                                                            int shape, const struct panel *p, const int16_t *values,
                                                            const size_t *at, int count, float *acc)
{
    vi low[4], high[4];
    UNROLL
    for (int t = 0; t < count; t++)
        low[t] = high[t] = vi_zero();
    UNROLL
    for (int i = 0; i < 16; i++)
        UNROLL
        for (int t = 0; t < count; t++) {
            vi *sum = i >= 8 && shape & HALVES ? &high[t] : &low[t];
            *sum = vi_dot(*sum, q[i], vi_pair(values + at[t] * PANEL_BLOCK + 2 * i));
        }
    UNROLL
    for (int t = 0; t < count; t++)
        vf_store(acc + t * LANES, finish(p, at[t], low[t], high[t], scale, min, shape, vf_load(acc + t * LANES)));
}

/* One unpacked block times all rows of the tile. */
static inline __attribute__((always_inline)) void block_rows(const struct lanes *l, int32_t block, const vi q[16],
                                                             const vf scale[2], const vf min[2], int shape,
                                                             enum panel_kind kind, float *acc)
{
    const struct panel *p = l->tile->panel;
    const int16_t *values = kind == PANEL_NIBBLE ? p->nibble : p->byte;
    int32_t n = l->tile->n, i = 0;
    fetch_ahead(l, block);
    size_t at[4];
    for (; i + 4 <= n; i += 4) {
        UNROLL
        for (int t = 0; t < 4; t++)
            at[t] = cell(p, block, l->index[i + t]);
        block_few(q, scale, min, shape, p, values, at, 4, acc + i * LANES);
    }
    for (int t = 0; i + t < n; t++)
        at[t] = cell(p, block, l->index[i + t]);
    if (n - i == 1)
        block_few(q, scale, min, shape, p, values, at, 1, acc + i * LANES);
    else if (n - i == 2)
        block_few(q, scale, min, shape, p, values, at, 2, acc + i * LANES);
    else if (n - i == 3)
        block_few(q, scale, min, shape, p, values, at, 3, acc + i * LANES);
}

/* The f32 path: weights of a block, [32 columns][LANES rows]. Four partial sums by column. */
static inline void block_floats(const struct lanes *l, int32_t block, float w[32][LANES], float *acc)
{
    const struct panel *p = l->tile->panel;
    fetch_ahead(l, block);
    for (int32_t i = 0; i < l->tile->n; i++) {
        const float *x = p->f32 + cell(p, block, l->index[i]) * PANEL_BLOCK;
        vf sum[4];
        UNROLL
        for (int c = 0; c < 4; c++)
            sum[c] = vf_mul(vf_load(w[c]), vf_set1(x[c]));
        UNROLL
        for (int c = 4; c < 32; c += 4)
            UNROLL
            for (int k = 0; k < 4; k++)
                sum[k] = vf_fma(vf_load(w[c + k]), vf_set1(x[c + k]), sum[k]);
        vf all = vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3]));
        vf_store(acc + i * LANES, vf_add(vf_load(acc + i * LANES), all));
    }
}

/* An unpacked block as floats, for f32 activations. Pair i of the two orders (panel.h) holds these columns. */
static inline void block_exact(const struct lanes *l, int32_t block, const vi q[16], const vf scale[2],
                               const vf min[2], enum panel_kind kind, float *acc)
{
    float w[32][LANES];
    UNROLL
    for (int i = 0; i < 16; i++) {
        int first = kind == PANEL_NIBBLE ? i / 4 * 8 + i % 4 : i / 2 * 4 + i % 2;
        int second = first + (kind == PANEL_NIBBLE ? 4 : 2);
        vf low = vf_from_int(vi_sar(vi_shl(q[i], 16), 16)), high = vf_from_int(vi_sar(q[i], 16));
        vf_store(w[first], vf_fma(low, scale[i / 8], min[i / 8]));
        vf_store(w[second], vf_fma(high, scale[i / 8], min[i / 8]));
    }
    block_floats(l, block, w, acc);
}

static inline __attribute__((always_inline)) void block_apply(const struct lanes *l, int32_t block, const vi q[16],
                                                              const vf scale[2], const vf min[2], int shape,
                                                              enum panel_kind kind, enum mode mode, struct sums *acc)
{
    const struct panel *p = l->tile->panel;
    if (mode == MODE_ONE) {
        fetch_ahead(l, block);
        acc->one = block_one(q, scale, min, shape, p, kind == PANEL_NIBBLE ? p->nibble : p->byte,
                             cell(p, block, l->index[0]), acc->one);
    } else if (mode == MODE_EXACT) {
        block_exact(l, block, q, scale, min, kind, acc->many);
    } else {
        block_rows(l, block, q, scale, min, shape, kind, acc->many);
    }
}

/* Any packed format through plain C: right, and slow where few rows share the unpacking. */
static inline __attribute__((always_inline)) void tile_plain(const struct lanes *l, enum mode mode, struct sums *acc)
{
    const struct weight *w = l->tile->weight;
    for (int32_t b = 0; b < l->blocks; b++) {
        int16_t pairs[16][LANES][2];
        float plane[4][LANES];
        for (int32_t r = 0; r < LANES; r++) {
            struct block block;
            block_decode(w, &l->planes, l->row[r], b, &block);
            UNROLL
            for (int i = 0; i < 16; i++) {
                pairs[i][r][0] = block.q[i / 2 * 4 + i % 2];
                pairs[i][r][1] = block.q[i / 2 * 4 + i % 2 + 2];
            }
            UNROLL
            for (int h = 0; h < 2; h++) {
                plane[h][r] = block.scale[h];
                plane[2 + h][r] = block.min[h];
            }
        }
        vi q[16];
        UNROLL
        for (int i = 0; i < 16; i++)
            q[i] = vi_load(pairs[i]);
        vf scale[2] = {vf_load(plane[0]), vf_load(plane[1])}, min[2] = {vf_load(plane[2]), vf_load(plane[3])};
        block_apply(l, b, q, scale, min, WITH_MIN | HALVES, PANEL_BYTE, mode, acc);
    }
}

/* F32, F16, BF16, any number of columns. */
static inline void tile_plain_floats(const struct lanes *l, float *acc)
{
    for (int32_t b = 0; b < l->blocks; b++) {
        float row[32], w[32][LANES];
        for (int32_t r = 0; r < LANES; r++) {
            block_f32(l->tile->weight, &l->planes, l->row[r], b, row);
            UNROLL
            for (int c = 0; c < 32; c++)
                w[c][r] = row[c];
        }
        block_floats(l, b, w, acc);
    }
}
