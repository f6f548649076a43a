#version 460
/* moe_down.comp for routed experts in MXFP4 on the matrix units (row_units.glsl): y[t, r] += sum_k weights[t, k] (D_e[r, :] . h[t, k, :] + bias_e[r]).
 * A workgroup has 16 rows, 32 threads a slice of the columns of one expert, whose h they keep for themselves: all they wait for is what they read.
 * Grid (rows / 16, T), 32 K SLICES threads. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#include "quant.glsl"
#include "coop_registers.glsl"
#include "row_units.glsl"
layout(constant_id = SPEC_K) const uint K = 4; /* experts of a row */
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
const uint X_STEPS = WARPS * STEPS;
const uint REGION = STEPS * STEP_VECTORS + ZERO_VECTORS; /* of 32 threads */
const uint X_VECTORS = WARPS * REGION;
const uint SCALE_WORDS = WARPS * 16 * STEPS;
const uint LOADS = (STEPS * 16 + 31) / 32; /* of eight columns of h */
const uint HELD = (STEPS + 1) / 2;         /* words of scales that a thread asks for */

#define PUSH_MOE_DOWN
#include "push.h"
#include "row_units_steps.glsl"

shared float sums[WARPS * 16];
vec4 h_part[2 * LOADS];
uint held[HELD]; /* scales on their way */
uint first_low;  /* vector of W's codes: this thread's first one */

void fetch(uint n, uint slot)
{
    low[slot] = U32x4(p.down.data).at[first_low + n * 4];
    high[slot] = U32x4(p.down.data).at[first_low + 8 * CHUNKS + n * 4];
}

void ask_h(uint t)
{
    F32x4 h = F32x4(uint64_t(p.h) + 128ul * (t * K * CHUNKS + warp() * STEPS * 4));
    [[unroll]] for (uint i = 0; i < 2 * LOADS; i++) {
        h_part[i] = h.at[2 * min(lane() + i / 2 * 32, STEPS * 16 - 1) + i % 2];
    }
}

/* Asks for what comes first of 16 rows from `first` on. */
void ask_weights(uint first)
{
    uint slice = warp() % SLICES;
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        held[i] = U32(p.down.scales).at[(first + lane() % 16) * (CHUNKS / 4) + slice * STEPS + min(i * 2 + lane() / 16, STEPS - 1)];
    }
    first_low = (first + lane() / 4) * CHUNKS + slice * STEPS * 4 + lane() % 4;
    [[unroll]] for (uint i = 0; i < DEPTH; i++) {
        fetch(i, i);
    }
}

/* h and scales of these 32 threads into shared memory. */
void put_slice()
{
    uint region = warp() * REGION;
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint at = lane() + i * 32;
        put_columns(warp() * STEPS * 16 + at, region + 2 * at, h_part[2 * i], h_part[2 * i + 1], at < STEPS * 16);
    }
    if (lane() < ZERO_VECTORS) {
        x_units[region + STEPS * STEP_VECTORS + lane()] = uvec4(0);
    }
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint s = i * 2 + lane() / 16;
        if (s < STEPS) {
            scale_words[(warp() * 16 + lane() % 16) * STEPS + s] = held[i];
        }
    }
    WARP_BARRIER
}

/* Of the thread's rows g and g + 8. */
vec2 multiply()
{
    vec2 sum = vec2(0.0);
    [[dont_unroll]] for (uint n0 = 0; n0 < STEPS; n0 += DEPTH) {
        [[unroll]] for (uint i = 0; i < DEPTH; i++) {
            uint n = n0 + i, region = warp() * REGION;
            sum += step_sums(i, columns_at(region + n * STEP_VECTORS, region + STEPS * STEP_VECTORS), warp() * STEPS + n,
                             (warp() * 16 + lane() / 4) * STEPS + n);
            if (n + DEPTH < STEPS) {
                fetch(n + DEPTH, i);
            }
        }
    }
    return row_sums(sum);
}

void main()
{
    uint t = gl_WorkGroupID.y, row0 = gl_WorkGroupID.x * 16, k = warp() / SLICES;
    ivec4 row = p.token_rows.at[t];
    int id = p.ids.at[t * K + k];
    float weight = p.weights.at[t * K + k];
    ask_h(t);
    uint y_at = t * p.y_stride + row0 + gl_LocalInvocationIndex % 16;
    float v = p.y.at[y_at];
    ask_weights(uint(max(id, 0)) * p.rows + row0);
    put_slice();
    if (row.y < 0) {
        return;
    }
    uint n_used = row_experts(row, K);
    vec2 sum = multiply();
    sum = k < n_used ? weight * sum : vec2(0.0); /* of a place that is not used h may be no numbers */
    if (lane() % 4 == 0) {
        sums[warp() * 16 + lane() / 4] = sum.x;
        sums[warp() * 16 + lane() / 4 + 8] = sum.y;
    }
    barrier();
    uint r = gl_LocalInvocationIndex;
    if (r >= 16) {
        return;
    }
    float all = 0.0;
    [[unroll]] for (uint i = 0; i < WARPS; i++) {
        all += sums[i * 16 + r];
    }
    for (uint i = 0; BIAS && i < n_used; i++) {
        all += p.weights.at[t * K + i] * p.bias.at[uint(p.ids.at[t * K + i]) * p.rows + row0 + r];
    }
    p.y.at[y_at] = v + all;
}
