/* Makes what stands for routers in steps of few rows, when the weights are on the device. */
#include "engine/vulkan/ops/router_fold.h"

#include "engine/vulkan/ops/dispatch.h"

#define EXPERTS_EACH 4 /* of a workgroup of router_fold.comp */
#define FOLD_THREADS 64u

static void record_fold(struct recorder *r, const struct device_layer *l)
{
    const struct device_matrix *wo = &l->wo;
    const uint32_t subgroup = r->b->gpu.caps.subgroup;
    const struct push_router_fold push = {
        .w = dispatch_planes(wo),
        .g = l->router_x.plane[0],
        .outs = l->router_mixed.plane[0],
        .rows = wo->rows,
        .n_chunk = wo->layout.n_chunk,
        .n_expert = l->router_x.rows,
        .stride = l->router_x.layout.n_chunk * 32,
    };
    struct dispatch d = {
        .shader = "router_fold",
        .format = wo->layout.kernel,
        .spec = {[SPEC_THREADS] = FOLD_THREADS > subgroup ? FOLD_THREADS : subgroup},
        .push = &push,
        .push_bytes = sizeof push,
        .x = wo->layout.n_chunk,
        .y = divide_up(l->router_x.rows, EXPERTS_EACH),
        .z = 1};
    dispatch_spec_format(d.spec, wo);
    dispatch_op(r, &d);
}

bool router_fold_make(struct backend *b, struct err *e)
{
    struct recorder r = {.b = b, .ok = true, .e = e};
    if (!b->model.folds_routers)
        return true;
    if (!(r.c = gpu_command_begin(&b->gpu, false, e)))
        return false;
    for (int i = 0; i < b->plan->n_layer; i++)
        if (b->model.layers[i].router_mixed.n_matrix)
            record_fold(&r, &b->model.layers[i]);
    gpu_barrier(r.c);
    const bool ok = gpu_command_end(&b->gpu, r.c, e) && r.ok && gpu_run(&b->gpu, r.c, e);
    gpu_command_free(&b->gpu, &r.c);
    return ok;
}

#define CHOOSE_THREADS 1024u /* of a few rows: what counts is latency */

void router_fold_choose(struct recorder *r, const struct moe_plan *p, const struct device_layer *l,
                        const struct mlp_op *experts)
{
    const struct workspace *w = &r->b->workspace;
    const struct gpu_caps *c = &r->b->gpu.caps;
    const uint32_t summed = 64 * c->subgroup, /* reduce.glsl */
        most = c->max_threads < summed ? c->max_threads : summed;
    const struct push_router push = {
        .x = w->x,
        .norm = l->ffn_norm,
        .outs = w->x_hi,
        .logits = w->router,
        .select_bias = l->select_bias,
        .rows = record_rows(r),
        .ids = w->ids,
        .weights = w->weights,
        .used = dispatch_used(r, experts->index),
        .counts = w->counts,
        .lists = w->sorted,
        .stride = r->b->sizes.expert,
        .scale = p->scale,
        .eps = r->b->plan->norm_eps,
        .inverse_cols = 1.0f / (float)r->b->plan->d_model,
    };
    struct dispatch d = {.shader = "router_choose",
                         .spec = {[SPEC_THREADS] = most < CHOOSE_THREADS ? most : CHOOSE_THREADS},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = r->n_rows,
                         .y = 1,
                         .z = 1};
    dispatch_spec_route(d.spec, p);
    d.spec[SPEC_SHARED_GATE] = l->shared_gate.n_matrix != 0;
    d.spec[SPEC_UNITS_X] = experts->units;
    d.spec[SPEC_LIST_ROWS] = experts->lists ? record_list_rows(r->n_rows) : 0;
    d.spec[SPEC_D_MODEL] = r->b->sizes.d;
    dispatch_op(r, &d);
}

bool router_fold_fits(const struct recorder *r, const struct device_layer *l)
{
    return l->router_mixed.n_matrix && record_mlp_up_folds(r, l);
}
