#version 460
/* out[t, h, :] <- rotated back (* sigmoid(gate[t, h])), out [T, n_head * D] in place
 * The rows that attn_coop or attn_plain computed over packed keys and values; attn does it by itself.
 * Grid (n_head, T); one workgroup of one subgroup per head. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_D_HEAD) const uint D = 64;
#include "kv_packed.glsl"

#define PUSH_ATTN_ROTATE
#include "push.h"

shared float heads[D];
#define HEAD_AT(i) heads[i]
#include "kv_pack.glsl"

void main()
{
    uint t = gl_WorkGroupID.y, head = gl_WorkGroupID.x;
    ivec4 row = p.rows.at[t];
    if (row.y < 0 || (row.w & ROW_TILED) == 0) {
        return;
    }
    uint at = (t * p.n_head + head) * D;
    for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
        heads[d] = p.outs.at[at + d];
    }
    rotate_heads(0, D);
    for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
        float v = heads[d];
        if (GATE) {
            v *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + d]);
        }
        p.outs.at[at + d] = v;
    }
}
