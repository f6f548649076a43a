/* Attention of several successive rows of one sequence at once, over f16 or f32: each block of keys
 * and of values is turned into floats once for all of them. What one row gets is summed in the
 * order of attend(), to the same bits. Included after attend_simd.h. */
#pragma once
#include "engine/cpu/kernels/attend_simd.h"

#define ROWS_HEADS (LANES / 2) /* heads of a row that share a load, where there are so many, */
#define ROWS_FEW_HEADS 4       /* or these, */
#define ROWS_VECTORS 2         /* with so many vectors each: half of the registers are sums */

/* A head's keys or values of a block, as floats in the order in which they are stored. */
static inline void widen_block(const struct kv_view *kv, size_t at, float *out)
{
    const int32_t n = kv->d_head * KV_TOKENS;
    const bool half = kv->type == KV_F16;
    for (int32_t i = 0; i < n; i += LANES)
        vf_store(out + i, load_kv(kv->data, at + (size_t)i, half));
}

/* Scores of n heads of a row against ROWS_VECTORS vectors of a block's keys. */
static inline __attribute__((always_inline)) void
score_vectors(const struct attend *a, const float *q, int n, const float *keys, float *scores)
{
    const int32_t d = a->kv->d_head;
    vf sum[ROWS_HEADS][ROWS_VECTORS];
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < ROWS_VECTORS; v++)
        sum[h][v] = vf_zero();
    for (int32_t i = 0; i < d; i++, keys += KV_TOKENS) {
        vf key[ROWS_VECTORS];
        UNROLL
        for (int v = 0; v < ROWS_VECTORS; v++)
            key[v] = vf_load(keys + v * LANES);
        UNROLL
        for (int h = 0; h < n; h++) {
            const vf one = vf_set1(q[(size_t)h * a->q_stride + (size_t)i]);
            UNROLL
            for (int v = 0; v < ROWS_VECTORS; v++)
                sum[h][v] = vf_fma(one, key[v], sum[h][v]);
        }
    }
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < ROWS_VECTORS; v++)
        vf_store(scores + h * SPAN_TOKENS + v * LANES, vf_mul(sum[h][v], vf_set1(a->scale)));
}

static void score_row(const struct attend *a, const float *q, const float *keys, float *scores)
{
    for (int v = 0; v < TOKEN_VECTORS; v += ROWS_VECTORS) {
        int32_t h = 0;
        for (; h + ROWS_HEADS <= a->n_query; h += ROWS_HEADS)
            score_vectors(a, q + (size_t)h * a->q_stride, ROWS_HEADS, keys + v * LANES,
                          scores + h * SPAN_TOKENS + v * LANES);
        for (; h + ROWS_FEW_HEADS <= a->n_query; h += ROWS_FEW_HEADS)
            score_vectors(a, q + (size_t)h * a->q_stride, ROWS_FEW_HEADS, keys + v * LANES,
                          scores + h * SPAN_TOKENS + v * LANES);
        for (; h < a->n_query; h++)
            score_vectors(a, q + (size_t)h * a->q_stride, 1, keys + v * LANES,
                          scores + h * SPAN_TOKENS + v * LANES);
    }
}

struct mix_rows { /* weighted values of a block's positions from <= t < to, for heads of one row */
    int from, to;
    const float *values;  /* [KV_TOKENS, d_head] */
    const float *weights; /* [heads, SPAN_TOKENS] of the block */
    const struct running *r;
    bool first; /* of the span: what was summed before is scaled down */
    float *out;
};

static inline __attribute__((always_inline)) void mix_vectors(const struct attend *a,
                                                              const struct mix_rows *m,
                                                              int32_t head, int n, int32_t column,
                                                              int width)
{
    const size_t d = (size_t)a->kv->d_head;
    const float *values = m->values + (size_t)m->from * d + column,
                *weights = m->weights + head * SPAN_TOKENS;
    float *out = m->out + (size_t)head * a->out_stride + column;
    vf sum[ROWS_HEADS][ROWS_VECTORS];
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < width; v++) {
        sum[h][v] = vf_load(out + (size_t)h * a->out_stride + v * LANES);
        if (m->first)
            sum[h][v] = vf_mul(sum[h][v], vf_set1(m->r[head + h].keep));
    }
    for (int t = m->from; t < m->to; t++, values += d) {
        vf value[ROWS_VECTORS];
        UNROLL
        for (int v = 0; v < width; v++)
            value[v] = vf_load(values + v * LANES);
        UNROLL
        for (int h = 0; h < n; h++) {
            const vf weight = vf_set1(weights[h * SPAN_TOKENS + t]);
            UNROLL
            for (int v = 0; v < width; v++)
                sum[h][v] = vf_fma(weight, value[v], sum[h][v]);
        }
    }
    UNROLL
    for (int h = 0; h < n; h++)
        UNROLL
    for (int v = 0; v < width; v++)
        vf_store(out + (size_t)h * a->out_stride + v * LANES, sum[h][v]);
}

static inline __attribute__((always_inline)) void
mix_heads(const struct attend *a, const struct mix_rows *m, int32_t column, int width)
{
    int32_t h = 0;
    for (; h + ROWS_HEADS <= a->n_query; h += ROWS_HEADS)
        mix_vectors(a, m, h, ROWS_HEADS, column, width);
    for (; h + ROWS_FEW_HEADS <= a->n_query; h += ROWS_FEW_HEADS)
        mix_vectors(a, m, h, ROWS_FEW_HEADS, column, width);
    for (; h < a->n_query; h++)
        mix_vectors(a, m, h, 1, column, width);
}

/* A head has a multiple of 16 dimensions. */
static void mix_row(const struct attend *a, const struct mix_rows *m)
{
    int32_t column = 0;
    for (; column + ROWS_VECTORS * LANES <= a->kv->d_head; column += ROWS_VECTORS * LANES)
        mix_heads(a, m, column, ROWS_VECTORS);
    for (; column < a->kv->d_head; column += LANES)
        mix_heads(a, m, column, 1);
}

struct span_rows { /* one span of positions, as the rows see it: row i from <= t < to */
    int32_t at;    /* its first position */
    int from[ATTEND_ROWS], to[ATTEND_ROWS];
    int low, high; /* of all rows */
};

static struct span_rows span_of(const struct attend_rows *a, int32_t at)
{
    struct span_rows s = {.at = at, .low = SPAN_TOKENS};
    for (int32_t i = 0; i < a->n; i++) {
        const int32_t end = a->first.to + (a->level ? 0 : i), to = end - at,
                      from = (a->window && end > a->window ? end - a->window : a->first.from) - at;
        s.from[i] = from > 0 ? from : 0;
        s.to[i] = to < SPAN_TOKENS ? to : SPAN_TOKENS;
        if (s.from[i] >= s.to[i]) {
            s.from[i] = s.to[i] = 0;
            continue;
        }
        s.low = s.from[i] < s.low ? s.from[i] : s.low;
        s.high = s.to[i] > s.high ? s.to[i] : s.high;
    }
    return s;
}

static void score_span(const struct attend_rows *a, const struct span_rows *s)
{
    const struct attend *f = &a->first;
    for (int t = s->low / KV_TOKENS * KV_TOKENS; t < s->high; t += KV_TOKENS) {
        widen_block(f->kv, kv_key_at(f->kv, f->blocks[(s->at + t) / KV_TOKENS], f->kv_head),
                    a->block);
        for (int32_t i = 0; i < a->n; i++)
            if (s->from[i] < t + KV_TOKENS && s->to[i] > t)
                score_row(f, f->q + (size_t)i * a->q_row, a->block,
                          f->scores + i * f->n_query * SPAN_TOKENS + t);
    }
}

static void mix_span(const struct attend_rows *a, const struct span_rows *s,
                     const struct running *r)
{
    const struct attend *f = &a->first;
    for (int t = s->low / KV_TOKENS * KV_TOKENS; t < s->high; t += KV_TOKENS) {
        widen_block(f->kv, kv_value_at(f->kv, f->blocks[(s->at + t) / KV_TOKENS], f->kv_head),
                    a->block);
        for (int32_t i = 0; i < a->n; i++) {
            const int from = s->from[i] > t ? s->from[i] - t : 0,
                      to = s->to[i] - t < KV_TOKENS ? s->to[i] - t : KV_TOKENS;
            if (from < to)
                mix_row(f,
                        &(struct mix_rows){.from = from,
                                           .to = to,
                                           .values = a->block,
                                           .weights = f->scores + i * f->n_query * SPAN_TOKENS + t,
                                           .r = r + i * f->n_query,
                                           .first = s->from[i] >= t,
                                           .out = f->out + (size_t)i * a->out_row});
        }
    }
}

static void attend_rows(const struct attend_rows *a)
{
    const struct attend *f = &a->first;
    const int32_t d = f->kv->d_head;
    struct running r[ATTEND_QUERIES];
    for (int32_t i = 0; i < a->n * f->n_query; i++) {
        const int32_t row = i / f->n_query, head = i % f->n_query;
        r[i] =
            (struct running){.top = f->sinks ? f->sinks[head] : -INFINITY, .sum = f->sinks ? 1 : 0};
        memset(f->out + (size_t)row * a->out_row + (size_t)head * f->out_stride, 0,
               (size_t)d * sizeof(float));
    }
    const int32_t end = f->to + (a->level ? 0 : a->n - 1);
    for (int32_t at = f->from / SPAN_TOKENS * SPAN_TOKENS; at < end; at += SPAN_TOKENS) {
        const struct span_rows s = span_of(a, at);
        score_span(a, &s);
        for (int32_t i = 0; i < a->n * f->n_query; i++)
            if (s.to[i / f->n_query])
                weigh_span(f->scores + i * SPAN_TOKENS, s.from[i / f->n_query],
                           s.to[i / f->n_query], &r[i]);
        mix_span(a, &s, r);
    }
    for (int32_t i = 0; i < a->n * f->n_query; i++) {
        float *out = f->out + (size_t)(i / f->n_query) * a->out_row +
                     (size_t)(i % f->n_query) * f->out_stride;
        const float factor = 1 / r[i].sum;
        for (int32_t j = 0; j < d; j++)
            out[j] *= factor;
    }
}
