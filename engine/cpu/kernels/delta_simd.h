/* DeltaNet's kernels in vector form: unit vectors, the convolution, the delta rule. Included after
 * ops_simd.h. */
#pragma once
#include "engine/cpu/kernels/ops_simd.h"

static void l2_normalize(float *v, int32_t n, float factor)
{
    vf sum = vf_zero();
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf x = vf_load(v + i);
        sum = vf_fma(x, x, sum);
    }
    if (i < n) {
        vf x = vf_load_n(v + i, n - i);
        sum = vf_fma(x, x, sum);
    }
    vf by = vf_set1(factor / sqrtf(vf_sum(sum) + 1e-6f));
    for (i = 0; i + LANES <= n; i += LANES)
        vf_store(v + i, vf_mul(vf_load(v + i), by));
    if (i < n)
        vf_store_n(v + i, vf_mul(vf_load_n(v + i, n - i), by), n - i);
}

/* A vector of channels; n_taps is a constant where this is inlined. */
static inline __attribute__((always_inline)) void convolve_lanes(const struct convolution *c,
                                                                 int32_t channel, int n_taps)
{
    vf weight[CONVOLUTION_MAX_TAPS + 1], past[CONVOLUTION_MAX_TAPS];
    UNROLL
    for (int i = 0; i <= n_taps; i++)
        weight[i] = vf_gather(c->weight + (size_t)channel * (size_t)(n_taps + 1) + i, n_taps + 1);
    UNROLL
    for (int i = 0; i < n_taps; i++)
        past[i] = vf_load(c->past + (size_t)i * c->past_stride + channel);
    for (int32_t t = 0; t < c->n; t++) {
        float *at = c->values + (size_t)t * c->stride + channel;
        vf input = vf_load(at), sum = vf_mul(weight[n_taps], input);
        UNROLL
        for (int i = 0; i < n_taps; i++)
            sum = vf_fma(weight[i], past[i], sum);
        UNROLL
        for (int i = 0; i + 1 < n_taps; i++)
            past[i] = past[i + 1];
        past[n_taps - 1] = input;
        vf_store(at, vf_silu(sum, 1));
    }
    UNROLL
    for (int i = 0; i < n_taps; i++)
        vf_store(c->past + (size_t)i * c->past_stride + channel, past[i]);
}

/* n_taps is 1 .. 3; d_k and d_v are multiples of 16 (checked at open), so that no partial
 * vector is left. */
static void convolve(const struct convolution *c)
{
    for (int32_t channel = 0; channel < c->channels; channel += LANES)
        if (c->n_taps == 3)
            convolve_lanes(c, channel, 3);
        else if (c->n_taps == 2)
            convolve_lanes(c, channel, 2);
        else
            convolve_lanes(c, channel, 1);
}

#define SCAN_VECTORS                                                                               \
    4 /* columns that go through all rows together: their part of the state stays in the first     \
         cache */

/* One row's step on `width` vectors of columns at `column`. Two sums for each, of even and of odd
 * rows of the state. */
static inline __attribute__((always_inline)) void
delta_columns(const struct delta_scan *s, int32_t t, int32_t column, int width)
{
    const float *q = s->q + (size_t)t * s->stride, *k = s->k + (size_t)t * s->stride;
    const float *v = s->v + (size_t)t * s->stride + column;
    float *state = s->state + column, *out = s->out + (size_t)t * s->out_stride + column;
    size_t row = (size_t)s->d_v;
    vf decay = vf_set1(s->decay[(size_t)t * s->gate_stride]),
       strength = vf_set1(s->strength[(size_t)t * s->gate_stride]);
    vf held[2][SCAN_VECTORS], read[2][SCAN_VECTORS], correction[SCAN_VECTORS];
    UNROLL
    for (int j = 0; j < width; j++)
        held[0][j] = held[1][j] = read[0][j] = read[1][j] = vf_zero();
    for (int32_t i = 0; i < s->d_k; i += 2) {
        UNROLL
        for (int odd = 0; odd < 2; odd++) {
            vf key = vf_set1(k[i + odd]);
            UNROLL
            for (int j = 0; j < width; j++)
                held[odd][j] =
                    vf_fma(vf_load(state + (size_t)(i + odd) * row + j * LANES), key, held[odd][j]);
        }
    }
    UNROLL
    for (int j = 0; j < width; j++) {
        vf sum = vf_add(held[0][j], held[1][j]);
        correction[j] = vf_mul(vf_sub(vf_load(v + j * LANES), vf_mul(sum, decay)), strength);
    }
    for (int32_t i = 0; i < s->d_k; i += 2) {
        UNROLL
        for (int odd = 0; odd < 2; odd++) {
            vf key = vf_set1(k[i + odd]), query = vf_set1(q[i + odd]);
            UNROLL
            for (int j = 0; j < width; j++) {
                float *at = state + (size_t)(i + odd) * row + j * LANES;
                vf now = vf_fma(key, correction[j], vf_mul(vf_load(at), decay));
                vf_store(at, now);
                read[odd][j] = vf_fma(now, query, read[odd][j]);
            }
        }
    }
    UNROLL
    for (int j = 0; j < width; j++)
        vf_store(out + j * LANES, vf_add(read[0][j], read[1][j]));
}

static void delta_scan(const struct delta_scan *s)
{
    int32_t column = 0;
    for (; column + SCAN_VECTORS * LANES <= s->d_v; column += SCAN_VECTORS * LANES)
        for (int32_t t = 0; t < s->n; t++)
            delta_columns(s, t, column, SCAN_VECTORS);
    for (; column < s->d_v; column += LANES)
        for (int32_t t = 0; t < s->n; t++)
            delta_columns(s, t, column, 1);
}
