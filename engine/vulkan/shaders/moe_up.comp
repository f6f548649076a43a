#version 460
/* h[t, k, r] = act(G_e[r, :] . norm(x[t, :]) + bg, U_e[r, :] . norm(x[t, :]) + bu), e = ids[t, k]
 * G, U [n_expert, d_ff, d] packed alike; x [T, d]; h [T, K, stride] f32
 * First half of the experts; of a dense layer or shared expert with one expert (ids NULL: expert 0).
 * Grid (d_ff / (ROWS * subgroups), T * K); a subgroup owns ROWS rows of both matrices. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
#include "reduce.glsl"
#include "tile.glsl"
layout(constant_id = 1) const uint ROWS = 2;
layout(constant_id = 5) const bool CLAMP = false; /* gpt-oss's activation */
layout(constant_id = 6) const bool BIAS = false;
layout(constant_id = 7) const bool ROUTED = true;

layout(push_constant, std430) uniform Push {
    Planes gate, up;
    F32x4 x, norm;
    F32 h, b_gate, b_up;
    I32 ids;
    uint rows, n_chunk, x_stride, h_stride, n_used;
    float eps, inverse_cols;
} p;

float activate(float g, float u)
{
    if (CLAMP) {
        g = min(g, 7.0);
        u = clamp(u, -7.0, 7.0);
        return (u + 1.0) * g * sigmoid(1.702 * g);
    }
    return g * sigmoid(g) * u;
}

void main()
{
    uint row0 = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS, slot = gl_WorkGroupID.y;
    int expert = ROUTED ? p.ids.at[slot] : 0;
    if (expert < 0) {
        return;
    }
    uint matrix = uint(expert) * p.rows;
    F32x4 x = F32x4(uint64_t(p.x) + 16ul * (slot / p.n_used) * p.x_stride);
    float g[ROWS], u[ROWS], squares = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        g[r] = 0.0;
        u[r] = 0.0;
    }
    for (uint first = 0; first < p.n_chunk; first += TILE_CHUNKS) {
        uint n = min(TILE_CHUNKS, p.n_chunk - first);
        barrier();
        tile_load(0, x, p.norm, first, n, squares);
        barrier();
        for (uint c = gl_SubgroupInvocationID; c < n; c += gl_SubgroupSize) {
            Packed packed[2 * ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint at = (matrix + min(row0 + r, p.rows - 1)) * p.n_chunk + first + c;
                packed[2 * r] = packed_load(p.gate, at);
                packed[2 * r + 1] = packed_load(p.up, at);
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                vec4 code[8];
                float scale, offset;
                packed_decode(packed[2 * r], code, scale, offset);
                g[r] += tile_dot(0, c, code, scale, offset);
                packed_decode(packed[2 * r + 1], code, scale, offset);
                u[r] += tile_dot(0, c, code, scale, offset);
            }
        }
    }
    float factor = NORM ? inversesqrt(workgroup_sum(squares) * p.inverse_cols + p.eps) : 1.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float a = subgroupAdd(g[r]) * factor, b = subgroupAdd(u[r]) * factor;
        if (gl_SubgroupInvocationID == 0 && row0 + r < p.rows) {
            if (BIAS) {
                a += p.b_gate.at[matrix + row0 + r];
                b += p.b_up.at[matrix + row0 + r];
            }
            p.h.at[slot * p.h_stride + row0 + r] = activate(a, b);
        }
    }
}
