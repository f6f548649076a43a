/* f32 as it is. */
#define HAS_OFFSET 0
struct Packed {
    vec4 q[8];
};

Packed packed_load(Planes w, uint index)
{
    Packed p;
    F32x4 data = F32x4(w.data);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        p.q[i] = data.at[index * 8 + i];
    }
    return p;
}

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    code = p.q;
    scale = 1.0;
    offset = 0.0;
}
