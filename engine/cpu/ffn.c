/* See ffn.h. A dense network, a shared expert and a routed expert are the same thing here: a group, which is
 * a set of rows that goes through one trio of matrices.
 *
 * The first phase shares (group, tile of d_ff) among the threads; the second shares the columns of the
 * result, each thread walking all groups in order, so that a row's sum has one order of additions and nobody
 * else writes to it. */
#include "engine/cpu/ffn.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/matmul.h"
#include "engine/cpu/router.h"

struct group {
    const struct weight *gate, *up, *down;
    const float *b_gate, *b_up, *b_down;
    int32_t matrix;
    const int32_t *rows;     /* [n] rows of the step; NULL: all */
    const float *weights;    /* [n] or NULL: ones */
    int32_t n;
    float *hidden;           /* [n, d_ff] */
    const struct panel *hidden_panel;
    int32_t hidden_first;    /* of the group's first row in hidden_panel */
};

struct groups { /* what both phases walk over: routed experts, then the shared or dense network */
    const struct layer_plan *layer;
    const struct expert_lists *lists; /* NULL: no routed experts */
    struct panel input, routed, whole;
    const struct mlp_plan *mlp;       /* shared or dense; NULL: none */
    const float *mlp_weights;         /* [T] sigmoid of the shared gate, or NULL */
};

static int32_t group_count(const struct groups *g)
{
    return (g->lists ? g->layer->moe.n_expert : 0) + (g->mlp ? 1 : 0);
}

static const float *expert_vector(const struct vector *v, int32_t expert, int32_t n)
{
    return v->at ? v->at + (size_t)expert * (size_t)n : NULL;
}

static struct group group_at(const struct worker *w, const struct groups *g, int32_t i)
{
    struct backend *b = w->backend;
    const struct moe_plan *m = &g->layer->moe;
    if (g->lists && i < m->n_expert) {
        int32_t at = g->lists->start[i];
        return (struct group){.gate = &m->gate, .up = &m->up, .down = &m->down, .matrix = i,
                              .b_gate = expert_vector(&m->b_gate, i, m->d_ff),
                              .b_up = expert_vector(&m->b_up, i, m->d_ff),
                              .b_down = expert_vector(&m->b_down, i, b->plan->d_model),
                              .rows = g->lists->rows + at, .weights = g->lists->weights + at,
                              .n = g->lists->start[i + 1] - at,
                              .hidden = b->hidden + (size_t)at * (size_t)m->d_ff,
                              .hidden_panel = &g->routed, .hidden_first = at};
    }
    return (struct group){.gate = &g->mlp->gate, .up = &g->mlp->up, .down = &g->mlp->down,
                          .b_gate = g->mlp->b_gate.at, .b_up = g->mlp->b_up.at, .b_down = g->mlp->b_down.at,
                          .weights = g->mlp_weights, .n = b->rows.n, .hidden = b->shared_hidden,
                          .hidden_panel = &g->whole};
}

/* Adds a bias to lanes that exist. */
static void add_bias(float *acc, const float *bias, int32_t row, int32_t rows, int32_t n, int32_t lanes)
{
    if (!bias)
        return;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < lanes && row + j < rows; j++)
            acc[i * lanes + j] += bias[row + j];
}

static void gate_up_tile(struct worker *w, const struct groups *g, const struct group *group, int32_t tile)
{
    const struct kernels *k = w->backend->kernels;
    int32_t lanes = k->lanes, row = tile * lanes, rows = group->gate->rows;
    int32_t count = rows - row < lanes ? rows - row : lanes;
    for (int32_t first = 0; first < group->n; first += KERNEL_MAX_TILE_ROWS) {
        int32_t left = group->n - first, n = left < KERNEL_MAX_TILE_ROWS ? left : KERNEL_MAX_TILE_ROWS;
        struct tile t = {.weight = group->gate, .matrix = group->matrix, .row = row, .panel = &g->input,
                         .index = group->rows ? group->rows + first : NULL, .first = first, .n = n};
        k->tile(&t, matmul_kind(w, group->gate), w->tile[0]);
        t.weight = group->up;
        k->tile(&t, matmul_kind(w, group->up), w->tile[1]);
        add_bias(w->tile[0], group->b_gate, row, rows, n, lanes);
        add_bias(w->tile[1], group->b_up, row, rows, n, lanes);
        k->activate(g->layer->activation, w->tile[0], w->tile[1], n * lanes);
        for (int32_t i = 0; i < n; i++)
            memcpy(group->hidden + (size_t)(first + i) * (size_t)rows + row, w->tile[0] + i * lanes,
                   (size_t)count * sizeof(float));
    }
}

/* A tile costs its unpacking, worth some rows, and its rows. Shares are cut by cost, so that neither many
 * small groups nor few large ones leave a thread idle. */
static int64_t tile_cost(const struct group *group)
{
    return group->n + 4;
}

static void gate_up(struct worker *w, const struct groups *g)
{
    int32_t count = group_count(g);
    int64_t total = 0, at = 0;
    for (int32_t i = 0; i < count; i++) {
        struct group group = group_at(w, g, i);
        if (group.n)
            total += tile_cost(&group) * matmul_tiles(w, group.gate->rows);
    }
    int64_t from = total * w->index / w->count, to = total * (w->index + 1) / w->count;
    for (int32_t i = 0; i < count && at < to; i++) {
        struct group group = group_at(w, g, i);
        if (!group.n)
            continue;
        int64_t cost = tile_cost(&group);
        int32_t tiles = matmul_tiles(w, group.gate->rows);
        /* Tile t starts at cost at + t * cost; it belongs to who holds that point. */
        int64_t first = from > at ? (from - at + cost - 1) / cost : 0;
        for (int64_t t = first; t < tiles && at + t * cost < to; t++)
            gate_up_tile(w, g, &group, (int32_t)t);
        at += cost * tiles;
    }
}

static void down_tile(struct worker *w, const struct group *group, int32_t tile)
{
    struct backend *b = w->backend;
    const struct kernels *k = b->kernels;
    int32_t lanes = k->lanes, row = tile * lanes, d = b->plan->d_model;
    int32_t count = d - row < lanes ? d - row : lanes;
    for (int32_t first = 0; first < group->n; first += KERNEL_MAX_TILE_ROWS) {
        int32_t left = group->n - first, n = left < KERNEL_MAX_TILE_ROWS ? left : KERNEL_MAX_TILE_ROWS;
        k->tile(&(struct tile){.weight = group->down, .matrix = group->matrix, .row = row,
                               .panel = group->hidden_panel, .first = group->hidden_first + first, .n = n},
                matmul_kind(w, group->down), w->tile[0]);
        add_bias(w->tile[0], group->b_down, row, d, n, lanes);
        for (int32_t i = 0; i < n; i++) {
            float weight = group->weights ? group->weights[first + i] : 1;
            float *y = b->y + (size_t)(group->rows ? group->rows[first + i] : first + i) * (size_t)d + row;
            for (int32_t j = 0; j < count; j++)
                y[j] += weight * w->tile[0][i * lanes + j];
        }
    }
}

static void down(struct worker *w, const struct groups *g)
{
    struct backend *b = w->backend;
    int32_t d = b->plan->d_model, lanes = b->kernels->lanes, count = group_count(g), from, to;
    worker_share(w, matmul_tiles(w, d), &from, &to);
    int32_t row = from * lanes, end = to * lanes < d ? to * lanes : d;
    if (row >= end)
        return;
    for (int32_t t = 0; t < b->rows.n; t++)
        memset(b->y + (size_t)t * (size_t)d + row, 0, (size_t)(end - row) * sizeof(float));
    for (int32_t i = 0; i < count; i++) {
        struct group group = group_at(w, g, i);
        for (int32_t tile = from; group.n && tile < to; tile++)
            down_tile(w, &group, tile);
    }
    for (int32_t t = 0; t < b->rows.n; t++)
        for (int32_t j = row; j < end; j++)
            b->x[(size_t)t * (size_t)d + j] += b->y[(size_t)t * (size_t)d + j];
}

static void count_bytes(struct worker *w, const struct groups *g)
{
    for (int32_t i = 0; w->index == 0 && i < group_count(g); i++) {
        struct group group = group_at(w, g, i);
        if (group.n)
            w->weight_bytes += weight_matrix_bytes(group.gate) + weight_matrix_bytes(group.up) +
                               weight_matrix_bytes(group.down);
    }
}

/* Rows of each expert by counting sort; every thread makes its own copy, which costs less than a barrier. */
static void make_lists(struct worker *w, const struct moe_plan *m, const struct router_choice *c)
{
    struct expert_lists *l = &w->lists;
    int32_t total = w->backend->rows.n * m->n_used;
    memset(l->start, 0, (size_t)(m->n_expert + 1) * sizeof *l->start);
    for (int32_t i = 0; i < total; i++)
        l->start[c->ids[i] + 1]++;
    for (int32_t e = 0; e < m->n_expert; e++)
        l->start[e + 1] += l->start[e];
    for (int32_t i = 0; i < total; i++) {
        int32_t at = l->start[c->ids[i]]++;
        l->rows[at] = i / m->n_used;
        l->weights[at] = c->weights[i];
    }
    for (int32_t e = m->n_expert; e > 0; e--)
        l->start[e] = l->start[e - 1];
    l->start[0] = 0;
}

/* Few rows: every thread chooses for itself. Many: in shares, then all read all. */
static const struct router_choice *choose(struct worker *w, const struct moe_plan *m, int32_t layer)
{
    struct backend *b = w->backend;
    const struct backend_params *p = &b->params;
    int32_t n = b->rows.n, from = 0, to = n;
    bool own = n <= PRIVATE_ROWS;
    struct router_choice *c = own ? &w->choice : &b->choice;
    if (!own)
        worker_share(w, n, &from, &to);
    for (int32_t t = from; t < to; t++) {
        router_choose(m, b->router + (size_t)t * (size_t)m->n_expert, c->ids + t * m->n_used,
                      c->weights + t * m->n_used, w->row);
        if (p->route)
            p->route(p->route_context, layer, b->rows.sequence[t], b->rows.position[t], c->ids + t * m->n_used);
    }
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

static void route(struct worker *w, const struct layer_plan *layer, int32_t index, const struct panel *input)
{
    struct backend *b = w->backend;
    const struct moe_plan *m = &layer->moe;
    bool gated = m->has_shared && m->shared_gate.type != WEIGHT_NONE;
    struct product products[2] = {
        {.weight = &m->router, .panel = input, .n = b->rows.n, .out = b->router, .stride = (size_t)m->n_expert},
        {.weight = &m->shared_gate, .panel = input, .n = b->rows.n, .out = b->shared_gate, .stride = 1}};
    matmul_run(w, products, gated ? 2 : 1);
    worker_barrier(w);
    worker_dump(w, index, "router_logits", b->router, b->rows.n, m->n_expert, false);
    sigmoid_gate(w, m); /* read after the barrier that follows gate_up */
    const struct router_choice *c = choose(w, m, index);
    worker_dump(w, index, "expert_ids", c->ids, b->rows.n, m->n_used, true);
    worker_dump(w, index, "expert_weights", c->weights, b->rows.n, m->n_used, false);
    make_lists(w, m, c);
}

static unsigned input_kinds(const struct worker *w, const struct layer_plan *layer, const struct mlp_plan *mlp)
{
    unsigned kinds = mlp ? matmul_kind(w, &mlp->gate) | matmul_kind(w, &mlp->up) : 0u;
    if (layer->ffn == FFN_MOE) {
        kinds |= matmul_kind(w, &layer->moe.gate) | matmul_kind(w, &layer->moe.up);
        kinds |= matmul_kind(w, &layer->moe.router);
        if (layer->moe.has_shared && layer->moe.shared_gate.type != WEIGHT_NONE)
            kinds |= matmul_kind(w, &layer->moe.shared_gate);
    }
    return kinds;
}

static void pack_hidden(struct worker *w, struct groups *g)
{
    struct backend *b = w->backend;
    const struct moe_plan *m = &g->layer->moe;
    if (g->lists) {
        struct pack p = {.slot = PANEL_HIDDEN, .x = b->hidden, .stride = (size_t)m->d_ff, .n = b->rows.n * m->n_used,
                         .cols = m->d_ff, .kinds = matmul_kind(w, &m->down)};
        g->routed = matmul_pack(w, &p);
    }
    if (g->mlp)
        g->whole = matmul_pack(w, &(struct pack){.slot = PANEL_SHARED, .x = b->shared_hidden,
                                                 .stride = (size_t)g->mlp->d_ff, .n = b->rows.n,
                                                 .cols = g->mlp->d_ff, .kinds = matmul_kind(w, &g->mlp->down)});
}

void ffn_run(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    bool moe = layer->ffn == FFN_MOE;
    struct groups g = {.layer = layer, .lists = moe ? &w->lists : NULL};
    g.mlp = !moe ? &layer->dense : layer->moe.has_shared ? &layer->moe.shared : NULL;
    if (moe && layer->moe.has_shared && layer->moe.shared_gate.type != WEIGHT_NONE)
        g.mlp_weights = b->shared_gate;
    g.input = matmul_pack(w, &(struct pack){.slot = PANEL_INPUT, .x = b->x, .stride = (size_t)b->plan->d_model,
                                            .n = b->rows.n, .cols = b->plan->d_model,
                                            .kinds = input_kinds(w, layer, g.mlp), .norm = layer->ffn_norm.at});
    if (moe)
        route(w, layer, index, &g.input);
    count_bytes(w, &g);
    gate_up(w, &g);
    worker_barrier(w);
    pack_hidden(w, &g);
    down(w, &g);
    worker_barrier(w);
}
