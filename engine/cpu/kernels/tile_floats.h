/* F32, F16 and BF16 weights: columns stand in the lanes, as they lie. Four rows of weights are
 * multiplied with a few of activations at a time; a product has one sum of LANES lanes, which are
 * added at the row's end, so its bits are the same in any company. Included after tile_core.h. */
#pragma once
#include "engine/cpu/kernels/tile_core.h"

#define LINE_WEIGHTS 4                  /* rows of weights, */
#define LINE_ROWS (LANES == 16 ? 4 : 2) /* and of activations: their sums fill the registers */

static inline __attribute__((always_inline)) vf line_weights(const uint8_t *row, size_t column,
                                                             enum weight_type type)
{
    if (type == WEIGHT_F32)
        return vf_load((const float *)(const void *)(row + 4 * column));
    const uint16_t *at = (const uint16_t *)(const void *)(row + 2 * column);
    return type == WEIGHT_F16 ? vf_load_half(at) : vf_load_bf16(at);
}

/* Weight rows r to r + 3 times `count` rows, a constant, of activations from `first` on. */
static inline __attribute__((always_inline)) void float_lines(const struct lanes *l,
                                                              enum weight_type type, int32_t r,
                                                              int32_t first, int count, float *acc)
{
    const struct panel *p = l->tile->panel;
    const float *x[LINE_ROWS];
    vf sum[LINE_WEIGHTS][LINE_ROWS];
    UNROLL
    for (int t = 0; t < count; t++) {
        x[t] = p->f32 + cell(p, 0, l->index[first + t]) * PANEL_BLOCK;
        UNROLL
        for (int i = 0; i < LINE_WEIGHTS; i++)
            sum[i][t] = vf_zero();
    }
    for (int32_t b = 0; b < l->blocks; b++)
        UNROLL
    for (int c = 0; c < PANEL_BLOCK; c += LANES) {
        vf weights[LINE_WEIGHTS];
        UNROLL
        for (int i = 0; i < LINE_WEIGHTS; i++)
            weights[i] = line_weights(l->data[r + i], (size_t)b * PANEL_BLOCK + (size_t)c, type);
        UNROLL
        for (int t = 0; t < count; t++) {
            const vf v = vf_load(x[t] + cell(p, b, 0) * PANEL_BLOCK + c);
            UNROLL
            for (int i = 0; i < LINE_WEIGHTS; i++)
                sum[i][t] = vf_fma(weights[i], v, sum[i][t]);
        }
    }
    UNROLL
    for (int t = 0; t < count; t++)
        UNROLL
    for (int i = 0; i < LINE_WEIGHTS; i++)
        acc[(first + t) * LANES + r + i] = vf_sum(sum[i][t]);
}

static inline __attribute__((always_inline)) void float_rows(const struct lanes *l,
                                                             enum weight_type type, float *acc)
{
    const int32_t n = l->tile->n;
    int32_t t = 0;
    for (; t + LINE_ROWS <= n; t += LINE_ROWS)
        for (int32_t r = 0; r < LANES; r += LINE_WEIGHTS)
            float_lines(l, type, r, t, LINE_ROWS, acc);
    for (; t < n; t++)
        for (int32_t r = 0; r < LANES; r += LINE_WEIGHTS)
            float_lines(l, type, r, t, 1, acc);
}

/* Columns a multiple of PANEL_BLOCK. */
static __attribute__((noinline)) void tile_floats(const struct lanes *l, float *acc)
{
    const enum weight_type type = l->tile->weight->type;
    if (type == WEIGHT_F32)
        float_rows(l, WEIGHT_F32, acc);
    else if (type == WEIGHT_F16)
        float_rows(l, WEIGHT_F16, acc);
    else
        float_rows(l, WEIGHT_BF16, acc);
}
