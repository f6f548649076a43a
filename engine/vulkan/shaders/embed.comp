#version 460
/* x[t, :] = embedding[token[t], :]
 * embedding [n_vocab, d] packed; x [T, d] f32
 * First op of a step.
 * Grid (chunks / 64, T); one thread decodes one chunk of 32 columns. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"

#define PUSH_EMBED
#include "push.h"

void main()
{
    uint t = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (c >= p.n_chunk) {
        return;
    }
    vec4 code[8];
    float scale, offset;
    packed_decode(packed_load(p.w, uint(p.rows.at[t].x) * p.n_chunk + c), code, scale, offset);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        p.x.at[(t * p.n_chunk + c) * 8 + i] = scale * code[i] + offset;
    }
}
