/* The first product of a next-token layer: fc over the normed embedding and hidden state of each
 * row. */
#include "engine/cpu/joint.h"

#include "engine/cpu/matmul.h"

void joint_run(struct worker *w)
{
    struct backend *b = w->backend;
    const struct joint_plan *j = &b->plan->joint;
    const int32_t d = b->plan->d_model;
    const size_t wide = 2 * (size_t)d;
    int32_t from, to;
    if (j->fc.type == WEIGHT_NONE)
        return;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++) {
        float *both = b->q + (size_t)t * wide;
        b->kernels->rms_norm(b->x + (size_t)t * (size_t)d, j->embed_norm.at, b->plan->norm_eps, d,
                             both);
        b->kernels->rms_norm(b->rows.given[t], j->hidden_norm.at, b->plan->norm_eps, d, both + d);
    }
    worker_barrier(w);
    struct panel panel = matmul_pack(w, &(struct pack){.slot = PANEL_MIXED,
                                                       .x = b->q,
                                                       .stride = wide,
                                                       .n = b->rows.n,
                                                       .cols = 2 * d,
                                                       .kinds = matmul_kinds(w, &j->fc)});
    matmul_run(
        w,
        &(struct product){
            .weight = &j->fc, .panel = &panel, .n = b->rows.n, .out = b->x, .stride = (size_t)d},
        1);
    worker_barrier(w);
    worker_dump(
        w, -1,
        &(struct worker_values){.what = "joint", .data = b->x, .rows = b->rows.n, .cols = d});
}
