#version 460
/* h[t, k, r] = act(G_e[r, :] . norm(x[t, :]) + bg, U_e[r, :] . norm(x[t, :]) + bu), e = k-th expert of row t
 * G, U [n_expert, d_ff, d] packed alike; x [T, d]; h [T, K, stride] f32
 * First half of the experts; of a dense layer or shared expert with one expert (expert 0). With ROUTE each workgroup makes
 * the choice of experts itself from the router's logits, and the first ones of a row write it down for moe_down: that is
 * cheaper than a dependent dispatch.
 * Grid (d_ff / (ROWS * subgroups), T * K); see tile.glsl. A subgroup owns ROWS gates and their ups. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
#include "tile.glsl"
#include "route.glsl"
layout(constant_id = SPEC_ROWS) const uint ROWS = 2;
layout(constant_id = SPEC_UP_CLAMP) const bool CLAMP = false; /* gpt-oss's activation */
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_ROUTED) const bool ROUTED = true;
layout(constant_id = SPEC_ROUTE) const bool ROUTE = false;
layout(constant_id = SPEC_FOLDED) const bool FOLDED = false; /* then a tile has the whole row */

layout(constant_id = SPEC_SHARED_GATE) const bool SHARED_GATE = false;
layout(constant_id = SPEC_D_MODEL) const uint D_MODEL = 512;
const uint ROW_VALUES = 2 * ROWS; /* gate, up, gate, up ... */

#define PUSH_MOE_UP
#include "push.h"

#include "activate.glsl"

/* A chunk of ROWS gates and ups; past the end the last one, to be thrown away. */
void load_rows(Planes w, uint row, uint chunk, out Packed packed[ROW_VALUES])
{
    uint up_at = SPLIT_EXPERTS && ROUTED ? p.rows : p.up_at;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint at = min(row + r, up_at - 1) * p.n_chunk + min(chunk, p.n_chunk - 1);
        packed[2 * r] = packed_load(w, at);
        packed[2 * r + 1] = packed_load(w, at + up_at * p.n_chunk);
    }
}

void main()
{
    uint row0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * ROWS, slot = gl_WorkGroupID.y;
    uint t = slot / N_USED, k_slot = slot % N_USED;
    F32x4 x = F32x4(uint64_t(p.x) + 128ul * t * p.n_chunk);
    vec4 x_part[TILE_LOADS], norm_part[TILE_LOADS]; /* on their way while experts are chosen */
    tile_ask(x, p.norm, 0, min(TILE_CHUNKS, p.n_chunk), x_part, norm_part);
    int expert = 0;
    if (ROUTE) {
        ivec4 row = p.token_rows.at[t];
        if (k_slot >= row_experts(row, N_USED)) {
            return;
        }
        float factor = 1.0;
        if (FOLDED) {
            tile_put(0, x_part, norm_part, 0, p.n_chunk);
            barrier();
            factor = tile_factor(0, 1.0 / float(D_MODEL), p.eps);
        }
        if (FOLDED && SHARED_GATE && gl_WorkGroupID.x == 0 && k_slot == 0 && gl_LocalInvocationIndex == 0) {
            p.logits.at[t * p.router_stride + N_EXPERT] *= factor; /* which this workgroup alone reads here */
        }
        expert = route_row(p.logits, p.select_bias, p.ids, p.weights, p.used, p.ids, t, p.router_stride, factor, p.scale, row,
                           gl_WorkGroupID.x == 0 && k_slot == 0, k_slot);
    } else if (ROUTED) {
        expert = p.ids.at[slot];
    }
    if (expert < 0) {
        return;
    }
    uint matrix = uint(expert) * p.rows, first_row = expert_row(uint(expert), p.rows);
    Planes w = expert_planes(p.w, uint(expert), 0);
    if (OFFLOADS_MISSES && w.data == 0) {
        return;
    }
    float sum[ROW_VALUES];
    [[unroll]] for (uint i = 0; i < ROW_VALUES; i++) {
        sum[i] = 0.0;
    }
    Packed now[ROW_VALUES], next[ROW_VALUES];
    load_rows(w, first_row + min(row0, p.rows - 1), gl_SubgroupInvocationID, now);
    [[dont_unroll]] for (uint first = 0; first < p.n_chunk; first += TILE_CHUNKS) {
        uint n = min(TILE_CHUNKS, p.n_chunk - first);
        if (first > 0) {
            barrier();
            tile_ask(x, p.norm, first, n, x_part, norm_part);
        }
        if (!FOLDED) {
            tile_put(0, x_part, norm_part, first, n);
            barrier();
        }
        [[dont_unroll]] for (uint c = gl_SubgroupInvocationID; c < n; c += LANES) {
            load_rows(w, first_row + min(row0, p.rows - 1), first + c + LANES, next);
            vec4 v[8];
            float plain;
            tile_read(0, c, v, plain);
            [[unroll]] for (uint i = 0; i < ROW_VALUES; i++) {
                vec4 code[8];
                float scale, offset;
                packed_decode(now[i], code, scale, offset);
                sum[i] += chunk_dot(v, plain, code, scale, offset);
                now[i] = next[i];
            }
        }
    }
    float factor = tile_factor(0, 1.0 / float(D_MODEL), p.eps);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float a = subgroupAdd(sum[2 * r]) * factor, b = subgroupAdd(sum[2 * r + 1]) * factor;
        if (gl_SubgroupInvocationID == 0 && row0 + r < p.rows) {
            uint row = matrix + row0 + r;
            if (BIAS) {
                a += p.bias.at[row];
                b += p.bias.at[p.up_at + row];
            }
            p.h.at[slot * ((p.rows + 31) / 32 * 32) + row0 + r] = activate(a, b);
        }
    }
}
