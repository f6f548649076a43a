#version 460
/* The attention of attn.comp on the matrix units: out[t, h, :] = sum_j softmax_j(scale q[t, h] . K[j]) V[j],
 * keys and values of 128 columns as f16 or q8, up to eight query heads of a KV head, which are the left side's rows.
 * Grid (splits, n_kv_head * GROUPS, T), splits as in attn.comp, whose results attn_merge makes into one.
 * 32 threads take 16 tokens at a time straight from memory into the units' registers (coop_registers.glsl), and keep maxima and
 * sums of their own until their split ends. A left side's rows 8 to 15 are what rounding rows 0 to 7 to halves lost, of q and of
 * the weights alike, so both count as in f32; keys and values are exact as they are. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"
#include "rope.glsl"
#include "kv.glsl"
#include "kv_packed.glsl"
#include "coop_registers.glsl"
layout(constant_id = SPEC_GROUP) const uint G = 8; /* query heads of a KV head */
layout(constant_id = SPEC_PREP) const bool PREP = false;
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_HALVES_OUT) const bool HALVES_OUT = false;
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_ATTN_THREADS) const uint THREADS = 128; /* the same as constant 0 */
layout(constant_id = SPEC_HEADS) const uint HEADS = 8;           /* of the workgroup, a power of two */
layout(constant_id = SPEC_SUBGROUPS) const uint SUBGROUPS = 4;   /* of the workgroup, of the device's size */
layout(constant_id = SPEC_CHAINED) const bool CHAINED = false;
layout(constant_id = SPEC_CLUSTER) const uint LANES = 32;        /* threads of a subgroup, 32 at most */

#define PUSH_ATTN
#include "push.h"
#include "attn/attn_splits.glsl"

const uint WARPS = THREADS / 32;            /* that take turns of tokens */
const uint TOKENS = 16;                     /* of a turn */
const uint TURNS = BLOCK_TOKENS / TOKENS;   /* of a block */
const uint EIGHTS = TOKENS / 8;             /* results of scores: 8 tokens each */
const uint QUADS_OF_THREAD = (HEADS * D / 4 + THREADS - 1) / THREADS; /* of all heads */
const uint GROUPS = (G + HEADS - 1) / HEADS; /* workgroups for a KV head's query heads */
const uint ROUNDS = (HEADS + 2 + SUBGROUPS - 1) / SUBGROUPS;
const bool EARLY = false;
const bool OWN_FROM_SHARED = false; /* by prepare(), which turns what attn_turn.glsl does not */
const float LOG2_E = 1.4426950408889634;
const float GROWTH = 8.0; /* as in attn.comp */
const float NEVER = -1.0e30;
const float LEAST = -1.0e20; /* a maximum: of none that was seen */

/* HEADS heads of q, then their words as q_of() reads them; then k and v of this position (PREP) */
shared vec4 heads4[(HEADS + 2) * D / 4];
shared float tops[WARPS * 8], denominators[WARPS * 8];
shared float top[8], denominator[8];
shared vec4 sums4[WARPS * 8 * D / 4];

#define heads_at(i) heads4[(i) >> 2][(i) & 3]
#define HEAD_AT(i) heads_at(i)
#include "kv_pack.glsl"
#include "attn/attn_prepare.glsl"
#include "attn/attn_words.glsl"
#include "attn/attn_result.glsl"
#include "attn/attn_turn.glsl"
#include "attn/attn_chain.glsl"

const uint PIECES = KV_PACKED ? TOKENS / 4 : 8; /* of 16 bytes, of a turn's keys that a thread has; the same of its values */
uvec4 keys[PIECES], values[PIECES]; /* as stored */
uvec2 key_scales, value_scales;     /* of the thread's four tokens */
MatrixSum sums[16]; /* head g, of 16 columns each; with what the weights' rounding lost */

#include "attn/attn_units.glsl"

/* Where a thread's vec4 number i of a head's sums lies: neighbouring threads write neighbouring banks of shared memory, those of an odd
 * head the ones that an even head's leave free. */
uint sum_place(uint h, uint t, uint i)
{
    return h * (D / 4) + (t + 4 * (i ^ (h & 1)));
}

/* First column of what lies at a place of a head. */
uint place_column(uint h, uint place)
{
    uint t = place % 4, i = (place / 4) ^ (h & 1);
    return KV_PACKED ? t * 32 + i * 4 : i / 4 * 64 + t * 16 + i % 4 * 4;
}

/* Place of the four columns number `quad` of a head. */
uint column_place(uint h, uint quad)
{
    return KV_PACKED ? sum_place(h, quad / 8, quad % 8) : sum_place(h, quad / 4 % 4, quad / 16 * 4 + quad % 4);
}

/* The sums of all warps, from the common maximum, into their places in sums4. */
void join(float most, float total)
{
    total += subgroupShuffleXor(total, 1);
    total += subgroupShuffleXor(total, 2);
    if (row_t() == 0) {
        tops[warp() * 8 + row_g()] = most;
        denominators[warp() * 8 + row_g()] = total;
    }
    barrier();
    float all = NEVER, sum = 0.0;
    [[unroll]] for (uint w = 0; w < WARPS; w++) {
        all = max(all, tops[w * 8 + row_g()]);
    }
    [[unroll]] for (uint w = 0; w < WARPS; w++) {
        sum += denominators[w * 8 + row_g()] * exp2(tops[w * 8 + row_g()] - all);
    }
    if (warp() == 0 && row_t() == 0) {
        top[row_g()] = all;
        denominator[row_g()] = sum;
    }
    float factor = exp2(most - all);
    [[unroll]] for (uint j = 0; j < 16; j += 4) {
        vec4 a, b;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec4 v = PRODUCT_VALUES(sums[j + i]);
            a[i] = (v.x + v.z * (1.0 / LOW_HALF_SCALE)) * factor;
            b[i] = (v.y + v.w * (1.0 / LOW_HALF_SCALE)) * factor;
        }
        uint i = KV_PACKED ? j / 4 : j / 8 * 4 + j % 8 / 4, odd = KV_PACKED ? 4 : 2;
        sums4[warp() * 8 * (D / 4) + sum_place(row_g(), row_t(), i)] = a;
        sums4[warp() * 8 * (D / 4) + sum_place(row_g(), row_t(), i + odd)] = b;
    }
    barrier();
}

/* A vec4 of all warps. */
vec4 sum_at(uint place)
{
    vec4 sum = sums4[place];
    [[unroll]] for (uint w = 1; w < WARPS; w++) {
        sum += sums4[place + w * 8 * (D / 4)];
    }
    return sum;
}

/* The heads of the only split, a subgroup each. */
void finish(uint t, uint kv_head, uint first_head)
{
    [[dont_unroll]] for (uint h = gl_SubgroupID; h < min(HEADS, G - first_head); h += SUBGROUPS) {
        uint head = kv_head * G + first_head + h;
        float l = denominator[h] + (SINKS ? exp2(p.sinks.at[head] * LOG2_E - top[h]) : 0.0);
        vec4 v[QUADS];
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            v[i] = sum_at(column_place(h, gl_SubgroupInvocationID + i * LANES)) / l;
        }
        if (KV_PACKED) {
            rotate_quads(v);
        }
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            uint column = 4 * (gl_SubgroupInvocationID + i * LANES);
            put_result((t * p.n_head + head) * D + column, gated(v[i], t, head, column));
        }
    }
}

void conclude(uint t, uint kv_head, uint first_head, uint split, uint n_splits)
{
    if (n_splits == 1) {
        finish(t, kv_head, first_head);
        return;
    }
    uint parts = parts_at(t * gl_NumWorkGroups.y + gl_WorkGroupID.y);
    [[dont_unroll]] for (uint item = gl_LocalInvocationIndex; item < HEADS * D / 4; item += THREADS) {
        uint h = item / (D / 4);
        Shared4(uint64_t(p.parts)).at[parts + (split * HEADS + h) * (D / 4) + place_column(h, item % (D / 4)) / 4] = sum_at(item);
    }
    if (gl_LocalInvocationIndex < HEADS) {
        uint h = gl_LocalInvocationIndex;
        Shared2(uint64_t(p.parts)).at[parts_tops(parts, split, h)] = vec2(top[h], denominator[h]);
    }
}

void main()
{
    uint split = gl_WorkGroupID.x, t = gl_WorkGroupID.z, kv_head = gl_WorkGroupID.y / GROUPS, first_head = gl_WorkGroupID.y % GROUPS * HEADS;
    if (TURNS_WHOLE) {
        ask_turning();
        if (!CHAINED) {
            ask_heads(t * p.stride, kv_head, first_head);
        }
    }
    ivec4 row = p.rows.at[t];
    if (row.y < 0 || (row.w & ROW_TILED) != 0) { /* dead, or done by tiles */
        return;
    }
    splits all = splits_of(row.y);
    if (split >= all.n) {
        return;
    }
    bool owns_row = split == all.n - 1;
    uint first_block = all.first_block + split * all.per, last_block = min(first_block + all.per - 1, all.last_block);
    uint n = (last_block - first_block + 1) * TURNS; /* turns */
    uint last = uint(p.tables.at[row.z + int(all.last_block)]);
    /* Blocks are looked up one turn ahead; past the end the last one again. What a block has of this very position counts only after store_kv. */
    uint turn_at = warp(), block = uint(p.tables.at[row.z + int(first_block + min(turn_at, n - 1) / TURNS)]);
    uint next = uint(p.tables.at[row.z + int(first_block + min(turn_at + WARPS, n - 1) / TURNS)]);
    bool waits = PREP && !TURNS_WHOLE && owns_row && first_block + min(turn_at, n - 1) / TURNS == all.last_block;
    if (!waits) {
        load_keys(block, kv_head, turn_at % TURNS);
        load_values(block, kv_head, turn_at % TURNS);
    }
    if (CHAINED) {
        if (!wait_for_projections()) return;
        ask_heads(t * p.stride, kv_head, first_head);
    }
    if (TURNS_WHOLE) {
        turn_heads(row, kv_head, owns_row, last);
    } else {
        prepare(row, t, kv_head, first_head, owns_row, last);
    }
    barrier();
    if (waits) {
        load_keys(block, kv_head, turn_at % TURNS);
        load_values(block, kv_head, turn_at % TURNS);
    }
    if (!TURNS_WHOLE) {
        make_words();
    }
    [[unroll]] for (uint j = 0; j < 16; j++) {
        PRODUCT_CLEAR(sums[j])
    }
    float most = LEAST, total = 0.0;
    if (TURNS_WHOLE && owns_row && warp() == 0) {
        begin_with_own(most, total);
    }
    if (TURNS_WHOLE && KV_PACKED && owns_row && warp() == WARPS - 1) {
        store_own_scales(last, uint(row.y) % BLOCK_TOKENS, kv_head);
    }
    [[dont_unroll]] for (uint from = 0; from < n; from += WARPS) { /* all warps as often: a turn past the end has no token */
        float s[4];
        uvec2 weights[2];
        bool more = from + WARPS < n, here = turn_at < n;
        uint first = (first_block + turn_at / TURNS) * BLOCK_TOKENS + turn_at % TURNS * TOKENS;
        score(s);
        uint after = next;
        turn_at += WARPS;
        next = uint(p.tables.at[row.z + int(first_block + min(turn_at + WARPS, n - 1) / TURNS)]);
        if (more) {
            load_keys(after, kv_head, turn_at % TURNS);
        }
        weigh(row, here ? first : 0x7fffff00u, s, most, total, weights);
        mix(weights);
        if (more) {
            load_values(after, kv_head, turn_at % TURNS);
        }
    }
    join(most, total);
    conclude(t, kv_head, first_head, split, all.n);
    if (CHAINED) {
        count_attended();
    }
}
