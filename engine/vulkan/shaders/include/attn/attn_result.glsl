/* Where attn.comp, attn_units.comp and attn_merge.comp leave a head's result. Uses the push constants and variables declared there. */

/* What a dispatch may read that no barrier parts from this one (attn_chain.glsl). */
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Shared4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer Shared2 { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer SharedWords2 { uvec2 at[]; };

/* Four columns of a row's head, from `column` on, times their gates where there are any. */
vec4 gated(vec4 v, uint t, uint head, uint column)
{
    [[unroll]] for (uint i = 0; GATE && i < 4; i++) {
        v[i] *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + column + i]);
    }
    return v;
}

/* Four columns of the result, from column `at` of all on. */
void put_result(uint at, vec4 v)
{
    if (HALVES_OUT) {
        SharedWords2(uint64_t(p.outs)).at[at / 4] = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    } else {
        Shared4(uint64_t(p.outs)).at[at / 4] = v;
    }
}
