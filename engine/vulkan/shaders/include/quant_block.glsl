/* GGUF block formats, re-laid at upload (device_block.c): every format is an unsigned code of LOW + HIGH bits, its low
 * bits in one plane, its high bits in another, and a record of halves per block in a third (w.data, w.biases, w.scales).
 * A plane's words hold groups of 4 neighbouring columns, one in each byte, so that masks and shifts work on four codes. */
layout(constant_id = SPEC_BLOCK) const uint BLOCK = 0; /* as enum device_block */
const uint Q8_0 = 0, Q4_0 = 1, Q4_1 = 2, Q5_0 = 3, Q5_1 = 4, IQ4_NL = 5, Q2_K = 6, Q3_K = 7, Q4_K = 8, Q5_K = 9, Q6_K = 10, IQ4_XS = 11;
const uint LOW = BLOCK == Q8_0 ? 8 : BLOCK == Q2_K || BLOCK == Q3_K ? 2 : 4;
const uint HIGH = BLOCK == Q6_K ? 2 : BLOCK == Q5_0 || BLOCK == Q5_1 || BLOCK == Q3_K || BLOCK == Q5_K ? 1 : 0;
const uint HAS_OFFSET = BLOCK == Q4_0 || BLOCK == Q4_1 || BLOCK == Q5_0 || BLOCK == Q5_1 || BLOCK == Q4_K || BLOCK == Q5_K ? 1 : 0;

struct Packed {
    uint q[8];   /* LOW words */
    uint high[2];
    uint d, s;   /* halves of the block; codes of this chunk's scales */
};

/* Half number i of a plane. */
uint half_at(uint64_t plane, uint i)
{
    return (U32(plane).at[i >> 1] >> ((i & 1) * 16)) & 0xffffu;
}

void load_scales(uint64_t at, uint index, inout Packed p)
{
    uint block = index >> 3, j = index & 7; /* of the formats with 256 columns */
    if (BLOCK == Q2_K) {
        p.d = U32(at).at[block * 5];
        p.s = half_at(at, block * 10 + 2 + j);
    } else if (BLOCK == Q3_K) {
        p.d = half_at(at, block * 7);
        p.s = (half_at(at, block * 7 + 1 + (j >> 1)) >> ((j & 1) * 8)) & 0xffu;
        p.s |= ((half_at(at, block * 7 + 5 + (j >> 2)) >> ((j & 3) * 4)) & 15u) << 8;
    } else if (BLOCK == Q4_K || BLOCK == Q5_K) {
        uvec4 v = U32x4(at).at[block];
        p.d = v.x;
        p.s = ((j < 4 ? v.y : v.z) >> ((j & 3) * 8)) & 0xffu;
        p.s |= ((v.w >> (j * 4)) & 15u) << 8;
    } else if (BLOCK == Q6_K) {
        p.d = half_at(at, block * 9);
        p.s = half_at(at, block * 9 + 1 + j);
    } else if (BLOCK == IQ4_XS) {
        uvec2 v = U32x2(at).at[block];
        p.d = v.x & 0xffffu;
        p.s = ((v.y >> (j * 4)) & 15u) | (((v.x >> (16 + j * 2)) & 3u) << 4);
    } else {
        p.d = BLOCK == Q4_1 || BLOCK == Q5_1 ? U32(at).at[index] : half_at(at, index);
        p.s = 0;
    }
}

Packed packed_load(Planes w, uint index)
{
    Packed p;
    if (LOW == 2) {
        uvec2 v = U32x2(w.data).at[index];
        p.q[0] = v.x;
        p.q[1] = v.y;
    } else {
        [[unroll]] for (uint i = 0; i < LOW / 4; i++) {
            uvec4 v = U32x4(w.data).at[index * (LOW / 4) + i];
            p.q[4 * i] = v.x;
            p.q[4 * i + 1] = v.y;
            p.q[4 * i + 2] = v.z;
            p.q[4 * i + 3] = v.w;
        }
    }
    if (HIGH == 1) {
        p.high[0] = U32(w.biases).at[index];
    } else if (HIGH == 2) {
        uvec2 v = U32x2(w.biases).at[index];
        p.high[0] = v.x;
        p.high[1] = v.y;
    }
    load_scales(w.scales, index, p);
    return p;
}

/* Codes of columns 4 g .. 4 g + 3, one in each byte. */
uint codes_of(Packed p, uint g)
{
    if (LOW == 8) {
        return p.q[g];
    }
    uint v = LOW == 4 ? (p.q[g >> 1] >> ((g & 1) * 4)) & 0x0f0f0f0fu : (p.q[g >> 2] >> ((g & 3) * 2)) & 0x03030303u;
    if (HIGH == 1) {
        v |= ((p.high[0] >> g) & 0x01010101u) << LOW;
    } else if (HIGH == 2) {
        v |= ((p.high[g >> 2] >> ((g & 3) * 2)) & 0x03030303u) << LOW;
    }
    return v;
}

/* IQ4's levels: four words of four signed bytes. */
float level_of(uint code)
{
    uint low = (code & 4u) == 0 ? 0xbfad9881u : 0xf6eaddcfu, high = (code & 4u) == 0 ? 0x26190d01u : 0x71594535u;
    return float(bitfieldExtract(int((code & 8u) == 0 ? low : high), int(code & 3u) * 8, 8));
}

vec4 levels_of(uint v)
{
    return vec4(level_of(v & 15u), level_of((v >> 8) & 15u), level_of((v >> 16) & 15u), level_of(v >> 24));
}

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    vec2 d = unpackHalf2x16(p.d);
    scale = d.x;
    offset = 0.0;
    [[unroll]] for (uint g = 0; g < 8; g++) {
        uint v = codes_of(p, g);
        if (BLOCK == Q8_0) {
            code[g] = vec4(unpack8(int(v)));
        } else if (BLOCK == IQ4_NL || BLOCK == IQ4_XS) {
            code[g] = levels_of(v);
        } else {
            code[g] = vec4(unpack8(v));
        }
        /* A chunk has two scales here, so they are multiplied into the codes, which stay small whole numbers but for Q2_K. */
        if (BLOCK == Q6_K) {
            code[g] = (code[g] - 32.0) * float(bitfieldExtract(int(p.s), int(g >> 2) * 8, 8));
        } else if (BLOCK == Q3_K) {
            code[g] = (code[g] - 4.0) * (float((p.s >> ((g >> 2) * 6)) & 63u) - 32.0);
        } else if (BLOCK == Q2_K) {
            uint s = p.s >> ((g >> 2) * 8);
            code[g] = code[g] * (d.x * float(s & 15u)) - d.y * float((s >> 4) & 15u);
        }
    }
    if (BLOCK == Q2_K) {
        scale = 1.0;
    } else if (BLOCK == Q4_0) {
        offset = -8.0 * d.x;
    } else if (BLOCK == Q5_0) {
        offset = -16.0 * d.x;
    } else if (BLOCK == Q4_1 || BLOCK == Q5_1) {
        offset = d.y;
    } else if (BLOCK == Q4_K || BLOCK == Q5_K) {
        scale = d.x * float(p.s & 63u);
        offset = -d.y * float(p.s >> 6);
    } else if (BLOCK == IQ4_XS) {
        scale = d.x * (float(p.s) - 32.0);
    }
}

#ifdef WANT_HALVES
/* Codes that are whole numbers times the block's one half: a code in the low bits of 1024's mantissa, less what stands for zero, is
 * that number as a half, and one product rounds as packed_decode's does. */
#define HAS_WHOLE_HALVES
const bool WHOLE_CODES = BLOCK == Q8_0 || BLOCK == Q4_0 || BLOCK == Q5_0;

/* Columns 4 g .. 4 g + 3 as whole numbers, two words of halves. */
void whole_codes(Packed p, uint g, out f16vec2 low, out f16vec2 high)
{
    f16vec2 zero = f16vec2(BLOCK == Q8_0 ? 1152.0 : BLOCK == Q4_0 ? 1032.0 : 1040.0);
    uint v = BLOCK == Q8_0 ? codes_of(p, g) ^ 0x80808080u : codes_of(p, g);
    low = unpackFloat2x16((v & 0xffu) | ((v & 0xff00u) << 8) | 0x64006400u) - zero;
    high = unpackFloat2x16(((v >> 16) & 0xffu) | ((v >> 24) << 16) | 0x64006400u) - zero;
}

void packed_whole_f16(Packed p, out uvec4 h[4])
{
    f16vec2 d = unpackFloat2x16(p.d).xx;
    [[unroll]] for (uint g = 0; g < 8; g++) {
        f16vec2 low, high;
        whole_codes(p, g, low, high);
        uvec2 w = uvec2(packFloat2x16(low * d), packFloat2x16(high * d));
        if ((g & 1) == 0) {
            h[g / 2].xy = w;
        } else {
            h[g / 2].zw = w;
        }
    }
}

/* What rounding code d to w lost, times LOW_HALF_SCALE. The units' devices have fused products of halves, to which that is exact; which of the
 * sides are scaled goes by what keeps in the halves' range. */
f16vec2 whole_rest(f16vec2 code, f16vec2 d, f16vec2 w)
{
#ifdef EMULATED
    return f16vec2((vec2(code) * vec2(d) - vec2(w)) * LOW_HALF_SCALE);
#else
    bool small = d.x < 0.125hf && d.x > -0.125hf;
    float16_t before = small ? float16_t(LOW_HALF_SCALE) : 1.0hf, after = small ? 1.0hf : float16_t(LOW_HALF_SCALE);
    return fma(code, d * before, -w * before) * after;
#endif
}

/* Word i of a chunk, and what rounding it to halves lost. */
void packed_whole_two_word(Packed p, uint i, out uvec4 h, out uvec4 l)
{
    f16vec2 d = unpackFloat2x16(p.d).xx, code[4];
    whole_codes(p, 2 * i, code[0], code[1]);
    whole_codes(p, 2 * i + 1, code[2], code[3]);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        f16vec2 w = code[k] * d;
        h[k] = packFloat2x16(w);
        l[k] = packFloat2x16(whole_rest(code[k], d, w));
    }
}
#endif
