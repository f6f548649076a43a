#version 460
/* out[t, h, :] = sum_s 2^(top_s - top) part_s / (sum_s 2^(top_s - top) denominator_s (+ sink)) (* sigmoid(gate[t, h]))
 * The splits of a row that attn left as sums of their own (attn_splits.glsl); rows with one split are done already.
 * Grid (n_head, T). A thread has four columns of every RUNS-th split, and asks for the first AHEAD of them before anyone knows their shares. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = SPEC_GROUP) const uint G = 4;
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_HALVES_OUT) const bool HALVES_OUT = false;
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_ATTN_THREADS) const uint THREADS = 128; /* the same as constant 0 */
layout(constant_id = SPEC_HEADS) const uint HEADS = 4;
layout(constant_id = SPEC_D_HEAD) const uint D = 64;
#include "kv.glsl"
#include "kv_packed.glsl"

#define PUSH_ATTN_MERGE
#include "push.h"
#include "attn_splits.glsl"

const uint RUNS = THREADS > D / 4 ? THREADS / (D / 4) : 1;
const uint COLUMNS = D / 4;
const uint ITEMS = RUNS * COLUMNS;
const uint AHEAD = 16;
const float LOG2_E = 1.4426950408889634;

shared vec4 sums4[RUNS * D / 4];
shared float factors[MAX_SPLITS];

/* A subgroup has a whole head. */
#define SHUFFLES (ROTATION == D && gl_SubgroupSize >= COLUMNS)
#define HEAD_AT(i) sums4[(i) >> 2][(i) & 3]
#include "kv_pack.glsl"

/* Each split's share of the result, by one subgroup. */
void weigh_splits(uint tops, uint n, uint head)
{
    float most = -1.0e30, sum = 0.0;
    [[dont_unroll]] for (uint s = gl_SubgroupInvocationID; s < n; s += gl_SubgroupSize) {
        most = max(most, F32x2(uint64_t(p.parts)).at[tops + s * HEADS].x);
    }
    most = subgroupMax(most);
    [[dont_unroll]] for (uint s = gl_SubgroupInvocationID; s < n; s += gl_SubgroupSize) {
        vec2 of = F32x2(uint64_t(p.parts)).at[tops + s * HEADS];
        float factor = exp2(of.x - most);
        factors[s] = factor;
        sum += of.y * factor;
    }
    sum = subgroupAdd(sum);
    if (SINKS) {
        sum += exp2(p.sinks.at[head] * LOG2_E - most);
    }
    [[dont_unroll]] for (uint s = gl_SubgroupInvocationID; s < n; s += gl_SubgroupSize) {
        factors[s] /= sum;
    }
}

/* A head of which each of a subgroup's first threads has four columns. */
vec4 rotated(vec4 v)
{
    vec4 a = vec4(v.x + v.y, v.x - v.y, v.z + v.w, v.z - v.w);
    v = vec4(a.xy + a.zw, a.xy - a.zw) * inversesqrt(float(D));
    [[unroll]] for (uint bit = 1; bit < COLUMNS; bit *= 2) {
        vec4 other = subgroupShuffleXor(v, bit);
        v = (gl_SubgroupInvocationID & bit) != 0 ? other - v : v + other;
    }
    return v;
}

void main()
{
    uint head = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
    ivec4 row = p.rows.at[t];
    if (row.y < 0 || (row.w & ROW_TILED) != 0) {
        return;
    }
    uint n = splits_of(row.y).n;
    if (n == 1) {
        return;
    }
    uint kv_head = head / G, h = head % G % HEADS, groups = (G + HEADS - 1) / HEADS;
    uint parts = parts_at((t * (p.n_head / G) + kv_head) * groups + head % G / HEADS);
    uint run = gl_LocalInvocationIndex / COLUMNS, own = gl_LocalInvocationIndex % COLUMNS;
    vec4 ahead[AHEAD];
    if (run < RUNS) {
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            ahead[i] = p.parts.at[parts + (min(run + i * RUNS, n - 1) * HEADS + h) * COLUMNS + own];
        }
    }
    if (gl_SubgroupID == 0) {
        weigh_splits(parts_tops(parts, 0, h), n, head);
    }
    barrier();
    if (run < RUNS) {
        vec4 sum = vec4(0.0);
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            sum += run + i * RUNS < n ? factors[run + i * RUNS] * ahead[i] : vec4(0.0);
        }
        [[dont_unroll]] for (uint s = run + AHEAD * RUNS; s < n; s += RUNS) {
            sum += factors[s] * p.parts.at[parts + (s * HEADS + h) * COLUMNS + own];
        }
        sums4[gl_LocalInvocationIndex] = sum;
    }
    [[dont_unroll]] for (uint item = gl_LocalInvocationIndex + THREADS; item < ITEMS; item += THREADS) { /* wider heads than the workgroup */
        vec4 sum = vec4(0.0);
        [[dont_unroll]] for (uint s = 0; s < n; s++) {
            sum += factors[s] * p.parts.at[parts + (s * HEADS + h) * COLUMNS + item];
        }
        sums4[item] = sum;
    }
    barrier();
    [[dont_unroll]] for (uint column = gl_LocalInvocationIndex; column < D / 4; column += THREADS) {
        vec4 sum = sums4[column];
        [[unroll]] for (uint run = 1; run < RUNS; run++) {
            sum += sums4[run * (D / 4) + column];
        }
        sums4[column] = sum;
    }
    if (KV_PACKED && SHUFFLES) {
        barrier();
        if (gl_SubgroupID == 0) {
            vec4 v = rotated(sums4[min(gl_SubgroupInvocationID, COLUMNS - 1)]);
            if (gl_SubgroupInvocationID < COLUMNS) {
                sums4[gl_SubgroupInvocationID] = v;
            }
        }
        barrier();
    } else if (KV_PACKED) {
        rotate_heads(0, D);
    }
    [[dont_unroll]] for (uint column = gl_LocalInvocationIndex; column < D / 4; column += THREADS) {
        vec4 v = sums4[column];
        [[unroll]] for (uint i = 0; GATE && i < 4; i++) {
            v[i] *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + 4 * column + i]);
        }
        uint at = (t * p.n_head + head) * (D / 4) + column;
        if (HALVES_OUT) {
            U32x2(uint64_t(p.outs)).at[at] = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
        } else {
            F32x4(uint64_t(p.outs)).at[at] = v;
        }
    }
}
