#version 460
/* out[t, h, :] = sum_j softmax_j(scale q[t, h] . K[j] (+ sink[h])) V[j] (* sigmoid(gate[t, h]))
 * q and gate inside qkv [T, stride]; K, V paged, j <= position, j > position - window; out [T, n_head * D]
 * Attention of decode rows. PREP: the row is its sequence's only one in the step, and this op also does what rope_kv
 * does (saves one dependent dispatch a layer).
 * Grid (splits, n_kv_head, T). A split is a run of KV blocks whose length depends on the position alone, so that a row's
 * sums never depend on the batch; the last workgroup of a row and head to arrive merges the splits. A tile of TOKENS
 * rows of K and V is in flight while the one before is used. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rope.glsl"
#include "kv.glsl"
#include "kv_packed.glsl"
layout(constant_id = SPEC_GROUP) const uint G = 4; /* query heads of a KV head */
layout(constant_id = SPEC_PREP) const bool PREP = false;
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_ATTN_THREADS) const uint THREADS = 256; /* the same as constant 0 */
layout(constant_id = SPEC_MIN_BLOCKS) const uint MIN_BLOCKS = 4; /* blocks of a split at least */
layout(constant_id = SPEC_MAX_SPLITS) const uint MAX_SPLITS = 32;
layout(constant_id = SPEC_TOKENS) const uint TOKENS = 32;   /* of a tile; divides BLOCK_TOKENS */
layout(constant_id = SPEC_PARTS) const uint PARTS = 1;     /* threads that share one output, each with its tokens of a tile */

layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Shared32 { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

#define PUSH_ATTN
#include "push.h"

const uint WIDTH = KV_F32 ? 4 : 8;  /* values of 16 bytes */
const uint ROW4 = D / WIDTH;        /* 16-byte words of a row of K or V */
const uint PITCH = ROW4 + 1;        /* in shared memory: neighbouring tokens fall into different banks */
const uint LOADS = (TOKENS * ROW4 + THREADS - 1) / THREADS;
const uint ITEMS = G * ROW4;        /* outputs of WIDTH values */
const uint OUTS = (ITEMS * PARTS + THREADS - 1) / THREADS; /* of a thread */

shared vec4 heads4[(G + (KV_PACKED ? 2 : 1)) * D / 4]; /* G heads of q; then k and, packed, v of this position (PREP) */
shared float score[G * TOKENS];
shared float top[G], denominator[G], correction[G];
shared uvec4 tile[TOKENS * PITCH > THREADS ? TOKENS * PITCH : THREADS]; /* K, then V; then sums of the parts */
shared uint is_last;

#define heads_at(i) heads4[(i) >> 2][(i) & 3]

#define HEAD_AT(i) heads_at(i)
#include "kv_pack.glsl"
#include "attn_prepare.glsl"

/* 16 bytes as values: f16 pairs in x, y, z, w or f32. */
void widen(uvec4 v, out vec4 low, out vec4 high)
{
    if (KV_F32) {
        low = uintBitsToFloat(v);
        high = vec4(0.0);
    } else {
        low = vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y));
        high = vec4(unpackHalf2x16(v.z), unpackHalf2x16(v.w));
    }
}

void tile_load(ivec4 row, uint kv_head, uint tile_index, uint is_v, out uvec4 v[LOADS])
{
    uint token = tile_index * TOKENS;
    uint block = uint(p.tables.at[row.z + int(token / BLOCK_TOKENS)]);
    if (KV_PACKED) {
        uint part = packed_part(block, p.n_kv_head, kv_head);
        [[unroll]] for (uint k = 0; k < LOADS; k++) {
            uint i = min(gl_LocalInvocationIndex + k * THREADS, TOKENS * ROW4 - 1);
            v[k] = packed_load(p.kv, part, is_v, token % BLOCK_TOKENS + i / ROW4, i % ROW4 * WIDTH, !KV_F32);
        }
        return;
    }
    uint word = kv_word(block, is_v, p.n_kv_head, kv_head, token % BLOCK_TOKENS, D);
    U32x4 from = U32x4(uint64_t(p.kv) + 4ul * word);
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        v[k] = from.at[min(gl_LocalInvocationIndex + k * THREADS, TOKENS * ROW4 - 1)];
    }
}

/* What tile_load read, as values of a tile. */
uvec4 tile_word(uvec4 v, uint is_v)
{
    if (!KV_PACKED) {
        return v;
    }
    if (KV_F32) {
        vec4 low, high;
        packed_values(v, is_v, low, high);
        return floatBitsToUint(low);
    }
    return packed_halves(v, is_v);
}

void tile_store(uvec4 v[LOADS], uint is_v)
{
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * THREADS;
        if (i < TOKENS * ROW4) {
            tile[(i / ROW4) * PITCH + i % ROW4] = tile_word(v[k], is_v);
        }
    }
}

/* Scores of a tile, then maximum, weights and denominator of each head. */
void weigh(ivec4 row, uint first_token)
{
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < G * TOKENS; i += THREADS) {
        uint token = i % TOKENS, h = i / TOKENS;
        int j = int(first_token + token);
        vec4 sum = vec4(0.0);
        for (uint d = 0; d < ROW4; d++) {
            vec4 low, high;
            widen(tile[token * PITCH + d], low, high);
            sum = fma(low, heads4[(h * D + d * WIDTH) / 4], sum);
            if (!KV_F32) {
                sum = fma(high, heads4[(h * D + d * WIDTH) / 4 + 1], sum);
            }
        }
        bool seen = j <= row.y && (p.window == 0 || j > row.y - int(p.window));
        score[i] = seen ? p.scale * ((sum.x + sum.y) + (sum.z + sum.w)) : -1.0e30;
    }
    barrier();
    [[dont_unroll]] for (uint h = gl_SubgroupID; h < G; h += gl_NumSubgroups) {
        float most = -1.0e30, sum = 0.0;
        [[dont_unroll]] for (uint i = gl_SubgroupInvocationID; i < TOKENS; i += gl_SubgroupSize) {
            most = max(most, score[h * TOKENS + i]);
        }
        float before = top[h], now = max(before, subgroupMax(most));
        [[dont_unroll]] for (uint i = gl_SubgroupInvocationID; i < TOKENS; i += gl_SubgroupSize) {
            float s = score[h * TOKENS + i];
            float w = s > -1.0e29 ? exp(s - now) : 0.0;
            score[h * TOKENS + i] = w;
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
}

#include "attn_finish.glsl"

void main()
{
    uint split = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y, t = gl_WorkGroupID.z;
    ivec4 row = p.rows.at[t];
    if (row.y < 0 || (row.w & ROW_TILED) != 0) { /* dead, or done by tiles */
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
    bool owns_row = split == n_splits - 1;
    const uint tiles = BLOCK_TOKENS / TOKENS;
    uint b = (first_block + split * per) * tiles;
    uint end = min((first_block + (split + 1) * per) * tiles, uint(row.y) / TOKENS + 1);
    uvec4 k4[LOADS], v4[LOADS];
    /* The tile that holds this very position is read only after store_kv. */
    bool waits = PREP && owns_row && b + 1 == end;
    if (!waits) {
        tile_load(row, kv_head, b, 0, k4);
        tile_load(row, kv_head, b, 1, v4);
    }
    if (gl_LocalInvocationIndex < G) {
        top[gl_LocalInvocationIndex] = -1.0e30;
        denominator[gl_LocalInvocationIndex] = 0.0;
    }
    prepare(row, t, kv_head, owns_row);
    barrier();
    if (waits) {
        tile_load(row, kv_head, b, 0, k4);
        tile_load(row, kv_head, b, 1, v4);
    }
    vec4 low[OUTS], high[OUTS];
    [[unroll]] for (uint k = 0; k < OUTS; k++) {
        low[k] = high[k] = vec4(0.0);
    }
    [[dont_unroll]] for (; b < end; b++) {
        tile_store(k4, 0);
        barrier();
        if (b + 1 < end) {
            tile_load(row, kv_head, b + 1, 0, k4);
        }
        weigh(row, b * TOKENS);
        barrier();
        tile_store(v4, 1);
        if (b + 1 < end) {
            tile_load(row, kv_head, b + 1, 1, v4);
        }
        barrier();
        [[unroll]] for (uint k = 0; k < OUTS; k++) {
            uint i = gl_LocalInvocationIndex + k * THREADS, item = i % ITEMS, part = i / ITEMS, h = item / ROW4;
            if (part < PARTS) {
                float c = correction[h];
                low[k] *= c;
                high[k] *= c;
                for (uint j = 0; j < TOKENS / PARTS; j++) {
                    uint token = part * (TOKENS / PARTS) + j;
                    vec4 a, z;
                    widen(tile[token * PITCH + item % ROW4], a, z);
                    float w = score[h * TOKENS + token];
                    low[k] = fma(vec4(w), a, low[k]);
                    high[k] = fma(vec4(w), z, high[k]);
                }
            }
        }
        barrier();
    }
    if (PARTS > 1) { /* OUTS is 1: sums of the parts through the tile's memory */
        tile[gl_LocalInvocationIndex] = floatBitsToUint(low[0]);
        barrier();
        [[dont_unroll]] for (uint part = 1; part < PARTS && gl_LocalInvocationIndex < ITEMS; part++) {
            low[0] += uintBitsToFloat(tile[gl_LocalInvocationIndex + part * ITEMS]);
        }
        barrier();
        tile[gl_LocalInvocationIndex] = floatBitsToUint(high[0]);
        barrier();
        [[dont_unroll]] for (uint part = 1; part < PARTS && gl_LocalInvocationIndex < ITEMS; part++) {
            high[0] += uintBitsToFloat(tile[gl_LocalInvocationIndex + part * ITEMS]);
        }
    }
    [[unroll]] for (uint k = 0; k < OUTS; k++) {
        uint item = gl_LocalInvocationIndex + k * THREADS;
        if (item < ITEMS) {
            if (n_splits == 1) {
                finish(t, kv_head, item, low[k], high[k]);
            } else {
                hand_over(t, kv_head, split, item, low[k], high[k]);
            }
        }
    }
    if (KV_PACKED && n_splits == 1) {
        finish_rotated(t, kv_head);
    }
    if (n_splits > 1) {
        hand_in(t, kv_head, split, n_splits);
    }
}
