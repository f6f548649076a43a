/* MXFP4: 16 bytes of E2M1 codes in column order, low nibble first, and a plane of E8M0 bytes.
 * A code's three magnitude bits put at the top of a half's exponent and mantissa are its value times 2^-14,
 * subnormals included, so two codes become numbers by two masks and one conversion; no table. */
#define HAS_OFFSET 0
struct Packed {
    uvec4 q;
    uint e;
};

Packed packed_load(Planes w, uint index)
{
    Packed p;
    p.q = U32x4(w.data).at[index];
    p.e = (U32(w.scales).at[index >> 2] >> ((index & 3) * 8)) & 0xffu;
    return p;
}

vec2 fp4_pair(uint v) /* nibbles at bits 0 and 16 */
{
    return unpackHalf2x16(((v & 0x00070007u) << 9) | ((v & 0x00080008u) << 12));
}

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        vec2 a = fp4_pair(p.q[i]), b = fp4_pair(p.q[i] >> 4), c = fp4_pair(p.q[i] >> 8), d = fp4_pair(p.q[i] >> 12);
        code[2 * i] = vec4(a.x, b.x, c.x, d.x);
        code[2 * i + 1] = vec4(a.y, b.y, c.y, d.y);
    }
    scale = uintBitsToFloat(max(p.e << 23, 0x00400000u)) * 16384.0;
    offset = 0.0;
}

#ifdef WANT_HALVES
/* Straight to halves: the scale is a power of two, applied exactly in two steps that both fit a half's range. */
#define HAS_HALVES
void packed_f16(Packed p, out uvec4 h[4])
{
    int e = clamp(int(p.e) - 127 + 14, -24, 29); /* outside it the products leave the halves' range anyway */
    int e1 = min(e, 15), e2 = e - e1;
    f16vec2 s1 = f16vec2(exp2(float(e1))), s2 = f16vec2(exp2(float(e2)));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint v[4];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            uint n = p.q[i] >> (k * 4);
            v[k] = packFloat2x16(unpackFloat2x16(((n & 0x00070007u) << 9) | ((n & 0x00080008u) << 12)) * s1 * s2);
        }
        /* v[k] holds columns k and k + 4 of a word: pairs of neighbours again. */
        h[i] = uvec4((v[0] & 0xffffu) | (v[1] << 16), (v[2] & 0xffffu) | (v[3] << 16),
                     (v[0] >> 16) | (v[1] & 0xffff0000u), (v[2] >> 16) | (v[3] & 0xffff0000u));
    }
}
#endif
