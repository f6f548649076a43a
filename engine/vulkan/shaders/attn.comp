#version 460
/* out[t, h, :] = sum_j softmax_j(scale q[t, h] . K[j] (+ sink[h])) V[j] (* sigmoid(gate[t, h]))
 * q and gate inside qkv [T, stride]; K, V paged, j <= position, j > position - window; out [T, n_head * D]
 * Attention of decode rows. PREP: the row is its sequence's only one in the step, and this op also does what rope_kv
 * does (saves one dependent dispatch a layer).
 * Grid (splits, n_kv_head * heads / HEADS rounded up, T). A split is a run of KV blocks whose length depends on the position
 * alone, so that a row's sums never depend on the batch; the last workgroup of a row and its heads to arrive merges the splits.
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
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_ATTN_THREADS) const uint THREADS = 64; /* the same as constant 0 */
layout(constant_id = SPEC_MIN_BLOCKS) const uint MIN_BLOCKS = 4; /* blocks of a split at least */
layout(constant_id = SPEC_MAX_SPLITS) const uint MAX_SPLITS = 32;
layout(constant_id = SPEC_HEADS) const uint HEADS = 4;           /* query heads of a workgroup: a power of two, LANES at most */
layout(constant_id = SPEC_CLUSTER) const uint LANES = 8;         /* a power of two that divides D / 8 */
layout(constant_id = SPEC_SUBGROUPS) const uint SUBGROUPS = 2;   /* of the workgroup */
layout(constant_id = SPEC_ROUND) const uint ROUND = 2;           /* heads whose clusters are summed at a time; divides HEADS */

layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Shared32x4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Shared32 { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

#define PUSH_ATTN
#include "push.h"

const uint RUN = 4;                              /* tokens of a cluster in a block */
const uint CLUSTERS = THREADS / LANES;           /* eight, or more that stand idle */
const uint COLUMNS = D / LANES;                  /* of a thread */
const uint EIGHTS = COLUMNS / 8;                 /* 16 at most */
const uint SCORES = HEADS * RUN;                 /* of a cluster */
const uint OWN = SCORES > LANES ? SCORES / LANES : 1;        /* scores that a thread ends up with, all of one head */
const uint SAME = LANES > SCORES ? LANES / SCORES : 1;       /* threads that end up with the same */
const uint PER_HEAD = LANES / HEADS;             /* threads of a cluster with scores of the same head */
const uint GROUPS = (G + HEADS - 1) / HEADS;     /* workgroups that share the query heads of a KV head */
const float LOG2_E = 1.4426950408889634;
const float GROWTH = 8.0; /* a maximum follows its scores once they are so much greater: weights stay below 2^8 */
const float NEVER = -1.0e30;

shared vec4 heads4[(HEADS + 2) * D / 4]; /* HEADS heads of q; then k and v of this position (PREP) */
shared vec4 q4[HEADS * D / 4];           /* [HEADS][EIGHTS][2][LANES] q times the scale, as threads read it */
shared vec4 weights4[CLUSTERS * HEADS];  /* of four tokens; then factors */
shared float tops[CLUSTERS * HEADS], denominators[CLUSTERS * HEADS];
shared float top[HEADS], denominator[HEADS];
shared vec4 sums4[SUBGROUPS * ROUND * D / 4];
shared uint is_last;

#define heads_at(i) heads4[(i) >> 2][(i) & 3]

vec4 sum4[64]; /* [HEADS][EIGHTS][2] weighted sums of values in the thread's columns */

#define HEAD_AT(i) heads_at(i)
#include "kv_pack.glsl"
#include "attn_prepare.glsl"

uint cluster()
{
    return gl_SubgroupID * (gl_SubgroupSize / LANES) + gl_SubgroupInvocationID / LANES;
}

uint lane()
{
    return gl_SubgroupInvocationID % LANES;
}

struct run { /* what a thread reads of four tokens' keys or values, [RUN][EIGHTS], as stored; their scales as halves */
    uvec4 raw[64], more[64];
    uvec2 scales[16];
};

/* Four tokens of a block; idle clusters read the last four. */
void run_load(uint block, uint kv_head, uint is_v, out run r)
{
    uint first = min(cluster(), BLOCK_TOKENS / RUN - 1) * RUN;
    if (KV_PACKED) {
        bool nibbles = FOUR_BIT && is_v == 1;
        uint part = packed_part(block, p.n_kv_head, kv_head), scales = part + (is_v == 1 ? VALUE_SCALES : KEY_SCALES) + first / 2;
        uint from = part + (is_v == 1 ? VALUES : 0);
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
                uint at = (first + u) * D / 8 + i * LANES + lane();
                if (nibbles) {
                    r.raw[u * EIGHTS + i].x = p.kv.at[from + at];
                } else {
                    r.raw[u * EIGHTS + i].xy = U32x2(uint64_t(p.kv) + 4ul * (from + 2 * at)).at[0];
                }
            }
        }
        [[unroll]] for (uint i = 0; i < (nibbles ? EIGHTS : 1); i++) {
            uint group = nibbles ? (i * LANES + lane()) * 8 / V_GROUP : 0;
            r.scales[i] = U32x2(uint64_t(p.kv) + 4ul * (scales + group * (PACKED_TOKENS / 2))).at[0];
        }
        return;
    }
    U32x4 from = U32x4(uint64_t(p.kv) + 4ul * kv_word(block, is_v, p.n_kv_head, kv_head, first, D));
    [[unroll]] for (uint u = 0; u < RUN; u++) {
        [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
            uint at = u * (D / 8) + i * LANES + lane();
            if (KV_F32) {
                r.raw[u * EIGHTS + i] = from.at[2 * at];
                r.more[u * EIGHTS + i] = from.at[2 * at + 1];
            } else {
                r.raw[u * EIGHTS + i] = from.at[at];
            }
        }
    }
}

vec4 four_scales(uvec2 halves)
{
    return vec4(half_values(halves.x), half_values(halves.y));
}

/* Eight columns of a token as values; of packed ones without their scale. */
void values(run r, uint i, uint is_v, out vec4 low, out vec4 high)
{
    if (KV_F32 && !KV_PACKED) {
        low = uintBitsToFloat(r.raw[i]);
        high = uintBitsToFloat(r.more[i]);
    } else if (!KV_PACKED) {
        low = vec4(unpackHalf2x16(r.raw[i].x), unpackHalf2x16(r.raw[i].y));
        high = vec4(unpackHalf2x16(r.raw[i].z), unpackHalf2x16(r.raw[i].w));
    } else if (FOUR_BIT && is_v == 1) {
        low = signed_nibbles(r.raw[i].x);
        high = signed_nibbles(r.raw[i].x >> 16);
    } else {
        low = signed_bytes(r.raw[i].x);
        high = signed_bytes(r.raw[i].y);
    }
}

/* Products of q with a run of keys, summed over the cluster; s[0 .. OWN - 1] become the thread's own: of head own_first() / RUN and
 * the tokens from own_first() % RUN on. Each step halves the sums that a thread goes on with. */
void score(run k, out float s[32])
{
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        vec4 low[RUN], high[RUN];
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            values(k, u * EIGHTS + i, 0, low[u], high[u]);
        }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            vec4 q_low = q4[(h * EIGHTS + i) * 2 * LANES + lane()], q_high = q4[((h * EIGHTS + i) * 2 + 1) * LANES + lane()];
            [[unroll]] for (uint u = 0; u < RUN; u++) {
                float sum = i == 0 ? 0.0 : s[h * RUN + u];
                [[unroll]] for (uint c = 0; c < 4; c++) {
                    sum = fma(low[u][c], q_low[c], sum);
                }
                [[unroll]] for (uint c = 0; c < 4; c++) {
                    sum = fma(high[u][c], q_high[c], sum);
                }
                s[h * RUN + u] = sum;
            }
        }
    }
    [[unroll]] for (uint step = 0; step < 5; step++) {
        uint bit = LANES >> (step + 1), left = (SCORES >> step) / 2;
        bool upper = (gl_SubgroupInvocationID & bit) != 0;
        if (bit > 0 && left > 0) {
            [[unroll]] for (uint i = 0; i < left; i++) {
                float keep = upper ? s[i + left] : s[i], give = upper ? s[i] : s[i + left];
                s[i] = keep + subgroupShuffleXor(give, bit);
            }
        } else if (bit > 0) {
            s[0] += subgroupShuffleXor(s[0], bit);
        }
    }
}

uint own_first()
{
    return lane() * SCORES / LANES;
}

/* The sums so far, by the factors that their heads' maxima have grown by. */
void shrink(float factor)
{
    uint first = cluster() * HEADS;
    if (lane() % PER_HEAD == 0) {
        weights4[first + lane() / PER_HEAD].x = factor;
    }
    subgroupBarrier();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float f = weights4[first + h].x;
        [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
            sum4[h * 2 * EIGHTS + i] *= f;
        }
    }
    subgroupBarrier();
}

/* Own scores become weights of the values. most, total: of the thread's head; total counts the thread's own tokens. */
void weigh(ivec4 row, uint block_index, uvec2 key_scales, run v, inout float s[32], inout float most, inout float total)
{
    uint token = own_first() % RUN, first = cluster() * RUN;
    float now = NEVER;
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        int at = int(block_index * BLOCK_TOKENS + first + token + j);
        bool seen = first < BLOCK_TOKENS && at <= row.y && (p.window == 0 || at > row.y - int(p.window));
        if (KV_PACKED) {
            s[j] *= four_scales(key_scales)[token + j];
        }
        s[j] = seen ? s[j] : NEVER;
        now = max(now, s[j]);
    }
    [[unroll]] for (uint step = 0; step < 5; step++) {
        if ((1u << step) < PER_HEAD) {
            now = max(now, subgroupShuffleXor(now, 1u << step));
        }
    }
    bool grows = now > most + GROWTH;
    if (subgroupAny(grows)) {
        float next = grows ? now : most, factor = exp2(most - next);
        most = next;
        total *= factor;
        shrink(factor);
    }
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        float w = s[j] > 0.1 * NEVER ? exp2(s[j] - most) : 0.0;
        total += w;
        if (KV_PACKED && !FOUR_BIT) {
            w *= four_scales(v.scales[0])[token + j];
        }
        weights4[cluster() * HEADS + own_first() / RUN][token + j] = w;
    }
    subgroupBarrier();
}

void mix(run v)
{
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        vec4 low[RUN], high[RUN];
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            values(v, u * EIGHTS + i, 1, low[u], high[u]);
            if (FOUR_BIT) {
                float scale = four_scales(v.scales[i])[u];
                low[u] *= scale;
                high[u] *= scale;
            }
        }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            vec4 w = weights4[cluster() * HEADS + h];
            uint at = (h * EIGHTS + i) * 2;
            [[unroll]] for (uint u = 0; u < RUN; u++) {
                sum4[at] = fma(vec4(w[u]), low[u], sum4[at]);
                sum4[at + 1] = fma(vec4(w[u]), high[u], sum4[at + 1]);
            }
        }
    }
    subgroupBarrier();
}

#include "attn_finish.glsl"

void main()
{
    uint split = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y / GROUPS, first_head = gl_WorkGroupID.y % GROUPS * HEADS;
    uint t = gl_WorkGroupID.z;
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
    uint b = first_block + split * per, end = min(b + per, last_block + 1);
    run k, v;
    /* Blocks are looked up one ahead. The one that holds this very position is read only after store_kv. */
    uint block = uint(p.tables.at[row.z + int(b)]), next = uint(p.tables.at[row.z + int(min(b + 1, last_block))]);
    bool waits = PREP && owns_row && b == last_block;
    if (!waits) {
        run_load(block, kv_head, 0, k);
        run_load(block, kv_head, 1, v);
    }
    prepare(row, t, kv_head, first_head, owns_row);
    barrier();
    if (waits) {
        run_load(block, kv_head, 0, k);
        run_load(block, kv_head, 1, v);
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
        score(k, s);
        uvec2 key_scales = k.scales[0];
        block = next;
        next = uint(p.tables.at[row.z + int(min(b + 2, last_block))]);
        if (b + 1 < end) {
            run_load(block, kv_head, 0, k);
        }
        weigh(row, b, key_scales, v, s, most, total);
        mix(v);
        if (b + 1 < end) {
            run_load(block, kv_head, 1, v);
        }
    }
    join_clusters(most, total);
    conclude(t, kv_head, first_head, split, n_splits);
}
