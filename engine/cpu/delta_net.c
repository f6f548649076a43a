/* Gated DeltaNet: a causal depthwise convolution over q, k and v, then per value head a state [d_k,
 * d_v] that forgets, corrects what it holds under k towards v, and is read by q.
 *
 *   S *= exp(a_log * softplus(a + dt_bias));  S += k (x) sigmoid(b) (v - S^T k);  o = S^T q
 *
 * then an RMS norm gated by silu(z). Tokens of a sequence are taken one after the other, so a
 * prefill in any chunks gives the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/matmul.h"
#include "engine/cpu/mixer.h"

/* A smaller state is brought forward before other threads would be awake. */
#define SINGLE_STATE_VALUES 65536

static int32_t channel_count(const struct delta_net_plan *p)
{
    return 2 * p->n_k_head * p->d_k + p->n_v_head * p->d_v;
}

size_t delta_net_state_values(const struct delta_net_plan *p)
{
    return (size_t)channel_count(p) * (size_t)(p->n_conv - 1) +
           (size_t)p->n_v_head * (size_t)p->d_k * (size_t)p->d_v;
}

size_t delta_net_held_values(const struct delta_net_plan *p)
{
    return (size_t)p->w_qkv.rows + (size_t)(2 * p->n_v_head);
}

size_t delta_net_trial_values(const struct delta_net_plan *p)
{
    const size_t state = (size_t)(p->d_k * p->d_v),
                 past = (size_t)channel_count(p) * (size_t)(p->n_conv - 1),
                 out = (size_t)(BACKEND_PROVISIONAL_ROWS * p->d_v);
    const size_t larger = state > past ? state : past;
    return larger > out ? larger : out;
}

static void project(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t n = b->rows.n, d = b->plan->d_model;
    unsigned kinds = matmul_kinds(w, &p->w_qkv) | matmul_kinds(w, &p->w_z) |
                     matmul_kinds(w, &p->w_a) | matmul_kinds(w, &p->w_b);
    struct panel panel = matmul_pack(w, &(struct pack){.slot = PANEL_INPUT,
                                                       .x = b->x,
                                                       .stride = (size_t)d,
                                                       .n = n,
                                                       .cols = d,
                                                       .kinds = kinds,
                                                       .norm = layer->mixer_norm.at});
    struct product products[4] = {
        {.weight = &p->w_qkv,
         .panel = &panel,
         .n = n,
         .out = b->q,
         .stride = (size_t)p->w_qkv.rows},
        {.weight = &p->w_z, .panel = &panel, .n = n, .out = b->k, .stride = (size_t)p->w_z.rows},
        {.weight = &p->w_a,
         .panel = &panel,
         .n = n,
         .out = b->gates,
         .stride = (size_t)(2 * p->n_v_head)},
        {.weight = &p->w_b,
         .panel = &panel,
         .n = n,
         .out = b->gates + p->n_v_head,
         .stride = (size_t)(2 * p->n_v_head)}};
    matmul_run(w, products, 4);
}

static float softplus(float v)
{
    return v > 20 ? v : log1pf(expf(v));
}

static float *layer_state(struct backend *b, const struct layer_plan *layer,
                          const struct step_sequence *s)
{
    return b->state + (size_t)s->state * b->state_values + b->state_at[layer->state_index];
}

/* Rows of one sequence: [n, w_qkv.rows] of q, k and v, and the gates [n, n_v_head, 2]. */
struct delta_rows {
    float *qkv, *gates;
    int32_t n;
    bool fresh; /* the sequence begins here: its state is zeros */
};

static struct delta_rows rows_of(const struct backend *b, const struct delta_net_plan *p,
                                 const struct step_sequence *s, int32_t first)
{
    return (struct delta_rows){.qkv = b->q + (size_t)first * (size_t)p->w_qkv.rows,
                               .gates = b->gates + (size_t)first * (size_t)(2 * p->n_v_head),
                               .n = s->n_tokens,
                               .fresh = s->start == 0};
}

/* Where a provisional sequence's rows are held until it is known how many count: as projected. */
static struct delta_rows held_rows(const struct backend *b, const struct layer_plan *layer,
                                   const struct held_rows *held)
{
    const struct delta_net_plan *p = &layer->delta_net;
    float *at = b->held_values +
                (size_t)b->params.provisional_rows * b->held_at[layer->state_index] +
                (size_t)held->first * delta_net_held_values(p);
    return (struct delta_rows){
        .qkv = at, .gates = at + (size_t)held->n * (size_t)p->w_qkv.rows, .n = held->n};
}

/* A head's first channel of w_qkv's, and how many it has. */
static int32_t head_channel(const struct delta_net_plan *p, int32_t head, int32_t *n)
{
    bool is_v = head >= 2 * p->n_k_head;
    *n = is_v ? p->d_v : p->d_k;
    return is_v ? 2 * p->n_k_head * p->d_k + (head - 2 * p->n_k_head) * p->d_v : head * p->d_k;
}

/* One head's channels through the convolution: of q (head < n_k_head), then k, then v. q and k
 * become unit vectors, q by 1 / sqrt(d_k) besides. */
static void convolve_head(const struct backend *b, const struct delta_net_plan *p,
                          const struct delta_rows *rows, float *past, int32_t head)
{
    const bool is_v = head >= 2 * p->n_k_head;
    int32_t n;
    const int32_t channel = head_channel(p, head, &n);
    struct convolution c = {.weight = p->conv.at + (size_t)channel * (size_t)p->n_conv,
                            .past = past + channel,
                            .values = rows->qkv + channel,
                            .n_taps = p->n_conv - 1,
                            .past_stride = (size_t)channel_count(p),
                            .stride = (size_t)p->w_qkv.rows,
                            .channels = n,
                            .n = rows->n};
    for (int32_t i = 0; rows->fresh && i < c.n_taps; i++)
        memset(c.past + (size_t)i * c.past_stride, 0, (size_t)c.channels * sizeof *c.past);
    b->kernels->convolve(&c);
    for (int32_t t = 0; !is_v && t < rows->n; t++)
        b->kernels->l2_normalize(c.values + (size_t)t * c.stride, p->d_k,
                                 head < p->n_k_head ? 1 / sqrtf((float)p->d_k) : 1);
}

/* A provisional sequence: keeps the head's channels as they were projected, and gives a copy of
 * what lies before them, for the convolution to overwrite. */
static float *hold_channels(struct worker *w, const struct layer_plan *layer, int32_t sequence,
                            const struct delta_rows *rows, const float *past, int32_t head)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    const struct delta_rows held = held_rows(b, layer, &b->held[sequence]);
    const size_t stride = (size_t)p->w_qkv.rows, channels = (size_t)channel_count(p);
    int32_t n;
    const int32_t channel = head_channel(p, head, &n);
    for (int32_t t = 0; t < rows->n; t++)
        memcpy(held.qkv + (size_t)t * stride + channel, rows->qkv + (size_t)t * stride + channel,
               (size_t)n * sizeof *held.qkv);
    for (int32_t i = 0; i < p->n_conv - 1; i++)
        memcpy(w->trial + (size_t)i * channels + channel, past + (size_t)i * channels + channel,
               (size_t)n * sizeof *past);
    return w->trial;
}

/* Sequences' rows are adjacent; `first` is that of sequence `s`. */
static void convolve_all(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    const int32_t heads = 2 * p->n_k_head + p->n_v_head;
    int32_t from, to;
    worker_loop_begin(w, b->step->n_sequences * heads,
                      (uint64_t)b->rows.n * (uint64_t)channel_count(p) * (uint64_t)p->n_conv * 4);
    while (worker_next_chunk(w, &from, &to))
        for (int32_t i = 0, at = 0, first = 0; i < b->step->n_sequences && at < to;
             i++, at += heads) {
            const struct step_sequence *s = &b->step->sequences[i];
            const struct delta_rows rows = rows_of(b, p, s, first);
            for (int32_t head = from > at ? from - at : 0; head < heads && at + head < to; head++) {
                float *past = layer_state(b, layer, s);
                if (s->provisional)
                    past = hold_channels(w, layer, i, &rows, past, head);
                convolve_head(b, p, &rows, past, head);
            }
            first += s->n_tokens;
        }
}

/* One head of one sequence: the gates, and its rows one after the other. out: [n, out_stride]. */
static void scan_head(const struct backend *b, const struct delta_net_plan *p,
                      const struct delta_rows *rows, float *state, int32_t head, float *out,
                      size_t out_stride)
{
    int32_t key_head = p->tiled_heads ? head % p->n_k_head : head / (p->n_v_head / p->n_k_head);
    float *gates = rows->gates + head;
    const float *q = rows->qkv + key_head * p->d_k;
    struct delta_scan scan = {.state = state,
                              .q = q,
                              .k = q + p->n_k_head * p->d_k,
                              .v = rows->qkv + 2 * p->n_k_head * p->d_k + head * p->d_v,
                              .stride = (size_t)p->w_qkv.rows,
                              .decay = gates,
                              .strength = gates + p->n_v_head,
                              .gate_stride = (size_t)(2 * p->n_v_head),
                              .out = out,
                              .out_stride = out_stride,
                              .d_k = p->d_k,
                              .d_v = p->d_v,
                              .n = rows->n};
    if (rows->fresh)
        memset(state, 0, (size_t)(p->d_k * p->d_v) * sizeof *state);
    for (int32_t t = 0; t < rows->n; t++, gates += scan.gate_stride) {
        gates[0] = expf(p->a_log.at[head] * softplus(gates[0] + p->dt_bias.at[head]));
        gates[p->n_v_head] = 1 / (1 + expf(-gates[p->n_v_head]));
    }
    b->kernels->delta_scan(&scan);
}

/* A provisional sequence: keeps the head's gates as they were projected, and gives a copy of its
 * state for the scan to overwrite. */
static float *hold_state(struct worker *w, const struct layer_plan *layer, int32_t sequence,
                         const struct delta_rows *rows, const float *state, int32_t head)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    const struct delta_rows held = held_rows(b, layer, &b->held[sequence]);
    for (int32_t t = 0; t < rows->n; t++)
        for (int32_t gate = head; gate < 2 * p->n_v_head; gate += p->n_v_head)
            held.gates[t * 2 * p->n_v_head + gate] = rows->gates[t * 2 * p->n_v_head + gate];
    memcpy(w->trial, state, (size_t)(p->d_k * p->d_v) * sizeof *state);
    return w->trial;
}

/* One head of one sequence, and its gated norm, which lands in z's place. */
static void recur_head(struct worker *w, const struct layer_plan *layer, int32_t sequence,
                       float *state, int32_t first, int32_t head)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    const struct step_sequence *s = &b->step->sequences[sequence];
    const struct delta_rows rows = rows_of(b, p, s, first);
    const size_t width = (size_t)p->w_z.rows;
    float *mixed = b->mixed + (size_t)first * width + (size_t)(head * p->d_v);
    if (s->provisional)
        state = hold_state(w, layer, sequence, &rows, state, head);
    scan_head(b, p, &rows, state, head, mixed, width);
    for (int32_t t = 0; t < s->n_tokens; t++) {
        float *out = mixed + (size_t)t * width,
              *z = b->k + (size_t)(first + t) * width + (size_t)(head * p->d_v);
        b->kernels->rms_norm(out, p->norm.at, b->plan->norm_eps, p->d_v, out);
        b->kernels->activate(ACT_SWIGLU, z, out, p->d_v);
    }
}

static void recur_all(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    const size_t values = (size_t)p->d_k * (size_t)p->d_v,
                 convolution = (size_t)channel_count(p) * (size_t)(p->n_conv - 1);
    int32_t from, to;
    worker_loop_begin(w, b->step->n_sequences * p->n_v_head,
                      (uint64_t)b->rows.n * (uint64_t)p->n_v_head * values * 4);
    while (worker_next_chunk(w, &from, &to))
        for (int32_t i = 0, at = 0, first = 0; i < b->step->n_sequences && at < to;
             i++, at += p->n_v_head) {
            const struct step_sequence *s = &b->step->sequences[i];
            float *all = layer_state(b, layer, s) + convolution;
            for (int32_t head = from > at ? from - at : 0; head < p->n_v_head && at + head < to;
                 head++)
                recur_head(w, layer, i, all + (size_t)head * values, first, head);
            first += s->n_tokens;
        }
}

/* Where the published value head h lies here. */
static int32_t place_of(const struct delta_net_plan *p, int32_t h)
{
    int32_t each = p->n_v_head / p->n_k_head;
    return p->tiled_heads ? h % each * p->n_k_head + h / each : h;
}

/* Test hook: the states after the step, one sequence after the other, as their files would hold
 * them: heads in the published order, conv [channels, n_conv - 1], recurrent [n_v_head, d_k, d_v].
 */
static void dump_states(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    const struct delta_net_plan *p = &layer->delta_net;
    int32_t taps = p->n_conv - 1, channels = channel_count(p), first_v = 2 * p->n_k_head * p->d_k;
    int32_t values = p->d_k * p->d_v;
    for (int32_t i = 0; b->params.dump && i < b->step->n_sequences; i++) {
        const float *state = layer_state(b, layer, &b->step->sequences[i]);
        float *shown = w->index ? NULL : malloc(delta_net_state_values(p) * sizeof *shown);
        float *recurrent = shown ? shown + channels * taps : NULL;
        for (int32_t c = 0; shown && c < channels * taps; c++) {
            int32_t channel = c / taps, h = (channel - first_v) / p->d_v;
            if (channel >= first_v)
                channel += (place_of(p, h) - h) * p->d_v;
            shown[c] = state[c % taps * channels + channel];
        }
        for (int32_t h = 0; shown && h < p->n_v_head; h++)
            memcpy(recurrent + h * values, state + channels * taps + place_of(p, h) * values,
                   (size_t)values * sizeof *shown);
        /* worker_dump waits for every thread, so all call it; only thread 0's values are used. */
        worker_dump(w, index,
                    &(struct worker_values){
                        .what = "conv", .data = shown, .rows = shown ? channels : 0, .cols = taps});
        worker_dump(w, index,
                    &(struct worker_values){.what = "recurrent",
                                            .data = recurrent,
                                            .rows = shown ? p->n_v_head * p->d_k : 0,
                                            .cols = p->d_v});
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
    struct panel panel = matmul_pack(w, &(struct pack){.slot = PANEL_MIXED,
                                                       .x = b->k,
                                                       .stride = (size_t)width,
                                                       .n = n,
                                                       .cols = width,
                                                       .kinds = matmul_kinds(w, &p->w_out)});
    struct product out = {.weight = &p->w_out,
                          .panel = &panel,
                          .n = n,
                          .out = b->y,
                          .stride = (size_t)d,
                          .residual = b->x};
    matmul_run(w, &out, 1);
    worker_barrier(w);
}

/* Runs in every thread: each takes layers. */
static void keep_layers(void *context, int32_t member)
{
    struct backend *b = context;
    struct worker *w = &b->workers[member];
    const struct held_rows *held = &b->held[b->keeping];
    int32_t from, to;
    worker_share(w, b->plan->n_layer, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const struct layer_plan *layer = &b->plan->layers[i];
        const struct delta_net_plan *p = &layer->delta_net;
        if (layer->mixer != MIXER_DELTA_NET)
            continue;
        float *state =
            b->state + (size_t)held->state * b->state_values + b->state_at[layer->state_index];
        float *recurrent = state + (size_t)channel_count(p) * (size_t)(p->n_conv - 1);
        struct delta_rows rows = held_rows(b, layer, held);
        rows.n = b->kept_rows;
        for (int32_t head = 0; head < 2 * p->n_k_head + p->n_v_head; head++)
            convolve_head(b, p, &rows, state, head);
        for (int32_t head = 0; head < p->n_v_head; head++)
            scan_head(b, p, &rows, recurrent + (size_t)head * (size_t)(p->d_k * p->d_v), head,
                      w->trial, (size_t)p->d_v);
    }
}

bool delta_net_keep(struct backend *b, int32_t sequence, int32_t rows, struct err *e)
{
    if (sequence < 0 || sequence >= b->params.max_sequences || rows < 1 ||
        rows > b->held[sequence].n)
        return err_set(e, ERR_INTERNAL, "keep_rows: %d rows of sequence %d are not held", rows,
                       sequence);
    const bool single = b->n_workers == 1 || b->state_values < SINGLE_STATE_VALUES;
    for (int32_t i = 0; i < b->n_workers; i++)
        b->workers[i].count = single ? 1 : b->n_workers;
    b->keeping = sequence;
    b->kept_rows = rows;
    thread_pool_run(b->pool, single, keep_layers, b);
    b->held[sequence].n = 0;
    return true;
}
