/* Gated DeltaNet: a causal depthwise convolution over q, k and v, then per value head a state [d_k, d_v] that
 * forgets, corrects what it holds under k towards v, and is read by q.
 *
 *   S *= exp(a_log * softplus(a + dt_bias));  S += k (x) sigmoid(b) (v - S^T k);  o = S^T q
 *
 * then an RMS norm gated by silu(z). Tokens of a sequence are taken one after the other, so a prefill in any
 * chunks gives the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/matmul.h"
#include "engine/cpu/mixer.h"

static int32_t channel_count(const struct delta_net_plan *p)
{
    return 2 * p->n_k_head * p->d_k + p->n_v_head * p->d_v;
}

size_t delta_net_state_values(const struct delta_net_plan *p)
{
    return (size_t)channel_count(p) * (size_t)(p->n_conv - 1) +
           (size_t)p->n_v_head * (size_t)p->d_k * (size_t)p->d_v;
}

static void project(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t n = b->rows.n, d = b->plan->d_model;
    unsigned kinds = matmul_kind(w, &p->w_qkv) | matmul_kind(w, &p->w_z) | matmul_kind(w, &p->w_a) |
                     matmul_kind(w, &p->w_b);
    struct panel panel =
        matmul_pack(w, &(struct pack){.slot = PANEL_INPUT, .x = b->x, .stride = (size_t)d, .n = n, .cols = d,
                                      .kinds = kinds, .norm = layer->mixer_norm.at});
    struct product products[4] = {
        {.weight = &p->w_qkv, .panel = &panel, .n = n, .out = b->q, .stride = (size_t)p->w_qkv.rows},
        {.weight = &p->w_z, .panel = &panel, .n = n, .out = b->k, .stride = (size_t)p->w_z.rows},
        {.weight = &p->w_a, .panel = &panel, .n = n, .out = b->gates, .stride = (size_t)(2 * p->n_v_head)},
        {.weight = &p->w_b, .panel = &panel, .n = n, .out = b->gates + p->n_v_head,
         .stride = (size_t)(2 * p->n_v_head)}};
    matmul_run(w, products, 4);
}

/* One channel of one sequence through the convolution and silu, in place; `past` [n_conv - 1] are the inputs
 * before, oldest first, and become the last ones. */
static void convolve(const struct delta_net_plan *p, const float *weight, float *past, float *values, size_t stride,
                     int32_t n)
{
    int32_t taps = p->n_conv - 1;
    for (int32_t t = 0; t < n; t++) {
        float *at = values + (size_t)t * stride, input = *at, sum = weight[taps] * input;
        for (int32_t i = 0; i < taps; i++)
            sum += weight[i] * past[i];
        memmove(past, past + 1, (size_t)(taps - 1) * sizeof *past);
        past[taps - 1] = input;
        *at = sum / (1 + expf(-sum));
    }
}

static void normalize(float *v, int32_t n, float factor)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    factor /= sqrtf(sum + 1e-6f);
    for (int32_t i = 0; i < n; i++)
        v[i] *= factor;
}

/* decay: factor on the state; strength: how far the state moves towards v. remembered: scratch [d_v]. */
static void update_state(const struct delta_net_plan *p, float *state, const float *k, const float *v, float decay,
                         float strength, float *remembered)
{
    memset(remembered, 0, (size_t)p->d_v * sizeof *remembered);
    for (int32_t i = 0; i < p->d_k; i++) {
        float *row = state + (size_t)i * (size_t)p->d_v, key = k[i];
        for (int32_t j = 0; j < p->d_v; j++) {
            row[j] *= decay;
            remembered[j] += row[j] * key;
        }
    }
    for (int32_t j = 0; j < p->d_v; j++)
        remembered[j] = (v[j] - remembered[j]) * strength;
}

static void read_state(const struct delta_net_plan *p, float *state, const float *k, const float *q,
                       const float *correction, float *out)
{
    memset(out, 0, (size_t)p->d_v * sizeof *out);
    for (int32_t i = 0; i < p->d_k; i++) {
        float *row = state + (size_t)i * (size_t)p->d_v, key = k[i], query = q[i];
        for (int32_t j = 0; j < p->d_v; j++) {
            row[j] += key * correction[j];
            out[j] += row[j] * query;
        }
    }
}

static float softplus(float v)
{
    return v > 20 ? v : log1pf(expf(v));
}

static void head_row(struct worker *w, const struct layer_plan *layer, int32_t row, int32_t head, float *state)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t key_head = p->tiled_heads ? head % p->n_k_head : head / (p->n_v_head / p->n_k_head);
    const float *qkv = b->q + (size_t)row * (size_t)p->w_qkv.rows;
    const float *v = qkv + 2 * p->n_k_head * p->d_k + head * p->d_v;
    const float *gates = b->gates + (size_t)row * (size_t)(2 * p->n_v_head);
    const float *z = b->k + (size_t)row * (size_t)p->w_z.rows + (size_t)head * (size_t)p->d_v;
    float *out = b->mixed + (size_t)row * (size_t)p->w_z.rows + (size_t)head * (size_t)p->d_v;
    float *q = w->row, *k = q + p->d_k, *correction = k + p->d_k;
    memcpy(q, qkv + key_head * p->d_k, (size_t)p->d_k * sizeof *q);
    memcpy(k, qkv + (p->n_k_head + key_head) * p->d_k, (size_t)p->d_k * sizeof *k);
    normalize(q, p->d_k, 1 / sqrtf((float)p->d_k));
    normalize(k, p->d_k, 1);
    float decay = expf(p->a_log.at[head] * softplus(gates[head] + p->dt_bias.at[head]));
    float strength = 1 / (1 + expf(-gates[p->n_v_head + head]));
    update_state(p, state, k, v, decay, strength, correction);
    read_state(p, state, k, q, correction, out);
    b->kernels->rms_norm(out, p->norm.at, b->plan->norm_eps, p->d_v, out);
    for (int32_t j = 0; j < p->d_v; j++)
        out[j] *= z[j] / (1 + expf(-z[j]));
}

static float *layer_state(struct backend *b, const struct layer_plan *layer, const struct step_sequence *s)
{
    return b->state + (size_t)s->state * b->state_values + b->state_at[layer->state_index];
}

/* Sequences' rows are adjacent; `first` is that of sequence `s`. */
static void convolve_all(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t channels = channel_count(p), from, to, first = 0;
    worker_share(w, channels, &from, &to);
    for (int32_t i = 0; i < b->step->n_sequences; i++) {
        const struct step_sequence *s = &b->step->sequences[i];
        float *state = layer_state(b, layer, s);
        for (int32_t c = from; c < to; c++) {
            float *past = state + (size_t)c * (size_t)(p->n_conv - 1);
            if (s->start == 0)
                memset(past, 0, (size_t)(p->n_conv - 1) * sizeof *past);
            convolve(p, p->conv.at + (size_t)c * (size_t)p->n_conv, past,
                     b->q + (size_t)first * (size_t)p->w_qkv.rows + c, (size_t)p->w_qkv.rows, s->n_tokens);
        }
        first += s->n_tokens;
    }
}

static void recur_all(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    size_t values = (size_t)p->d_k * (size_t)p->d_v;
    int32_t first = 0, unit = 0;
    for (int32_t i = 0; i < b->step->n_sequences; i++) {
        const struct step_sequence *s = &b->step->sequences[i];
        float *all = layer_state(b, layer, s) + (size_t)channel_count(p) * (size_t)(p->n_conv - 1);
        for (int32_t head = 0; head < p->n_v_head; head++, unit++) {
            float *state = all + (size_t)head * values;
            if (unit % w->count != w->index)
                continue;
            if (s->start == 0)
                memset(state, 0, values * sizeof *state);
            for (int32_t t = 0; t < s->n_tokens; t++)
                head_row(w, layer, first + t, head, state);
        }
        first += s->n_tokens;
    }
}

/* Test hook: the states after the step, one sequence after the other, as their files would hold them: heads in the published
 * order, conv [channels, n_conv - 1], recurrent [n_v_head, d_k, d_v]. */
static void dump_states(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t taps = p->n_conv - 1, channels = channel_count(p), first_v = 2 * p->n_k_head * p->d_k;
    int32_t each = p->n_v_head / p->n_k_head, values = p->d_k * p->d_v;
    for (int32_t i = 0; b->params.dump && i < b->step->n_sequences; i++) {
        const float *state = layer_state(b, layer, &b->step->sequences[i]);
        float *shown = w->index ? NULL : malloc(delta_net_state_values(p) * sizeof *shown);
        float *recurrent = shown ? shown + channels * taps : NULL;
        if (shown)
            memcpy(shown, state, (size_t)(first_v * taps) * sizeof *shown);
        for (int32_t h = 0; shown && h < p->n_v_head; h++) {
            int32_t at = p->tiled_heads ? h % each * p->n_k_head + h / each : h;
            memcpy(shown + (first_v + h * p->d_v) * taps, state + (first_v + at * p->d_v) * taps,
                   (size_t)(p->d_v * taps) * sizeof *shown);
            memcpy(recurrent + h * values, state + channels * taps + at * values, (size_t)values * sizeof *shown);
        }
        /* All threads meet in the dump; what thread 0 passes counts. */
        worker_dump(w, index, "conv", shown, shown ? channels : 0, taps, false);
        worker_dump(w, index, "recurrent", recurrent, shown ? p->n_v_head * p->d_k : 0, p->d_v, false);
        free(shown);
    }
}

void delta_net_run(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t n = b->rows.n, d = b->plan->d_model, width = p->n_v_head * p->d_v;
    project(w, layer);
    worker_barrier(w);
    convolve_all(w, layer);
    worker_barrier(w);
    recur_all(w, layer);
    worker_barrier(w);
    dump_states(w, layer, index);
    struct panel panel =
        matmul_pack(w, &(struct pack){.slot = PANEL_MIXED, .x = b->mixed, .stride = (size_t)width, .n = n,
                                      .cols = width, .kinds = matmul_kind(w, &p->w_out)});
    struct product out = {.weight = &p->w_out, .panel = &panel, .n = n, .out = b->y, .stride = (size_t)d,
                          .residual = b->x};
    matmul_run(w, &out, 1);
    worker_barrier(w);
}
