#version 460
/* o <- norm(o) weight silu(z), head by head, in place
 * outs [T, N_V, DV]; z in x [T, stride] at z_at; weight [DV]
 * Gated DeltaNet, after delta_scan.
 * Grid (N_V, T); one workgroup of DV threads per head. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

#define PUSH_DELTA_NORM
#include "push.h"

shared vec4 out4[DV / 4];
#include "delta_norm.glsl"

void main()
{
    uint t = gl_WorkGroupID.y, head = gl_WorkGroupID.x;
    if (p.rows.at[t].y < 0) {
        return;
    }
    F32 outs = F32(uint64_t(p.outs) + 4ul * ((t * N_V + head) * DV));
    for (uint i = thread_index(); i < DV; i += gl_WorkGroupSize.x) {
        out4[i / 4][i % 4] = outs.at[i];
    }
    barrier();
    norm_gate(outs, F32(uint64_t(p.x) + 4ul * (t * p.stride + p.z_at + head * DV)), p.weight, p.eps);
}
