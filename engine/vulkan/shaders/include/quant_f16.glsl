/* IEEE half. */
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

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        code[2 * i] = vec4(unpackHalf2x16(p.q[i].x), unpackHalf2x16(p.q[i].y));
        code[2 * i + 1] = vec4(unpackHalf2x16(p.q[i].z), unpackHalf2x16(p.q[i].w));
    }
    scale = 1.0;
    offset = 0.0;
}
