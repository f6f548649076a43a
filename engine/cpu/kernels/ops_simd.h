/* Row-wise kernels in vector form: packing, norm, activations, attention, sums of exponentials.
 * Included after simd_<isa>.h. */
#pragma once
#include <math.h>

#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/kernels/kv_layout.h"

/* e^x, relative error below 2e-7; x under -87.3 gives the smallest normal number. Cephes'
 * polynomial. */
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

#ifdef __AVX512VNNI__
/* A block's quotients, in order, as tile_one.h reads them. */
static inline void pack_halves(struct panel *p, int32_t number, int32_t row, vi values,
                               int32_t total)
{
    static const uint8_t even_odd[16] = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
    static const uint8_t low_high[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    const size_t span = (size_t)(number / PANEL_SPAN) * (size_t)p->rows + (size_t)row,
                 k = (size_t)(number % PANEL_SPAN);
    const vi half = _mm512_set1_epi16(128),
             bytes = _mm512_xor_si512(_mm512_add_epi16(values, half), half); /* low, high */
    p->total[span * PANEL_SPAN + k] = total;
    if (p->kinds & PANEL_NIBBLE) {
        int8_t *to = p->nibble_halves + span * PANEL_SPAN_HALVES + 16 * k;
        const vi v = _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
            vi_shuffle8(bytes, even_odd));
        _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(v));
        _mm_storeu_si128((__m128i *)(to + 64), _mm512_extracti32x4_epi32(v, 1));
        _mm_storeu_si128((__m128i *)(to + 128), _mm512_extracti32x4_epi32(v, 2));
        _mm_storeu_si128((__m128i *)(to + 192), _mm512_extracti32x4_epi32(v, 3));
    }
    if (p->kinds & PANEL_BYTE) {
        int8_t *to = p->byte_halves + span * PANEL_SPAN_HALVES + 32 * k;
        const vi v = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                              vi_shuffle8(bytes, low_high));
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(v));
        _mm256_storeu_si256((__m256i *)(to + 128), _mm512_extracti64x4_epi64(v, 1));
    }
}
#endif

static inline void pack_block(struct panel *p, int32_t number, int32_t row, const float x[32])
{
    const size_t at = (size_t)number * (size_t)p->rows + (size_t)row;
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
    float highest = vf_highest(top), scale = highest / PANEL_TOP;
    vf inverse = vf_set1(scale > 0 ? PANEL_TOP / highest : 0);
    vi block[BLOCK_VECTORS];
    int32_t sums[2];
    UNROLL
    for (int i = 0; i < 32 / LANES; i++)
        v[i] = vf_mul(v[i], inverse);
    round_block(v, block);
    sum_halves(block, sums);
#ifdef __AVX512VNNI__
    if (p->total)
        pack_halves(p, number, row, block[0], sums[0] + sums[1]);
#endif
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
        pack_block(p, b, row, x + (size_t)b * PANEL_BLOCK);
    if (left) {
        float tail[PANEL_BLOCK] = {0};
        memcpy(tail, x + (size_t)whole * PANEL_BLOCK, (size_t)left * sizeof *x);
        pack_block(p, whole, row, tail);
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
        vf_store_n(out + i,
                   vf_mul(vf_mul(vf_load_n(x + i, n - i), factor), vf_load_n(weight + i, n - i)),
                   n - i);
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
        vf_store_n(gate + i,
                   activate_lanes(a, vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

static void store_kv(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                     const float *k, const float *v)
{
    int32_t d = kv->d_head;
    if (!kv->half) {
        float *keys = (float *)kv->data + kv_key_at(kv, block, head);
        for (int32_t i = 0; i < d; i++)
            keys[i * KV_TOKENS + slot] = k[i];
        memcpy((float *)kv->data + kv_value_at(kv, block, head) + slot * d, v,
               (size_t)d * sizeof *v);
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
#define SPAN_TOKENS (KV_TOKENS * ATTEND_SPAN)
#define MIX_VECTORS (32 / LANES) /* of a value row at a time */

struct running {          /* softmax so far, per query head */
    float top, sum, keep; /* keep: factor on what was summed before this span */
};

/* Scores of n heads against the 32 keys of a block; n is a constant where this is inlined. */
static inline __attribute__((always_inline)) void
score_block(const struct attend *a, int32_t first, int n, int32_t block, bool half, float *scores)
{
    size_t at = kv_key_at(a->kv, block, a->kv_head);
    const float *q = a->q + (size_t)first * a->q_stride;
    size_t stride = a->q_stride;
    const void *data = a->kv->data;
    int32_t d = a->kv->d_head;
    vf sum[QUERY_GROUP][TOKEN_VECTORS], scale = vf_set1(a->scale);
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < TOKEN_VECTORS; v++)
        sum[h][v] = vf_zero();
    for (int32_t i = 0; i < d; i++, at += KV_TOKENS) {
        vf keys[TOKEN_VECTORS];
        UNROLL
        for (int v = 0; v < TOKEN_VECTORS; v++)
            keys[v] = load_kv(data, at + (size_t)v * LANES, half);
        UNROLL
        for (int h = 0; h < n; h++) {
            vf one = vf_set1(q[(size_t)h * stride + (size_t)i]);
            UNROLL
            for (int v = 0; v < TOKEN_VECTORS; v++)
                sum[h][v] = vf_fma(one, keys[v], sum[h][v]);
        }
    }
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < TOKEN_VECTORS; v++)
        vf_store(scores + h * SPAN_TOKENS + v * LANES, vf_mul(sum[h][v], scale));
}

/* Scores of positions from <= p < to of a span become weights relative to the running maximum;
 * those beside them, up to whole blocks, become zeros. */
static inline void weigh_span(float *scores, int from, int to, struct running *r)
{
    int first = from / LANES * LANES, end = (to + LANES - 1) / LANES * LANES;
    vf none = vf_set1(-INFINITY), top = none, sum = vf_zero();
    for (int t = first; t < end; t += LANES) {
        int low = from > t ? from - t : 0, high = to - t < LANES ? to - t : LANES;
        vf v = vf_keep(vf_load(scores + t), none, low, high);
        vf_store(scores + t, v);
        top = vf_max(top, v);
    }
    float highest = vf_highest(top), before = r->top;
    r->top = highest > before ? highest : before;
    r->keep = before == -INFINITY ? 0 : expf(before - r->top);
    for (int t = first; t < end; t += LANES) {
        int low = from > t ? from - t : 0, high = to - t < LANES ? to - t : LANES;
        vf p = vf_keep(vf_exp(vf_sub(vf_load(scores + t), vf_set1(r->top))), vf_zero(), low, high);
        vf_store(scores + t, p);
        sum = vf_add(sum, p);
    }
    r->sum = r->sum * r->keep + vf_sum(sum);
}

/* out = out * keep + weights x values, for `width` vectors of the head's dimensions at `i`. */
static inline __attribute__((always_inline)) void mix_columns(const struct attend *a, int32_t first,
                                                              int n, int32_t span, int from, int to,
                                                              const struct running *r, bool half,
                                                              int32_t i, int width)
{
    int32_t d = a->kv->d_head;
    const void *data = a->kv->data;
    const float *weights = a->scores;
    float *out = a->out + (size_t)first * a->out_stride + (size_t)i;
    size_t stride = a->out_stride;
    vf sum[QUERY_GROUP][MIX_VECTORS];
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < width; v++)
        sum[h][v] = vf_mul(vf_load(out + (size_t)h * stride + v * LANES), vf_set1(r[h].keep));
    for (int t = from; t < to;) {
        size_t at = kv_value_at(a->kv, a->blocks[span + t / KV_TOKENS], a->kv_head);
        int end = (t / KV_TOKENS + 1) * KV_TOKENS < to ? (t / KV_TOKENS + 1) * KV_TOKENS : to;
        at += (size_t)(t % KV_TOKENS) * (size_t)d + (size_t)i;
        for (; t < end; t++, at += (size_t)d) {
            vf values[MIX_VECTORS];
            UNROLL
            for (int v = 0; v < width; v++)
                values[v] = load_kv(data, at + (size_t)v * LANES, half);
            UNROLL
            for (int h = 0; h < n; h++) {
                vf weight = vf_set1(weights[h * SPAN_TOKENS + t]);
                UNROLL
                for (int v = 0; v < width; v++)
                    sum[h][v] = vf_fma(weight, values[v], sum[h][v]);
            }
        }
    }
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < width; v++)
        vf_store(out + (size_t)h * stride + v * LANES, sum[h][v]);
}

/* Softmax in one pass over spans of blocks, counted from the sequence's start: the order of
 * additions depends on positions alone. */
static inline __attribute__((always_inline)) void attend_group(const struct attend *a,
                                                               int32_t first, int n, bool half)
{
    struct running r[QUERY_GROUP];
    int32_t d = a->kv->d_head;
    for (int h = 0; h < n; h++) {
        float sink = a->sinks ? a->sinks[first + h] : -INFINITY;
        r[h] = (struct running){.top = sink, .sum = a->sinks ? 1 : 0};
        memset(a->out + (size_t)(first + h) * a->out_stride, 0, (size_t)d * sizeof(float));
    }
    for (int32_t at = a->from / SPAN_TOKENS * SPAN_TOKENS; at < a->to; at += SPAN_TOKENS) {
        int from = a->from > at ? a->from - at : 0,
            to = a->to - at < SPAN_TOKENS ? a->to - at : SPAN_TOKENS;
        int32_t span = at / KV_TOKENS, i = 0;
        for (int t = from / KV_TOKENS; t * KV_TOKENS < to; t++)
            score_block(a, first, n, a->blocks[span + t], half, a->scores + t * KV_TOKENS);
        for (int h = 0; h < n; h++)
            weigh_span(a->scores + h * SPAN_TOKENS, from, to, &r[h]);
        for (; i + MIX_VECTORS * LANES <= d; i += MIX_VECTORS * LANES)
            mix_columns(a, first, n, span, from, to, r, half, i, MIX_VECTORS);
        for (; i < d; i += LANES)
            mix_columns(a, first, n, span, from, to, r, half, i, 1);
    }
    for (int h = 0; h < n; h++) {
        float *out = a->out + (size_t)(first + h) * a->out_stride, factor = 1 / r[h].sum;
        for (int32_t i = 0; i < d; i++)
            out[i] *= factor;
    }
}

static inline __attribute__((always_inline)) void attend_as(const struct attend *a, bool half)
{
    int32_t first = 0;
    for (; first + QUERY_GROUP <= a->n_query; first += QUERY_GROUP)
        attend_group(a, first, QUERY_GROUP, half);
    for (; first < a->n_query; first++)
        attend_group(a, first, 1, half);
}

/* d_head is a multiple of 16 (checked at open). */
static void attend(const struct attend *a)
{
    if (a->kv->half)
        attend_as(a, true);
    else
        attend_as(a, false);
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
        sum = vf_add(sum, vf_keep(vf_exp(vf_sub(vf_load_n(x + i, n - i), vf_set1(top))), vf_zero(),
                                  0, n - i));
    return vf_sum(sum);
}
