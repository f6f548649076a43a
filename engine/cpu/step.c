/* One step: the batch checked and flattened, then every thread walks through the layers. */
#include "engine/cpu/step.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/cpu/ffn.h"
#include "engine/cpu/context.h"
#include "engine/cpu/head.h"
#include "engine/cpu/joint.h"
#include "engine/cpu/mixer.h"
#include "engine/cpu/residual_norm.h"
#include "engine/cpu/rope.h"
#include "engine/cpu/wanted_rows.h"
#include "engine/experts/cache/expert_cache.h"

static bool check_sequence(const struct backend *b, const struct step_sequence *s, int32_t i,
                           struct err *e)
{
    int32_t end = s->start + s->n_tokens;
    if (s->n_tokens < 1 || s->start < 0 || s->n_out < 0 || s->n_out > s->n_tokens)
        return err_set(e, ERR_INTERNAL, "step: sequence %d has %d tokens at %d, %d wanted", i,
                       s->n_tokens, s->start, s->n_out);
    if (s->provisional && (s->start == 0 || s->n_tokens > BACKEND_PROVISIONAL_ROWS))
        return err_set(e, ERR_INTERNAL, "step: sequence %d has %d provisional rows at %d", i,
                       s->n_tokens, s->start);
    if (b->plan->encoder && (s->start || s->n_first < 0 || s->n_first > s->n_tokens))
        return err_set(e, ERR_INTERNAL, "step: sequence %d begins at %d, an encoder wants it whole",
                       i, s->start);
    if (s->n_hidden < 0 || s->n_hidden > s->n_tokens ||
        (b->step->context || b->plan->joint.fc.type != WEIGHT_NONE) != (s->given != NULL))
        return err_set(e, ERR_INTERNAL, "step: sequence %d has %d hidden rows, %s given", i,
                       s->n_hidden, s->given ? "some" : "none");
    if (s->n_experts < 0)
        return err_set(e, ERR_INTERNAL, "step: sequence %d wants %d experts", i, s->n_experts);
    if (end > b->plan->n_ctx)
        return err_set(e, ERR_LIMIT, "step: sequence %d reaches position %d of %d", i, end,
                       b->plan->n_ctx);
    for (int32_t t = 0; t < s->n_tokens; t++)
        if (s->tokens[t] < 0 || s->tokens[t] >= b->plan->n_vocab)
            return err_set(e, ERR_INPUT, "step: token %d of sequence %d is %d, want 0..%d", t, i,
                           s->tokens[t], b->plan->n_vocab - 1);
    for (int32_t k = 0; b->plan->n_attention && k * BACKEND_BLOCK_TOKENS < end; k++)
        if (s->blocks[k] < 0 || s->blocks[k] >= b->params.n_blocks)
            return err_set(e, ERR_INTERNAL, "step: block %d of sequence %d is %d, want 0..%d", k, i,
                           s->blocks[k], b->params.n_blocks - 1);
    if (b->plan->n_recurrent && (s->state < 0 || s->state >= b->params.n_states))
        return err_set(e, ERR_INTERNAL, "step: state of sequence %d is %d, want 0..%d", i, s->state,
                       b->params.n_states - 1);
    return true;
}

/* Where the rows of a provisional sequence are held. */
static bool hold(struct backend *b, const struct step_sequence *s, int32_t i, int32_t *n,
                 struct err *e)
{
    b->held[i] = (struct held_rows){.first = *n, .state = s->state};
    if (!s->provisional)
        return true;
    if (s->n_tokens > b->params.provisional_rows - *n)
        return err_set(e, ERR_INTERNAL, "step: more than %d provisional rows",
                       b->params.provisional_rows);
    b->held[i].n = s->n_tokens;
    *n += s->n_tokens;
    return true;
}

static void place_hidden(struct backend *b, const struct step_sequence *q, int32_t t)
{
    const size_t d = (size_t)b->plan->d_model, n_taps = (size_t)b->params.n_taps,
                 in = b->step->context ? (size_t)b->plan->context.fc.cols : d;
    const int32_t at = t - (q->n_tokens - q->n_hidden);
    b->rows.given[b->rows.n] = q->given ? q->given + (size_t)t * in : NULL;
    b->rows.hidden[b->rows.n] =
        q->hidden && at >= 0 ? q->hidden + (size_t)at * d * (n_taps ? n_taps : 1) : NULL;
}

static bool flatten(struct backend *b, const struct step *s, struct err *e)
{
    struct step_rows *rows = &b->rows;
    rows->n = rows->n_out = 0;
    rows->keep_logits = false;
    rows->one_row_each = true;
    rows->only_wanted = false;
    int32_t n_held = 0;
    if (s->n_sequences < 1 || s->n_sequences > b->params.max_sequences)
        return err_set(e, ERR_INTERNAL, "step: %d sequences, want 1..%d", s->n_sequences,
                       b->params.max_sequences);
    if (s->context && b->plan->context.fc.type == WEIGHT_NONE)
        return err_set(e, ERR_INTERNAL, "step: the plan has no context");
    if (b->plan->encoder && !s->hidden)
        return err_set(e, ERR_INTERNAL, "step: an encoder has hidden rows only");
    if (!s->hidden && (s->n_top < 1 || s->n_top > BACKEND_MAX_TOP))
        return err_set(e, ERR_INTERNAL, "step: %d candidates, want 1..%d", s->n_top,
                       BACKEND_MAX_TOP);
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const struct step_sequence *q = &s->sequences[i];
        if (!check_sequence(b, q, i, e) || !hold(b, q, i, &n_held, e))
            return false;
        if (q->n_tokens > b->params.max_rows - rows->n)
            return err_set(e, ERR_LIMIT, "step: more than %d rows", b->params.max_rows);
        rows->one_row_each = rows->one_row_each && q->n_tokens == 1;
        for (int32_t t = 0; t < q->n_tokens; t++, rows->n++) {
            rows->sequence[rows->n] = i;
            rows->position[rows->n] = q->start + t;
            rows->token[rows->n] = q->tokens[t];
            rows->experts[rows->n] = q->n_experts;
            place_hidden(b, q, t);
            if (t < q->n_tokens - q->n_out)
                continue;
            rows->want[rows->n_out] = q->want_logits;
            rows->keep_logits = rows->keep_logits || q->want_logits;
            rows->out[rows->n_out++] = rows->n;
        }
    }
    return true;
}

void worker_dump(struct worker *w, int32_t layer, const struct worker_values *v)
{
    const struct backend_params *p = &w->backend->params;
    char name[64];
    if (!p->dump)
        return;
    worker_barrier(w);
    if (layer >= 0)
        snprintf(name, sizeof name, "layers.%d.%s", layer, v->what);
    else
        snprintf(name, sizeof name, "%s", v->what);
    if (w->index == 0)
        p->dump(p->dump_context, name, v->data, v->rows, v->cols, v->is_int);
    worker_barrier(w);
}

/* Rows' embeddings into the residual stream, and the step's rotations. */
static void begin(struct worker *w)
{
    struct backend *b = w->backend;
    int32_t from, to;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++) {
        weight_row_f32(&b->plan->embed, 0, b->rows.token[t],
                       b->x + (size_t)t * (size_t)b->plan->d_model);
        residual_begin(w, t);
        w->weight_bytes += weight_matrix_bytes(&b->plan->embed) / (size_t)b->plan->embed.rows;
        for (int32_t i = 0; i < b->plan->n_layer; i++) {
            const struct rope_table *r = &b->ropes[i];
            bool first = r->plan == &b->plan->layers[i].attention.rope;
            if (r->plan && first)
                rope_fill(r->plan, b->rows.position[t],
                          r->cos_sin + (size_t)t * (size_t)r->plan->n_dims);
        }
    }
}

/* What a layer left, to those who want it: its place among the taps. */
static void show_tap(struct worker *w, int32_t layer)
{
    struct backend *b = w->backend;
    const size_t d = (size_t)b->plan->d_model;
    int32_t from, to, k = 0;
    while (k < b->params.n_taps && b->params.taps[k] != layer)
        k++;
    if (k == b->params.n_taps)
        return;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++)
        if (b->rows.hidden[t])
            memcpy(b->rows.hidden[t] + (size_t)k * d, b->x + (size_t)t * d, d * sizeof(float));
    worker_barrier(w);
}

/* Runs in every thread of the pool at once. */
static void forward(void *context, int32_t member)
{
    struct backend *b = context;
    struct worker *w = &b->workers[member];
    int32_t n = b->rows.n, d = b->plan->d_model;
    begin(w);
    worker_barrier(w);
    joint_run(w);
    if (b->step->context) {
        context_run(w);
        return;
    }
    worker_dump(w, -1,
                &(struct worker_values){.what = "embed", .data = b->x, .rows = n, .cols = d});
    for (int32_t i = 0; i < b->plan->n_layer; i++) {
        const struct layer_plan *layer = &b->plan->layers[i];
        if (layer->mixer == MIXER_ATTENTION)
            attention_run(w, layer, i);
        else
            delta_net_run(w, layer, i);
        if (wanted_rows_fewer(b, i))
            wanted_rows_leave(w);
        if (!b->rows.n)
            return;
        worker_dump(w, i,
                    &(struct worker_values){.what = "mixer", .data = b->y, .rows = n, .cols = d});
        residual_norm(w, &layer->after_mixer);
        worker_dump(
            w, i,
            &(struct worker_values){.what = "after_mixer", .data = b->x, .rows = n, .cols = d});
        ffn_run(w, layer, i);
        if (b->stream.failed) /* written before the last barrier, the same for all */
            return;
        worker_dump(w, i,
                    &(struct worker_values){.what = "ffn", .data = b->y, .rows = n, .cols = d});
        residual_norm(w, &layer->after_ffn);
        show_tap(w, i);
        worker_dump(
            w, i, &(struct worker_values){.what = "after_ffn", .data = b->x, .rows = n, .cols = d});
    }
    head_run(w);
}

bool step_run(struct backend *b, const struct step *s, struct step_row *rows, struct err *e)
{
    uint64_t began = clock_ns();
    b->step = s;
    if (!flatten(b, s, e) || !head_reserve(b, e)) {
        b->step = NULL;
        return false;
    }
    const int32_t n = b->rows.n; /* of which the last layer may leave fewer */
    b->stream.failed = false;
    b->stream.predicts = b->params.experts && (!b->params.route || b->params.predict) &&
                         expert_cache_prefetching(b->params.experts);
    struct thread_tuner *tuner = s->context ? &b->context_tuner : &b->tuner;
    bool single = b->n_workers > 1 && thread_tuner_single(tuner, n);
    for (int32_t i = 0; i < b->n_workers; i++) {
        b->workers[i].weight_bytes = b->workers[i].kv_bytes = 0;
        b->workers[i].count = single ? 1 : b->n_workers;
    }
    thread_pool_run(b->pool, single, forward, b);
    if (!b->stream.failed)
        head_publish(b, rows);
    b->step = NULL;
    for (int32_t i = 0; i < b->n_workers; i++) {
        b->counters.weight_bytes_read += b->workers[i].weight_bytes;
        b->counters.kv_bytes_read += b->workers[i].kv_bytes;
    }
    b->counters.steps++;
    b->counters.rows += (uint64_t)n;
    uint64_t took = clock_ns() - began;
    if (b->stream.failed) {
        *e = b->stream.failure;
        b->counters.step_ns += took;
        return false;
    }
    thread_tuner_record(tuner, n, single, took);
    b->counters.step_ns += took;
    return true;
}
