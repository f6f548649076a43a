/* MXFP4: 16 bytes of E2M1 codes, and a plane of E8M0 bytes.
 * A code's three magnitude bits put at the top of a half's exponent and mantissa are its value times 2^-14,
 * subnormals included, so two codes become numbers by masks and one conversion; no table. A word has eight columns, whose bits lie
 * so that of columns 3 and 7, and of 1 and 5, magnitude and sign come by one mask (device_block.h). */
#define HAS_OFFSET 0
layout(constant_id = SPEC_CODES) const uint CODES = 0; /* enum mxfp4_codes: 1: in column order */
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
    if (CODES == 1) {
        uint size = k < 3 ? q << (9 - 4 * k) : q >> 3;
        return (size & 0x0e000e00u) | ((q << (12 - 4 * k)) & 0x80008000u);
    }
    return k == 3 ? q & 0x8e008e00u : k == 1 ? (q << 3) & 0x8e008e00u
                  : ((q << (9 - 3 * k / 2)) & 0x0e000e00u) | ((q << (k / 2 + 1)) & 0x80008000u);
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

/* The top bit of each byte that is more than 128. */
uint bytes_past_128(uint e)
{
    return (((e & 0x7f7f7f7fu) + 0x7f7f7f7fu) & e) & 0x80808080u;
}

/* The same of a word of four scales at once. */
bool packed_any_extreme(uint e)
{
    return bytes_past_128(e) != 0;
}

/* Bytes as they are, where those of the other sum, and what is too small for it, are 0. */
uint packed_part_factors(uint e, bool extreme)
{
    uint is = bytes_past_128(e) >> 7;
    e = extreme ? (e & (is * 255)) - is * 14 : e & ~(is * 255);
    if (extreme) { /* no more than 128 */
        uint past = bytes_past_128(e);
        e = (e & ~((past >> 7) * 255)) | past;
    }
    e += 30 * 0x01010101u; /* 128 and more: a factor */
    return e & ((e >> 7) & 0x01010101u) * 127;
}

/* The first byte's factor. */
f16vec2 packed_held_factor(uint bytes)
{
    return unpackFloat2x16((bytes & 0xffu) * 0x04000400u);
}

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
