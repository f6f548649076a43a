#version 460
/* q, k <- unit(silu(conv(q, k))), q / sqrt(DK); v <- silu(conv(v)); gates <- decay, strength
 * x [T, stride]: q [N_K, DK], k, v [N_V, DV], z, a [N_V], b [N_V]; outs [T, CHANNELS]; gate [T, N_V, 2]
 * Gated DeltaNet, between the projections and delta_scan, when a sequence has several rows in the step.
 * Grid (2 N_K + N_V, T); one workgroup per head. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

#define PUSH_DELTA_CONV
#include "push.h"

shared vec4 head4[DK / 4];

void main()
{
    uint t = gl_WorkGroupID.y, head = gl_WorkGroupID.x, tid = thread_index();
    ivec4 row = p.rows.at[t];
    if (row.y < 0) {
        return;
    }
    ivec2 run = p.runs.at[t];
    F32 x = F32(uint64_t(p.x) + 4ul * t * p.stride), ring = F32(p.state + uint64_t(run.x) * p.state_bytes);
    if (head >= 2 * N_K) {
        uint v_head = head - 2 * N_K, at = 2 * N_K * DK + v_head * DV;
        for (uint i = tid; i < DV; i += gl_WorkGroupSize.x) {
            p.outs.at[t * CHANNELS + at + i] = convolve(x, p.stride, ring, p.conv, at + i, row.y, uint(run.y));
        }
        if (tid == 0) {
            p.gate.at[t * N_V + v_head] = gates(x.at[p.gates_at + v_head], x.at[p.gates_at + N_V + v_head],
                                                p.a_log.at[v_head], p.dt_bias.at[v_head]);
        }
        return;
    }
    uint at = head * DK;
    for (uint i = tid; i < DK; i += gl_WorkGroupSize.x) {
        head4[i / 4][i % 4] = convolve(x, p.stride, ring, p.conv, at + i, row.y, uint(run.y));
    }
    barrier();
    float squares = 0.0;
    [[unroll]] for (uint m = 0; m < K4; m++) {
        vec4 v = head4[tid % 4 + 4 * m];
        squares += dot(v, v);
    }
    float factor = inversesqrt(quad_sum(squares) + 1.0e-6) * (head < N_K ? inversesqrt(float(DK)) : 1.0);
    for (uint i = tid; i < DK; i += gl_WorkGroupSize.x) {
        p.outs.at[t * CHANNELS + at + i] = head4[i / 4][i % 4] * factor;
    }
}
