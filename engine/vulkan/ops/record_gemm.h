/* Ops for steps of many rows: the same maths as record.h's, as matrix-matrix products (GEMM) over
 * activations rounded to 16 bits. They run on the matrix units where the device has those that our
 * shaders use, else on its plain arithmetic. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Whether a step of n rows goes through these ops. */
static inline bool gemm_takes(const struct backend *b, uint32_t n_rows)
{
    return !b->params.exact && n_rows >= b->tuning.gemm_min_rows;
}
/* The same for the products of its routed experts. */
static inline bool gemm_takes_experts(const struct backend *b, uint32_t n_rows)
{
    return gemm_takes(b, n_rows) && n_rows >= b->tuning.gemm_expert_rows;
}
/* The same for the head's product with n wanted rows. */
static inline bool gemm_takes_head(const struct backend *b, uint32_t n)
{
    return !b->params.exact && n >= b->tuning.gemm_head_rows;
}
/* Whether all products of a step of three rows are faster on the matrix units than row by row;
 * measured for experts in MXFP4, no shared one, and a head that head_few takes. Wants tuning.few to
 * be set. */
bool record_gemm_takes_three(const struct backend *b);
static inline bool gemm_wanted(const struct recorder *r)
{
    return gemm_takes(r->b, r->n_rows);
}
/* Whether each expert of a step of this many rows gets a list of its pairs from record_route, which
 * spares the sort. */
bool record_gemm_lists(const struct recorder *r, const struct mlp_op *op);
/* Whether the routed experts want x in the units' order (shaders/include/few_order.glsl), which
 * nothing else reads. */
bool record_gemm_units(const struct recorder *r, const struct mlp_op *op);
/* Whether the router of this layer may be folded (router_fold.h) in a step that r records: both
 * products that it stands beside are matmul_few's. */
bool record_gemm_folds(const struct recorder *r, const struct device_layer *l);
/* Groups pairs of rows and experts in tiles of tile_n; those of at most `small` pairs stand in a
 * list of their own, from small_at on (0: none). */
struct sort_op {
    uint32_t n_expert, pairs, tile_n, small, small_at;
};
void record_sort(struct recorder *r, const struct sort_op *op);
/* workspace.x_hi = x [n_x, x_stride] rounded to 16 bits (n columns), normalised when norm; split:
 * workspace.x_lo = what rounding lost. */
struct cast_f16_op {
    VkDeviceAddress x, norm, gather;
    uint32_t x_stride, n_chunk, n_x; /* x in floats */
    float eps;
    bool split;
};
void record_cast_f16(struct recorder *r, const struct cast_f16_op *op);
/* y (+)= W x_hi + bias; split: both sides carry what rounding lost, which gives f32 precision. */
void record_gemm_linear(struct recorder *r, const struct linear_op *op, bool split);
/* Records sort, up, down and sum with the barriers between them, for one expert where the layer is
 * not routed, and for a shared one beside routed ones. record_route and record_cast_f16(ffn_norm)
 * must have come before. With next_norm the sum also leaves in workspace.x_hi what record_cast_f16
 * with that norm would. */
void record_gemm_mlp(struct recorder *r, const struct mlp_op *op);
