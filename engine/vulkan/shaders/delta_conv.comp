#version 460
/* q, k <- unit(silu(conv(q, k))), q / sqrt(DK); v <- silu(conv(v)); gates <- decay, strength
 * x [T, stride]: q [N_K, DK], k, v [N_V, DV], z, a [N_V], b [N_V]; outs [T, CHANNELS]; gate [T, N_V, 2]
 * Gated DeltaNet, between the projections and delta_scan, when a sequence has several rows in the step.
 * Grid (2 N_K + N_V, T / ROWS); a workgroup has a head of ROWS rows, a thread four channels. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

#define PUSH_DELTA_CONV
#include "push.h"

const uint ROWS = DELTA_THREADS * 4 / (DK > DV ? DK : DV);
shared vec4 head4[DELTA_THREADS];

void main()
{
    uint head = gl_WorkGroupID.x, tid = thread_index();
    bool is_value = head >= 2 * N_K;
    uint v_head = is_value ? head - 2 * N_K : 0, width = (is_value ? DV : DK) / 4, i = tid % width;
    uint at = is_value ? 2 * N_K * DK + v_head * DV : head * DK;
    uint t = gl_WorkGroupID.y * ROWS + tid / width;
    bool here = tid / width < ROWS && t < p.n_x;
    t = min(t, p.n_x - 1);
    ivec4 row = p.rows.at[t];
    ivec2 run = p.runs.at[t];
    here = here && row.y >= 0;
    F32 x = F32(uint64_t(p.x) + 4ul * t * p.stride), ring = F32(p.state + uint64_t(run.x) * p.state_bytes);
    vec4 v = vec4(0.0);
    if (here) {
        v = convolve(x, p.stride, ring, p.conv, at + 4 * i, row.y, uint(run.y));
    }
    if (is_value && here && i == 0) {
        p.gate.at[t * N_V + v_head] = gates(x.at[p.gates_at + v_head], x.at[p.gates_at + N_V + v_head], p.a_log.at[v_head], p.dt_bias.at[v_head]);
    }
    if (!is_value) { /* the same for the whole workgroup */
        head4[tid] = v;
        barrier();
        float squares = 0.0;
        [[unroll]] for (uint m = 0; m < K4; m++) {
            vec4 o = head4[min(tid - i + i % SHARE + SHARE * m, DELTA_THREADS - 1)];
            squares += dot(o, o);
        }
        v *= inversesqrt(column_sum(squares) + 1.0e-6) * (head < N_K ? inversesqrt(float(DK)) : 1.0);
    }
    if (here) {
        F32x4(p.outs).at[(t * CHANNELS + at) / 4 + i] = v;
    }
}
