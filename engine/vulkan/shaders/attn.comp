#version 460
/* out[t, h, :] = sum_j softmax_j(scale q[t, h] . K[j] (+ sink[h])) V[j] (* sigmoid(gate[t, h]))
 * q and gate inside qkv [T, stride]; K, V paged, j <= position, j > position - window; out [T, n_head * D]
 * Attention of every row, decode and prefill. PREP: the row is its sequence's only one in the step, and this op also
 * does what rope_kv does (saves one dependent dispatch a layer).
 * Grid (splits, n_kv_head, T). A split is a run of KV blocks whose length depends on the position alone, so that a row's
 * sums never depend on the batch; the last workgroup of a row and head to arrive merges the splits. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rope.glsl"
#include "kv.glsl"
layout(constant_id = 1) const uint G = 4; /* query heads of a KV head */
layout(constant_id = 2) const bool PREP = false;
layout(constant_id = 3) const bool GATE = false;
layout(constant_id = 4) const bool SINKS = false;
layout(constant_id = 5) const uint THREADS = 256; /* the same as constant 0 */
layout(constant_id = 6) const uint MIN_BLOCKS = 2; /* blocks of a split at least */
layout(constant_id = 7) const uint MAX_SPLITS = 32;

layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Shared32 { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

layout(push_constant, std430) uniform Push {
    F32 qkv, q_norm, k_norm, inv_freq, sinks, outs;
    Rows rows;
    I32 tables;
    U32 kv;
    Shared32 parts;  /* [T, n_kv_head, MAX_SPLITS, G, D + 2]: sums, then maximum and denominator */
    Counter arrived; /* [T, n_kv_head], zero between uses */
    uint stride, n_head, n_kv_head, q_step, window;
    float eps, rope_scale, scale;
} p;

shared float heads[(G + 2) * D]; /* G heads of q; then k, v of this position (PREP) */
shared float score[G * BLOCK_TOKENS];
shared float top[G], denominator[G], correction[G];
shared uint is_last;

const uint PAIRS = (G * D / 2 + THREADS - 1) / THREADS; /* output pairs of a thread */

void prepare(ivec4 row, uint t, uint kv_head, bool owns_row)
{
    uint base = t * p.stride, k_at = base + p.n_head * p.q_step + kv_head * D;
    for (uint h = gl_SubgroupID; h < G; h += gl_NumSubgroups) {
        uint at = base + (kv_head * G + h) * p.q_step;
        if (PREP) {
            HEAD_LOAD(h, p.qkv, at, p.q_norm, p.eps)
        } else {
            for (uint d = gl_SubgroupInvocationID; d < D; d += gl_SubgroupSize) {
                heads[h * D + d] = p.qkv.at[at + d];
            }
        }
    }
    if (!PREP) {
        return;
    }
    if (owns_row && gl_SubgroupID == gl_NumSubgroups - 1) {
        HEAD_LOAD(G, p.qkv, k_at, p.k_norm, p.eps)
    }
    barrier();
    uint n = (G + (owns_row ? 1 : 0)) * (N_ROPE / 2);
    for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
        uint h = i / (N_ROPE / 2), pair = i % (N_ROPE / 2);
        HEAD_ROTATE(h, pair, row.y, p.inv_freq, p.rope_scale)
    }
    if (!owns_row) {
        return;
    }
    barrier();
    uint block = uint(p.tables.at[row.z + row.y / int(BLOCK_TOKENS)]), token = uint(row.y) % BLOCK_TOKENS;
    uint k_word = kv_word(block, 0, p.n_kv_head, kv_head, token, D);
    uint v_word = kv_word(block, 1, p.n_kv_head, kv_head, token, D);
    uint v_at = k_at + p.n_kv_head * D;
    if (KV_F32) {
        for (uint d = gl_LocalInvocationIndex; d < D; d += THREADS) {
            p.kv.at[k_word + d] = floatBitsToUint(heads[G * D + d]);
            p.kv.at[v_word + d] = floatBitsToUint(p.qkv.at[v_at + d]);
        }
    } else {
        for (uint d = gl_LocalInvocationIndex; d < D / 2; d += THREADS) {
            p.kv.at[k_word + d] = packHalf2x16(vec2(heads[G * D + 2 * d], heads[G * D + 2 * d + 1]));
            p.kv.at[v_word + d] = packHalf2x16(vec2(p.qkv.at[v_at + 2 * d], p.qkv.at[v_at + 2 * d + 1]));
        }
    }
    memoryBarrierBuffer();
}

float score_of(uint h, uint word)
{
    vec4 sum = vec4(0.0);
    if (KV_F32) {
        U32x4 k = U32x4(uint64_t(p.kv) + 4ul * word);
        for (uint d = 0; d < D / 4; d++) {
            vec4 q = vec4(heads[h * D + 4 * d], heads[h * D + 4 * d + 1], heads[h * D + 4 * d + 2], heads[h * D + 4 * d + 3]);
            sum = fma(uintBitsToFloat(k.at[d]), q, sum);
        }
    } else {
        U32x4 k = U32x4(uint64_t(p.kv) + 4ul * word);
        for (uint d = 0; d < D / 8; d++) {
            uvec4 v = k.at[d];
            uint at = h * D + 8 * d;
            sum = fma(vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y)), vec4(heads[at], heads[at + 1], heads[at + 2], heads[at + 3]), sum);
            sum = fma(vec4(unpackHalf2x16(v.z), unpackHalf2x16(v.w)), vec4(heads[at + 4], heads[at + 5], heads[at + 6], heads[at + 7]), sum);
        }
    }
    return p.scale * ((sum.x + sum.y) + (sum.z + sum.w));
}

/* Scores of one block, then maximum, weights and denominator of each head. */
void weigh_block(ivec4 row, uint kv_head, uint first_token, uint block)
{
    for (uint i = gl_LocalInvocationIndex; i < G * BLOCK_TOKENS; i += THREADS) {
        uint token = i % BLOCK_TOKENS, h = i / BLOCK_TOKENS;
        int j = int(first_token + token);
        bool seen = j <= row.y && (p.window == 0 || j > row.y - int(p.window));
        score[i] = seen ? score_of(h, kv_word(block, 0, p.n_kv_head, kv_head, token, D)) : -1.0e30;
    }
    barrier();
    for (uint h = gl_SubgroupID; h < G; h += gl_NumSubgroups) {
        float most = -1.0e30, sum = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < BLOCK_TOKENS; i += gl_SubgroupSize) {
            most = max(most, score[h * BLOCK_TOKENS + i]);
        }
        float before = top[h], now = max(before, subgroupMax(most));
        for (uint i = gl_SubgroupInvocationID; i < BLOCK_TOKENS; i += gl_SubgroupSize) {
            float s = score[h * BLOCK_TOKENS + i];
            float w = s > -1.0e29 ? exp(s - now) : 0.0;
            score[h * BLOCK_TOKENS + i] = w;
            sum += w;
        }
        sum = subgroupAdd(sum);
        if (gl_SubgroupInvocationID == 0) {
            float c = exp(before - now);
            correction[h] = c;
            denominator[h] = denominator[h] * c + sum;
            top[h] = now;
        }
    }
    barrier();
}

vec2 value_pair(uint word, uint pair)
{
    if (KV_F32) {
        return uintBitsToFloat(uvec2(p.kv.at[word + 2 * pair], p.kv.at[word + 2 * pair + 1]));
    }
    return unpackHalf2x16(p.kv.at[word + pair]);
}

void finish(uint t, uint kv_head, uint i, vec2 sum)
{
    uint h = i / (D / 2), d = 2 * (i % (D / 2)), head = kv_head * G + h;
    float l = denominator[h];
    if (SINKS) {
        l += exp(p.sinks.at[head] - top[h]);
    }
    vec2 v = sum / l;
    if (GATE) {
        uint at = t * p.stride + head * p.q_step + D + d;
        v *= vec2(sigmoid(p.qkv.at[at]), sigmoid(p.qkv.at[at + 1]));
    }
    uint at = (t * p.n_head + head) * D + d;
    p.outs.at[at] = v.x;
    p.outs.at[at + 1] = v.y;
}

void merge(uint t, uint kv_head, uint n_splits)
{
    uint base = ((t * p.n_kv_head + kv_head) * MAX_SPLITS) * G * (D + 2);
    if (gl_LocalInvocationIndex < G) {
        uint h = gl_LocalInvocationIndex;
        float most = -1.0e30, sum = 0.0;
        for (uint s = 0; s < n_splits; s++) {
            most = max(most, p.parts.at[base + (s * G + h) * (D + 2) + D]);
        }
        for (uint s = 0; s < n_splits; s++) {
            uint at = base + (s * G + h) * (D + 2) + D;
            sum += p.parts.at[at + 1] * exp(p.parts.at[at] - most);
        }
        top[h] = most;
        denominator[h] = sum;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < G * D / 2; i += THREADS) {
        uint h = i / (D / 2), d = 2 * (i % (D / 2));
        vec2 sum = vec2(0.0);
        for (uint s = 0; s < n_splits; s++) {
            uint at = base + (s * G + h) * (D + 2);
            sum += vec2(p.parts.at[at + d], p.parts.at[at + d + 1]) * exp(p.parts.at[at + D] - top[h]);
        }
        finish(t, kv_head, i, sum);
    }
}

void main()
{
    uint split = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y, t = gl_WorkGroupID.z;
    ivec4 row = p.rows.at[t];
    if (row.y < 0) {
        return;
    }
    uint last_block = uint(row.y) / BLOCK_TOKENS;
    uint first_block = p.window == 0 ? 0 : uint(max(row.y - int(p.window) + 1, 0)) / BLOCK_TOKENS;
    uint n_blocks = last_block - first_block + 1;
    uint per = max(MIN_BLOCKS, (n_blocks + MAX_SPLITS - 1) / MAX_SPLITS);
    uint n_splits = (n_blocks + per - 1) / per;
    if (split >= n_splits) {
        return;
    }
    if (gl_LocalInvocationIndex < G) {
        top[gl_LocalInvocationIndex] = -1.0e30;
        denominator[gl_LocalInvocationIndex] = 0.0;
    }
    prepare(row, t, kv_head, split == n_splits - 1);
    barrier();
    vec2 sum[PAIRS];
    [[unroll]] for (uint k = 0; k < PAIRS; k++) {
        sum[k] = vec2(0.0);
    }
    uint end = min(first_block + (split + 1) * per, last_block + 1);
    for (uint b = first_block + split * per; b < end; b++) {
        uint block = uint(p.tables.at[row.z + int(b)]);
        weigh_block(row, kv_head, b * BLOCK_TOKENS, block);
        uint n = min(BLOCK_TOKENS, uint(row.y) + 1 - b * BLOCK_TOKENS), v0 = kv_word(block, 1, p.n_kv_head, kv_head, 0, D);
        uint step = KV_F32 ? D : D / 2;
        [[unroll]] for (uint k = 0; k < PAIRS; k++) {
            uint i = gl_LocalInvocationIndex + k * THREADS, h = i / (D / 2), pair = i % (D / 2);
            if (i < G * D / 2) {
                vec2 v = sum[k] * correction[h];
                for (uint j = 0; j < n; j++) {
                    v += score[h * BLOCK_TOKENS + j] * value_pair(v0 + j * step, pair);
                }
                sum[k] = v;
            }
        }
        barrier();
    }
    if (n_splits == 1) {
        [[unroll]] for (uint k = 0; k < PAIRS; k++) {
            uint i = gl_LocalInvocationIndex + k * THREADS;
            if (i < G * D / 2) {
                finish(t, kv_head, i, sum[k]);
            }
        }
        return;
    }
    uint base = ((t * p.n_kv_head + kv_head) * MAX_SPLITS + split) * G * (D + 2);
    [[unroll]] for (uint k = 0; k < PAIRS; k++) {
        uint i = gl_LocalInvocationIndex + k * THREADS, h = i / (D / 2), d = 2 * (i % (D / 2));
        if (i < G * D / 2) {
            p.parts.at[base + h * (D + 2) + d] = sum[k].x;
            p.parts.at[base + h * (D + 2) + d + 1] = sum[k].y;
        }
    }
    if (gl_LocalInvocationIndex < G) {
        uint at = base + gl_LocalInvocationIndex * (D + 2) + D;
        p.parts.at[at] = top[gl_LocalInvocationIndex];
        p.parts.at[at + 1] = denominator[gl_LocalInvocationIndex];
    }
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        uint n = atomicAdd(p.arrived.at[t * p.n_kv_head + kv_head], 1);
        is_last = n == n_splits - 1 ? 1 : 0;
    }
    barrier();
    if (is_last == 1) {
        memoryBarrierBuffer();
        merge(t, kv_head, n_splits);
        if (gl_LocalInvocationIndex == 0) {
            p.arrived.at[t * p.n_kv_head + kv_head] = 0;
        }
    }
}
