/* Attention in vector form over paged keys and values: storing, scores, softmax, weighted sums.
 * Included after simd_<isa>.h. */
#pragma once
#include <math.h>

#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/kernels/ops_simd.h"

#define TOKEN_VECTORS (KV_TOKENS / LANES)
/* Heads that share a load of keys or values: as many as there are registers for, else four. */
#define MOST_QUERIES (LANES / 2)
#define FEW_QUERIES 4
#define SPAN_TOKENS (KV_TOKENS * ATTEND_SPAN)
#define MIX_VECTORS (32 / LANES) /* of a value row at a time */

struct running {          /* softmax so far, per query head */
    float top, sum, keep; /* keep: factor on what was summed before this span */
};

struct mix { /* weighted values of a span's positions from <= t < to, added to heads from `first` */
    int32_t first, span, column; /* span: its first block; column: first dimension */
    int from, to;
    const struct running *r;
    const float *weights; /* [heads, SPAN_TOKENS] */
};

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

#include "engine/cpu/kernels/attend_packed_simd.h"

static void store_kv(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                     const float *k, const float *v)
{
    int32_t d = kv->d_head;
    if (kv_type_packed(kv->type)) {
        store_packed(kv, block, slot, head, k, v);
        return;
    }
    if (kv->type == KV_F32) {
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

/* Scores of n heads against the 32 keys of a block; n is a constant where this is inlined. */
static inline __attribute__((always_inline)) void
score_block(const struct attend *a, int32_t first, int n, int32_t block, bool half, float *scores)
{
    size_t at = kv_key_at(a->kv, block, a->kv_head);
    const float *q = a->q + (size_t)first * a->q_stride;
    size_t stride = a->q_stride;
    const void *data = a->kv->data;
    int32_t d = a->kv->d_head;
    vf sum[MOST_QUERIES][TOKEN_VECTORS], scale = vf_set1(a->scale);
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

/* As stored, for the packed types without their scale. */
static inline __attribute__((always_inline)) vf load_value(const void *values, size_t at,
                                                           enum kv_type type)
{
    if (type == KV_Q8)
        return vf_load_bytes((const int8_t *)values + at);
    if (type == KV_K8V4)
        return vf_load_nibbles((const uint8_t *)values + at / 2);
    return load_kv(values, at, type == KV_F16);
}

/* out = out * keep + weights x values, for `width` vectors of the head's dimensions at `i`. */
static inline __attribute__((always_inline)) void
mix_columns(const struct attend *a, const struct mix *m, int n, enum kv_type type, int width)
{
    const int32_t first = m->first, span = m->span, i = m->column;
    const int from = m->from, to = m->to;
    const struct running *r = m->r;
    int32_t d = a->kv->d_head;
    const float *weights = m->weights;
    float *out = a->out + (size_t)first * a->out_stride + (size_t)i;
    size_t stride = a->out_stride;
    vf sum[MOST_QUERIES][MIX_VECTORS];
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < width; v++)
        sum[h][v] = vf_mul(vf_load(out + (size_t)h * stride + v * LANES), vf_set1(r[h].keep));
    for (int t = from; t < to;) {
        const int32_t block = a->blocks[span + t / KV_TOKENS];
        const void *values_at = a->kv->data;
        size_t at = (size_t)(t % KV_TOKENS) * (size_t)d + (size_t)i;
        int end = (t / KV_TOKENS + 1) * KV_TOKENS < to ? (t / KV_TOKENS + 1) * KV_TOKENS : to;
        if (kv_type_packed(type))
            values_at = kv_packed_at(a->kv, block, a->kv_head).values;
        else
            at += kv_value_at(a->kv, block, a->kv_head);
        for (; t < end; t++, at += (size_t)d) {
            vf values[MIX_VECTORS];
            UNROLL
            for (int v = 0; v < width; v++)
                values[v] = load_value(values_at, at + (size_t)v * LANES, type);
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

/* All columns of a span of packed values, with weights that have the values' scales in them. */
static inline __attribute__((always_inline)) void
mix_packed_span(const struct attend *a, struct mix *m, int n, enum kv_type type)
{
    const int32_t d = a->kv->d_head, group = type == KV_Q8 ? d : kv_value_group(d),
                  step = MIX_VECTORS * LANES;
    float scaled[MOST_QUERIES * SPAN_TOKENS];
    m->weights = scaled;
    for (m->column = 0; m->column < d;) {
        if (m->column % group == 0)
            scale_weights(a, n, m->span, m->from, m->to, m->column / group, scaled);
        if (m->column % group + step <= group) {
            mix_columns(a, m, n, type, MIX_VECTORS);
            m->column += step;
        } else {
            mix_columns(a, m, n, type, 1);
            m->column += LANES;
        }
    }
}

/* Softmax in one pass over spans of blocks, counted from the sequence's start: the order of
 * additions depends on positions alone. */
static inline __attribute__((always_inline)) void
attend_group(const struct attend *a, int32_t first, int n, enum kv_type type)
{
    struct running r[MOST_QUERIES];
    struct packed_queries q;
    int32_t d = a->kv->d_head;
    if (kv_type_packed(type))
        pack_queries(a, first, n, &q);
    for (int h = 0; h < n; h++) {
        float sink = a->sinks ? a->sinks[first + h] : -INFINITY;
        r[h] = (struct running){.top = sink, .sum = a->sinks ? 1 : 0};
        memset(a->out + (size_t)(first + h) * a->out_stride, 0, (size_t)d * sizeof(float));
    }
    for (int32_t at = a->from / SPAN_TOKENS * SPAN_TOKENS; at < a->to; at += SPAN_TOKENS) {
        int from = a->from > at ? a->from - at : 0,
            to = a->to - at < SPAN_TOKENS ? a->to - at : SPAN_TOKENS;
        int32_t span = at / KV_TOKENS;
        struct mix m = {
            .first = first, .span = span, .from = from, .to = to, .r = r, .weights = a->scores};
        for (int t = from / KV_TOKENS; t * KV_TOKENS < to; t++)
            if (kv_type_packed(type))
                score_packed(a, &q, n, a->blocks[span + t], a->scores + t * KV_TOKENS);
            else
                score_block(a, first, n, a->blocks[span + t], type == KV_F16,
                            a->scores + t * KV_TOKENS);
        for (int h = 0; h < n; h++)
            weigh_span(a->scores + h * SPAN_TOKENS, from, to, &r[h]);
        if (kv_type_packed(type)) {
            mix_packed_span(a, &m, n, type);
            continue;
        }
        for (; m.column + MIX_VECTORS * LANES <= d; m.column += MIX_VECTORS * LANES)
            mix_columns(a, &m, n, type, MIX_VECTORS);
        for (; m.column < d; m.column += LANES)
            mix_columns(a, &m, n, type, 1);
    }
    for (int h = 0; h < n; h++) {
        float *out = a->out + (size_t)(first + h) * a->out_stride, factor = 1 / r[h].sum;
        for (int32_t i = 0; i < d; i++)
            out[i] *= factor;
    }
}

static inline __attribute__((always_inline)) void attend_as(const struct attend *a,
                                                            enum kv_type type)
{
    int32_t first = 0;
    for (; first + MOST_QUERIES <= a->n_query; first += MOST_QUERIES)
        attend_group(a, first, MOST_QUERIES, type);
    for (; first + FEW_QUERIES <= a->n_query; first += FEW_QUERIES)
        attend_group(a, first, FEW_QUERIES, type);
    for (; first < a->n_query; first++)
        attend_group(a, first, 1, type);
}

/* d_head is a multiple of 16 (checked at open). */
static void attend(const struct attend *a)
{
    switch (a->kv->type) {
    case KV_Q8:
        attend_as(a, KV_Q8);
        break;
    case KV_K8V4:
        attend_as(a, KV_K8V4);
        break;
    case KV_F32:
        attend_as(a, KV_F32);
        break;
    default:
        attend_as(a, KV_F16);
    }
}
