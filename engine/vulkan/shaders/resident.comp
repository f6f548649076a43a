#version 460
/* x += Wo a, x += experts(norm(x)), qkv = Wqkv norm(x) of the layer that follows, and where that is recurrent its gated DeltaNet: all of a row
 * alone that lies between two mixers, in one dispatch, also attention's splits merged. Its workgroups, as many as run at once, wait for each
 * other three to five times, and ask for the next weights before they wait.
 * The router is folded (router_fold.h) and chooses by raw logits; what other dispatches of decoding do in linear, moe_up and moe_down.
 * What a workgroup hands on is written and read past the caches that are not shared (`coherent`), released by one thread's count. A wait
 * that takes too long gives up, and the host does the step again without this shader.
 * Experts are MXFP4 and the other products' format is that of the variant, or all are K-blocks (resident_blocks.glsl). Grid: workgroups. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"
#if !defined(DENSE_MXFP4) && !defined(BLOCKS)
#undef SPEC_CODES /* SPEC_BLOCK's number is the other format's; these experts have codes by masks */
#define SPEC_CODES SPEC_RESIDENT_CODES
#endif
#if !defined(BLOCKS)
#define W_MXFP4
#endif
#include "quant.glsl"
#include "route.glsl"
layout(constant_id = SPEC_LANES) const uint LANES = 32; /* threads of a subgroup */
layout(constant_id = SPEC_D_MODEL) const uint D_MODEL = 512;
layout(constant_id = SPEC_MIXED_COLS) const uint MIXED = 512; /* columns of Wo */
layout(constant_id = SPEC_D_FF) const uint D_FF = 128;
layout(constant_id = SPEC_RESIDENT_LOGITS) const uint BESIDE_LOGITS = 1; /* 2 at most */
layout(constant_id = SPEC_RESIDENT_SHARED) const bool SHARED = false;
layout(constant_id = SPEC_RESIDENT_DELTA) const bool DELTA = false;
layout(constant_id = SPEC_AT_MIXED) const uint AT_MIXED = 0;
layout(constant_id = SPEC_AT_X) const uint AT_X = 0;
layout(constant_id = SPEC_AT_LOGITS) const uint AT_LOGITS = 0;
layout(constant_id = SPEC_AT_H) const uint AT_H = 0;
layout(constant_id = SPEC_AT_QKV) const uint AT_QKV = 0;
layout(constant_id = SPEC_AT_USED) const uint AT_USED = 0;
layout(constant_id = SPEC_AT_MEETINGS) const uint AT_MEETINGS = 0;
layout(constant_id = SPEC_AT_SQUARES) const uint AT_SQUARES = 0;
layout(constant_id = SPEC_AT_PARTS) const uint AT_PARTS = 0;
const bool FOLDED = true;
#include "route_logits.glsl"
#include "delta.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Shared { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Shared4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

#define PUSH_RESIDENT
#include "push.h"

#include "resident/resident_parts.glsl"
#include "resident/resident_norm.glsl"
#include "resident/resident_experts.glsl"
#include "resident/resident_merge.glsl"
#include "resident/resident_delta.glsl"

/* x += Wo a, logits += extra a */
void output_product()
{
    const uint quads = MIXED_CHUNKS * 8;
    uint lane = gl_SubgroupInvocationID;
    Dense now = dense_load(wo(), min(first_row(), D_MODEL - 1) * MIXED_CHUNKS + min(lane, MIXED_CHUNKS - 1));
    vec4 a[MIXED_LOADS], extra[MIXED_LOADS][BESIDE_LOGITS];
    [[unroll]] for (uint k = 0; k < MIXED_LOADS; k++) {
        extra_load(weight_at(p.wo_extra), min(gl_LocalInvocationIndex + k * T, quads - 1), quads, extra[k]);
    }
    wait_for_attention(); /* and so for the logits of the layer before */
    [[unroll]] for (uint k = 0; k < MIXED_LOADS; k++) {
        a[k] = Shared4(work_at(AT_MIXED)).at[min(gl_LocalInvocationIndex + k * T, quads - 1)];
    }
    float before[BESIDE_LOGITS], part[BESIDE_LOGITS];
    [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
        before[r] = LOGITS.at[min(logit_of(r), LOGITS_ALL - 1)];
        part[r] = 0.0;
    }
    [[unroll]] for (uint k = 0; k < MIXED_LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * T;
        if (DELTA && (p.mixers & RESIDENT_LACKS_NORM) != 0) {
            a[k] *= mixed_factor(min(i, quads - 1));
        }
        if (i < quads) {
            tile_put(i, a[k]);
            [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
                part[r] += dot(extra[k][r], a[k]);
            }
        }
    }
    extra_put(part);
    barrier();
    [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
        logit_put(r, logit_of(r), before[r]);
    }
    [[dont_unroll]] for (uint row = first_row(); row < D_MODEL; row += next_row()) {
        float old = X.at[row], sum = 0.0;
        uint after = min(row + next_row(), D_MODEL - 1);
        [[dont_unroll]] for (uint c = lane; c < MIXED_CHUNKS; c += LANES) {
            uint next = c + LANES;
            Dense w = now;
            now = dense_load(wo(), next < MIXED_CHUNKS ? row * MIXED_CHUNKS + next : after * MIXED_CHUNKS + lane);
            sum += DENSE_DOT(wo(), w, c);
        }
        sum = subgroupAdd(sum);
        if (lane == 0) {
            X.at[row] = old + sum;
        }
    }
    other_logits(weight_at(p.wo_extra), quads, true);
}

#if defined(BLOCKS)
/* A thread's first chunk of a matrix, whose rows [from, to) of the projections are; its subgroup has row 2 u and the one behind it. */
Dense project_first(Matrix m, uint u, uint from, uint to)
{
    uint value = gl_SubgroupInvocationID / QKV_LANES, lane = gl_SubgroupInvocationID % QKV_LANES;
    return dense_load(m, (min(u * 2 + value, to - 1) - from) * D_CHUNKS + min(lane, D_CHUNKS - 1));
}

/* These rows times the tile; the first pair of rows behind them that is this subgroup's. */
uint project(Matrix m, uint u, uint from, uint to, float factor, Dense now)
{
    uint value = gl_SubgroupInvocationID / QKV_LANES, lane = gl_SubgroupInvocationID % QKV_LANES;
    [[dont_unroll]] for (; u * 2 < to; u += next_row()) {
        float sum = 0.0;
        uint row = min(u * 2 + value, to - 1), after = min((u + next_row()) * 2 + value, to - 1);
        [[dont_unroll]] for (uint c = lane; c < D_CHUNKS; c += QKV_LANES) {
            uint next = c + QKV_LANES;
            Dense w = now;
            now = dense_load(m, next < D_CHUNKS ? (row - from) * D_CHUNKS + next : (after - from) * D_CHUNKS + lane);
            sum += DENSE_DOT(m, w, c);
        }
        [[unroll]] for (uint by = 1; by < QKV_LANES; by *= 2) {
            sum += subgroupShuffleXor(sum, by);
        }
        if (lane == 0) {
            Shared(work_at(AT_QKV)).at[row] = sum * factor;
        }
    }
    return u;
}
#endif

/* qkv = Wqkv norm(x), logits = extra x: of the layer that follows */
void next_product()
{
    uint value = gl_SubgroupInvocationID / QKV_LANES, lane = gl_SubgroupInvocationID % QKV_LANES, rows = p.qkv_rows;
#if defined(BLOCKS)
    uint first = first_row(), v_at = V_BLOCK != 0 ? p.RESIDENT_V_AT : rows;
    bool begins_with_v = V_BLOCK != 0 && first * 2 >= v_at;
    Dense now;
    if (begins_with_v) {
        now = project_first(own_v(), first, v_at, rows);
    } else {
        now = project_first(qkv(), first, 0, v_at);
    }
#else
    Dense now = dense_load(qkv(), min(first_row() * 2 + value, rows - 1) * D_CHUNKS + min(lane, D_CHUNKS - 1));
#endif
    vec4 norm[X_LOADS], extra[X_LOADS][BESIDE_LOGITS], x[X_LOADS];
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        uint i = min(gl_LocalInvocationIndex + k * T, D_CHUNKS * 8 - 1);
        norm[k] = F32x4(weight_at(p.mixer_norm)).at[i];
        extra_load(weight_at(p.qkv_extra), i, D_CHUNKS * 8, extra[k]);
    }
    wait_for_all(2);
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        x[k] = X4.at[min(gl_LocalInvocationIndex + k * T, D_CHUNKS * 8 - 1)];
    }
    float part[BESIDE_LOGITS];
    [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
        part[r] = 0.0;
        [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
            part[r] += gl_LocalInvocationIndex + k * T < D_CHUNKS * 8 ? dot(extra[k][r], x[k]) : 0.0;
        }
    }
    extra_put(part);
    x_put(x, norm);
    barrier();
    [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
        logit_put(r, logit_of(r), 0.0);
    }
    float factor = norm_factor();
#if defined(BLOCKS)
    if (!begins_with_v) {
        first = project(qkv(), first, 0, v_at, factor, now);
    }
    if (V_BLOCK != 0) {
        if (!begins_with_v) {
            now = project_first(own_v(), first, v_at, rows);
        }
        project(own_v(), first, v_at, rows, factor, now);
    }
#else
    [[dont_unroll]] for (uint u = first_row(); u * 2 < rows; u += next_row()) {
        float sum = 0.0;
        uint row = min(u * 2 + value, rows - 1), after = min((u + next_row()) * 2 + value, rows - 1);
        [[dont_unroll]] for (uint c = lane; c < D_CHUNKS; c += QKV_LANES) {
            uint next = c + QKV_LANES;
            Dense w = now;
            now = dense_load(qkv(), next < D_CHUNKS ? row * D_CHUNKS + next : after * D_CHUNKS + lane);
            sum += dense_dot(w, c);
        }
        [[unroll]] for (uint by = 1; by < QKV_LANES; by *= 2) {
            sum += subgroupShuffleXor(sum, by);
        }
        if (lane == 0) {
            Shared(work_at(AT_QKV)).at[row] = sum * factor;
        }
    }
#endif
    other_logits(weight_at(p.qkv_extra), D_CHUNKS * 8, false);
}

void main()
{
    uint n_used = row_experts(p.token_rows.at[0], N_USED);
    output_product();
    count_in(0);
    choose();
    up_product(n_used);
    if (SHARED) {
        shared_up_product(n_used);
    }
    weigh(n_used);
    count_in(1);
    down_product(n_used);
    if (p.layer + 1 < p.n_layer) {
        count_in(2);
        next_product();
        if (ATTENDED > 0) {
            count_in(RESIDENT_MEETINGS + RESIDENT_PROJECTED); /* in the next layer's counters */
        }
        if (DELTA && (p.mixers & RESIDENT_NEXT_DELTA) != 0) {
            count_in(3);
            next_mixer();
        }
    }
}
