/* Decoded weights as halves, in shared memory: an array of 16-byte words, rows of 64 halves at a pitch of HALF_PITCH of them, one
 * more than needed, so that eight neighbouring rows fall into different banks. Included after quant.glsl. */
const uint K_TILE = 64; /* columns of W in a tile: two chunks */
const uint HALF_PITCH = 9;

#ifndef HAS_HALVES
/* A chunk as 32 halves. */
void packed_f16(Packed packed, out uvec4 h[4])
{
#ifdef HAS_WHOLE_HALVES
    if (WHOLE_CODES) {
        packed_whole_f16(packed, h);
        return;
    }
#endif
    vec4 code[8];
    float scale, offset;
    packed_decode(packed, code, scale, offset);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        vec4 a = code[2 * i] * scale + offset, b = code[2 * i + 1] * scale + offset;
        h[i] = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
    }
}
#endif

/* Eight neighbouring halves in the order in which packed_f16 has a word's columns. */
uvec4 halves_order(uvec4 x)
{
#ifdef HALVES_IN_PAIRS
    return uvec4((x.x & 0xffffu) | (x.z << 16), (x.x >> 16) | (x.z & 0xffff0000u), (x.y & 0xffffu) | (x.w << 16),
                 (x.y >> 16) | (x.w & 0xffff0000u));
#else
    return x;
#endif
}

/* A chunk as 32 halves, and what rounding to them lost. */
void packed_two_f16(Packed packed, out uvec4 h[4], out uvec4 l[4])
{
    vec4 code[8];
    float scale, offset;
    packed_decode(packed, code, scale, offset);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        vec4 v = code[i] * scale + offset;
        uvec2 w = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
        vec4 lost = (v - vec4(half_values(w.x), half_values(w.y))) * LOW_HALF_SCALE;
        uvec2 z = uvec2(packHalf2x16(lost.xy), packHalf2x16(lost.zw));
        if ((i & 1) == 0) {
            h[i / 2].xy = w;
            l[i / 2].xy = z;
        } else {
            h[i / 2].zw = w;
            l[i / 2].zw = z;
        }
    }
}
