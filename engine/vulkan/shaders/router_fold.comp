#version 460
/* out[e, c] = sum_r g[e, r] W[r, c]
 * g [n_expert, stride] f32, the router times its norm's weight; W [rows, cols] packed, the mixer's output; out [n_expert, cols] f32
 * Once, when the weights are on the device: the router's logits are then sums of products with what the layer's first products read
 * and with what the mixer leaves, beside those products (forward.c).
 * Grid (chunks of W's rows, n_expert / EACH); the threads of a workgroup share W's rows. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"

#define PUSH_ROUTER_FOLD
#include "push.h"

const uint EACH = 4; /* experts of a workgroup */
shared vec4 sums[EACH * 8 * 16];

void main()
{
    uint chunk = gl_WorkGroupID.x, first = gl_WorkGroupID.y * EACH;
    vec4 sum[EACH * 8];
    [[unroll]] for (uint i = 0; i < EACH * 8; i++) {
        sum[i] = vec4(0.0);
    }
    [[dont_unroll]] for (uint r = gl_LocalInvocationIndex; r < p.rows; r += gl_WorkGroupSize.x) {
        vec4 code[8];
        float scale, offset;
        packed_decode(packed_load(p.w, r * p.n_chunk + chunk), code, scale, offset);
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            float g = p.g.at[min(first + e, p.n_expert - 1) * p.stride + r], step = HAS_OFFSET == 1 ? g * offset : 0.0;
            [[unroll]] for (uint j = 0; j < 8; j++) {
                sum[e * 8 + j] += code[j] * (g * scale) + step;
            }
        }
    }
    [[unroll]] for (uint i = 0; i < EACH * 8; i++) {
        vec4 all = subgroupAdd(sum[i]);
        if (gl_SubgroupInvocationID == 0) {
            sums[i * 16 + gl_SubgroupID] = all;
        }
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < EACH * 8; i += gl_WorkGroupSize.x) {
        vec4 all = sums[i * 16];
        for (uint s = 1; s < gl_NumSubgroups; s++) {
            all += sums[i * 16 + s];
        }
        if (first + i / 8 < p.n_expert) {
            p.outs.at[((first + i / 8) * p.n_chunk + chunk) * 8 + i % 8] = all;
        }
    }
}
