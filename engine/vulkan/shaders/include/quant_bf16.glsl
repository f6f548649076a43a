/* bfloat16: the upper half of an f32. */
#define HAS_OFFSET 0
struct Packed {
    uvec4 q[4];
};

Packed packed_load(Planes w, uint index)
{
    Packed p;
    U32x4 data = U32x4(w.data);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        p.q[i] = data.at[index * 4 + i];
    }
    return p;
}

vec4 bf16_pairs(uvec2 v)
{
    return uintBitsToFloat(uvec4(v.x << 16, v.x & 0xffff0000u, v.y << 16, v.y & 0xffff0000u));
}

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        code[2 * i] = bf16_pairs(p.q[i].xy);
        code[2 * i + 1] = bf16_pairs(p.q[i].zw);
    }
    scale = 1.0;
    offset = 0.0;
}
