#version 460
/* y[t, c] += x[t, c]
 * x [T, cols] f32 in memory of the host; y [T, y_stride] f32, the residual stream
 * After moe_down, with what the processor made of the experts that have no slot.
 * Grid (cols / threads, T). */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define PUSH_ADD_ROWS
#include "push.h"

void main()
{
    uint t = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (c < p.cols) {
        p.y.at[t * p.y_stride + c] += p.x.at[t * p.cols + c];
    }
}
