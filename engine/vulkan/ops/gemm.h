/* Ops for steps of many rows: the same maths as record.h's with activations rounded to halves, on the matrix units where the device
 * has those that our shaders take, else on its plain arithmetic. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Whether so many rows take this way. */
static inline bool gemm_takes(const struct backend *b, uint32_t n_rows)
{
    return !b->params.exact && n_rows >= b->tuning.gemm_min_rows;
}
bool gemm_wanted(const struct recorder *r);
/* work.xh = halves of x [n_x, x_stride] (n columns), normalised when norm; split: work.xl = what rounding lost. */
struct cast_f16_op {
    VkDeviceAddress x, norm, gather;
    uint32_t x_stride, n_chunk, n_x; /* x in floats */
    float eps;
    bool split;
};
void record_cast_f16(struct recorder *r, const struct cast_f16_op *op);
/* y (+)= W xh + bias; split as above. */
void record_gemm_linear(struct recorder *r, const struct linear_op *op, bool split);
/* After record_route and record_cast_f16(ffn_norm): sort, up, down, sum; with barriers. Not routed: one expert. */
void record_gemm_mlp(struct recorder *r, const struct mlp_op *op);

/* Whether every attention layer can be done by attn_coop, or by attn_plain where there are no matrix units. */
bool tiled_attention_fits(const struct backend *b);
/* Attention of the step's tiles. */
void record_tiled_attention(struct recorder *r, const struct attention_plan *a, const struct device_layer *l, uint32_t n_tiles);
