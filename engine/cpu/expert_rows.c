/* See backend/expert_rows.h. The arithmetic is ffn_groups.c's, over a struct backend of which only
 * that is filled. */
#include "engine/backend/expert_rows.h"

#include <stdlib.h>

#include "engine/cpu/ffn_groups.h"
#include "engine/cpu/layout.h"
#include "engine/cpu/placer.h"

#define SCRATCH_MORE 64 /* bytes that vector loads may reach past the last row */

struct expert_rows {
    struct backend shared; /* what groups and products read: plan, kernels, pool, workers, rows,
                              panels, hidden, y */
    struct layer_plan
        *layers; /* [n_layer] the plan's, with the experts where the owner keeps them */
    expert_rows_fetch *fetch; /* [n_layer] */
    void *memory;
    struct expert_lists lists; /* of the run */
    int32_t *ids;              /* [n_expert] experts of the run, ascending */
    int32_t n_ids;
    const struct expert_rows_work *work;
};

struct widest {                      /* of the layers with experts */
    size_t experts, used, d_ff, row; /* row: bytes of a matrix row, all planes */
};

static struct widest measure(const struct model_plan *plan)
{
    struct widest m = {0};
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const struct moe_plan *p = &plan->layers[i].moe;
        const struct weight *w[3] = {&p->gate, &p->up, &p->down};
        if (plan->layers[i].ffn != FFN_MOE)
            continue;
        for (int k = 0; k < 3; k++)
            raise_to(&m.row, weight_row_size(w[k]) + 2 * weight_scale_row_size(w[k]));
        raise_to(&m.experts, (size_t)p->n_expert);
        raise_to(&m.used, (size_t)p->n_used);
        raise_to(&m.d_ff, (size_t)p->d_ff);
    }
    return m;
}

static void take_panels(struct placer *p, const struct widest *m, size_t d, int32_t rows,
                        unsigned kinds, void **slots)
{
    placer_take_panel(p, slots, PANEL_INPUT, rows, 1, d, kinds);
    placer_take_panel(p, slots, PANEL_HIDDEN, rows, (int32_t)m->used, m->d_ff, kinds);
}

/* Counts, or places into memory. */
static size_t place(const struct model_plan *plan, const struct expert_rows_params *params,
                    int32_t n_workers, struct expert_rows *r, char *memory)
{
    struct placer p = {.memory = memory};
    struct expert_rows ignored;
    struct worker none;
    const struct widest m = measure(plan);
    const unsigned kinds = layout_panel_kinds(kernels_best(), params->exact, false);
    const size_t rows = (size_t)params->max_rows, d = (size_t)plan->d_model;
    if (!r)
        r = &ignored;
    r->shared.hidden = placer_take(&p, rows * m.used * m.d_ff * sizeof(float));
    take_panels(&p, &m, d, params->max_rows, kinds, r->shared.panels);
    r->lists.start = placer_take(&p, (m.experts + 1) * sizeof(int32_t));
    r->lists.rows = placer_take(&p, rows * m.used * sizeof(int32_t));
    r->lists.weights = placer_take(&p, rows * m.used * sizeof(float));
    r->ids = placer_take(&p, m.experts * sizeof(int32_t));
    for (int32_t i = 0; i < n_workers; i++) {
        struct worker *w = r == &ignored ? &none : &r->shared.workers[i];
        take_panels(&p, &m, d, worker_private_rows(plan), kinds, w->panels);
        w->row = placer_take(&p, d * sizeof(float));
        for (int k = 0; k < 2; k++) {
            w->tile[k] = placer_take(&p, KERNEL_MAX_TILE_ROWS * KERNEL_MAX_LANES * sizeof(float));
            w->fetched[k] = placer_take(&p, KERNEL_MAX_LANES * m.row + SCRATCH_MORE);
        }
    }
    return p.at;
}

static uint64_t bytes(const struct model_plan *plan, const struct expert_rows_params *p)
{
    return place(plan, p, thread_pool_size(p->n_threads), NULL, NULL);
}

static void rows_close(struct expert_rows **rr)
{
    struct expert_rows *r = *rr;
    *rr = NULL;
    if (!r)
        return;
    thread_pool_destroy(&r->shared.pool);
    free(r->shared.workers);
    free(r->layers);
    free(r->fetch);
    free(r->memory);
    free(r);
}

static bool allocate(struct expert_rows *r, const struct model_plan *plan,
                     const struct expert_rows_params *p)
{
    struct backend *b = &r->shared;
    b->plan = plan;
    b->params = (struct backend_params){.max_rows = p->max_rows, .exact = p->exact};
    b->kernels = kernels_best();
    b->n_workers = thread_pool_threads(b->pool);
    b->workers = calloc((size_t)b->n_workers, sizeof *b->workers);
    r->layers = calloc((size_t)plan->n_layer, sizeof *r->layers);
    r->fetch = calloc((size_t)plan->n_layer, sizeof *r->fetch);
    r->memory = aligned_alloc(64, place(plan, p, b->n_workers, NULL, NULL));
    if (!b->workers || !r->layers || !r->fetch || !r->memory)
        return false;
    place(plan, p, b->n_workers, r, r->memory);
    for (int32_t i = 0; i < b->n_workers; i++) {
        b->workers[i].backend = b;
        b->workers[i].index = i;
        b->workers[i].count = b->n_workers;
    }
    return true;
}

static struct expert_rows *rows_open(const struct model_plan *plan,
                                     const struct expert_rows_layer *layers,
                                     const struct expert_rows_params *p, struct err *e)
{
    struct expert_rows *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_NOMEM, "no memory for experts on the processor");
        return NULL;
    }
    if (!(r->shared.pool = thread_pool_create(p->n_threads, e))) {
        rows_close(&r);
        return NULL;
    }
    if (!allocate(r, plan, p)) {
        err_set(e, ERR_NOMEM, "no memory for experts on the processor");
        rows_close(&r);
        return NULL;
    }
    for (int32_t i = 0; i < plan->n_layer; i++) {
        struct moe_plan *m = &r->layers[i].moe;
        r->layers[i] = plan->layers[i];
        r->fetch[i] = layers[i].fetch;
        m->gate = layers[i].gate;
        m->up = layers[i].up;
        m->down = layers[i].down;
    }
    return r;
}

/* The experts that have rows. */
static void list_experts(struct expert_rows *r, int32_t n_expert)
{
    r->n_ids = 0;
    for (int32_t e = 0; e < n_expert; e++)
        if (r->lists.start[e + 1] > r->lists.start[e])
            r->ids[r->n_ids++] = e;
}

static void run_member(void *context, int32_t member)
{
    struct expert_rows *r = context;
    struct worker *w = &r->shared.workers[member];
    const struct expert_rows_work *now = r->work;
    const struct layer_plan *layer = &r->layers[now->layer];
    struct groups g = {.layer = layer,
                       .lists = &r->lists,
                       .ids = r->ids,
                       .n_ids = r->n_ids,
                       .fetch = r->fetch[now->layer]};
    g.input = matmul_pack(w, &(struct pack){.slot = PANEL_INPUT,
                                            .x = now->x,
                                            .stride = (size_t)now->stride,
                                            .n = now->n_rows,
                                            .cols = r->shared.plan->d_model,
                                            .norm = layer->ffn_norm.at,
                                            .lone_rows = true,
                                            .kinds = matmul_kinds(w, &layer->moe.gate) |
                                                     matmul_kinds(w, &layer->moe.up)});
    groups_clear(w, &g);
    groups_gate_up(w, &g);
    worker_barrier(w);
    groups_pack_hidden(w, &g);
    groups_down(w, &g);
}

static int32_t run(struct expert_rows *r, const struct expert_rows_work *w)
{
    const struct moe_plan *m = &r->layers[w->layer].moe;
    expert_lists_make(&r->lists, m, w->n_rows, w->ids, w->weights);
    list_experts(r, m->n_expert);
    r->work = w;
    r->shared.rows.n = w->n_rows;
    r->shared.y = w->out;
    thread_pool_run(r->shared.pool, false, run_member, r);
    return r->n_ids;
}

static int32_t threads(const struct expert_rows *r)
{
    return r->shared.n_workers;
}

const struct expert_rows_ops cpu_expert_rows = {
    .bytes = bytes, .open = rows_open, .close = rows_close, .threads = threads, .run = run};
