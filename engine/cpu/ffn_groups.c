/* Tiles of gate, up and down over groups of rows, and the sums of what the groups add to each row.
 */
#include "engine/cpu/ffn_groups.h"

#include <string.h>

/* Packed bytes of a thread's share of the down matrices, counted for each row, up to which its
 * share are columns of its own: some fifty microseconds of work, in which no thread falls far
 * behind. */
#define OWN_COLUMN_BYTES (1 << 20)

struct group {
    const struct weight *gate, *up, *down;
    const float *b_gate, *b_up, *b_down;
    int32_t matrix;
    const int32_t *rows;  /* [n] rows of the step; NULL: all */
    const float *weights; /* [n] or NULL: ones */
    int32_t n;
    float *hidden; /* [n, d_ff] */
    const struct panel *hidden_panel;
    int32_t hidden_first;           /* of the group's first row in hidden_panel */
    int32_t part;                   /* of the group's first row in parts */
    int32_t next_matrix, next_tile; /* what is multiplied after this; matrix < 0: not known */
};

int32_t groups_count(const struct groups *g)
{
    return (g->lists ? g->layer->moe.n_expert : 0) + (g->mlp ? 1 : 0);
}

int32_t groups_mlp(const struct groups *g)
{
    return g->mlp ? groups_count(g) - 1 : -1;
}

/* How many groups this round has. */
static int32_t round_count(const struct groups *g)
{
    return g->ids ? g->n_ids : groups_count(g);
}

static const float *expert_vector(const struct vector *v, int32_t expert, int32_t n)
{
    return v->at ? v->at + (size_t)expert * (size_t)n : NULL;
}

/* Group by number. */
static struct group group_of(const struct worker *w, const struct groups *g, int32_t i)
{
    struct backend *b = w->backend;
    const struct moe_plan *m = &g->layer->moe;
    if (g->lists && i < m->n_expert) {
        int32_t at = g->lists->start[i];
        return (struct group){.gate = &m->gate,
                              .up = &m->up,
                              .down = &m->down,
                              .matrix = i,
                              .b_gate = expert_vector(&m->b_gate, i, m->d_ff),
                              .b_up = expert_vector(&m->b_up, i, m->d_ff),
                              .b_down = expert_vector(&m->b_down, i, b->plan->d_model),
                              .rows = g->lists->rows + at,
                              .weights = g->lists->weights + at,
                              .n = g->lists->start[i + 1] - at,
                              .part = at,
                              .hidden = b->hidden + (size_t)at * (size_t)m->d_ff,
                              .hidden_panel = &g->routed,
                              .hidden_first = at};
    }
    return (struct group){.gate = &g->mlp->gate,
                          .up = &g->mlp->up,
                          .down = &g->mlp->down,
                          .b_gate = g->mlp->b_gate.at,
                          .b_up = g->mlp->b_up.at,
                          .b_down = g->mlp->b_down.at,
                          .weights = g->mlp_weights,
                          .n = b->rows.n,
                          .hidden = b->shared_hidden,
                          .part = g->lists ? b->rows.n * m->n_used : 0,
                          .hidden_panel = &g->whole};
}

/* The number of this round's i-th group. */
static int32_t number_of(const struct groups *g, int32_t i)
{
    return g->ids ? g->ids[i] : i;
}

/* Of hundreds of experts few have any, so most are passed over by this alone. */
static bool has_rows(const struct groups *g, int32_t group)
{
    return !g->lists || group == groups_mlp(g) ||
           g->lists->start[group + 1] > g->lists->start[group];
}

/* The i-th group of this round. */
static struct group group_at(const struct worker *w, const struct groups *g, int32_t i)
{
    return group_of(w, g, number_of(g, i));
}

/* After the i-th group's tiles up to `tile` come the others before `end`, or those from `first` on
 * of the next group that is routed to. */
static void foresee(const struct groups *g, int32_t i, int32_t tile, int32_t end, int32_t first,
                    struct group *group)
{
    const int32_t mlp = groups_mlp(g), count = round_count(g), own = number_of(g, i);
    if (tile >= end)
        for (i++, tile = first; i < count && !has_rows(g, number_of(g, i));)
            i++;
    group->next_tile = tile;
    group->next_matrix = i < count && own != mlp && number_of(g, i) != mlp ? number_of(g, i) : -1;
}

/* Adds a bias to lanes that exist. */
static void add_bias(float *acc, const float *bias, int32_t row, int32_t rows, int32_t n,
                     int32_t lanes)
{
    if (!bias)
        return;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < lanes && row + j < rows; j++)
            acc[i * lanes + j] += bias[row + j];
}

/* A tile of one of the group's matrices; `local` and the scratch `slot` live as long as it. */
static struct tile tile_of(struct worker *w, const struct groups *g, const struct group *group,
                           const struct weight *weight, int32_t row, int slot, struct weight *local)
{
    const int32_t lanes = w->backend->kernels->lanes, left = weight->rows - row;
    const size_t next = (size_t)(group->next_tile * lanes) * weight->row_bytes;
    if (!g->fetch)
        return (struct tile){.weight = weight,
                             .matrix = group->matrix,
                             .row = row,
                             .ahead = group->next_matrix < 0
                                          ? NULL
                                          : weight_planes(weight, group->next_matrix).data + next};
    *local = *weight;
    g->fetch(weight,
             &(struct expert_rows_range){
                 .matrix = group->matrix, .row = row, .n = left < lanes ? left : lanes},
             w->fetched[slot], local);
    return (struct tile){.weight = local};
}

/* Tiles of one call: those that are laid out anew come one by one. */
static int32_t at_once(const struct groups *g, const struct group *group, int32_t left)
{
    return g->fetch ? 1 : matmul_at_once(group->n, left);
}

/* Tiles' gates and ups, of the rows of `t`, to hidden rows from t->first on. */
static void activate_tiles(struct worker *w, const struct groups *g, const struct group *group,
                           const struct tile *t)
{
    const struct kernels *k = w->backend->kernels;
    const int32_t lanes = k->lanes, rows = group->gate->rows, n = t->n;
    float *gate = w->tile[0], *up = w->tile[1];
    for (int32_t i = 0; i <= t->more; i++) {
        add_bias(gate + i * n * lanes, group->b_gate, t->row + i * lanes, rows, n, lanes);
        add_bias(up + i * n * lanes, group->b_up, t->row + i * lanes, rows, n, lanes);
    }
    k->activate(g->layer->activation, gate, up, (t->more + 1) * n * lanes);
    for (int32_t r = 0; r < n; r++)
        matmul_columns(group->hidden + (size_t)(t->first + r) * (size_t)rows, rows, t,
                       gate + r * lanes, lanes);
}

static void gate_up_tiles(struct worker *w, const struct groups *g, const struct group *group,
                          int32_t tile, int32_t count)
{
    const struct kernels *k = w->backend->kernels;
    const int32_t row = tile * k->lanes;
    struct weight local[2];
    struct tile gate = tile_of(w, g, group, group->gate, row, 0, &local[0]);
    const bool alone = group->up->type == WEIGHT_NONE; /* the activation has one factor */
    struct tile up = alone ? gate : tile_of(w, g, group, group->up, row, 1, &local[1]);
    gate.panel = up.panel = &g->input;
    gate.more = up.more = count - 1;
    for (int32_t first = 0, n; first < group->n; first += n) {
        n = matmul_rows_at_once(group->n - first);
        gate.index = up.index = group->rows ? group->rows + first : NULL;
        gate.first = up.first = first;
        gate.n = up.n = n;
        k->tile(&gate, w->backend->params.exact, w->tile[0]);
        if (!alone)
            k->tile(&up, w->backend->params.exact, w->tile[1]);
        struct tile done = gate;
        done.row = row; /* of the group's matrix, not of what was laid out anew */
        activate_tiles(w, g, group, &done);
    }
}

/* Which of a group's matrices a loop is about. */
struct loop {
    const struct weight *routed, *whole; /* of an expert; of the shared or dense network */
    void (*run)(struct worker *w, const struct groups *g, const struct group *group, int32_t tile,
                int32_t count);
};

/* (Group, tile) of this round, group after group, as one list of tiles. */
static void share_tiles(struct worker *w, const struct groups *g, const struct loop *l)
{
    const int32_t count = round_count(g), mlp = groups_mlp(g);
    const int32_t routed = g->lists ? matmul_tiles(w, l->routed->rows) : 0,
                  whole = g->mlp ? matmul_tiles(w, l->whole->rows) : 0;
    int32_t total = 0, rows = 0, from, to;
    bool with_mlp = false;
    for (int32_t i = 0; i < count; i++) {
        const int32_t number = number_of(g, i);
        with_mlp = with_mlp || number == mlp;
        if (number == mlp || !has_rows(g, number))
            continue;
        total += routed;
        rows += g->lists->start[number + 1] - g->lists->start[number];
    }
    uint64_t bytes = rows ? weight_matrix_bytes(l->routed) * (uint64_t)rows : 0;
    if (with_mlp) {
        total += whole;
        bytes += weight_matrix_bytes(l->whole) * (uint64_t)w->backend->rows.n;
    }
    worker_loop_begin(w, total, bytes);
    while (worker_next_chunk(w, &from, &to))
        for (int32_t i = 0, at = 0; i < count && at < to; i++) {
            const int32_t number = number_of(g, i);
            if (!has_rows(g, number))
                continue;
            const int32_t tiles = number == mlp ? whole : routed;
            const int32_t end = to - at < tiles ? to - at : tiles;
            if (from < at + tiles) {
                struct group group = group_of(w, g, number);
                for (int32_t t = from > at ? from - at : 0, n; t < end; t += n) {
                    n = at_once(g, &group, end - t);
                    foresee(g, i, t + n, tiles, 0, &group);
                    l->run(w, g, &group, t, n);
                }
            }
            at += tiles;
        }
}

void groups_gate_up(struct worker *w, const struct groups *g)
{
    share_tiles(w, g,
                &(struct loop){.routed = &g->layer->moe.gate, /* up is as large */
                               .whole = g->mlp ? &g->mlp->gate : NULL,
                               .run = gate_up_tiles});
}

/* Rows of one panel that belong to this round's groups. */
static void pack_round(struct worker *w, struct groups *g, const struct pack *routed,
                       const struct pack *whole)
{
    for (int32_t i = 0; i < g->n_ids; i++) {
        struct group group = group_at(w, g, i);
        bool mlp = g->ids[i] == groups_mlp(g);
        int32_t first = mlp ? 0 : group.hidden_first;
        if (group.n)
            matmul_pack_rows(w, mlp ? whole : routed, mlp ? &g->whole : &g->routed, first,
                             first + group.n);
    }
    if (!worker_private(w->backend))
        worker_barrier(w);
}

void groups_pack_hidden(struct worker *w, struct groups *g)
{
    struct backend *b = w->backend;
    const struct moe_plan *m = &g->layer->moe;
    struct pack routed = {0}, whole = {0};
    if (g->lists)
        routed = (struct pack){.slot = PANEL_HIDDEN,
                               .x = b->hidden,
                               .stride = (size_t)m->d_ff,
                               .n = g->lists->start[m->n_expert],
                               .cols = m->d_ff,
                               .kinds = matmul_kinds(w, &m->down),
                               .lone_rows = true};
    if (g->mlp)
        whole = (struct pack){.slot = PANEL_SHARED,
                              .x = b->shared_hidden,
                              .stride = (size_t)g->mlp->d_ff,
                              .n = b->rows.n,
                              .cols = g->mlp->d_ff,
                              .kinds = matmul_kinds(w, &g->mlp->down)};
    if (g->ids) {
        if (g->lists)
            g->routed = matmul_panel(w, &routed);
        if (g->mlp)
            g->whole = matmul_panel(w, &whole);
        pack_round(w, g, &routed, &whole);
        return;
    }
    if (g->lists)
        g->routed = matmul_pack(w, &routed);
    if (g->mlp)
        g->whole = matmul_pack(w, &whole);
}

/* y += weight * values, in `count` columns from `row`: of the group's row i. */
static void add_row(struct backend *b, const struct group *group, int32_t i, const float *values,
                    int32_t row, int32_t count)
{
    float weight = group->weights ? group->weights[i] : 1;
    float *y = b->y + (size_t)(group->rows ? group->rows[i] : i) * (size_t)b->plan->d_model + row;
    b->kernels->add_scaled(y, values, weight, count);
}

/* Tiles' rows of a group, to where they are put aside or added up. */
static void put_down(struct worker *w, const struct groups *g, const struct group *group,
                     const struct tile *t)
{
    struct backend *b = w->backend;
    const int32_t lanes = b->kernels->lanes, d = b->plan->d_model, n = t->n,
                  first = t->first - group->hidden_first;
    for (int32_t i = 0; i <= t->more; i++)
        add_bias(w->tile[0] + i * n * lanes, group->b_down, t->row + i * lanes, d, n, lanes);
    for (int32_t r = 0; r < n; r++) {
        const float *acc = w->tile[0] + r * lanes;
        if (g->parts) {
            matmul_columns(g->parts + (size_t)(group->part + first + r) * (size_t)d, d, t, acc,
                           lanes);
            continue;
        }
        const int32_t all = (t->more + 1) * lanes, count = d - t->row < all ? d - t->row : all;
        struct tile side_by_side = *t;
        side_by_side.row = 0;
        if (t->more)
            matmul_columns(w->row, count, &side_by_side, acc, lanes);
        add_row(b, group, first + r, t->more ? w->row : acc, t->row, count);
    }
}

/* What a tile's rows are added to: of many rows no cache near has it, as each has a line elsewhere,
 * so it is asked for while they are computed. */
static void fetch_sums(const struct backend *b, const struct group *group, const struct tile *t)
{
    const int32_t first = t->first - group->hidden_first;
    for (int32_t r = 0; r < t->n; r++) {
        const int32_t row = group->rows ? group->rows[first + r] : first + r;
        __builtin_prefetch(b->y + (size_t)row * (size_t)b->plan->d_model + t->row, 1, 2);
        __asm__ volatile(""); /* gcc 12 drops loops of nothing else */
    }
}

static void down_tiles(struct worker *w, const struct groups *g, const struct group *group,
                       int32_t tile, int32_t count)
{
    const struct kernels *k = w->backend->kernels;
    const int32_t row = tile * k->lanes;
    struct weight local;
    struct tile t = tile_of(w, g, group, group->down, row, 0, &local);
    t.panel = group->hidden_panel;
    t.more = count - 1;
    for (int32_t first = 0; first < group->n; first += t.n) {
        t.n = matmul_rows_at_once(group->n - first);
        t.first = group->hidden_first + first;
        struct tile there = t; /* in the whole matrix */
        there.row = row;
        if (!g->parts)
            fetch_sums(w->backend, group, &there);
        k->tile(&t, w->backend->params.exact, w->tile[0]);
        put_down(w, g, group, &there);
    }
}

/* This thread's columns of the result. */
static void own_columns(const struct worker *w, int32_t *row, int32_t *end)
{
    int32_t d = w->backend->plan->d_model, lanes = w->backend->kernels->lanes, from, to;
    worker_share(w, matmul_tiles(w, d), &from, &to);
    *row = from * lanes;
    *end = to * lanes < d ? to * lanes : d;
}

static void clear(struct backend *b, int32_t row, int32_t end)
{
    for (int32_t t = 0; t < b->rows.n && row < end; t++)
        memset(b->y + (size_t)t * (size_t)b->plan->d_model + row, 0,
               (size_t)(end - row) * sizeof(float));
}

void groups_clear(struct worker *w, const struct groups *g)
{
    int32_t row, end;
    own_columns(w, &row, &end);
    if (!g->parts)
        clear(w->backend, row, end);
}

/* Some columns: y = the parts in the order of groups, where there are any; x += y. */
static void finish_columns(struct worker *w, const struct groups *g, int32_t row, int32_t end)
{
    struct backend *b = w->backend;
    const int32_t d = b->plan->d_model;
    if (g->parts)
        clear(b, row, end);
    for (int32_t i = 0; g->parts && i < groups_count(g) && row < end; i++) {
        if (!has_rows(g, i))
            continue;
        const struct group group = group_of(w, g, i);
        for (int32_t r = 0; r < group.n; r++)
            add_row(b, &group, r, g->parts + (size_t)(group.part + r) * (size_t)d + row, row,
                    end - row);
    }
    for (int32_t t = 0; t < b->rows.n && row < end; t++) {
        const size_t at = (size_t)t * (size_t)d + (size_t)row;
        b->kernels->add_scaled(b->x + at, b->y + at, 1, end - row);
    }
}

bool groups_own_columns(const struct worker *w, const struct groups *g)
{
    const struct weight *down = g->lists ? &g->layer->moe.down : &g->mlp->down;
    const int32_t each = g->lists ? g->layer->moe.n_used : 1;
    return worker_private(w->backend) &&
           weight_matrix_bytes(down) * (uint64_t)each * (uint64_t)w->backend->rows.n <=
               (uint64_t)w->count * OWN_COLUMN_BYTES;
}

/* Each group in order, over some of the result's tiles. */
static void add_groups(struct worker *w, const struct groups *g, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < round_count(g) && from < to; i++) {
        if (!has_rows(g, number_of(g, i)))
            continue;
        struct group group = group_at(w, g, i);
        for (int32_t tile = from, n; tile < to; tile += n) {
            n = at_once(g, &group, to - tile);
            foresee(g, i, tile + n, to, from, &group);
            down_tiles(w, g, &group, tile, n);
        }
    }
}

void groups_down_own(struct worker *w, const struct groups *g)
{
    int32_t from, to, row, end;
    worker_share(w, matmul_tiles(w, w->backend->plan->d_model), &from, &to);
    add_groups(w, g, from, to);
    own_columns(w, &row, &end);
    finish_columns(w, g, row, end);
    worker_barrier(w);
}

void groups_down(struct worker *w, const struct groups *g)
{
    int32_t from, to;
    if (g->parts) {
        share_tiles(w, g,
                    &(struct loop){.routed = &g->layer->moe.down,
                                   .whole = g->mlp ? &g->mlp->down : NULL,
                                   .run = down_tiles});
        return;
    }
    worker_loop_begin(w, matmul_tiles(w, w->backend->plan->d_model), UINT64_MAX); /* of many rows */
    while (worker_next_chunk(w, &from, &to))
        add_groups(w, g, from, to);
}

struct finishing {
    struct worker *worker;
    const struct groups *groups;
};

static void finish_all(void *context)
{
    const struct finishing *f = context;
    finish_columns(f->worker, f->groups, 0, f->worker->backend->plan->d_model);
}

void groups_finish(struct worker *w, const struct groups *g)
{
    int32_t row, end;
    if (worker_private(w->backend)) { /* a few microseconds: less than a barrier */
        worker_barrier_then(w, finish_all, &(struct finishing){w, g});
        return;
    }
    worker_barrier(w);
    own_columns(w, &row, &end);
    finish_columns(w, g, row, end);
    worker_barrier(w);
}

void groups_count_bytes(struct worker *w, const struct groups *g)
{
    const struct moe_plan *m = &g->layer->moe;
    int32_t used = 0;
    if (w->index != 0)
        return;
    for (int32_t i = 0; g->lists && i < m->n_expert; i++)
        used += has_rows(g, i);
    if (used)
        w->weight_bytes +=
            (uint64_t)used * (weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
                              weight_matrix_bytes(&m->down));
    if (g->mlp)
        w->weight_bytes += weight_matrix_bytes(&g->mlp->gate) + weight_matrix_bytes(&g->mlp->up) +
                           weight_matrix_bytes(&g->mlp->down);
}
