#version 460
/* x += Wo a, x += experts(norm(x)), qkv = Wqkv norm(x) of the layer that follows: all of a row alone that lies between two attentions, in one
 * dispatch, also attention's splits merged. Its workgroups, as many as run at once, wait for each other three times, and ask for the next weights before they wait.
 * The router is folded (router_fold.h) and chooses by raw logits; what other dispatches of decoding do in linear, moe_up and moe_down.
 * What a workgroup hands on is written and read past the caches that are not shared (`coherent`), released by one thread's count. A wait
 * that takes too long gives up, and the host does the step again without this shader.
 * Experts are MXFP4; the other products' format is that of the variant. Grid: workgroups. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"
#if !defined(DENSE_MXFP4)
#undef SPEC_CODES /* SPEC_BLOCK's number is the other format's; these experts have codes by masks */
#define SPEC_CODES SPEC_RESIDENT_CODES
#endif
#define W_MXFP4
#include "quant.glsl"
#include "route.glsl"
layout(constant_id = SPEC_LANES) const uint LANES = 32; /* threads of a subgroup */
layout(constant_id = SPEC_D_MODEL) const uint D_MODEL = 512;
layout(constant_id = SPEC_MIXED_COLS) const uint MIXED = 512; /* columns of Wo */
layout(constant_id = SPEC_D_FF) const uint D_FF = 128;
layout(constant_id = SPEC_QKV_ROWS) const uint QKV_ROWS = 768;
const bool FOLDED = true;
#include "route_logits.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Shared { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Shared4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

#define PUSH_RESIDENT
#include "push.h"

#include "resident_parts.glsl"
#include "resident_norm.glsl"
#include "resident_experts.glsl"
#include "resident_merge.glsl"

/* x += Wo a, logits += extra a */
void output_product()
{
    const uint quads = MIXED_CHUNKS * 8;
    uint lane = gl_SubgroupInvocationID, e = min(gl_WorkGroupID.x, N_EXPERT - 1);
    Dense now = dense_load(wo(), min(first_row(), D_MODEL - 1) * MIXED_CHUNKS + min(lane, MIXED_CHUNKS - 1));
    vec4 a[MIXED_LOADS], extra[MIXED_LOADS];
    [[unroll]] for (uint k = 0; k < MIXED_LOADS; k++) {
        extra[k] = F32x4(weight_at(p.wo_extra)).at[e * quads + min(gl_LocalInvocationIndex + k * T, quads - 1)];
    }
    wait_for_attention(); /* and so for the logits of the layer before */
    [[unroll]] for (uint k = 0; k < MIXED_LOADS; k++) {
        a[k] = Shared4(work_at(p.mixed)).at[min(gl_LocalInvocationIndex + k * T, quads - 1)];
    }
    float before = LOGITS.at[e], part = 0.0;
    [[unroll]] for (uint k = 0; k < MIXED_LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * T;
        if (i < quads) {
            tile_put(i, a[k]);
            part += dot(extra[k], a[k]);
        }
    }
    part = subgroupAdd(part);
    if (lane == 0) {
        extra_of[gl_SubgroupID] = part;
    }
    barrier();
    logit_put(gl_WorkGroupID.x, before);
    [[dont_unroll]] for (uint row = first_row(); row < D_MODEL; row += next_row()) {
        float old = X.at[row], sum = 0.0;
        uint after = min(row + next_row(), D_MODEL - 1);
        [[dont_unroll]] for (uint c = lane; c < MIXED_CHUNKS; c += LANES) {
            uint next = c + LANES;
            Dense w = now;
            now = dense_load(wo(), next < MIXED_CHUNKS ? row * MIXED_CHUNKS + next : after * MIXED_CHUNKS + lane);
            sum += dense_dot(w, c);
        }
        sum = subgroupAdd(sum);
        if (lane == 0) {
            X.at[row] = old + sum;
        }
    }
    other_logits(weight_at(p.wo_extra), work_at(p.mixed), quads, true);
}

/* qkv = Wqkv norm(x), logits = extra x: of the layer that follows */
void next_product()
{
    uint value = gl_SubgroupInvocationID / QKV_LANES, lane = gl_SubgroupInvocationID % QKV_LANES, e = min(gl_WorkGroupID.x, N_EXPERT - 1);
    Dense now = dense_load(qkv(), min(first_row() * 2 + value, QKV_ROWS - 1) * D_CHUNKS + min(lane, D_CHUNKS - 1));
    vec4 norm[X_LOADS], extra[X_LOADS], x[X_LOADS];
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        uint i = min(gl_LocalInvocationIndex + k * T, D_CHUNKS * 8 - 1);
        norm[k] = F32x4(weight_at(p.mixer_norm)).at[i];
        extra[k] = F32x4(weight_at(p.qkv_extra)).at[e * D_CHUNKS * 8 + i];
    }
    wait_for_all(2);
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        x[k] = X4.at[min(gl_LocalInvocationIndex + k * T, D_CHUNKS * 8 - 1)];
    }
    x_put(x, norm, extra);
    barrier();
    logit_put(gl_WorkGroupID.x, 0.0);
    float factor = norm_factor();
    [[dont_unroll]] for (uint u = first_row(); u * 2 < QKV_ROWS; u += next_row()) {
        float sum = 0.0;
        uint row = min(u * 2 + value, QKV_ROWS - 1), after = min((u + next_row()) * 2 + value, QKV_ROWS - 1);
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
            F32(work_at(p.qkv)).at[row] = sum * factor;
        }
    }
    other_logits(weight_at(p.qkv_extra), work_at(p.x), D_CHUNKS * 8, false);
}

void main()
{
    uint n_used = row_experts(p.token_rows.at[0], N_USED);
    output_product();
    count_in(0);
    choose();
    up_product(n_used);
    weigh(n_used);
    count_in(1);
    down_product(n_used);
    if (p.layer + 1 < p.n_layer) {
        count_in(2);
        next_product();
        if (ATTENDED > 0) {
            count_in(RESIDENT_MEETINGS + RESIDENT_PROJECTED); /* in the next layer's counters */
        }
    }
}
