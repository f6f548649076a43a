/* What every shader includes: pointer types over buffer device addresses (no descriptors are used), and
 * reductions over a workgroup. Rows in memory are padded with zeros to multiples of 32 floats. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#include "interface.h"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer F32 { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer F32x2 { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer F32x4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer U32 { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer U32x2 { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer U32x4 { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer I32 { int at[]; };
/* A row of the step: token, position (-1: a dead row that pads the batch), start of its block table, switches: ROW_TILED
 * where attn_coop or attn_plain takes it, and above that bit how many routed experts it uses of a layer (0: as many as the plan says). */
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Rows { ivec4 at[]; };
const int ROW_TILED = 1;

/* Experts that a row uses of a layer whose plan says k: its first places, the others stay empty. */
uint row_experts(ivec4 row, uint k)
{
    uint n = uint(row.w) >> 1;
    return n == 0 ? k : min(n, k);
}

layout(local_size_x_id = SPEC_THREADS) in;

const uint CHUNK = 32; /* columns that one thread decodes at a time */

/* What rounding to halves lost is kept times this, so that it stays in the halves' normal range. */
const float LOW_HALF_SCALE = 2048.0;

/* The values of two packed halves, by their bits: nothing here looks like the undoing of packHalf2x16, which compilers
 * fold away, and no value is flushed. */
vec2 half_values(uint w)
{
    uvec2 h = uvec2(w & 0xffffu, w >> 16), m = h & uvec2(0x7fffu);
    vec2 normal = uintBitsToFloat((m << 13) + (112u << 23)), small = vec2(m) * 5.9604644775390625e-8;
    vec2 v = mix(normal, small, lessThan(m, uvec2(0x400u)));
    return mix(v, -v, notEqual(h & uvec2(0x8000u), uvec2(0u)));
}

float sigmoid(float v)
{
    return 1.0 / (1.0 + exp(-v));
}
