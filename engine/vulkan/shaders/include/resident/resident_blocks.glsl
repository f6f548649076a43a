/* Weights of resident.comp in GGUF's K-blocks of 4, 5 or 6 bits (planes as in quant_block.glsl), where up, down, v and the others may differ: each
 * matrix knows its format, which is a constant of the pipeline. A block's record stays as it was loaded until it is used, so that
 * nothing waits for it before. No shared expert: its push constants are those of the RESIDENT_ names. */
layout(constant_id = SPEC_BLOCK) const uint BLOCK = 8; /* of wo, q and k, as enum device_block */
layout(constant_id = SPEC_RESIDENT_CODES) const uint UP_BLOCK = 8;
layout(constant_id = SPEC_RESIDENT_DOWN) const uint DOWN_BLOCK = 8;
layout(constant_id = SPEC_RESIDENT_V) const uint V_BLOCK = 0; /* 0: v's rows are among those of q and k */
const uint Q5_K = 9, Q6_K = 10;
const float TINY = 16777216.0; /* a code is a half's lowest bits, which is the code times 1 / TINY */

struct Matrix {
    Planes at;
    uint block;
};

struct Packed {
    uvec4 q, record;
    uvec2 high;
    uint part; /* of the block, and in bit 3 whether the block's number is odd */
};

shared float tile_sums[2 * STRIDE]; /* of half a chunk each */

Matrix wo()
{
    return Matrix(Planes(weight_at(p.wo_data), weight_at(p.wo_scales), weight_at(p.wo_biases)), BLOCK);
}
Matrix up()
{
    return Matrix(Planes(weight_at(p.up_data), weight_at(p.up_scales), weight_at(p.RESIDENT_UP_HIGH)), UP_BLOCK);
}
Matrix down()
{
    return Matrix(Planes(weight_at(p.down_data), weight_at(p.down_scales), weight_at(p.RESIDENT_DOWN_HIGH)), DOWN_BLOCK);
}
Matrix qkv()
{
    return Matrix(Planes(weight_at(p.qkv_data), weight_at(p.qkv_scales), weight_at(p.qkv_biases)), BLOCK);
}
Matrix own_v()
{
    return Matrix(Planes(weight_at(p.RESIDENT_V_DATA), weight_at(p.RESIDENT_V_SCALES), weight_at(p.RESIDENT_V_HIGH)), V_BLOCK);
}
#define shared_up wo /* never used */
#define shared_down wo
#define EXPERT_DOT(m, w, c) matrix_dot(m.block, w, c)
#define DENSE_DOT EXPERT_DOT

Packed packed_load(Matrix m, uint index)
{
    Packed w;
    uint number = index >> 3;
    w.q = U32x4(m.at.data).at[index];
    w.part = index & 15;
    if (m.block == Q6_K) {
        w.high = U32x2(m.at.biases).at[index];
        w.record.x = U32(m.at.scales).at[number * 9 >> 1];
        w.record.y = U32(m.at.scales).at[(number * 9 + 1 + (index & 7)) >> 1];
    } else {
        w.record = U32x4(m.at.scales).at[number];
        if (m.block == Q5_K) {
            w.high.x = U32(m.at.biases).at[index];
        }
    }
    return w;
}

/* Columns 4 g + k and 4 g + k + 2 as halves' lowest bits. */
vec2 code_pair(Packed w, uint block, uint g, uint k)
{
    uint v = (w.q[g >> 1] >> ((g & 1) * 4 + 8 * k)) & 0x000f000fu;
    if (block == Q6_K) {
        v |= ((w.high[g >> 2] >> ((g & 3) * 2 + 8 * k)) & 0x00030003u) << 4;
    } else if (block == Q5_K) {
        v |= ((w.high.x >> (g + 8 * k)) & 0x00010001u) << 4;
    }
    return unpackHalf2x16(v);
}

float matrix_dot(uint block, Packed w, uint c)
{
    vec4 sum[2] = vec4[2](vec4(0.0), vec4(0.0));
    [[unroll]] for (uint g = 0; g < 8; g++) {
        vec2 even = code_pair(w, block, g, 0), odd = code_pair(w, block, g, 1);
        sum[g >> 2] = fma(vec4(even.x, odd.x, even.y, odd.y), tile[g * STRIDE + c], sum[g >> 2]);
    }
    vec2 x = vec2(tile_sums[2 * c], tile_sums[2 * c + 1]);
    vec2 codes = vec2((sum[0].x + sum[0].y) + (sum[0].z + sum[0].w), (sum[1].x + sum[1].y) + (sum[1].z + sum[1].w)) * TINY;
    uint j = w.part & 7;
    if (block == Q6_K) {
        int scales = int(w.record.y >> (((w.part >> 3) + 1 + j & 1) * 16));
        float d = unpackHalf2x16(w.record.x >> ((w.part >> 3) * 16)).x;
        codes = (codes - 32.0 * x) * vec2(bitfieldExtract(scales, 0, 8), bitfieldExtract(scales, 8, 8));
        return d * (codes.x + codes.y);
    }
    uint s = ((j < 4 ? w.record.y : w.record.z) >> ((j & 3) * 8) & 0xffu) | ((w.record.w >> (j * 4)) & 15u) << 8;
    vec2 d = unpackHalf2x16(w.record.x);
    return d.x * float(s & 63u) * (codes.x + codes.y) - d.y * float(s >> 6) * (x.x + x.y);
}

/* Float4 number i of the tile into the sums; neighbouring threads have its neighbours. */
void sums_put(uint i, vec4 v)
{
    float sum = (v.x + v.y) + (v.z + v.w);
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    if ((i & 3) == 0) {
        tile_sums[i >> 2] = sum;
    }
}
