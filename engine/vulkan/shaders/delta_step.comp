#version 460
/* delta_conv, delta_scan and delta_norm of one row per sequence at once, with the same order of additions
 * x [T, stride]: q [N_K, DK], k, v [N_V, DV], z, a [N_V], b [N_V]; outs [T, N_V, DV]
 * Gated DeltaNet, decode: every row is its sequence's only one in the step.
 * Grid (N_V, T); one workgroup of 4 DV threads per value head. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

#define PUSH_DELTA_STEP
#include "push.h"

const uint THREADS = 4 * DV;
shared vec4 query4[DK / 4], key4[DK / 4], out4[DV / 4];
shared float values[DV];
#include "delta_norm.glsl"

/* q, k and v of this head; the first value head of a key head keeps the inputs of q and k. */
void load_inputs(F32 x, F32 ring, uint head, int position)
{
    uint key_head = key_head_of(head), slot = uint(position) % CONV * CHANNELS;
    bool keeps_key = TILED ? head < N_K : head % (N_V / N_K) == 0;
    for (uint i = thread_index(); i < 2 * DK + DV; i += THREADS) {
        bool is_q = i < DK, is_k = !is_q && i < 2 * DK;
        uint d = is_q ? i : is_k ? i - DK : i - 2 * DK;
        uint channel = is_q ? key_head * DK + d : is_k ? (N_K + key_head) * DK + d : 2 * N_K * DK + head * DV + d;
        float v = convolve(x, p.stride, ring, p.conv, channel, position, 0);
        if (is_q) {
            query4[d / 4][d % 4] = v;
        } else if (is_k) {
            key4[d / 4][d % 4] = v;
        } else {
            values[d] = v;
        }
        if (keeps_key || !(is_q || is_k)) {
            ring.at[slot + channel] = x.at[channel];
        }
    }
}

void main()
{
    uint t = gl_WorkGroupID.y, head = gl_WorkGroupID.x, lane = thread_index() % 4, own = thread_index() / 4;
    ivec4 row = p.rows.at[t];
    if (row.y < 0) {
        return;
    }
    uint64_t base = p.state + uint64_t(p.runs.at[t].x) * p.state_bytes;
    F32x4 state = F32x4(base + 4ul * (CONV * CHANNELS + head * DV * DK));
    F32 x = F32(uint64_t(p.x) + 4ul * t * p.stride);
    Column c;
    column_load(c, state, own, lane, row.y == 0);
    vec2 gate = gates(x.at[p.gates_at + head], x.at[p.gates_at + N_V + head], p.a_log.at[head], p.dt_bias.at[head]);
    load_inputs(x, F32(base), head, row.y);
    barrier();
    vec4 keys[K4], queries[K4];
    vec2 squares = vec2(0.0);
    [[unroll]] for (uint m = 0; m < K4; m++) {
        queries[m] = query4[lane + 4 * m];
        keys[m] = key4[lane + 4 * m];
        squares += vec2(dot(queries[m], queries[m]), dot(keys[m], keys[m]));
    }
    vec2 factor = inversesqrt(vec2(quad_sum(squares.x), quad_sum(squares.y)) + 1.0e-6);
    factor.x *= inversesqrt(float(DK));
    [[unroll]] for (uint m = 0; m < K4; m++) {
        queries[m] *= factor.x;
        keys[m] *= factor.y;
    }
    float o = recur(c, keys, queries, values[own], gate);
    column_store(c, state, own, lane);
    if (lane == 0) {
        out4[own / 4][own % 4] = o;
    }
    barrier();
    norm_gate(F32(uint64_t(p.outs) + 4ul * ((t * N_V + head) * DV)), F32(uint64_t(x) + 4ul * (p.z_at + head * DV)), p.weight, p.eps);
}
