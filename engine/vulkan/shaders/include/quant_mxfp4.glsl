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

/* Codes k and k + 4 of a word as two halves, times 2^-14. */
uint fp4_bits(uint q, uint k)
{
    uint size = k < 3 ? q << (9 - 4 * k) : q >> 3;
    return (size & 0x0e000e00u) | ((q << (12 - 4 * k)) & 0x80008000u);
}

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        vec2 pair[4];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            pair[k] = unpackHalf2x16(fp4_bits(p.q[i], k));
        }
        code[2 * i] = vec4(pair[0].x, pair[1].x, pair[2].x, pair[3].x);
        code[2 * i + 1] = vec4(pair[0].y, pair[1].y, pair[2].y, pair[3].y);
    }
    scale = uintBitsToFloat(max(p.e << 23, 0x00400000u)) * 16384.0;
    offset = 0.0;
}

#ifdef WANT_HALVES
/* Straight to halves. The scale is a power of two, applied exactly, where it is large in two steps that both fit a half's range. Codes stay
 * in pairs as their bits lie: halves_order() puts what they are multiplied by in the same order. */
#define HAS_HALVES
#define HALVES_IN_PAIRS
#define HAS_WORDS
/* Outside these bounds the products leave the halves' range anyway. */
f16vec2 packed_factor(Packed p)
{
    return unpackFloat2x16(uint(clamp(int(p.e) - 98, 1, 30)) * 0x04000400u);
}

/* Whether its factor is only the first of two. */
bool packed_extreme(Packed p)
{
    return p.e > 128u;
}

/* Of one of two sums: of the chunks whose scales are extreme, in units of PACKED_LARGE, or of the others. */
f16vec2 packed_part_factor(Packed p, bool extreme)
{
    uint f = uint(clamp(int(p.e) - (extreme ? 112 : 98), 1, 30)) * 0x04000400u;
    return unpackFloat2x16(packed_extreme(p) == extreme ? f : 0);
}
const float PACKED_LARGE = 16384.0;

uvec4 packed_word(Packed p, uint i, f16vec2 factor)
{
    uvec4 h;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        h[k] = packFloat2x16(unpackFloat2x16(fp4_bits(p.q[i], k)) * factor);
    }
    return h;
}

void packed_f16(Packed p, out uvec4 h[4])
{
    f16vec2 factor = packed_factor(p);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        h[i] = packed_word(p, i, factor);
    }
    if (subgroupAny(packed_extreme(p))) { /* hardly ever: not to be predicated */
        f16vec2 more = unpackFloat2x16(uint(clamp(int(p.e) - 113, 15, 29)) * 0x04000400u);
        [[unroll]] for (uint i = 0; i < 16; i++) {
            h[i / 4][i % 4] = packFloat2x16(unpackFloat2x16(h[i / 4][i % 4]) * more);
        }
    }
}
#endif
