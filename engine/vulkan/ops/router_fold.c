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

void router_fold_choose(struct recorder *r, const struct device_layer *l,
                        const struct mlp_op *experts)
{
    const struct gpu_caps *c = &r->b->gpu.caps;
    const uint32_t summed = 64 * c->subgroup, /* reduce.glsl */
        most = c->max_threads < summed ? c->max_threads : summed;
    struct dispatch d = {.shader = "router_choose",
                         .spec = {[SPEC_THREADS] = most < CHOOSE_THREADS ? most : CHOOSE_THREADS,
                                  [SPEC_D_MODEL] = r->b->sizes.d},
                         .x = r->n_rows,
                         .y = 1,
                         .z = 1};
    dispatch_router(r, &d, l, experts);
}

bool router_fold_fits(const struct recorder *r, const struct device_layer *l)
{
    return l->router_mixed.n_matrix && record_mlp_up_folds(r, l);
}
