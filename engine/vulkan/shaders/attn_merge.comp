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
layout(constant_id = SPEC_SUBGROUPS) const uint SUBGROUPS = 4; /* of the workgroup */
#include "kv.glsl"
#include "kv_packed.glsl"

#define PUSH_ATTN_MERGE
#include "push.h"
#include "attn/attn_splits.glsl"
#include "attn/attn_result.glsl"

const uint RUNS = THREADS > D / 4 ? THREADS / (D / 4) : 1;
const uint COLUMNS = D / 4;
const uint ITEMS = RUNS * COLUMNS;
const uint MOST_AHEAD = 16, ALL_AHEAD = (MAX_SPLITS + RUNS - 1) / RUNS, AHEAD = ALL_AHEAD < MOST_AHEAD ? ALL_AHEAD : MOST_AHEAD;
const uint LANES = THREADS / SUBGROUPS;
const uint TOPS = (MAX_SPLITS + LANES - 1) / LANES; /* splits of which a thread has the maximum and the denominator */
const float LOG2_E = 1.4426950408889634;

shared vec4 sums4[RUNS * D / 4];
shared float factors[SUBGROUPS * MAX_SPLITS]; /* each subgroup's own, so that none waits for another */

/* A subgroup has a whole head. */
#define SHUFFLES (ROTATION == D && gl_SubgroupSize >= COLUMNS)
#define HEAD_AT(i) sums4[(i) >> 2][(i) & 3]
#include "kv_pack.glsl"

float factor_of(uint split)
{
    return factors[gl_SubgroupID * MAX_SPLITS + split];
}

/* Each split's share of the result, by each subgroup for itself, from what the thread's splits left. */
void weigh_splits(vec2 left[TOPS], uint n, uint head)
{
    float most = -1.0e30, sum = 0.0;
    [[unroll]] for (uint i = 0; i < TOPS; i++) {
        most = max(most, gl_SubgroupInvocationID + i * LANES < n ? left[i].x : -1.0e30);
    }
    most = subgroupMax(most);
    [[unroll]] for (uint i = 0; i < TOPS; i++) {
        left[i].x = exp2(left[i].x - most);
        sum += gl_SubgroupInvocationID + i * LANES < n ? left[i].y * left[i].x : 0.0;
    }
    sum = subgroupAdd(sum);
    if (SINKS) {
        sum += exp2(p.sinks.at[head] * LOG2_E - most);
    }
    [[unroll]] for (uint i = 0; i < TOPS; i++) {
        uint split = gl_SubgroupInvocationID + i * LANES;
        if (split < n) {
            factors[gl_SubgroupID * MAX_SPLITS + split] = left[i].x / sum;
        }
    }
    subgroupBarrier();
}

/* A head of which each of a subgroup's first threads has four columns. */
vec4 rotated(vec4 v)
{
    vec4 a = vec4(v.x + v.y, v.x - v.y, v.z + v.w, v.z - v.w);
    v = vec4(a.xy + a.zw, a.xy - a.zw) * inversesqrt(float(D));
    [[unroll]] for (uint bit = 1; bit < COLUMNS; bit *= 2) {
        v = fma(v, vec4((gl_SubgroupInvocationID & bit) != 0 ? -1.0 : 1.0), subgroupShuffleXor(v, bit));
    }
    return v;
}

vec4 sum_of(uint column)
{
    vec4 sum = sums4[column];
    [[unroll]] for (uint run = 1; run < RUNS; run++) {
        sum += sums4[run * (D / 4) + column];
    }
    return sum;
}

void main()
{
    uint head = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
    uint kv_head = head / G, h = head % G % HEADS, groups = (G + HEADS - 1) / HEADS;
    uint parts = parts_at((t * (p.n_head / G) + kv_head) * groups + head % G / HEADS);
    uint run = gl_LocalInvocationIndex / COLUMNS, own = gl_LocalInvocationIndex % COLUMNS;
    /* What may be past the row's splits is asked for too, since nobody waits for the row first, and left out below. */
    uint most = min(p.n_splits, MAX_SPLITS) - 1, tops = parts_tops(parts, 0, h);
    ivec4 row = p.rows.at[t];
    vec4 ahead[AHEAD];
    vec2 left[TOPS];
    [[unroll]] for (uint i = 0; i < TOPS; i++) {
        left[i] = F32x2(uint64_t(p.parts)).at[tops + min(gl_SubgroupInvocationID + i * LANES, most) * HEADS];
    }
    if (run < RUNS) {
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            ahead[i] = p.parts.at[parts + (min(run + i * RUNS, most) * HEADS + h) * COLUMNS + own];
        }
    }
    if (row.y < 0 || (row.w & ROW_TILED) != 0) {
        return;
    }
    uint n = splits_of(row.y).n;
    if (n == 1) {
        return;
    }
    weigh_splits(left, n, head);
    if (run < RUNS) {
        vec4 sum = vec4(0.0);
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            sum += run + i * RUNS < n ? factor_of(run + i * RUNS) * ahead[i] : vec4(0.0);
        }
        [[dont_unroll]] for (uint s = run + AHEAD * RUNS; s < n; s += RUNS) {
            sum += factor_of(s) * p.parts.at[parts + (s * HEADS + h) * COLUMNS + own];
        }
        sums4[gl_LocalInvocationIndex] = sum;
    }
    [[dont_unroll]] for (uint item = gl_LocalInvocationIndex + THREADS; item < ITEMS; item += THREADS) { /* wider heads than the workgroup */
        vec4 sum = vec4(0.0);
        [[dont_unroll]] for (uint s = 0; s < n; s++) {
            sum += factor_of(s) * p.parts.at[parts + (s * HEADS + h) * COLUMNS + item];
        }
        sums4[item] = sum;
    }
    barrier();
    if (KV_PACKED && !SHUFFLES) {
        [[dont_unroll]] for (uint column = gl_LocalInvocationIndex; column < D / 4; column += THREADS) {
            sums4[column] = sum_of(column);
        }
        rotate_heads(0, D);
    }
    [[dont_unroll]] for (uint column = gl_LocalInvocationIndex; column < D / 4; column += THREADS) {
        vec4 v = KV_PACKED && !SHUFFLES ? sums4[column] : sum_of(column);
        if (KV_PACKED && SHUFFLES) {
            v = rotated(v);
        }
        put_result((t * p.n_head + head) * D + 4 * column, gated(v, t, head, 4 * column));
    }
}
