/* The push constants of every shader, each block declared once: C sees a struct push_<op>, and GLSL
 * sees the one block that the including shader asked for with #define PUSH_<OP>, as `p`. A shader
 * includes this file after the pointer types of its block. Members are scalars of 4 or 8 bytes, and
 * structs of them, because only of those is the layout of C also that of std430; no vectors. The
 * 8-byte members come first, so that no block has a gap inside. */
#ifdef __STDC__
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/vulkan/device/gpu.h"
#include "engine/vulkan/shaders/interface.h"

struct push_alignment {
    uint32_t word;
    uint64_t address;
};
_Static_assert(offsetof(struct push_alignment, address) == 8,
               "C aligns addresses otherwise than std430 does");

#define PUSH(op) struct push_##op
#define PUSH_END(op)                                                                               \
    ;                                                                                              \
    _Static_assert(sizeof(struct push_##op) <= GPU_PUSH_BYTES, "too many push constants: " #op)

/* C knows GLSL's types only inside this file: a pointer is a device address. */
#define uint uint32_t
#define Planes struct push_planes
#define F32 uint64_t
#define F32x2 uint64_t
#define F32x4 uint64_t
#define I32 uint64_t
#define U32 uint64_t
#define U32x4 uint64_t
#define Counter uint64_t
#define Rows uint64_t
#define Runs uint64_t
#define Sequences uint64_t
#define Tiles uint64_t
#else
#define PUSH(op) layout(push_constant, std430) uniform Push
#define PUSH_END(op) p
#endif

#if defined(__STDC__) || defined(PUSH_EMBED)
PUSH(embed)
{
    Planes w;
    Rows rows;
    F32x4 x;
    uint n_chunk;
}
PUSH_END(embed);
#endif

#if defined(__STDC__) || defined(PUSH_LINEAR)
PUSH(linear)
{
    Planes w;
    F32x4 x, norm;
    F32 y, bias;
    I32 gather;
    F32x4 extra; /* f32, with the columns of W: a second matrix for workgroups from `groups` on */
    F32 extra_y;
    uint groups, extra_stride; /* of extra_y, floats */
    uint rows, n_chunk;        /* of W */
    uint x_stride, y_stride;   /* x in float4, y in floats */
    uint n_x;                  /* rows of x (T) */
    float eps, inverse_cols;
}
PUSH_END(linear);
#endif

#if defined(__STDC__) || defined(PUSH_CAST_F16)
PUSH(cast_f16)
{
    F32x2 x, norm;
    U32 outs, rest;
    I32 gather;       /* NULL: row t */
    uint n, x_stride; /* both in pairs of columns */
    float eps, inverse_cols;
}
PUSH_END(cast_f16);
#endif

#if defined(__STDC__) || defined(PUSH_MATMUL)
PUSH(matmul)
{
    Planes w;
    U32x4 x, rest;
    F32 y, bias;
    Tiles tiles;
    U32 n_tiles, sorted;
    uint rows, n_chunk, y_stride, n_x;
    uint up_at; /* row of W where ups begin */
}
PUSH_END(matmul);
#endif

#if defined(__STDC__) || defined(PUSH_MATMUL_FEW)
PUSH(matmul_few)
{
    Planes w;
    U32x4 x;
    F32 y, bias;
    F32x4 beside; /* f32: a second matrix for workgroups from `groups` on, router_beside.glsl */
    uint64_t beside_x; /* what it is multiplied by, of as many columns */
    F32 beside_y;
    uint rows, n_chunk, y_stride, n_x;
    uint groups, beside_quads, beside_stride; /* float4 of a row of beside; of beside_y, floats */
}
PUSH_END(matmul_few);
#endif

#if defined(__STDC__) || defined(PUSH_ROUTER_FOLD)
PUSH(router_fold)
{
    Planes w;
    F32 g;
    F32x4 outs;
    uint rows, n_chunk; /* of W */
    uint n_expert, stride;
}
PUSH_END(router_fold);
#endif

#if defined(__STDC__) || defined(PUSH_MOE_ROUTE)
PUSH(moe_route)
{
    F32 logits, select_bias;
    Rows rows;
    I32 ids;
    F32 weights;
    U32 used;
    I32 trace;
    U32 counts, lists;
    uint stride;
    float scale;
}
PUSH_END(moe_route);
#endif

#if defined(__STDC__) || defined(PUSH_ROUTER)
PUSH(router)
{
    F32x4 w, x;
    F32x2 norm;
    U32 outs;
    F32 logits, select_bias;
    Rows rows;
    I32 ids;
    F32 weights;
    U32 used;
    U32 arrived, counts, lists;
    uint quads, stride; /* float4 of a row of x and of W; of logits, in floats */
    float scale, eps, inverse_cols;
}
PUSH_END(router);
#endif

#if defined(__STDC__) || defined(PUSH_MOE_UP)
PUSH(moe_up)
{
    Planes w; /* gate of every expert, then up of every expert */
    F32x4 x, norm;
    F32 h, bias; /* bias as w's rows */
    F32 logits, select_bias;
    Rows token_rows;
    I32 ids;
    F32 weights;
    U32 used;
    uint rows, n_chunk; /* of one matrix */
    uint up_at;         /* rows of all gates: where up begins */
    uint router_stride;
    float eps, scale; /* of the norm; of the experts' weights */
}
PUSH_END(moe_up);
#endif

#if defined(__STDC__) || defined(PUSH_MOE_DOWN)
PUSH(moe_down)
{
    Planes down;
    F32x4 h;
    F32 y, bias, weights;
    I32 ids;
    Rows token_rows;
    uint64_t beside, beside_scales; /* planes of a shared expert */
    F32x4 beside_h;
    F32 beside_gate; /* NULL: weight 1 */
    uint rows, n_chunk, y_stride;
    uint gate_stride; /* between rows of beside_gate, or of weights where these are logits */
}
PUSH_END(moe_down);
#endif

#if defined(__STDC__) || defined(PUSH_RESIDENT)
PUSH(resident)
{
    /* So many addresses that those of weights are in units of RESIDENT_UNIT bytes from one of
     * these, and those of activations, which are the same for all layers, in constants. */
    uint64_t weights, work;
    Rows token_rows;
    uint wo_data, wo_scales, wo_biases, wo_extra; /* extra: the router's part */
    uint ffn_norm, up_data, up_scales, down_data, down_scales;
    uint shared_up_data, shared_up_scales, shared_up_biases;
    uint shared_down_data, shared_down_scales, shared_down_biases;
    uint mixer_norm, qkv_data, qkv_scales, qkv_biases, qkv_extra; /* of the layer that follows */
    uint layer, n_layer, qkv_rows;
    uint mixers; /* RESIDENT_LACKS_NORM, RESIDENT_NEXT_DELTA */
    float eps, scale;
}
PUSH_END(resident);
#endif

#if defined(__STDC__) || defined(PUSH_RESIDENT_FEW)
PUSH(resident_few)
{
    /* Too many addresses for what every device has: most are in units of RESIDENT_UNIT bytes from
     * one of these two. */
    uint64_t weights, work;
    Rows token_rows;
    uint wo_data, wo_scales, wo_biases, wo_extra; /* from `weights`; extra: the router's part */
    uint ffn_norm, up_data, up_scales, down_data, down_scales;
    uint mixer_norm, qkv_data, qkv_scales, qkv_biases, qkv_extra; /* of the layer that follows */
    uint mixed, x, logits, h, qkv, used, meetings;                /* from `work` */
    uint layer, n_layer, n_rows;
    float eps, scale;
}
PUSH_END(resident_few);
#endif

#if defined(__STDC__) || defined(PUSH_MOE_SORT)
PUSH(moe_sort)
{
    I32 ids;
    U32 sorted;
    Tiles tiles;
    U32 n_tiles; /* of the first list, of the small ones' */
    uint n;
    uint small_at; /* tile where the list of small ones begins */
}
PUSH_END(moe_sort);
#endif

#if defined(__STDC__) || defined(PUSH_MOE_SUM)
PUSH(moe_sum)
{
    F32 parts, y, bias, weights;
    I32 ids;
    Rows token_rows;
    F32x2 norm; /* of the layer that reads outs */
    U32 outs;
    U32 counts; /* of the experts' lists, [n_expert], emptied for the next layer; NULL: none */
    F32 beside, beside_bias, gate; /* of the shared expert; no bias: NULL */
    uint y_stride, n_expert, gate_stride;
    float eps;
}
PUSH_END(moe_sum);
#endif

#if defined(__STDC__) || defined(PUSH_ADD_ROWS)
PUSH(add_rows)
{
    F32 x, y;
    uint cols, y_stride;
}
PUSH_END(add_rows);
#endif

#if defined(__STDC__) || defined(PUSH_ROPE_KV)
PUSH(rope_kv)
{
    F32 qkv, q_norm, k_norm, inv_freq;
    Rows rows;
    I32 tables;
    U32 kv;
    uint stride, n_head, n_kv_head, q_step;
    float eps, rope_scale;
}
PUSH_END(rope_kv);
#endif

#if defined(__STDC__) || defined(PUSH_ATTN)
PUSH(attn)
{
    F32 qkv, q_norm, k_norm, inv_freq, sinks, outs;
    Rows rows;
    I32 tables;
    U32 kv;
    F32x4 parts;  /* of [T, n_kv_head * GROUPS]: attn_splits.glsl's parts_at() */
    U32 meetings; /* of resident.comp in this layer */
    uint stride, n_head, n_kv_head, q_step, window, awaited;
    float eps, rope_scale, scale;
}
PUSH_END(attn);
#endif

#if defined(__STDC__) || defined(PUSH_ATTN_MERGE)
PUSH(attn_merge)
{
    F32 qkv, sinks, outs;
    Rows rows;
    F32x4 parts;                                   /* as in attn */
    uint stride, n_head, q_step, window, n_splits; /* of any row, at most */
}
PUSH_END(attn_merge);
#endif

#if defined(__STDC__) || defined(PUSH_ATTN_TILED)
PUSH(attn_tiled)
{
    F32 qkv, sinks, outs;
    Rows rows, tiles;
    I32 tables;
    U32x4 kv;
    uint stride, n_head, n_kv_head, q_step, window;
    float scale;
}
PUSH_END(attn_tiled);
#endif

#if defined(__STDC__) || defined(PUSH_ATTN_ROTATE)
PUSH(attn_rotate)
{
    F32 qkv, outs;
    Rows rows;
    uint stride, n_head, q_step;
}
PUSH_END(attn_rotate);
#endif

#if defined(__STDC__) || defined(PUSH_DELTA_CONV)
PUSH(delta_conv)
{
    F32 x, conv, a_log, dt_bias;
    uint64_t state; /* of sequence 0 */
    F32 outs;
    F32x2 gate;
    Rows rows;
    Runs runs;
    uint64_t state_bytes;
    uint stride, gates_at, n_x;
}
PUSH_END(delta_conv);
#endif

#if defined(__STDC__) || defined(PUSH_DELTA_SCAN)
PUSH(delta_scan)
{
    F32 raw, x; /* projections; what delta_conv made of them */
    F32x2 gate;
    uint64_t state; /* of sequence 0 */
    F32 outs;
    Sequences sequences; /* first row, rows, state, position of the first row */
    uint64_t state_bytes;
    uint raw_stride;
}
PUSH_END(delta_scan);
#endif

#if defined(__STDC__) || defined(PUSH_DELTA_NORM)
PUSH(delta_norm)
{
    F32 o, outs, x, weight;
    Rows rows;
    uint stride, z_at;
    float eps;
}
PUSH_END(delta_norm);
#endif

#if defined(__STDC__) || defined(PUSH_DELTA_STEP)
PUSH(delta_step)
{
    F32 x, conv, a_log, dt_bias, weight;
    uint64_t state; /* of sequence 0 */
    F32 outs;
    Rows rows;
    Runs runs;
    U32 advanced; /* of the layer, with SPEC_DELTA_AGAIN */
    uint64_t state_bytes;
    uint stride, z_at, gates_at;
    float eps;
}
PUSH_END(delta_step);
#endif

#if defined(__STDC__) || defined(PUSH_TOPK)
PUSH(topk)
{
    F32 values;
    I32 ids;     /* MERGE: candidates' ids */
    F32x2 stats; /* [n_out, n_slices] maximum, sum of exp(v - maximum) */
    F32 out_values;
    I32 out_ids;
    F32 log_sum_exp;
    I32 n_top_at;     /* the step's n_top */
    uint n, n_slices; /* values of a row; slices */
}
PUSH_END(topk);
#endif

#if defined(__STDC__) || defined(PUSH_READ_BANDWIDTH)
PUSH(read_bandwidth)
{
    U32x4 a;
    U32 sum;
    uint n;
}
PUSH_END(read_bandwidth);
#endif

#if defined(__STDC__) || defined(PUSH_COOP_PLACES)
PUSH(coop_places)
{
    U32 outs;
}
PUSH_END(coop_places);
#endif

#if defined(__STDC__) || defined(PUSH_BENCH_CHAIN)
PUSH(bench_chain)
{
    F32 a;
}
PUSH_END(bench_chain);
#endif

#if defined(__STDC__) || defined(PUSH_BENCH_GRID)
PUSH(bench_grid)
{
    Counter count; /* zero at the start */
    F32 a;
    uint rounds, n;
}
PUSH_END(bench_grid);
#endif

#ifdef __STDC__
#undef uint
#undef Planes
#undef F32
#undef F32x2
#undef F32x4
#undef I32
#undef U32
#undef U32x4
#undef Counter
#undef Rows
#undef Runs
#undef Sequences
#undef Tiles
#undef PUSH
#undef PUSH_END
#endif
