/* See ffn.h: normalises and routes; ffn_groups.c computes, ffn_stream.c when the experts are on
 * disk. */
#include "engine/cpu/ffn.h"

#include <math.h>

#include "engine/cpu/ffn_groups.h"
#include "engine/cpu/ffn_stream.h"
#include "engine/cpu/router.h"

static void choose_row(struct worker *w, const struct moe_plan *m, int32_t layer, int32_t row,
                       const struct router_choice *c)
{
    struct backend *b = w->backend;
    const struct backend_params *p = &b->params;
    int32_t n = worker_experts(b, row, m), *ids = c->ids + row * m->n_used;
    float *weights = c->weights + row * m->n_used;
    router_choose(m, n, b->router + (size_t)row * (size_t)m->n_expert,
                  &(struct router_choice){ids, weights}, w->row);
    if (p->route)
        p->route(p->route_context, layer, b->rows.sequence[row], b->rows.position[row], ids);
    for (int32_t i = n; i < m->n_used; i++) {
        ids[i] = -1;
        weights[i] = 0;
    }
}

/* Few rows: every thread chooses for itself. Many: in shares, then all read all. */
static const struct router_choice *choose(struct worker *w, const struct moe_plan *m, int32_t layer)
{
    struct backend *b = w->backend;
    int32_t n = b->rows.n, from = 0, to = n;
    bool own = worker_private(b);
    struct router_choice *c = own ? &w->choice : &b->choice;
    if (!own)
        worker_share(w, n, &from, &to);
    for (int32_t t = from; t < to; t++)
        choose_row(w, m, layer, t, c);
    if (!own)
        worker_barrier(w);
    return c;
}

static void sigmoid_gate(struct worker *w, const struct moe_plan *m)
{
    struct backend *b = w->backend;
    int32_t from, to;
    if (!m->has_shared || m->shared_gate.type == WEIGHT_NONE)
        return;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++)
        b->shared_gate[t] = 1 / (1 + expf(-b->shared_gate[t]));
}

static void route(struct worker *w, const struct layer_plan *layer, int32_t index,
                  const struct panel *input)
{
    struct backend *b = w->backend;
    const struct moe_plan *m = &layer->moe;
    bool gated = m->has_shared && m->shared_gate.type != WEIGHT_NONE;
    struct panel next;
    struct product products[3] = {{.weight = &m->router,
                                   .panel = input,
                                   .n = b->rows.n,
                                   .out = b->router,
                                   .stride = (size_t)m->n_expert}};
    int32_t n = 1;
    if (gated)
        products[n++] = (struct product){.weight = &m->shared_gate,
                                         .panel = input,
                                         .n = b->rows.n,
                                         .out = b->shared_gate,
                                         .stride = 1};
    if (ffn_stream_predict(w, index, &next, &products[n]))
        n++;
    matmul_run(w, products, n);
    worker_barrier(w);
    worker_dump(
        w, index,
        &(struct worker_values){
            .what = "router_logits", .data = b->router, .rows = b->rows.n, .cols = m->n_expert});
    sigmoid_gate(w, m); /* read after the barrier that follows gate_up */
    const struct router_choice *c = choose(w, m, index);
    worker_dump(w, index,
                &(struct worker_values){.what = "expert_ids",
                                        .data = c->ids,
                                        .rows = b->rows.n,
                                        .cols = m->n_used,
                                        .is_int = true});
    worker_dump(
        w, index,
        &(struct worker_values){
            .what = "expert_weights", .data = c->weights, .rows = b->rows.n, .cols = m->n_used});
    expert_lists_make(&w->lists, m, b->rows.n, c->ids,
                      c->weights); /* each thread its own: that costs less than a barrier */
}

static unsigned input_kinds(const struct worker *w, const struct layer_plan *layer,
                            const struct mlp_plan *mlp)
{
    unsigned kinds = mlp ? matmul_kinds(w, &mlp->gate) : 0u;
    if (mlp && mlp->up.type != WEIGHT_NONE)
        kinds |= matmul_kinds(w, &mlp->up);
    if (layer->ffn == FFN_MOE) {
        kinds |= matmul_kinds(w, &layer->moe.gate) | matmul_kinds(w, &layer->moe.up);
        kinds |= matmul_kinds(w, &layer->moe.router);
        if (layer->moe.has_shared && layer->moe.shared_gate.type != WEIGHT_NONE)
            kinds |= matmul_kinds(w, &layer->moe.shared_gate);
    }
    return kinds;
}

void ffn_run(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    bool moe = layer->ffn == FFN_MOE;
    struct groups g = {.layer = layer, .lists = moe ? &w->lists : NULL};
    g.mlp = !moe ? &layer->dense : layer->moe.has_shared ? &layer->moe.shared : NULL;
    if (moe && layer->moe.has_shared && layer->moe.shared_gate.type != WEIGHT_NONE)
        g.mlp_weights = b->shared_gate;
    g.input = matmul_pack(w, &(struct pack){.slot = PANEL_INPUT,
                                            .x = b->x,
                                            .stride = (size_t)b->plan->d_model,
                                            .n = b->rows.n,
                                            .cols = b->plan->d_model,
                                            .kinds = input_kinds(w, layer, g.mlp),
                                            .norm = layer->ffn_norm.at,
                                            .lone_rows = moe});
    if (moe)
        route(w, layer, index, &g.input);
    groups_count_bytes(w, &g);
    if (moe && b->params.experts) {
        ffn_stream(w, &g, index);
        return;
    }
    const bool own = groups_own_columns(w, &g);
    g.parts = b->rows.n <= PART_ROWS && !own ? b->parts : NULL;
    groups_clear(w, &g);
    groups_gate_up(w, &g);
    worker_barrier(w);
    groups_pack_hidden(w, &g);
    if (own) {
        groups_down_own(w, &g);
        return;
    }
    groups_down(w, &g);
    groups_finish(w, &g);
}
