/* Row-wise kernels in vector form: packing, norm, activations, attention, sums of exponentials.
 * Included after simd_<isa>.h. */
#pragma once
#include <math.h>

#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_layout.h"

/* e^x, relative error below 2e-7; x under -87.3 gives the smallest normal number. Cephes' polynomial. */
static inline vf vf_exp(vf x)
{
    x = vf_min(vf_max(x, vf_set1(-87.3f)), vf_set1(88.7f));
    vf n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    vf r = vf_fma(n, vf_set1(-0.693359375f), x);
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(vf_mul(p, r), r, vf_add(r, vf_set1(1)));
    return vf_scale(p, n);
}

static const uint8_t byte_order[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
static const uint8_t nibble_order[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};

static inline void pack_block(struct panel *p, size_t at, const float x[32])
{
    vf v[32 / LANES], top = vf_zero();
    UNROLL
    for (int i = 0; i < 32 / LANES; i++) {
        v[i] = vf_load(x + i * LANES);
        top = vf_max(top, vf_abs(v[i]));
    }
    if (p->kinds & PANEL_F32)
        UNROLL
        for (int i = 0; i < 32 / LANES; i++)
            vf_store(p->f32 + at * PANEL_BLOCK + i * LANES, v[i]);
    if (!(p->kinds & (PANEL_NIBBLE | PANEL_BYTE)))
        return;
    float highest = vf_highest(top), scale = highest / 32767;
    vf inverse = vf_set1(scale > 0 ? 32767 / highest : 0);
    vi block[BLOCK_VECTORS];
    int32_t sums[2];
    UNROLL
    for (int i = 0; i < 32 / LANES; i++)
        v[i] = vf_mul(v[i], inverse);
    round_block(v, block);
    sum_halves(block, sums);
    p->scale[at] = scale;
    p->sum[2 * at] = scale * (float)sums[0];
    p->sum[2 * at + 1] = scale * (float)sums[1];
    UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        size_t to = at * PANEL_BLOCK + (size_t)i * (PANEL_BLOCK / BLOCK_VECTORS);
        if (p->kinds & PANEL_NIBBLE)
            vi_store(p->nibble + to, vi_shuffle8(block[i], nibble_order));
        if (p->kinds & PANEL_BYTE)
            vi_store(p->byte + to, vi_shuffle8(block[i], byte_order));
    }
}

static void pack(struct panel *p, int32_t row, const float *x)
{
    int32_t whole = p->cols / PANEL_BLOCK, left = p->cols % PANEL_BLOCK;
    for (int32_t b = 0; b < whole; b++)
        pack_block(p, (size_t)b * (size_t)p->rows + (size_t)row, x + (size_t)b * PANEL_BLOCK);
    if (left) {
        float tail[PANEL_BLOCK] = {0};
        memcpy(tail, x + (size_t)whole * PANEL_BLOCK, (size_t)left * sizeof *x);
        pack_block(p, (size_t)whole * (size_t)p->rows + (size_t)row, tail);
    }
}

static void rms_norm(const float *x, const float *weight, float eps, int32_t n, float *out)
{
    vf sum[2] = {vf_zero(), vf_zero()};
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf v = vf_load(x + i);
        sum[i / LANES % 2] = vf_fma(v, v, sum[i / LANES % 2]);
    }
    int32_t whole = i;
    if (i < n) {
        vf v = vf_load_n(x + i, n - i);
        sum[0] = vf_fma(v, v, sum[0]);
    }
    vf factor = vf_set1(1 / sqrtf(vf_sum(vf_add(sum[0], sum[1])) / (float)n + eps));
    for (i = 0; i < whole; i += LANES)
        vf_store(out + i, vf_mul(vf_mul(vf_load(x + i), factor), vf_load(weight + i)));
    if (i < n)
        vf_store_n(out + i, vf_mul(vf_mul(vf_load_n(x + i, n - i), factor), vf_load_n(weight + i, n - i)), n - i);
}

/* v / (1 + e^(-slope v)) */
static inline vf vf_silu(vf v, float slope)
{
    return vf_div(v, vf_add(vf_set1(1), vf_exp(vf_mul(v, vf_set1(-slope)))));
}

static inline vf activate_lanes(enum activation a, vf gate, vf up)
{
    if (a == ACT_SWIGLU)
        return vf_mul(vf_silu(gate, 1), up);
    gate = vf_min(gate, vf_set1(7));
    up = vf_max(vf_min(up, vf_set1(7)), vf_set1(-7));
    return vf_mul(vf_add(up, vf_set1(1)), vf_silu(gate, 1.702f));
}

static void activate(enum activation a, float *gate, const float *up, int32_t n)
{
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(gate + i, activate_lanes(a, vf_load(gate + i), vf_load(up + i)));
    if (i < n)
        vf_store_n(gate + i, activate_lanes(a, vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

static void store_kv(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head, const float *k,
                     const float *v)
{
    int32_t d = kv->d_head;
    if (!kv->half) {
        float *keys = (float *)kv->data + kv_key_at(kv, block, head);
        for (int32_t i = 0; i < d; i++)
            keys[i * KV_TOKENS + slot] = k[i];
        memcpy((float *)kv->data + kv_value_at(kv, block, head) + slot * d, v, (size_t)d * sizeof *v);
        return;
    }
    uint16_t *keys = (uint16_t *)kv->data + kv_key_at(kv, block, head);
    uint16_t *values = (uint16_t *)kv->data + kv_value_at(kv, block, head) + slot * d;
    for (int32_t i = 0; i < d; i += LANES) {
        int n = d - i < LANES ? d - i : LANES;
        uint16_t half[2][LANES];
        vf_store_half(half[0], vf_load_n(k + i, n));
        vf_store_half(half[1], vf_load_n(v + i, n));
        for (int j = 0; j < n; j++)
            keys[(i + j) * KV_TOKENS + slot] = half[0][j];
        memcpy(values + i, half[1], (size_t)n * sizeof *values);
    }
}

static inline vf load_kv(const void *data, size_t at, bool half)
{
    return half ? vf_load_half((const uint16_t *)data + at) : vf_load((const float *)data + at);
}

#define TOKEN_VECTORS (KV_TOKENS / LANES)
#define QUERY_GROUP 4 /* heads that share a load of keys or values */

struct running { /* softmax so far, per query head */
    float top, sum, keep; /* keep: factor on what was summed before this block */
};

/* Scores of up to QUERY_GROUP heads against the 32 keys of a block. */
static inline __attribute__((always_inline)) void score_block(const struct attend *a, int32_t first, int n,
                                                              int32_t block, bool half)
{
    size_t at = kv_key_at(a->kv, block, a->kv_head);
    vf sum[QUERY_GROUP][TOKEN_VECTORS];
    UNROLL
    for (int h = 0; h < QUERY_GROUP; h++)
        UNROLL
        for (int v = 0; v < TOKEN_VECTORS; v++)
            sum[h][v] = vf_zero();
    for (int32_t i = 0; i < a->kv->d_head; i++) {
        vf keys[TOKEN_VECTORS];
        UNROLL
        for (int v = 0; v < TOKEN_VECTORS; v++)
            keys[v] = load_kv(a->kv->data, at + (size_t)(i * KV_TOKENS + v * LANES), half);
        UNROLL
        for (int h = 0; h < QUERY_GROUP; h++) {
            if (h >= n)
                break;
            vf q = vf_set1(a->q[(size_t)(first + h) * a->q_stride + (size_t)i]);
            UNROLL
            for (int v = 0; v < TOKEN_VECTORS; v++)
                sum[h][v] = vf_fma(q, keys[v], sum[h][v]);
        }
    }
    for (int h = 0; h < n; h++)
        UNROLL
        for (int v = 0; v < TOKEN_VECTORS; v++)
            vf_store(a->scores + (first + h) * KV_TOKENS + v * LANES, vf_mul(sum[h][v], vf_set1(a->scale)));
}

/* Scores to weights relative to the running maximum; tokens outside from..to weigh nothing. */
static inline void weigh_block(float *scores, int from, int to, struct running *r)
{
    vf v[TOKEN_VECTORS], none = vf_set1(-INFINITY), top = none, sum = vf_zero();
    int low[TOKEN_VECTORS], high[TOKEN_VECTORS];
    UNROLL
    for (int i = 0; i < TOKEN_VECTORS; i++) {
        low[i] = from - i * LANES < 0 ? 0 : from - i * LANES > LANES ? LANES : from - i * LANES;
        high[i] = to - i * LANES < 0 ? 0 : to - i * LANES > LANES ? LANES : to - i * LANES;
        v[i] = vf_keep(vf_load(scores + i * LANES), none, low[i], high[i]);
        top = vf_max(top, v[i]);
    }
    float highest = vf_highest(top), before = r->top;
    r->top = highest > before ? highest : before;
    r->keep = before == -INFINITY ? 0 : expf(before - r->top);
    UNROLL
    for (int i = 0; i < TOKEN_VECTORS; i++) {
        vf p = vf_keep(vf_exp(vf_sub(v[i], vf_set1(r->top))), vf_zero(), low[i], high[i]);
        vf_store(scores + i * LANES, p);
        sum = vf_add(sum, p);
    }
    r->sum = r->sum * r->keep + vf_sum(sum);
}

static inline __attribute__((always_inline)) void mix_block(const struct attend *a, int32_t first, int n,
                                                            int32_t block, int from, int to, const struct running *r,
                                                            bool half)
{
    size_t at = kv_value_at(a->kv, block, a->kv_head);
    int32_t d = a->kv->d_head;
    for (int32_t i = 0; i < d; i += LANES) {
        vf sum[QUERY_GROUP];
        UNROLL
        for (int h = 0; h < QUERY_GROUP; h++)
            sum[h] = h < n ? vf_mul(vf_load(a->out + (size_t)(first + h) * a->out_stride + (size_t)i),
                                    vf_set1(r[h].keep))
                           : vf_zero();
        for (int t = from; t < to; t++) {
            vf values = load_kv(a->kv->data, at + (size_t)(t * d + i), half);
            UNROLL
            for (int h = 0; h < QUERY_GROUP; h++) {
                if (h >= n)
                    break;
                sum[h] = vf_fma(vf_set1(a->scores[(first + h) * KV_TOKENS + t]), values, sum[h]);
            }
        }
        for (int h = 0; h < n; h++)
            vf_store(a->out + (size_t)(first + h) * a->out_stride + (size_t)i, sum[h]);
    }
}

static inline __attribute__((always_inline)) void attend_group(const struct attend *a, int32_t first, int n, bool half)
{
    struct running r[QUERY_GROUP];
    size_t d = (size_t)a->kv->d_head;
    for (int h = 0; h < n; h++) {
        float sink = a->sinks ? a->sinks[first + h] : -INFINITY;
        r[h] = (struct running){.top = sink, .sum = a->sinks ? 1 : 0};
        memset(a->out + (size_t)(first + h) * a->out_stride, 0, d * sizeof(float));
    }
    for (int32_t b = a->from / KV_TOKENS; b * KV_TOKENS < a->to; b++) {
        int from = a->from > b * KV_TOKENS ? a->from - b * KV_TOKENS : 0;
        int to = a->to - b * KV_TOKENS < KV_TOKENS ? a->to - b * KV_TOKENS : KV_TOKENS;
        score_block(a, first, n, a->blocks[b], half);
        for (int h = 0; h < n; h++)
            weigh_block(a->scores + (first + h) * KV_TOKENS, from, to, &r[h]);
        mix_block(a, first, n, a->blocks[b], from, to, r, half);
    }
    for (int h = 0; h < n; h++) {
        float *out = a->out + (size_t)(first + h) * a->out_stride, factor = 1 / r[h].sum;
        for (size_t i = 0; i < d; i++)
            out[i] *= factor;
    }
}

/* d_head is a multiple of 16 (checked at open). */
static void attend(const struct attend *a)
{
    for (int32_t first = 0; first < a->n_query; first += QUERY_GROUP) {
        int n = a->n_query - first < QUERY_GROUP ? a->n_query - first : QUERY_GROUP;
        if (a->kv->half && n == QUERY_GROUP)
            attend_group(a, first, QUERY_GROUP, true);
        else if (a->kv->half)
            attend_group(a, first, n, true);
        else
            attend_group(a, first, n, false);
    }
}

static float max(const float *x, int32_t n)
{
    vf top = vf_set1(-INFINITY);
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        top = vf_max(top, vf_load(x + i));
    float highest = vf_highest(top);
    for (; i < n; i++)
        highest = x[i] > highest ? x[i] : highest;
    return highest;
}

static float sum_exp(const float *x, int32_t n, float top)
{
    vf sum = vf_zero();
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = vf_add(sum, vf_exp(vf_sub(vf_load(x + i), vf_set1(top))));
    if (i < n)
        sum = vf_add(sum, vf_keep(vf_exp(vf_sub(vf_load_n(x + i, n - i), vf_set1(top))), vf_zero(), 0, n - i));
    return vf_sum(sum);
}
