#version 460
/* out[t, h, :] = sum_j softmax_j(scale q[t, h] . K[j] (+ sink[h])) V[j] (* sigmoid(gate[t, h]))
 * q and gate inside qkv [T, stride]; K, V paged, j <= position, j > position - window; out [T, n_head * D]
 * Attention of decode rows. PREP: the row is its sequence's only one in the step, and this op also does what rope_kv
 * does (saves one dependent dispatch a layer).
 * Grid (splits, n_kv_head * heads / HEADS rounded up, T). A split is a run of KV blocks; attn_merge makes several into one.
 * LANES threads, a cluster, take four tokens of a block at a time, each thread the same columns of q, K, V and out; eight
 * clusters take a block. Clusters keep maxima and sums of their own until their split ends, so that nothing inside the loop
 * waits for another subgroup. Weights are powers of two: scale and maxima count in their exponents. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#include "common.glsl"
#include "rope.glsl"
#include "kv.glsl"
#include "kv_packed.glsl"
layout(constant_id = SPEC_GROUP) const uint G = 4; /* query heads of a KV head */
layout(constant_id = SPEC_PREP) const bool PREP = false;
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_HALVES_OUT) const bool HALVES_OUT = false;
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_ATTN_THREADS) const uint THREADS = 64; /* the same as constant 0 */
layout(constant_id = SPEC_HEADS) const uint HEADS = 4;           /* query heads of a workgroup: a power of two, LANES at most */
layout(constant_id = SPEC_CLUSTER) const uint LANES = 8;         /* a power of two that divides D / 8 */
layout(constant_id = SPEC_SUBGROUPS) const uint SUBGROUPS = 2;   /* of the workgroup */
layout(constant_id = SPEC_ROUND) const uint ROUND = 2;           /* heads whose clusters are summed at a time; divides HEADS */

#define PUSH_ATTN
#include "push.h"
#include "attn/attn_splits.glsl"

const uint RUN = 4;                              /* tokens of a cluster in a block */
const uint CLUSTERS = THREADS / LANES;           /* eight, or more that stand idle */
const uint COLUMNS = D / LANES;                  /* of a thread */
const uint EIGHTS = COLUMNS / 8;                 /* 16 at most */
const uint SCORES = HEADS * RUN;                 /* of a cluster */
const uint OWN = SCORES > LANES ? SCORES / LANES : 1;        /* scores that a thread ends up with, all of one head */
const uint SAME = LANES > SCORES ? LANES / SCORES : 1;       /* threads that end up with the same */
const uint PER_HEAD = LANES / HEADS;             /* threads of a cluster with scores of the same head */
const uint GROUPS = (G + HEADS - 1) / HEADS;     /* workgroups that share the query heads of a KV head */
const uint ROUNDS = (HEADS + 2 + SUBGROUPS - 1) / SUBGROUPS; /* in which subgroups load their heads */
const bool EARLY = HEADS <= 2;
/* This position's key and value are taken from shared memory, rounded as they are stored, so that nobody waits for the cache. */
const bool OWN_FROM_SHARED = PREP && !KV_PACKED && !KV_F32;
const float LOG2_E = 1.4426950408889634;
const float GROWTH = 8.0; /* a maximum follows its scores once they are so much greater: weights stay below 2^8 */
const float NEVER = -1.0e30;

shared vec4 heads4[(HEADS + 2) * D / 4]; /* HEADS heads of q; then k and v of this position (PREP) */
shared vec4 q4[HEADS * D / 4];           /* [HEADS][EIGHTS][2][LANES] q times the scale, as threads read it */
shared vec4 weights4[CLUSTERS * HEADS];  /* of four tokens; then factors */
shared float tops[CLUSTERS * HEADS], denominators[CLUSTERS * HEADS];
shared float top[HEADS], denominator[HEADS];
shared vec4 sums4[SUBGROUPS * ROUND * D / 4];

#define heads_at(i) heads4[(i) >> 2][(i) & 3]

vec4 sum4[64]; /* [HEADS][EIGHTS][2] weighted sums of values in the thread's columns */

#define HEAD_AT(i) heads_at(i)
#include "kv_pack.glsl"
#include "attn/attn_prepare.glsl"

uint cluster()
{
    return gl_SubgroupID * (gl_SubgroupSize / LANES) + gl_SubgroupInvocationID / LANES;
}

uint lane()
{
    return gl_SubgroupInvocationID % LANES;
}

#include "attn/attn_runs.glsl"
#include "attn/attn_result.glsl"
#include "attn/attn_finish.glsl"

void main()
{
    uint split = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y / GROUPS, first_head = gl_WorkGroupID.y % GROUPS * HEADS;
    uint t = gl_WorkGroupID.z;
    ivec4 row = p.rows.at[t];
    if (row.y < 0 || (row.w & ROW_TILED) != 0) { /* dead, or done by tiles */
        return;
    }
    splits all = splits_of(row.y);
    if (split >= all.n) {
        return;
    }
    bool owns_row = split == all.n - 1;
    uint last_block = all.last_block, b = all.first_block + split * all.per, end = min(b + all.per, last_block + 1);
    /* Blocks are looked up one ahead. What a block has of this very position counts only after store_kv. */
    uint block = uint(p.tables.at[row.z + int(b)]), next = uint(p.tables.at[row.z + int(min(b + 1, last_block))]);
    uint last = uint(p.tables.at[row.z + int(last_block)]), own = uint(row.y) % BLOCK_TOKENS;
    bool has_own = PREP && owns_row, waits = has_own && !OWN_FROM_SHARED && b == last_block;
    if (!waits) {
        run_load(block, kv_head, 0);
        run_load(block, kv_head, 1);
    }
    prepare(row, t, kv_head, first_head, owns_row, last);
    barrier();
    if (waits) {
        run_load(block, kv_head, 0);
        run_load(block, kv_head, 1);
    } else if (OWN_FROM_SHARED && has_own && b == last_block) {
        run_own(own, 0);
        run_own(own, 1);
    }
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < HEADS * D / 4; i += THREADS) {
        uint h = i / (D / 4), at = i % (D / 4);
        q4[(h * EIGHTS + at / 2 / LANES) * 2 * LANES + at % 2 * LANES + at / 2 % LANES] = heads4[i] * (p.scale * LOG2_E);
    }
    [[unroll]] for (uint i = 0; i < HEADS * 2 * EIGHTS; i++) {
        sum4[i] = vec4(0.0);
    }
    barrier();
    float most = NEVER, total = 0.0;
    [[dont_unroll]] for (; b < end; b++) {
        float s[32];
        score(s);
        uvec2 key_scales = k.scales[0];
        block = next;
        next = uint(p.tables.at[row.z + int(min(b + 2, last_block))]);
        if (b + 1 < end) {
            run_load(block, kv_head, 0);
            if (OWN_FROM_SHARED && has_own && b + 1 == last_block) {
                run_own(own, 0);
            }
        }
        weigh(row, b, key_scales, s, most, total);
        mix();
        if (b + 1 < end) {
            run_load(block, kv_head, 1);
            if (OWN_FROM_SHARED && has_own && b + 1 == last_block) {
                run_own(own, 1);
            }
        }
    }
    join_clusters(most, total);
    conclude(t, kv_head, first_head, split, all.n);
}
