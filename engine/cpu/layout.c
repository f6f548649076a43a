/* Walks the same list of parts to count the bytes of a plan and to place them in one allocation. */
#include "engine/cpu/layout.h"

#include "engine/cpu/head.h"
#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/mixer.h"
#include "engine/cpu/placer.h"
#include "engine/cpu/rope.h"
#include "engine/experts/cache/expert_cache.h"

struct widest { /* of all layers */
    size_t trial, q, k, v, mixed, gates, experts, used, d_ff, shared, row;
    bool moe;
};

static void widen(struct widest *m, const struct layer_plan *layer)
{
    if (layer->mixer == MIXER_ATTENTION) {
        const struct attention_plan *a = &layer->attention;
        raise_to(&m->q, (size_t)a->wq.rows);
        raise_to(&m->k, (size_t)a->wk.rows);
        raise_to(&m->v, (size_t)a->wv.rows);
        raise_to(&m->mixed, (size_t)(a->n_head * a->d_head));
    } else {
        const struct delta_net_plan *p = &layer->delta_net;
        raise_to(&m->q, (size_t)p->w_qkv.rows);
        raise_to(&m->k, (size_t)p->w_z.rows);
        raise_to(&m->mixed, (size_t)(p->n_v_head * p->d_v));
        raise_to(&m->gates, (size_t)(2 * p->n_v_head));
        raise_to(&m->trial, delta_net_trial_values(p));
    }
    if (layer->ffn == FFN_DENSE) {
        raise_to(&m->shared, (size_t)layer->dense.d_ff);
        return;
    }
    m->moe = true;
    raise_to(&m->experts, (size_t)layer->moe.n_expert);
    raise_to(&m->row, (size_t)(3 * layer->moe.n_expert));
    raise_to(&m->used, (size_t)layer->moe.n_used);
    raise_to(&m->d_ff, (size_t)layer->moe.d_ff);
    if (layer->moe.has_shared)
        raise_to(&m->shared, (size_t)layer->moe.shared.d_ff);
}

static struct widest measure(const struct layout *l)
{
    const struct model_plan *plan = l->plan;
    struct widest m = {.row = (size_t)plan->d_model};
    if (plan->joint.fc.type != WEIGHT_NONE) /* joint.h */
        m.q = m.mixed = (size_t)plan->joint.fc.cols;
    if (plan->context.fc.type != WEIGHT_NONE) /* context.h */
        m.q = m.mixed = (size_t)plan->context.fc.cols;
    for (int32_t i = 0; i < plan->n_layer; i++)
        widen(&m, &plan->layers[i]);
    if (l->params->experts ||
        l->params->streams) /* the next router's input lies in the mixers' place */
        raise_to(&m.mixed, (size_t)plan->d_model);
    return m;
}

unsigned layout_panel_kinds(const struct kernels *k, bool exact, bool one_byte)
{
    const unsigned kinds = one_byte && k->byte_kinds ? k->all_byte_kinds : k->kinds;
    return exact ? (unsigned)PANEL_F32 : one_byte ? kinds | PANEL_ONE_BYTE : kinds;
}

static void take_panels(const struct layout *l, struct placer *p, const struct widest *m,
                        int32_t rows, void **slots)
{
    unsigned kinds = layout_panel_kinds(l->kernels, l->params->exact, l->params->one_byte);
    int32_t used = m->used ? (int32_t)m->used : 1;
    placer_take_panel(p, slots, PANEL_INPUT, rows, 1, (size_t)l->plan->d_model, kinds);
    placer_take_panel(p, slots, PANEL_MIXED, rows, 1, m->mixed, kinds);
    placer_take_panel(p, slots, PANEL_HIDDEN, rows, used, m->d_ff, kinds);
    placer_take_panel(p, slots, PANEL_SHARED, rows, 1, m->shared, kinds);
}

static void take_worker(const struct layout *l, struct placer *p, const struct widest *m,
                        struct worker *w)
{
    size_t rows = (size_t)l->params->max_rows;
    take_panels(l, p, m, worker_private_rows(l->plan), w->panels);
    w->row = placer_take(p, m->row * sizeof(float));
    for (int i = 0; i < 2; i++)
        w->tile[i] = placer_take(p, KERNEL_MAX_TILE_ROWS * KERNEL_MAX_LANES * sizeof(float));
    w->trial = placer_take(p, l->params->provisional_rows ? m->trial * sizeof(float) : 0);
    const bool tiles = l->kernels->attend_rows != NULL;
    w->scores = placer_take(p, (tiles ? ATTEND_ROWS_SCORES : ATTEND_SCORES) * sizeof(float));
    w->kv_block = placer_take(p, tiles ? KV_TOKENS * ATTEND_WIDEST_HEAD * sizeof(float) : 0);
    w->choice.ids = placer_take(p, PRIVATE_ROWS * m->used * sizeof(int32_t));
    w->choice.weights = placer_take(p, PRIVATE_ROWS * m->used * sizeof(float));
    w->lists.start = placer_take(p, (m->experts + 1) * sizeof(int32_t));
    w->lists.rows = placer_take(p, rows * m->used * sizeof(int32_t));
    w->lists.weights = placer_take(p, rows * m->used * sizeof(float));
    w->candidate_ids = placer_take(p, HEAD_ROWS * BACKEND_MAX_TOP * sizeof(int32_t));
    w->candidate_logits = placer_take(p, HEAD_ROWS * BACKEND_MAX_TOP * sizeof(float));
    w->n_candidates = placer_take(p, HEAD_ROWS * sizeof(int32_t));
}

static void take_ropes(const struct layout *l, struct placer *p, struct backend *b)
{
    b->ropes = placer_take(p, (size_t)l->plan->n_layer * sizeof *b->ropes);
    for (int32_t i = 0; i < l->plan->n_layer; i++) {
        const struct layer_plan *layer = &l->plan->layers[i];
        struct rope_table table = {0};
        bool found = layer->mixer != MIXER_ATTENTION;
        for (int32_t j = 0; j < i && !found; j++) {
            const struct layer_plan *other = &l->plan->layers[j];
            found = other->mixer == MIXER_ATTENTION &&
                    rope_same(&layer->attention.rope, &other->attention.rope);
            if (found && p->memory)
                table = b->ropes[j];
        }
        if (!found) {
            table.plan = &layer->attention.rope;
            table.cos_sin = placer_take(p, (size_t)l->params->max_rows *
                                               (size_t)table.plan->n_dims * sizeof(float));
        }
        if (p->memory)
            b->ropes[i] = table;
    }
}

static void take_stream(struct placer *p, const struct widest *m, size_t rows, struct stream *s)
{
    s->wants = placer_take(p, m->experts * sizeof *s->wants);
    s->ids = placer_take(p, (m->experts + 1) * sizeof *s->ids);
    s->gate_up_ready = placer_take(p, m->experts * sizeof *s->gate_up_ready);
    s->up = placer_take(p, (m->experts + 1) * sizeof *s->up);
    s->is_up = placer_take(p, m->experts * sizeof *s->is_up);
    s->next_router = placer_take(p, rows * m->experts * sizeof(float));
    s->next_ids = placer_take(p, rows * m->used * sizeof(int32_t));
    s->predictions = placer_take(p, rows * m->used * sizeof *s->predictions);
    s->seen = placer_take(p, m->experts * sizeof *s->seen);
}

static void take_held(const struct layout *l, struct placer *p, struct backend *b)
{
    size_t values = 0;
    b->held = placer_take(p, (size_t)l->params->max_sequences * sizeof *b->held);
    b->held_at = placer_take(p, (size_t)l->plan->n_recurrent * sizeof *b->held_at);
    for (int32_t i = 0; i < l->plan->n_layer; i++) {
        if (l->plan->layers[i].mixer != MIXER_DELTA_NET)
            continue;
        if (p->memory)
            b->held_at[l->plan->layers[i].state_index] = values;
        values += delta_net_held_values(&l->plan->layers[i].delta_net);
    }
    b->held_values = placer_take(p, (size_t)l->params->provisional_rows * values * sizeof(float));
}

size_t layout_workspace(const struct layout *l, struct backend *b, char *memory)
{
    struct backend ignored;
    struct worker none;
    struct widest m = measure(l);
    struct placer p = {.memory = memory};
    size_t n = (size_t)l->params->max_rows, d = (size_t)l->plan->d_model,
           parts = n < PART_ROWS ? n : PART_ROWS;
    if (!b)
        b = &ignored;
    b->rows.sequence = placer_take(&p, n * sizeof(int32_t));
    b->rows.position = placer_take(&p, n * sizeof(int32_t));
    b->rows.token = placer_take(&p, n * sizeof(int32_t));
    b->rows.experts = placer_take(&p, n * sizeof(int32_t));
    b->rows.given = placer_take(&p, n * sizeof *b->rows.given);
    b->rows.hidden = placer_take(&p, n * sizeof *b->rows.hidden);
    b->rows.out = placer_take(&p, n * sizeof(int32_t));
    b->rows.want = placer_take(&p, n * sizeof(bool));
    b->x = placer_take(&p, n * d * sizeof(float));
    b->y = placer_take(&p, n * d * sizeof(float));
    b->q = placer_take(&p, n * m.q * sizeof(float));
    b->k = placer_take(&p, n * m.k * sizeof(float));
    b->v = placer_take(&p, n * m.v * sizeof(float));
    b->mixed = placer_take(&p, n * m.mixed * sizeof(float));
    b->gates = placer_take(&p, n * m.gates * sizeof(float));
    b->router = placer_take(&p, n * m.experts * sizeof(float));
    b->choice.ids = placer_take(&p, n * m.used * sizeof(int32_t));
    b->choice.weights = placer_take(&p, n * m.used * sizeof(float));
    b->hidden = placer_take(&p, n * m.used * m.d_ff * sizeof(float));
    b->shared_hidden = placer_take(&p, n * m.shared * sizeof(float));
    b->shared_gate = placer_take(&p, n * sizeof(float));
    b->parts = placer_take(&p, parts * (m.used + 1) * d * sizeof(float));
    b->out_rows = placer_take(&p, HEAD_ROWS * d * sizeof(float));
    b->chunk_stats =
        placer_take(&p, HEAD_ROWS * (size_t)head_chunks(l->plan->n_vocab) * 2 * sizeof(float));
    if (l->params->experts || l->params->streams)
        take_stream(&p, &m, parts, &b->stream);
    take_held(l, &p, b);
    take_ropes(l, &p, b);
    take_panels(l, &p, &m, l->params->max_rows, b->panels);
    for (int32_t i = 0; i < l->n_workers; i++)
        take_worker(l, &p, &m, b == &ignored ? &none : &b->workers[i]);
    return p.at;
}

enum kv_type layout_kv_type(const struct kernels *k, const struct backend_params *p)
{
    return kv_type_stored(p->kv_type, k->half_kv && !p->exact);
}

size_t layout_kv_bytes(const struct layout *l)
{
    const enum kv_type type = layout_kv_type(l->kernels, l->params);
    size_t bytes = 0;
    for (int32_t i = 0; i < l->plan->n_layer; i++)
        if (l->plan->layers[i].mixer == MIXER_ATTENTION)
            bytes += backend_block_bytes(l->plan->layers[i].attention.n_kv_head,
                                         l->plan->layers[i].attention.d_head, type);
    return bytes * (size_t)l->params->n_blocks;
}

size_t layout_state_values(const struct layout *l, size_t *at)
{
    size_t values = 0;
    for (int32_t i = 0; i < l->plan->n_layer; i++) {
        if (l->plan->layers[i].mixer != MIXER_DELTA_NET)
            continue;
        if (at)
            at[l->plan->layers[i].state_index] = values;
        values += delta_net_state_values(&l->plan->layers[i].delta_net);
    }
    return values;
}

static uint64_t stack_bytes(const struct weight *w)
{
    return w->type == WEIGHT_NONE ? 0 : weight_matrix_bytes(w) * (uint64_t)w->n_matrix;
}

static uint64_t mlp_bytes(const struct mlp_plan *m)
{
    return stack_bytes(&m->gate) + stack_bytes(&m->up) + stack_bytes(&m->down);
}

uint64_t layout_weight_bytes(const struct model_plan *plan)
{
    uint64_t sum = stack_bytes(&plan->embedding.positions) + stack_bytes(&plan->embedding.types) +
                   stack_bytes(&plan->scorer.dense) + stack_bytes(&plan->scorer.out) +
                   stack_bytes(&plan->joint.fc) + stack_bytes(&plan->context.fc);
    if (!plan->shares_ends)
        sum += stack_bytes(&plan->embed) +
               (plan->head.data != plan->embed.data ? stack_bytes(&plan->head) : 0);
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const struct layer_plan *l = &plan->layers[i];
        const struct attention_plan *a = &l->attention;
        const struct delta_net_plan *p = &l->delta_net;
        if (l->mixer == MIXER_ATTENTION)
            sum += stack_bytes(&a->wq) + stack_bytes(&a->wk) + stack_bytes(&a->wv) +
                   stack_bytes(&a->wo);
        else
            sum += stack_bytes(&p->w_qkv) + stack_bytes(&p->w_z) + stack_bytes(&p->w_a) +
                   stack_bytes(&p->w_b) + stack_bytes(&p->w_out);
        if (l->ffn == FFN_DENSE) {
            sum += mlp_bytes(&l->dense);
            continue;
        }
        sum += stack_bytes(&l->moe.router) + stack_bytes(&l->moe.gate) + stack_bytes(&l->moe.up) +
               stack_bytes(&l->moe.down);
        if (l->moe.has_shared)
            sum += mlp_bytes(&l->moe.shared) + stack_bytes(&l->moe.shared_gate);
    }
    return sum;
}

uint64_t layout_dense_bytes(const struct model_plan *plan)
{
    uint64_t sum = layout_weight_bytes(plan);
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const struct moe_plan *m = &plan->layers[i].moe;
        if (plan->layers[i].ffn == FFN_MOE)
            sum -= stack_bytes(&m->gate) + stack_bytes(&m->up) + stack_bytes(&m->down);
    }
    return sum;
}
