#version 460
/* Bench only: a[i] += 1 by `n` workgroups; chained by barriers, it shows what a dependent dispatch costs. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PUSH_BENCH_CHAIN
#include "push.h"

void main()
{
    p.a.at[gl_GlobalInvocationID.x] += 1.0;
}
