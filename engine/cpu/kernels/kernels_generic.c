/* The kernels in plain C, with f32 activations: the specification of the vector versions, and what
 * runs on a CPU that has none. */
#include "engine/cpu/kernels/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/panel/block.h"
#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/kernels/kv_pack.h"

#define LANES 8

static unsigned panel_kinds(const struct weight *w, bool exact)
{
    return PANEL_F32;
}

static void pack(struct panel *p, int32_t row, const float *x)
{
    assert(p->kinds == PANEL_F32);
    for (int32_t b = 0; b < p->blocks; b++) {
        float *to = p->f32 + ((size_t)b * (size_t)p->rows + (size_t)row) * PANEL_BLOCK;
        int32_t left = p->cols - b * PANEL_BLOCK, n = left < PANEL_BLOCK ? left : PANEL_BLOCK;
        memcpy(to, x + (size_t)b * PANEL_BLOCK, (size_t)n * sizeof *to);
        memset(to + n, 0, (size_t)(PANEL_BLOCK - n) * sizeof *to);
    }
}

/* Four partial sums, so that the compiler can use what vector unit there is without reordering. */
static float dot_block(const float *w, const float *x)
{
    float part[4] = {0};
    for (int32_t i = 0; i < PANEL_BLOCK; i += 4)
        for (int32_t j = 0; j < 4; j++)
            part[j] += w[i + j] * x[i + j];
    return (part[0] + part[1]) + (part[2] + part[3]);
}

static void tile_alone(const struct tile *t, float *acc)
{
    const struct weight *weight = t->weight;
    const struct panel *p = t->panel;
    struct weight_planes planes = weight_planes(weight, t->matrix);
    memset(acc, 0, (size_t)t->n * LANES * sizeof *acc);
    for (int32_t lane = 0; lane < LANES; lane++) {
        int32_t row = t->row + lane < weight->rows ? t->row + lane : weight->rows - 1;
        for (int32_t b = 0; b < p->blocks; b++) {
            const float *x = p->f32 + (size_t)b * (size_t)p->rows * PANEL_BLOCK;
            float w[PANEL_BLOCK];
            block_f32(weight, &planes, row, b, w);
            for (int32_t i = 0; i < t->n; i++)
                acc[i * LANES + lane] +=
                    dot_block(w, x + (t->index ? t->index[i] : t->first + i) * PANEL_BLOCK);
        }
    }
}

static void tile(const struct tile *t, bool exact, float *acc)
{
    struct tile one = *t;
    for (int32_t i = 0; i <= t->more; i++, one.row += LANES)
        tile_alone(&one, acc + i * t->n * LANES);
}

static void rms_norm(const float *x, const float *weight, float eps, int32_t n, float *out)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    float factor = 1 / sqrtf(sum / (float)n + eps);
    for (int32_t i = 0; i < n; i++)
        out[i] = x[i] * factor * weight[i];
}

static void layer_norm(const struct layer_norm_plan *p, const float *x, float eps, int32_t n,
                       float *out)
{
    float sum = 0, squares = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i];
    const float mean = sum / (float)n;
    for (int32_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / sqrtf(squares / (float)n + eps);
    for (int32_t i = 0; i < n; i++)
        out[i] = (x[i] - mean) * factor * p->weight.at[i] + p->bias.at[i];
}

static float clampf(float v, float low, float high)
{
    return v < low ? low : v > high ? high : v;
}

static void activate(enum activation a, float *gate, const float *up, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (a == ACT_GELU) {
            gate[i] = 0.5f * gate[i] * (1 + erff(gate[i] * 0.70710678f));
        } else if (a == ACT_SWIGLU) {
            gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
        } else {
            float g = gate[i] > 7 ? 7 : gate[i], u = clampf(up[i], -7, 7);
            gate[i] = (u + 1) * g / (1 + expf(-1.702f * g));
        }
    }
}

static void store_kv(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                     const float *k, const float *v)
{
    if (kv_type_packed(kv->type)) {
        float rotated[2][KV_MAX_D_HEAD];
        memcpy(rotated[0], k, (size_t)kv->d_head * sizeof *k);
        memcpy(rotated[1], v, (size_t)kv->d_head * sizeof *v);
        kv_pack_rotate(rotated[0], kv->d_head);
        kv_pack_rotate(rotated[1], kv->d_head);
        kv_pack_store(kv, block, slot, head, rotated[0], rotated[1]);
        return;
    }
    assert(kv->type == KV_F32);
    float *keys = (float *)kv->data + kv_key_at(kv, block, head);
    float *values = (float *)kv->data + kv_value_at(kv, block, head);
    for (int32_t i = 0; i < kv->d_head; i++)
        keys[i * KV_TOKENS + slot] = k[i];
    memcpy(values + slot * kv->d_head, v, (size_t)kv->d_head * sizeof *v);
}

/* Values of keys [d_head, 32 tokens] and of values [32 tokens, d_head] of a block, of those from
 * <= t < end. */
struct block_values {
    const float *keys, *values;
    float unpacked[2][KV_MAX_D_HEAD * KV_TOKENS];
};

static void read_block(const struct attend *a, int32_t block, int32_t from, int32_t end,
                       struct block_values *b)
{
    const struct kv_view *kv = a->kv;
    const int32_t d = kv->d_head, head = a->kv_head;
    if (!kv_type_packed(kv->type)) {
        b->keys = (const float *)kv->data + kv_key_at(kv, block, head);
        b->values = (const float *)kv->data + kv_value_at(kv, block, head);
        return;
    }
    b->keys = b->unpacked[0];
    b->values = b->unpacked[1];
    for (int32_t t = from; t < end; t++)
        for (int32_t i = 0; i < d; i++) {
            b->unpacked[0][i * KV_TOKENS + t] = kv_pack_key(kv, block, t, head, i);
            b->unpacked[1][t * d + i] = kv_pack_value(kv, block, t, head, i);
        }
}

/* Softmax over the seen positions in one pass: a running maximum and sums scaled to it, block by
 * block from the sequence's start, so that the order of additions depends on positions alone. */
static void attend_one(const struct attend *a, int32_t query)
{
    const struct kv_view *kv = a->kv;
    const float *q = a->q + (size_t)query * a->q_stride;
    float *out = a->out + (size_t)query * a->out_stride;
    float top = a->sinks ? a->sinks[query] : -INFINITY, sum = a->sinks ? 1 : 0;
    struct block_values block;
    memset(out, 0, (size_t)kv->d_head * sizeof *out);
    for (int32_t b = a->from / KV_TOKENS; b * KV_TOKENS < a->to; b++) {
        int32_t first = a->from > b * KV_TOKENS ? a->from - b * KV_TOKENS : 0;
        int32_t end = a->to - b * KV_TOKENS < KV_TOKENS ? a->to - b * KV_TOKENS : KV_TOKENS;
        float score[KV_TOKENS], block_top = top;
        read_block(a, a->blocks[b], first, end, &block);
        for (int32_t t = first; t < end; t++) {
            score[t] = 0;
            for (int32_t i = 0; i < kv->d_head; i++)
                score[t] += q[i] * block.keys[i * KV_TOKENS + t];
            score[t] *= a->scale;
            block_top = score[t] > block_top ? score[t] : block_top;
        }
        float keep = top == -INFINITY ? 0 : expf(top - block_top);
        top = block_top;
        sum *= keep;
        for (int32_t i = 0; i < kv->d_head; i++)
            out[i] *= keep;
        for (int32_t t = first; t < end; t++) {
            float p = expf(score[t] - top);
            sum += p;
            for (int32_t i = 0; i < kv->d_head; i++)
                out[i] += p * block.values[t * kv->d_head + i];
        }
    }
    for (int32_t i = 0; i < kv->d_head; i++)
        out[i] /= sum;
}

static void attend(const struct attend *a)
{
    for (int32_t i = 0; i < a->n_query; i++)
        attend_one(a, i);
}

static void add_scaled(float *to, const float *from, float weight, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        to[i] += weight * from[i];
}

static float max(const float *x, int32_t n)
{
    float top = x[0];
    for (int32_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

static float sum_exp(const float *x, int32_t n, float top)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)expf(x[i] - top);
    return (float)sum;
}

static void l2_normalize(float *v, int32_t n, float factor)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    factor /= sqrtf(sum + 1e-6f);
    for (int32_t i = 0; i < n; i++)
        v[i] *= factor;
}

static void convolve(const struct convolution *c)
{
    for (int32_t channel = 0; channel < c->channels; channel++) {
        const float *weight = c->weight + (size_t)channel * (size_t)(c->n_taps + 1);
        float *past = c->past + channel;
        for (int32_t t = 0; t < c->n; t++) {
            float *at = c->values + (size_t)t * c->stride + channel, input = *at,
                  sum = weight[c->n_taps] * input;
            for (int32_t i = 0; i < c->n_taps; i++)
                sum += weight[i] * past[(size_t)i * c->past_stride];
            for (int32_t i = 0; i + 1 < c->n_taps; i++)
                past[(size_t)i * c->past_stride] = past[(size_t)(i + 1) * c->past_stride];
            past[(size_t)(c->n_taps - 1) * c->past_stride] = input;
            *at = sum / (1 + expf(-sum));
        }
    }
}

static void delta_row(const struct delta_scan *s, int32_t t)
{
    const float *q = s->q + (size_t)t * s->stride, *k = s->k + (size_t)t * s->stride,
                *v = s->v + (size_t)t * s->stride;
    float decay = s->decay[(size_t)t * s->gate_stride],
          strength = s->strength[(size_t)t * s->gate_stride];
    float *out = s->out + (size_t)t * s->out_stride;
    for (int32_t j = 0; j < s->d_v; j++) {
        float held = 0, read = 0;
        for (int32_t i = 0; i < s->d_k; i++)
            held += s->state[i * s->d_v + j] * k[i];
        float correction = (v[j] - held * decay) * strength;
        for (int32_t i = 0; i < s->d_k; i++) {
            float *at = s->state + i * s->d_v + j;
            *at = *at * decay + k[i] * correction;
            read += *at * q[i];
        }
        out[j] = read;
    }
}

static void delta_scan(const struct delta_scan *s)
{
    for (int32_t t = 0; t < s->n; t++)
        delta_row(s, t);
}

const struct kernels kernels_generic = {
    .name = "generic",
    .lanes = LANES,
    .half_kv = false,
    .kinds = PANEL_F32,
    .panel_kinds = panel_kinds,
    .pack = pack,
    .tile = tile,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .l2_normalize = l2_normalize,
    .convolve = convolve,
    .delta_scan = delta_scan,
    .activate = activate,
    .rotate = kv_pack_rotate,
    .store_kv = store_kv,
    .attend = attend,
    .add_scaled = add_scaled,
    .max = max,
    .sum_exp = sum_exp,
};
