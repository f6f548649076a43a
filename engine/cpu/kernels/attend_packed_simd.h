/* Attention's loops over packed keys and values (q8, k8v4), and storing them. Keys and values are
 * widened in registers; nothing is unpacked to memory. Included by attend_simd.h. */
#pragma once
#include <math.h>

#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/kernels/kv_pack.h"
#include "engine/cpu/kernels/ops_simd.h"
#include "engine/format/weight_bits.h"

#define QUERY_TOP 32767.0f /* of a query as 16 bits: a key times it, d_head times, fits into 32 */

/* kv_pack_rotate with the same additions: bit for bit the same. */
static void rotate(float *head, int32_t d_head)
{
    const int32_t n = kv_rotation(d_head);
    const vf norm = vf_set1(1 / sqrtf((float)n));
    for (int32_t at = 0; at < d_head; at += n) {
        float *v = head + at;
        for (int32_t i = 0; i < n; i += LANES) {
            vf x = vf_load(v + i);
            UNROLL
            for (int step = 1; step < LANES; step *= 2)
                x = vf_butterfly(x, step);
            vf_store(v + i, x);
        }
        for (int32_t step = LANES; step < n; step *= 2)
            for (int32_t i = 0; i < n; i += i % (2 * step) + LANES == step ? LANES + step : LANES) {
                vf a = vf_load(v + i), b = vf_load(v + i + step);
                vf_store(v + i, vf_add(a, b));
                vf_store(v + i + step, vf_sub(a, b));
            }
        for (int32_t i = 0; i < n; i += LANES)
            vf_store(v + i, vf_mul(vf_load(v + i), norm));
    }
}

/* The value of the greatest magnitude among n, a multiple of LANES. */
static inline float extreme_of(const float *v, int32_t n)
{
    vf high = vf_load(v), low = high;
    for (int32_t i = LANES; i < n; i += LANES) {
        high = vf_max(high, vf_load(v + i));
        low = vf_min(low, vf_load(v + i));
    }
    const float most = vf_highest(high), least = -vf_highest(vf_sub(vf_zero(), low));
    return most >= -least ? most : least;
}

/* n values as integers of at most this magnitude; returns the scale's half. */
static inline uint16_t quantize_bytes(const float *v, int32_t n, int8_t *out)
{
    const uint16_t half = kv_pack_half(fabsf(extreme_of(v, n)) / 127);
    const float scale = f16_to_f32(half);
    const vf inverse = vf_set1(scale == 0 ? 0 : 1 / scale), top = vf_set1(127),
             bottom = vf_set1(-127);
    for (int32_t i = 0; i < n; i += LANES) {
        int32_t whole[LANES];
        vi_store(whole, vf_to_int(vf_max(vf_min(vf_mul(vf_load(v + i), inverse), top), bottom)));
        for (int j = 0; j < LANES; j++)
            out[i + j] = (int8_t)whole[j];
    }
    return half;
}

static inline uint16_t quantize_nibbles(const float *v, int32_t n, uint8_t *out)
{
    const uint16_t half = kv_pack_half(extreme_of(v, n) / -8);
    const float scale = f16_to_f32(half);
    const vf inverse = vf_set1(scale == 0 ? 0 : 1 / scale), top = vf_set1(7), bottom = vf_set1(-8);
    for (int32_t i = 0; i < n; i += LANES) {
        int32_t whole[LANES];
        vi_store(whole, vf_to_int(vf_max(vf_min(vf_mul(vf_load(v + i), inverse), top), bottom)));
        for (int j = 0; j < LANES; j += 2)
            out[(i + j) / 2] = (uint8_t)((whole[j] + 8) | (whole[j + 1] + 8) << 4);
    }
    return half;
}

static void store_packed(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                         const float *k, const float *v)
{
    const struct kv_packed p = kv_packed_at(kv, block, head);
    const int32_t d = kv->d_head;
    float rotated[KV_MAX_D_HEAD];
    int8_t bytes[KV_MAX_D_HEAD];
    memcpy(rotated, k, (size_t)d * sizeof *k);
    rotate(rotated, d);
    p.key_scales[slot] = quantize_bytes(rotated, d, bytes);
    for (int32_t i = 0; i < d; i += 2)
        memcpy(p.keys + (i / 2 * KV_TOKENS + slot) * 2, bytes + i, 2);
    memcpy(rotated, v, (size_t)d * sizeof *v);
    rotate(rotated, d);
    if (kv->type == KV_Q8) {
        p.value_scales[slot] = quantize_bytes(rotated, d, (int8_t *)p.values + slot * d);
        return;
    }
    for (int32_t g = 0; g < d / p.group; g++)
        p.value_scales[g * KV_TOKENS + slot] = quantize_nibbles(
            rotated + g * p.group, p.group, p.values + (slot * d + g * p.group) / 2);
}

struct packed_queries {                           /* of the heads that share a pass */
    int16_t values[MOST_QUERIES * KV_MAX_D_HEAD]; /* [heads, d_head] */
    float scales[MOST_QUERIES];                   /* with the scores' own scale */
};

/* Queries keep 16 bits: 8 would add as much error as the keys' own. */
static inline void pack_queries(const struct attend *a, int32_t first, int n,
                                struct packed_queries *out)
{
    const int32_t d = a->kv->d_head;
    for (int h = 0; h < n; h++) {
        const float *q = a->q + (size_t)(first + h) * a->q_stride;
        const float top = fabsf(extreme_of(q, d));
        const vf inverse = vf_set1(top > 0 ? QUERY_TOP / top : 0);
        for (int32_t i = 0; i < d; i += LANES) {
            int32_t whole[LANES];
            vi_store(whole, vf_to_int(vf_mul(vf_load(q + i), inverse)));
            for (int j = 0; j < LANES; j++)
                out->values[h * d + i + j] = (int16_t)whole[j];
        }
        out->scales[h] = top / QUERY_TOP * a->scale;
    }
}

/* Scores of n heads against the 32 keys of a block; n is a constant where this is inlined. */
static inline __attribute__((always_inline)) void score_packed(const struct attend *a,
                                                               const struct packed_queries *q,
                                                               int n, int32_t block, float *scores)
{
    const struct kv_packed p = kv_packed_at(a->kv, block, a->kv_head);
    const int32_t d = a->kv->d_head;
    vi sum[MOST_QUERIES][TOKEN_VECTORS];
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < TOKEN_VECTORS; v++)
        sum[h][v] = vi_zero();
    const int8_t *at = p.keys;
    for (int32_t i = 0; i < d; i += 2, at += 2 * KV_TOKENS) {
        vi keys[TOKEN_VECTORS];
        UNROLL
        for (int v = 0; v < TOKEN_VECTORS; v++)
            keys[v] = vi_load_widened(at + 2 * v * LANES);
        UNROLL
        for (int h = 0; h < n; h++) {
            const vi pair = vi_pair(q->values + h * d + i);
            UNROLL
            for (int v = 0; v < TOKEN_VECTORS; v++)
                sum[h][v] = vi_dot(sum[h][v], keys[v], pair);
        }
    }
    UNROLL
    for (int v = 0; v < TOKEN_VECTORS; v++) {
        const vf scale = vf_load_half(p.key_scales + v * LANES);
        UNROLL
        for (int h = 0; h < n; h++)
            vf_store(scores + h * SPAN_TOKENS + v * LANES,
                     vf_mul(vf_mul(vf_from_int(sum[h][v]), scale), vf_set1(q->scales[h])));
    }
}

/* The weights of a span's positions from <= t < to, times the scales of one group of values. */
static inline void scale_weights(const struct attend *a, int n, int32_t span, int from, int to,
                                 int32_t group, float *out)
{
    const int first = from / LANES * LANES, end = (to + LANES - 1) / LANES * LANES;
    for (int t = first; t < end; t += LANES) {
        const struct kv_packed p = kv_packed_at(a->kv, a->blocks[span + t / KV_TOKENS], a->kv_head);
        const vf scale = vf_load_half(p.value_scales + group * KV_TOKENS + t % KV_TOKENS);
        for (int h = 0; h < n; h++)
            vf_store(out + h * SPAN_TOKENS + t,
                     vf_mul(vf_load(a->scores + h * SPAN_TOKENS + t), scale));
    }
}
