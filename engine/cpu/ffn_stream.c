/* See ffn_stream.h.
 *
 * The layer goes in rounds: member 0 takes from the store what is ready, all compute it, member 0
 * gives it back. A step of few rows computes experts as they come, gate and up while down is still
 * read, and leaves each one's rows aside, to be summed at the end; while member 0 asks the disk,
 * the others compute the shared expert. A step of many rows goes through the experts in order and
 * adds at once, and so needs memory for neither all experts nor all their rows. */
#include "engine/cpu/ffn_stream.h"

#include <string.h>

#include "engine/cpu/router.h"
#include "engine/cpu/wanted_rows.h"
#include "engine/experts/cache/expert_cache.h"

/* Experts of the next layer that a long prefill reads while this one's attention is computed. */
#define PREFILL_AHEAD 4

static bool in_order(const struct backend *b)
{
    return b->rows.n > PART_ROWS;
}

/* Rows that go to experts in the next layer; 0: it has none, or all its rows end before them. */
static int32_t next_rows(const struct backend *b, int32_t index)
{
    const int32_t next = index + 1;
    return next < b->plan->n_layer && b->plan->layers[next].ffn == FFN_MOE
               ? wanted_rows_left(b, next)
               : 0;
}

static bool predicts(const struct backend *b, int32_t index)
{
    return b->stream.predicts && !in_order(b) && next_rows(b, index);
}

/* --- member 0 --- */

static void predict(struct worker *w, int32_t index)
{
    struct backend *b = w->backend;
    struct stream *s = &b->stream;
    const struct moe_plan *next = &b->plan->layers[index + 1].moe;
    const int32_t most = next->n_used;
    int32_t n = 0;
    memset(s->seen, 0, (size_t)next->n_expert * sizeof *s->seen);
    for (int32_t t = 0; t < b->rows.n; t++) {
        const bool stays = wanted_rows_stays(b, index + 1, t);
        int32_t *ids = s->next_ids + t * most, wanted = stays ? worker_experts(b, t, next) : 0;
        if (stays)
            router_choose(next, wanted, s->next_router + (size_t)t * (size_t)next->n_expert,
                          &(struct router_choice){ids, w->choice.weights}, w->row);
        if (stays && b->params.predict)
            b->params.predict(b->params.route_context, index + 1, b->rows.sequence[t],
                              b->rows.position[t], ids);
        for (int32_t i = wanted; i < most; i++)
            ids[i] = -1;
    }
    for (int32_t rank = 0; rank < most; rank++) /* the surest of every row first */
        for (int32_t t = 0; t < b->rows.n; t++) {
            const int32_t id = s->next_ids[t * most + rank];
            if (id < 0 || s->seen[id])
                continue;
            s->seen[id] = true;
            s->predictions[n++] = (struct expert_prediction){.expert = id, .rank = rank};
        }
    expert_cache_prefetch(b->params.experts, index, s->predictions, n);
}

/* With so many rows the next layer wants nearly all: the first ones in any case. */
static void expect_first(struct backend *b, int32_t index)
{
    const struct expert_prediction first[PREFILL_AHEAD] = {
        {.expert = 0}, {.expert = 1}, {.expert = 2}, {.expert = 3}};
    const int32_t rows = next_rows(b, index);
    if (!rows)
        return;
    const struct moe_plan *next = &b->plan->layers[index + 1].moe;
    if (next->n_expert >= PREFILL_AHEAD && rows * next->n_used >= 4 * next->n_expert)
        expert_cache_prefetch(b->params.experts, index, first, PREFILL_AHEAD);
}

static int32_t begin(struct worker *w, const struct groups *g, int32_t index)
{
    struct backend *b = w->backend;
    const int32_t *start = g->lists->start;
    int32_t n = 0;
    for (int32_t x = 0; x < g->layer->moe.n_expert; x++)
        if (start[x + 1] > start[x])
            b->stream.wants[n++] =
                (struct expert_want){.expert = x, .rows = start[x + 1] - start[x]};
    expert_cache_begin(b->params.experts, &(struct expert_layer_request){.layer = index,
                                                                         .wants = b->stream.wants,
                                                                         .n = n,
                                                                         .rows = b->rows.n,
                                                                         .in_order = in_order(b)});
    return n;
}

static void add_up(struct stream *s, int32_t expert)
{
    if (!s->is_up[expert])
        s->up[s->n_up++] = expert;
    s->is_up[expert] = true;
}

/* The next round's groups; *left experts were not taken yet. */
static void take(struct backend *b, int32_t index, int32_t *left, bool wait)
{
    struct stream *s = &b->stream;
    struct expert_taken t = {.ids = s->ids, .gate_up_ready = in_order(b) ? NULL : s->gate_up_ready};
    s->failed =
        *left && !expert_cache_take_gate_up(b->params.experts, &t, *left, wait, &s->failure);
    s->n_ids = s->failed ? 0 : t.n;
    s->n_up = 0;
    *left -= s->n_ids;
    s->more = !s->failed && *left;
    for (int32_t i = 0; i < s->n_ids; i++)
        add_up(s, s->ids[i]);
    for (int32_t i = 0; !s->failed && i < t.n_gate_up_ready; i++)
        add_up(s, t.gate_up_ready[i]);
    if (in_order(b) && !*left && expert_cache_prefetching(b->params.experts))
        expect_first(b, index);
}

/* The shared expert is there in any case: its rows end with the first round's. */
static void add_mlp(struct backend *b, int32_t mlp)
{
    struct stream *s = &b->stream;
    s->ids[s->n_ids++] = mlp;
    if (in_order(b))
        s->up[s->n_up++] = mlp;
}

/* --- all --- */

static void compute(struct worker *w, struct groups *g)
{
    struct stream *s = &w->backend->stream;
    const int32_t n_ids = s->n_ids;
    g->ids = s->up;
    g->n_ids = s->n_up;
    if (g->n_ids) {
        groups_gate_up(w, g);
        worker_barrier(w);
    }
    if (!n_ids) /* member 0 writes the next round's lists already */
        return;
    g->ids = s->ids;
    g->n_ids = n_ids;
    if (in_order(w->backend) && g->ids[g->n_ids - 1] == groups_mlp(g))
        g->n_ids--; /* its sum comes last */
    groups_pack_hidden(w, g);
    groups_down(w, g);
    worker_barrier(w);
}

static void finish(struct worker *w, struct groups *g)
{
    const int32_t mlp = groups_mlp(g);
    if (!g->parts && mlp >= 0) {
        g->ids = &mlp;
        g->n_ids = 1;
        groups_pack_hidden(w, g);
        groups_down(w, g);
    }
    groups_finish(w, g);
}

/* Until the first round is known: member 0 asks the store, and all compute the shared expert's gate
 * and up. */
static void start(struct worker *w, const struct groups *g, int32_t index, int32_t *left,
                  int32_t *taken)
{
    struct backend *b = w->backend;
    struct stream *s = &b->stream;
    const int32_t mlp = groups_mlp(g);
    if (w->index == 0) {
        *left = begin(w, g, index);
        if (predicts(b, index))
            predict(w, index);
        memset(s->is_up, 0, (size_t)g->layer->moe.n_expert * sizeof *s->is_up);
        take(b, index, left, mlp < 0);
        *taken = s->n_ids;
        if (mlp >= 0)
            add_mlp(b, mlp);
    }
    if (mlp >= 0 && !in_order(b)) {
        struct groups shared = *g;
        shared.ids = &mlp;
        shared.n_ids = 1;
        groups_gate_up(w, &shared);
    }
}

void ffn_stream(struct worker *w, struct groups *g, int32_t index)
{
    struct backend *b = w->backend;
    struct stream *s = &b->stream;
    int32_t left = 0, taken = 0;
    g->parts = in_order(b) ? NULL : b->parts;
    groups_clear(w, g);
    start(w, g, index, &left, &taken);
    for (bool first = true, more = true; more; first = false) {
        if (w->index == 0 && !first) {
            take(b, index, &left, true);
            taken = s->n_ids;
        }
        worker_barrier(w);
        more = s->more;
        if (s->failed)
            break;
        compute(w, g);
        if (w->index == 0)
            expert_cache_give(b->params.experts, s->ids, taken);
    }
    if (!s->failed)
        finish(w, g);
    if (w->index == 0)
        expert_cache_end(b->params.experts);
}

bool ffn_stream_predict(struct worker *w, int32_t index, struct panel *panel,
                        struct product *product)
{
    struct backend *b = w->backend;
    if (!b->params.experts || !predicts(b, index))
        return false;
    const struct layer_plan *next = &b->plan->layers[index + 1];
    *panel = matmul_pack(w, &(struct pack){.slot = PANEL_MIXED,
                                           .x = b->x,
                                           .stride = (size_t)b->plan->d_model,
                                           .n = b->rows.n,
                                           .cols = b->plan->d_model,
                                           .kinds = matmul_kinds(w, &next->moe.router),
                                           .norm = next->ffn_norm.at});
    *product = (struct product){.weight = &next->moe.router,
                                .panel = panel,
                                .n = b->rows.n,
                                .out = b->stream.next_router,
                                .stride = (size_t)next->moe.n_expert};
    return true;
}
