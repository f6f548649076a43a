/* The down product of a shared expert beside that of routed ones, by the same subgroups: as a dispatch of its own it would wait for this
 * one's end. Its rows are packed like the routed ones, or Q8_0 (device_block.h). A thread has a chunk of each row at most. */
layout(constant_id = SPEC_BESIDE) const uint BESIDE = 0; /* chunks of its rows; 0: none */
layout(constant_id = SPEC_BESIDE_Q8) const bool BESIDE_Q8 = false;

const uint BESIDE_STRIDE = BESIDE + 1;
shared vec4 beside_tile[8 * BESIDE_STRIDE]; /* of h, as tile.glsl's */

struct Beside { /* on their way */
    uvec4 q[ROWS * 2];
    uint d[ROWS];
    Packed packed[ROWS];
    vec4 h;
    float weight;
};

void beside_ask(uint row0, uint t, out Beside b)
{
    uint chunk = min(gl_SubgroupInvocationID, BESIDE - 1);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint at = min(row0 + r, p.rows - 1) * BESIDE + chunk;
        if (BESIDE_Q8) {
            b.q[2 * r] = U32x4(p.beside).at[2 * at];
            b.q[2 * r + 1] = U32x4(p.beside).at[2 * at + 1];
            b.d[r] = U32(p.beside_scales).at[at >> 1] >> ((at & 1) * 16);
        } else {
            b.packed[r] = packed_load(Planes(p.beside, p.beside_scales, 0), at);
        }
    }
    b.h = p.beside_h.at[t * BESIDE * 8 + min(gl_LocalInvocationIndex, BESIDE * 8 - 1)];
    b.weight = uint64_t(p.beside_gate) == 0 ? 1.0 : sigmoid(p.beside_gate.at[t * p.gate_stride]);
}

/* A barrier comes before any use. */
void beside_put(Beside b)
{
    uint i = gl_LocalInvocationIndex;
    if (i < BESIDE * 8) {
        beside_tile[(i & 7) * BESIDE_STRIDE + (i >> 3)] = b.h;
    }
}

/* This thread's part of row r. */
float beside_part(Beside b, uint r)
{
    uint c = min(gl_SubgroupInvocationID, BESIDE - 1);
    vec4 x[8], code[8], plain4 = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 8; j++) {
        x[j] = beside_tile[j * BESIDE_STRIDE + c];
        plain4 += x[j];
    }
    float scale, offset;
    if (BESIDE_Q8) {
        [[unroll]] for (uint j = 0; j < 8; j++) {
            code[j] = vec4(unpack8(int(b.q[2 * r + j / 4][j % 4])));
        }
        scale = unpackHalf2x16(b.d[r]).x;
        offset = 0.0;
    } else {
        packed_decode(b.packed[r], code, scale, offset);
    }
    float sum = chunk_dot(x, (plain4.x + plain4.y) + (plain4.z + plain4.w), code, scale, offset);
    return gl_SubgroupInvocationID < BESIDE ? b.weight * sum : 0.0;
}
