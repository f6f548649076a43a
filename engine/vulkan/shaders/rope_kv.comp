#version 460
/* q <- rope(norm(q)) in place; K, V of the row's position <- rope(norm(k)), v; all three rotated if K and V are packed
 * qkv [T, stride]: heads of q (each followed by its gate when Q_STEP is 2 D), then k, then v
 * Between the projections and attention, when a sequence has several rows in the step.
 * Grid (n_head + 2 n_kv_head, T); one workgroup of one subgroup per head. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rope.glsl"
#include "kv.glsl"
#include "kv_packed.glsl"

#define PUSH_ROPE_KV
#include "push.h"

shared float heads[D];
#define HEAD_AT(i) heads[i]
#include "kv_pack.glsl"

void store_kv(ivec4 row, uint is_v, uint head)
{
    uint block = uint(p.tables.at[row.z + row.y / int(BLOCK_TOKENS)]);
    if (KV_PACKED) {
        rotate_heads(0, D);
        packed_store(p.kv, packed_part(block, p.n_kv_head, head), uint(row.y) % BLOCK_TOKENS, is_v, 0, false);
        return;
    }
    uint at = kv_word(block, is_v, p.n_kv_head, head, uint(row.y) % BLOCK_TOKENS, D);
    if (KV_F32) {
        for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
            p.kv.at[at + d] = floatBitsToUint(heads[d]);
        }
    } else {
        for (uint d = gl_LocalInvocationIndex; d < D / 2; d += gl_WorkGroupSize.x) {
            p.kv.at[at + d] = packHalf2x16(vec2(heads[2 * d], heads[2 * d + 1]));
        }
    }
}

void main()
{
    uint t = gl_WorkGroupID.y, head = gl_WorkGroupID.x;
    ivec4 row = p.rows.at[t];
    if (row.y < 0) {
        return;
    }
    bool is_q = head < p.n_head, is_k = !is_q && head < p.n_head + p.n_kv_head;
    uint at = t * p.stride + (is_q ? head * p.q_step : p.n_head * p.q_step + (head - p.n_head) * D);
    if (!is_q && !is_k) {
        for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
            heads[d] = p.qkv.at[at + d];
        }
        barrier();
        store_kv(row, 1, head - p.n_head - p.n_kv_head);
        return;
    }
    turn_load(row.y, p.inv_freq, p.rope_scale);
    F32 norm = F32(is_q ? uint64_t(p.q_norm) : uint64_t(p.k_norm));
    float squares = 0.0;
    for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
        float v = p.qkv.at[at + d];
        squares += v * v;
        heads[d] = HEAD_NORM ? v * norm.at[d] : v;
    }
    float factor = HEAD_NORM ? inversesqrt(subgroupAdd(squares) / float(D) + p.eps) : 1.0;
    for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
        heads[d] *= factor;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < N_PAIRS; i += gl_WorkGroupSize.x) {
        vec2 cs = turn[i];
        uint lo = INTERLEAVED ? 2 * i : i, hi = INTERLEAVED ? lo + 1 : lo + N_PAIRS;
        float a = heads[lo], b = heads[hi];
        heads[lo] = a * cs.x - b * cs.y;
        heads[hi] = b * cs.x + a * cs.y;
    }
    barrier();
    if (is_k) {
        store_kv(row, 0, head - p.n_head);
        return;
    }
    if (KV_PACKED) {
        rotate_heads(0, D);
    }
    for (uint d = gl_LocalInvocationIndex; d < D; d += gl_WorkGroupSize.x) {
        p.qkv.at[at + d] = heads[d];
    }
}
