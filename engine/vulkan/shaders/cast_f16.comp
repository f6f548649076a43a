#version 460
/* out[t, :] = halves of x[t, :], RMS-normalised when NORM; rest[t, :] = halves of LOW_HALF_SCALE times what that rounding lost, when SPLIT
 * x [T, x_stride] f32; out, rest [T, n] halves
 * Before the matrix products of more rows than the f32 kernels take.
 * Grid (T); one workgroup per row, two columns a thread. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "reduce.glsl"
layout(constant_id = SPEC_CAST_NORM) const bool NORM = true;
layout(constant_id = SPEC_CAST_SPLIT) const bool SPLIT = false;

#define PUSH_CAST_F16
#include "push.h"

void main()
{
    uint t = gl_WorkGroupID.x, row = uint64_t(p.gather) != 0 ? uint(p.gather.at[t]) : t;
    float squares = 0.0, factor = 1.0;
    if (NORM) {
        for (uint i = gl_LocalInvocationIndex; i < p.n; i += gl_WorkGroupSize.x) {
            vec2 v = p.x.at[row * p.x_stride + i];
            squares += dot(v, v);
        }
        factor = inversesqrt(workgroup_sum(squares) * p.inverse_cols + p.eps);
    }
    for (uint i = gl_LocalInvocationIndex; i < p.n; i += gl_WorkGroupSize.x) {
        vec2 v = p.x.at[row * p.x_stride + i];
        if (NORM) {
            v *= factor * p.norm.at[i];
        }
        uint h = packHalf2x16(v);
        p.outs.at[t * p.n + i] = h;
        if (SPLIT) {
            p.rest.at[t * p.n + i] = packHalf2x16((v - half_values(h)) * LOW_HALF_SCALE);
        }
    }
}
