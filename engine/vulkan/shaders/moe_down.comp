#version 460
/* y[t, r] += sum_k weights[t, k] (D_e[r, :] . h[t, k, :] + bias_e[r]), e = ids[t, k]
 * D [n_expert, d, d_ff] packed; h [T, K, d_ff] f32; y [T, d] f32, the residual stream
 * Second half of the experts; of a dense layer with K = 1 (ids NULL: expert 0, weight 1), of a shared expert with
 * weight sigmoid(weights[t]), or with BESIDE that of a shared expert added to the routed ones' (beside.glsl).
 * Grid (d / (ROWS * subgroups), T); see tile.glsl. The rows of h that a row of x uses, K
 * or fewer, are one vector to a subgroup. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
#include "tile.glsl"
layout(constant_id = SPEC_ROWS) const uint ROWS = 2;
layout(constant_id = SPEC_K) const uint K = 4; /* experts of a row */
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_WEIGHTS) const uint WEIGHTS = 0; /* 0: routed; 1: all ones; 2: the sigmoid of one logit per row */

#define PUSH_MOE_DOWN
#include "push.h"
#include "beside.glsl"

shared int slot_expert[K]; /* -1: left to the processor */
shared float slot_weight[K];

/* The experts of row t and their weights; a barrier comes before any use. */
void put_slots(uint t, uint n_used)
{
    uint k = gl_LocalInvocationIndex;
    if (k >= n_used) {
        return;
    }
    slot_expert[k] = WEIGHTS == 0 ? p.ids.at[t * K + k] : 0;
    if (OFFLOADS_MISSES && expert_planes(p.down, uint(slot_expert[k]), 1).data == 0) {
        slot_expert[k] = -1;
    }
    slot_weight[k] = WEIGHTS == 1 ? 1.0 : p.weights.at[WEIGHTS == 0 ? t * K + k : t * p.gate_stride];
    if (WEIGHTS == 2) {
        slot_weight[k] = sigmoid(slot_weight[k]);
    }
}

/* One chunk of ROWS rows of the expert that it belongs to; past the end the last one, to be thrown away. */
void load_rows(uint row0, uint chunk, uint n_chunk, out Packed packed[ROWS])
{
    uint c = min(chunk, n_chunk - 1), k = c / p.n_chunk;
    if (OFFLOADS_MISSES && slot_expert[k] < 0) {
        return;
    }
    uint matrix = expert_row(uint(slot_expert[k]), p.rows);
    Planes w = expert_planes(p.down, uint(slot_expert[k]), 1);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        packed[r] = packed_load(w, (matrix + min(row0 + r, p.rows - 1)) * p.n_chunk + c % p.n_chunk);
    }
}

void main()
{
    uint row0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * ROWS, t = gl_WorkGroupID.y;
    ivec4 row = p.token_rows.at[t];
    if (row.y < 0) {
        return;
    }
    uint n_used = WEIGHTS == 0 ? row_experts(row, K) : 1;
    put_slots(t, n_used);
    float sum[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        sum[r] = 0.0;
    }
    uint n_chunk = p.n_chunk * n_used;
    F32x4 h = F32x4(uint64_t(p.h) + 128ul * t * p.n_chunk * K);
    barrier();
    Packed now[ROWS], next[ROWS];
    load_rows(row0, gl_SubgroupInvocationID, n_chunk, now);
    Beside beside;
    if (BESIDE > 0) {
        beside_ask(row0, t, beside);
    }
    [[dont_unroll]] for (uint first = 0; first < n_chunk; first += TILE_CHUNKS) {
        uint n = min(TILE_CHUNKS, n_chunk - first);
        if (first > 0) {
            barrier();
        }
        tile_load(0, h, h, first, n);
        if (BESIDE > 0 && first == 0) {
            beside_put(beside);
        }
        barrier();
        [[dont_unroll]] for (uint c = gl_SubgroupInvocationID; c < n; c += LANES) {
            uint k = (first + c) / p.n_chunk;
            float weight = slot_weight[k], plain;
            bool here = !OFFLOADS_MISSES || slot_expert[k] >= 0;
            load_rows(row0, first + c + LANES, n_chunk, next);
            vec4 v[8];
            tile_read(0, c, v, plain);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                vec4 code[8];
                float scale, offset;
                packed_decode(now[r], code, scale, offset);
                if (here) {
                    sum[r] += weight * chunk_dot(v, plain, code, scale, offset);
                }
                now[r] = next[r];
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float v = subgroupAdd(BESIDE > 0 ? sum[r] + beside_part(beside, r) : sum[r]);
        if (gl_SubgroupInvocationID == 0 && row0 + r < p.rows) {
            if (BIAS) {
                for (uint k = 0; k < n_used; k++) {
                    if (OFFLOADS_MISSES && slot_expert[k] < 0) {
                        continue;
                    }
                    v += slot_weight[k] * p.bias.at[uint(slot_expert[k]) * p.rows + row0 + r];
                }
            }
            p.y.at[t * p.y_stride + row0 + r] += v;
        }
    }
}
