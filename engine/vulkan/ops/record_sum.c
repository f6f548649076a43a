/* Records what stands between matrix products of several rows: the sort by experts, the sum of
 * their parts, and casts to halves. */
#include "engine/vulkan/ops/dispatch.h"
#include "engine/vulkan/ops/record_gemm.h"

#define SUM_THREADS 1024u /* of few rows: what counts is latency */

void record_sort(struct recorder *r, const struct sort_op *op)
{
    const struct workspace *w = &r->b->workspace;
    const struct push_moe_sort push = {
        .ids = w->ids,
        .sorted = w->sorted,
        .tiles = w->tiles,
        .n_tiles = w->n_tiles,
        .n = op->pairs,
        .small_at = op->small_at,
    };
    const uint32_t most = r->b->gpu.caps.max_threads;
    struct dispatch d = {.shader = "moe_sort",
                         .spec = {[SPEC_THREADS] = most < 1024 ? most : 1024,
                                  [SPEC_TILE_ROWS] = op->tile_n,
                                  [SPEC_SMALL_ROWS] = op->small,
                                  [SPEC_N_EXPERT] = op->n_expert},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = 1,
                         .y = 1,
                         .z = 1};
    dispatch_op(r, &d);
}

void record_cast_f16(struct recorder *r, const struct cast_f16_op *op)
{
    const struct workspace *w = &r->b->workspace;
    const struct push_cast_f16 push = {
        .x = op->x,
        .norm = op->norm,
        .outs = w->x_hi,
        .rest = w->x_lo,
        .gather = op->gather,
        .n = op->n_chunk * 16,
        .x_stride = op->x_stride / 2,
        .eps = op->eps,
        .inverse_cols = 1.0f / (float)r->b->plan->d_model,
    };
    struct dispatch d = {
        .shader = "cast_f16",
        .spec =
            {[SPEC_THREADS] = 256, [SPEC_CAST_NORM] = op->norm != 0, [SPEC_CAST_SPLIT] = op->split},
        .push = &push,
        .push_bytes = sizeof push,
        .x = op->n_x,
        .y = 1,
        .z = 1};
    dispatch_op(r, &d);
}

void record_moe_sum(struct recorder *r, const struct mlp_op *op, VkDeviceAddress shared_part)
{
    const struct gpu_caps *c = &r->b->gpu.caps;
    const uint32_t wanted = r->n_rows <= RECORD_LIST_ROWS ? SUM_THREADS : 256,
                   summed = 64 * c->subgroup, /* reduce.glsl */
        most = c->max_threads < summed ? c->max_threads : summed;
    const struct workspace *w = &r->b->workspace;
    const struct device_matrix *m = &op->m->down;
    const struct push_moe_sum push = {
        .parts = w->parts_down,
        .y = w->x,
        .bias = op->m->b_down,
        .weights = w->weights,
        .ids = w->ids,
        .token_rows = record_rows(r),
        .norm = op->next_norm,
        .outs = w->x_hi,
        .counts = op->lists ? w->counts : 0,
        .beside = shared_part,
        .beside_bias = op->shared ? op->shared->m->b_down : 0,
        .gate = op->shared ? op->shared->gate : 0,
        .y_stride = r->b->sizes.d,
        .n_expert = op->lists ? (uint32_t)op->moe->n_expert : 0,
        .gate_stride = r->b->sizes.expert,
        .eps = r->b->plan->norm_eps,
    };
    struct dispatch d = {.shader = "moe_sum",
                         .spec = {[SPEC_THREADS] = most < wanted ? most : wanted},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = r->n_rows,
                         .y = 1,
                         .z = 1};
    d.spec[SPEC_SUM_AHEAD] = r->n_rows <= RECORD_LIST_ROWS;
    d.spec[SPEC_SUM_CAST] = op->next_norm != 0;
    d.spec[SPEC_SUM_SHARED] = !op->shared ? 0 : op->shared->gate ? 2 : 1;
    d.spec[SPEC_D_MODEL] = m->rows;
    d.spec[SPEC_K] = mlp_used(op);
    d.spec[SPEC_BIAS] = op->m->b_down != 0;
    d.spec[SPEC_WEIGHTS] = op->moe ? 0 : 1;
    dispatch_op(r, &d);
}
