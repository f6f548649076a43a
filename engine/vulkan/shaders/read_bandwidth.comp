#version 460
/* Reads `n` float4 words once, spread over all threads; the sum is written so that nothing is left out.
 * Called by read_bandwidth.
 * Grid (any); each thread strides over the whole range, four loads in flight. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PUSH_READ_BANDWIDTH
#include "push.h"

void main()
{
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uvec4 s = uvec4(0);
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += 4 * step) {
        uvec4 v[4];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            v[k] = p.a.at[min(i + k * step, p.n - 1)];
        }
        s ^= v[0] ^ v[1] ^ v[2] ^ v[3];
    }
    if ((s.x ^ s.y ^ s.z ^ s.w) == 0x12345678u) {
        p.sum.at[0] = s.x;
    }
}
