#version 460
/* The same attention as attn.comp for runs of rows of one sequence, on the matrix units
 * A tile of rows (step.tiles: first row, count) times the G heads of one KV head is a matrix of up to 64 queries.
 * Prefill, after rope_kv. Packed K and V: attn_rotate finishes the rows.
 * Grid (n_kv_head, tiles); 4 subgroups of 32 threads, 16 queries each. Two passes over the blocks of KV: maxima and
 * denominators first, then the weighted sum, so that sums on the matrix units never need rescaling. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "coop.glsl"
layout(constant_id = SPEC_GROUP) const uint G = 4;
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_D_HEAD) const uint D = 64;
#include "kv_packed.glsl"

#define PUSH_ATTN_TILED
#include "push.h"

const uint TOKENS = 32; /* of a KV block */
const uint QUERIES = 64;
const uint THREADS = 128;
const uint ROW4 = D / 8;
const uint PITCH = ROW4 + 1;    /* 16-byte words of a row of Q, K or V in shared memory */
const uint S_PITCH = 9;         /* of a query's scores, f32 */
const uint P_PITCH = 5;         /* of a query's weights, halves */
const uint K_AT = 0, V_AT = TOKENS * PITCH, S_AT = 2 * TOKENS * PITCH, P_AT = S_AT + QUERIES * S_PITCH;
const uint LOADS = TOKENS * ROW4 / THREADS;
shared uvec4 pool[P_AT + QUERIES * P_PITCH]; /* K, V, scores, weights; before: Q over K and V; after: sums over the scores */

/* One half (K or V) of a KV block. */
void block_load(uint block, uint is_v, uint kv_head, out uvec4 v[LOADS])
{
    if (KV_PACKED) {
        uint part = packed_part(block, p.n_kv_head, kv_head);
        [[unroll]] for (uint k = 0; k < LOADS; k++) {
            uint i = gl_LocalInvocationIndex + k * THREADS;
            v[k] = packed_load(U32(uint64_t(p.kv)), part, is_v, i / ROW4, i % ROW4 * 8, true);
        }
        return;
    }
    uint first = ((block * 2 + is_v) * p.n_kv_head + kv_head) * TOKENS * ROW4;
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        v[k] = p.kv.at[first + gl_LocalInvocationIndex + k * THREADS];
    }
}

void block_store(uint at, uvec4 v[LOADS], uint is_v)
{
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * THREADS;
        pool[at + i / ROW4 * PITCH + i % ROW4] = KV_PACKED ? packed_halves(v[k], is_v) : v[k];
    }
}

float score_at(uint query, uint token)
{
    return uintBitsToFloat(pool[S_AT + query * S_PITCH + token / 4][token % 4]);
}

void main()
{
    uint kv_head = gl_WorkGroupID.x, tid = gl_LocalInvocationIndex, lane = gl_SubgroupInvocationID;
    ivec4 tile = p.tiles.at[gl_WorkGroupID.y];
    uint first_row = uint(tile.x), n_queries = uint(tile.y) * G;
    if (tile.y == 0) {
        return;
    }
    /* Q: query i is row i / G, head i % G */
    for (uint i = tid; i < QUERIES * ROW4; i += THREADS) {
        uint query = i / ROW4, row = first_row + min(query, n_queries - 1) / G, head = kv_head * G + query % G;
        F32x4 q = F32x4(uint64_t(p.qkv) + 4ul * (row * p.stride + head * p.q_step));
        vec4 a = q.at[i % ROW4 * 2] * p.scale, b = q.at[i % ROW4 * 2 + 1] * p.scale;
        pool[query * PITCH + i % ROW4] = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
    }
    barrier();
    MatrixA q[D / 16];
    [[unroll]] for (uint k = 0; k < D / 16; k++) {
        coopMatLoadNV(q[k], pool, gl_SubgroupID * 16 * PITCH + k * 2, PITCH, false);
    }
    MatrixC sum[D / 16];
    [[unroll]] for (uint k = 0; k < D / 16; k++) {
        sum[k] = MatrixC(0.0);
    }
    /* Two threads of the query's own subgroup share a query. */
    uint query = gl_SubgroupID * 16 + lane / 2, part = lane % 2;
    ivec4 mine = p.rows.at[first_row + min(query, n_queries - 1) / G], last = p.rows.at[first_row + uint(tile.y) - 1];
    int oldest = p.rows.at[first_row].y - int(p.window) + 1;
    uint begin = p.window == 0 ? 0 : uint(max(oldest, 0)) / TOKENS, end = uint(last.y) / TOKENS + 1;
    float most = -1.0e30, denominator = 0.0;
    uvec4 k4[LOADS], v4[LOADS];
    [[dont_unroll]] for (uint pass = 0; pass < 2; pass++) {
        block_load(uint(p.tables.at[mine.z + int(begin)]), 0, kv_head, k4);
        [[dont_unroll]] for (uint b = begin; b < end; b++) {
            barrier();
            block_store(K_AT, k4, 0);
            if (pass == 1) {
                block_load(uint(p.tables.at[mine.z + int(b)]), 1, kv_head, v4);
                block_store(V_AT, v4, 1);
            }
            barrier();
            if (b + 1 < end) {
                block_load(uint(p.tables.at[mine.z + int(b + 1)]), 0, kv_head, k4);
            }
            MatrixC s[2] = {MatrixC(0.0), MatrixC(0.0)};
            [[unroll]] for (uint k = 0; k < D / 16; k++) {
                [[unroll]] for (uint f = 0; f < 2; f++) {
                    MatrixB m;
                    coopMatLoadNV(m, pool, K_AT + f * 16 * PITCH + k * 2, PITCH, true);
                    s[f] = coopMatMulAddNV(q[k], m, s[f]);
                }
            }
            [[unroll]] for (uint f = 0; f < 2; f++) {
                coopMatStoreNV(s[f], pool, S_AT + gl_SubgroupID * 16 * S_PITCH + f * 4, S_PITCH, false);
            }
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            float v[16];
            [[unroll]] for (uint i = 0; i < 16; i++) {
                int j = int(b * TOKENS + part * 16 + i);
                bool seen = j <= mine.y && (p.window == 0 || j > mine.y - int(p.window));
                v[i] = seen ? score_at(query, part * 16 + i) : -1.0e30;
            }
            if (pass == 0) {
                float now = most, add = 0.0;
                [[unroll]] for (uint i = 0; i < 16; i++) {
                    now = max(now, v[i]);
                }
                now = max(now, subgroupShuffleXor(now, 1));
                [[unroll]] for (uint i = 0; i < 16; i++) {
                    add += v[i] > -1.0e29 ? exp(v[i] - now) : 0.0;
                }
                add += subgroupShuffleXor(add, 1);
                denominator = denominator * exp(most - now) + add;
                most = now;
                continue;
            }
            [[unroll]] for (uint i = 0; i < 2; i++) {
                uvec4 w;
                [[unroll]] for (uint k = 0; k < 4; k++) {
                    vec2 e = vec2(v[8 * i + 2 * k], v[8 * i + 2 * k + 1]);
                    w[k] = packHalf2x16(vec2(e.x > -1.0e29 ? exp(e.x - most) : 0.0, e.y > -1.0e29 ? exp(e.y - most) : 0.0));
                }
                pool[P_AT + query * P_PITCH + part * 2 + i] = w;
            }
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            [[unroll]] for (uint t = 0; t < 2; t++) {
                MatrixA w;
                coopMatLoadNV(w, pool, P_AT + gl_SubgroupID * 16 * P_PITCH + t * 2, P_PITCH, false);
                [[unroll]] for (uint k = 0; k < D / 16; k++) {
                    MatrixB m;
                    coopMatLoadNV(m, pool, V_AT + t * 16 * PITCH + k * 2, PITCH, false);
                    sum[k] = coopMatMulAddNV(w, m, sum[k]);
                }
            }
        }
    }
    uint head = kv_head * G + query % G, row = first_row + query / G;
    if (SINKS) {
        denominator += exp(p.sinks.at[head] - most);
    }
    float factor = 1.0 / denominator;
    [[unroll]] for (uint k = 0; k < D / 16; k++) {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        coopMatStoreNV(sum[k], pool, S_AT + gl_SubgroupID * 16 * S_PITCH, S_PITCH, false);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint d = k * 16 + part * 8 + i;
            if (query < n_queries) {
                float v = score_at(query, part * 8 + i) * factor;
                if (GATE) {
                    v *= sigmoid(p.qkv.at[row * p.stride + head * p.q_step + D + d]);
                }
                p.outs.at[(row * p.n_head + head) * D + d] = v;
            }
        }
    }
}
