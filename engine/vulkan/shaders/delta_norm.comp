#version 460
/* out <- norm(o) weight silu(z), head by head
 * o, out [T, N_V, DV], the same or with HALVES another; z in x [T, stride] at z_at; weight [DV]
 * Gated DeltaNet, after delta_scan.
 * Grid (N_V / HEADS, T); a workgroup has HEADS heads of a row, DV / 4 threads each. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

#define PUSH_DELTA_NORM
#include "push.h"

const uint HEADS = DELTA_THREADS * 4 / DV;
shared vec4 out4[DELTA_THREADS];
#include "delta_norm.glsl"

void main()
{
    uint t = gl_WorkGroupID.y, tid = thread_index(), i = tid % (DV / 4), head = gl_WorkGroupID.x * HEADS + tid / (DV / 4);
    if (p.rows.at[t].y < 0) {
        return;
    }
    uint at = t * N_V + min(head, N_V - 1);
    out4[tid] = F32x4(p.o).at[at * (DV / 4) + i];
    vec4 z = F32x4(uint64_t(p.x) + 4ul * (t * p.stride + p.z_at + min(head, N_V - 1) * DV)).at[i], weight = F32x4(p.weight).at[i];
    barrier();
    if (tid / (DV / 4) < HEADS && head < N_V) {
        norm_gate(tid - i, i, p.outs, at, z, weight, p.eps);
    }
}
