/* MLX affine: BITS words hold 32 codes, least significant bit first; per group of columns a pair scale, bias
 * (interleaved when uploaded: one word of two halves, or two floats). w = scale * code + bias. */
#define HAS_OFFSET 1
struct Packed {
    uint q[8];
    vec2 sb;
};

Packed packed_load(Planes w, uint index)
{
    Packed p;
    if (BITS == 4) {
        uvec4 v = U32x4(w.data).at[index];
        p.q[0] = v.x;
        p.q[1] = v.y;
        p.q[2] = v.z;
        p.q[3] = v.w;
    } else if (BITS == 8) {
        uvec4 v = U32x4(w.data).at[index * 2], u = U32x4(w.data).at[index * 2 + 1];
        p.q[0] = v.x;
        p.q[1] = v.y;
        p.q[2] = v.z;
        p.q[3] = v.w;
        p.q[4] = u.x;
        p.q[5] = u.y;
        p.q[6] = u.z;
        p.q[7] = u.w;
    } else {
        [[unroll]] for (uint i = 0; i < BITS; i++) {
            p.q[i] = U32(w.data).at[index * BITS + i];
        }
    }
    uint g = index / GROUP_CHUNKS;
    if (SCALE_TYPE == 2) {
        p.sb = F32x2(w.scales).at[g];
    } else {
        uint v = U32(w.scales).at[g];
        p.sb = SCALE_TYPE == 1 ? unpackHalf2x16(v) : uintBitsToFloat(uvec2(v << 16, v & 0xffff0000u));
    }
    return p;
}

void packed_decode(Packed p, out vec4 code[8], out float scale, out float offset)
{
    if (BITS == 8) {
        [[unroll]] for (uint i = 0; i < 8; i++) {
            code[i] = vec4(unpack8(p.q[i]));
        }
    } else if (BITS == 4) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec4 even = vec4(unpack8(p.q[i] & 0x0f0f0f0fu)), odd = vec4(unpack8((p.q[i] >> 4) & 0x0f0f0f0fu));
            code[2 * i] = vec4(even.x, odd.x, even.y, odd.y);
            code[2 * i + 1] = vec4(even.z, odd.z, even.w, odd.w);
        }
    } else
    [[unroll]] for (uint i = 0; i < 32; i++) {
        uint bit = i * BITS, word = bit >> 5, shift = bit & 31;
        uint v = p.q[word] >> shift;
        if (shift + BITS > 32) {
            v |= p.q[(word + 1) & 7] << (32 - shift);
        }
        code[i >> 2][i & 3] = float(v & ((1u << BITS) - 1u));
    }
    scale = p.sb.x;
    offset = p.sb.y;
}
