#version 460
/* Bench only: `rounds` barriers across all workgroups of one dispatch, which must all be resident. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };
#define PUSH_BENCH_GRID
#include "push.h"

void main()
{
    for (uint i = 0; i < p.rounds; i++) {
        p.a.at[gl_GlobalInvocationID.x] += 1.0;
        memoryBarrierBuffer();
        barrier();
        if (gl_LocalInvocationIndex == 0) {
            atomicAdd(p.count.at[0], 1);
            uint want = (i + 1) * p.n;
            while (atomicAdd(p.count.at[0], 0) < want) {
            }
        }
        barrier();
        memoryBarrierBuffer();
    }
}
