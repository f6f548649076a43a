#version 460
/* resident.comp for two to MATRIX_FEW rows, on the matrix units: X += Wo A, X += experts(norm(X)), QKV = Wqkv norm(X) of the layer that
 * follows, in one dispatch whose workgroups wait for each other three times, and for attention where no barrier stands before it
 * (attn_chain.glsl).
 * What other dispatches of few rows do in matmul_few, router_choose, moe_few and moe_sum. A workgroup has the normed rows once, as
 * halves in shared memory, and down's sum over experts for 16 rows of W at a time, so that nothing waits for it.
 * Experts are MXFP4; the other products' format is that of the variant. Grid: workgroups. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#if !defined(DENSE_MXFP4)
#undef SPEC_CODES /* SPEC_BLOCK's number is the other format's; these experts have codes by masks */
#define SPEC_CODES SPEC_FEW_CODES
#endif
#define W_MXFP4
#include "quant.glsl"
#if defined(DENSE_MXFP4)
#include "packed_f16.glsl"
#define Dense Packed
#define dense_load packed_load
#define dense_f16 packed_f16
#define DENSE_IN_PAIRS true
#else
#undef HAS_OFFSET
#undef HAS_HALVES
#undef HALVES_IN_PAIRS
#define Packed Dense
#define packed_load dense_load
#define packed_decode dense_decode
#define packed_f16 dense_f16
#define DENSE_IN_PAIRS false
#if defined(DENSE_AFFINE)
#include "quant_affine.glsl"
#elif defined(DENSE_BLOCK)
#include "quant_block.glsl"
#endif
#include "packed_f16.glsl"
#undef Packed
#undef packed_load
#undef packed_decode
#undef packed_f16
#endif
#include "coop_registers.glsl"
#include "few_order.glsl"
layout(constant_id = SPEC_LANES) const uint LANES = 32; /* threads of a subgroup */
layout(constant_id = SPEC_UNITS_D_MODEL) const uint D_MODEL = 512;
layout(constant_id = SPEC_FEW_MIXED) const uint MIXED = 512; /* columns of Wo */
layout(constant_id = SPEC_FEW_D_FF) const uint D_FF = 128;
layout(constant_id = SPEC_FEW_QKV_ROWS) const uint QKV_ROWS = 768;
layout(constant_id = SPEC_N_EXPERT) const uint N_EXPERT = 24;
layout(constant_id = SPEC_N_USED) const uint N_USED = 4;
layout(constant_id = SPEC_SCORE) const uint SCORE = 0;
layout(constant_id = SPEC_NORMALIZE) const bool NORMALIZE = true;
layout(constant_id = SPEC_FEW_QKV_STRIDE) const uint QKV_STRIDE = 768;
layout(constant_id = SPEC_FEW_LOGIT_STRIDE) const uint LOGIT_STRIDE = 32;
layout(constant_id = SPEC_FEW_DEPTH) const uint DEPTH = 4; /* steps of up on their way */
layout(constant_id = SPEC_FEW_SLICES) const uint SLICES = 1; /* of a row of down */
layout(constant_id = SPEC_ATTENDED) const uint ATTENDED = 0;
const bool CLAMP = false;
#include "activate.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Shared { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer SharedWords { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer SharedWords2 { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Shared4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer SharedWords4 { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

#define PUSH_RESIDENT_FEW
#include "push.h"

#include "resident/resident_few_parts.glsl"
#include "resident/resident_few_norm.glsl"
#include "resident/resident_few_choice.glsl"
#include "resident/resident_few_experts.glsl"

const uint MIXED_EACH = (MIXED_CHUNKS + WARPS * 4 - 1) / (WARPS * 4); /* chunks of a thread */
Dense mixed_low[MIXED_EACH], mixed_high[MIXED_EACH];

/* logits += extra A for this workgroup's experts */
void mixed_logits()
{
    const uint quads = MIXED / 4;
    [[dont_unroll]] for (uint e = gl_WorkGroupID.x; e < N_EXPERT; e += gl_NumWorkGroups.x) {
        float part[MATRIX_FEW];
        [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
            part[r] = 0.0;
        }
        [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < quads; i += T) {
            vec4 w = F32x4(weight_at(p.wo_extra)).at[e * quads + i];
            uvec2 a[MATRIX_FEW];
            [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
                a[r] = SharedWords2(work_at(p.mixed)).at[min(r, p.n_rows - 1) * quads + i];
            }
            [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
                part[r] += dot(w, vec4(unpackHalf2x16(a[r].x), unpackHalf2x16(a[r].y)));
            }
        }
        logit_meet(e, part, true);
    }
}

/* Asks for the thread's chunks of a tile of Wo. */
void output_fetch(uint tile)
{
    uint row = min(tile, D_MODEL / 16 - 1) * 16 + lane() / 4, first = warp() * MIXED_EACH * 4 + lane() % 4;
    [[unroll]] for (uint i = 0; i < MIXED_EACH; i++) {
        uint chunk = min(first + i * 4, MIXED_CHUNKS - 1);
        mixed_low[i] = dense_load(wo(), row * MIXED_CHUNKS + chunk);
        mixed_high[i] = dense_load(wo(), (row + 8) * MIXED_CHUNKS + chunk);
    }
}

/* X += Wo A, logits += extra A. False: given up. */
bool output_product()
{
    output_fetch(gl_WorkGroupID.x);
    if (!wait_for_attention()) {
        return false;
    }
    [[dont_unroll]] for (uint tile = gl_WorkGroupID.x; tile * 16 < D_MODEL; tile += gl_NumWorkGroups.x) {
        uint first = warp() * MIXED_EACH * 4 + lane() % 4;
        float before = 0.0;
        if (gl_LocalInvocationIndex < 128 && result_column() < p.n_rows) {
            before = X.at[result_column() * D_MODEL + tile * 16 + result_row()];
        }
        MatrixSum c;
        PRODUCT_CLEAR(c)
        [[unroll]] for (uint i = 0; i < MIXED_EACH; i++) {
            uint chunk = first + i * 4, at = (min(lane() / 4, p.n_rows - 1) * MIXED_CHUNKS + min(chunk, MIXED_CHUNKS - 1)) * 4;
            uvec4 l[4], h[4], x[4];
            [[unroll]] for (uint k = 0; k < 4; k++) {
                x[k] = SharedWords4(work_at(p.mixed)).at[at + k];
            }
            dense_f16(mixed_low[i], l);
            dense_f16(mixed_high[i], h);
            [[unroll]] for (uint k = 0; k < 4; k++) {
                uvec4 v = MIXED_CHUNKS % (WARPS * 4 * MIXED_EACH) == 0 || chunk < MIXED_CHUNKS ? halves_order(x[k]) : uvec4(0);
                PRODUCT_ADD(c, l[k].xy, h[k].xy, v.xy)
                PRODUCT_ADD(c, l[k].zw, h[k].zw, v.zw)
            }
        }
        if ((tile + gl_NumWorkGroups.x) * 16 < D_MODEL) {
            output_fetch(tile + gl_NumWorkGroups.x);
        }
        float sum = meet(PRODUCT_VALUES(c));
        if (gl_LocalInvocationIndex < 128 && result_column() < p.n_rows) {
            X.at[result_column() * D_MODEL + tile * 16 + result_row()] = before + sum;
        }
    }
    mixed_logits();
    return true;
}

const uint QKV_EACH = (D_CHUNKS + WARPS * 4 - 1) / (WARPS * 4);
const uint QKV_TILES = QKV_ROWS / 16;
Dense qkv_low[QKV_AHEAD * QKV_EACH], qkv_high[QKV_AHEAD * QKV_EACH];

void qkv_fetch(uint tile, uint slot)
{
    uint row = min(tile, QKV_TILES - 1) * 16 + lane() / 4;
    [[unroll]] for (uint i = 0; i < QKV_EACH; i++) {
        uint chunk = min((warp() * QKV_EACH + i) * 4 + lane() % 4, D_CHUNKS - 1);
        qkv_low[slot * QKV_EACH + i] = dense_load(qkv(), row * D_CHUNKS + chunk);
        qkv_high[slot * QKV_EACH + i] = dense_load(qkv(), (row + 8) * D_CHUNKS + chunk);
    }
}

void qkv_begin()
{
    [[unroll]] for (uint s = 0; s < QKV_AHEAD; s++) {
        qkv_fetch(gl_WorkGroupID.x + s * gl_NumWorkGroups.x, s);
    }
}

/* QKV = Wqkv norm(X), logits = extra X: of the layer that follows */
void next_product()
{
    norm_ask(weight_at(p.mixer_norm), weight_at(p.qkv_extra));
    if (!wait_for_all(2)) {
        return;
    }
    norm_rows(DENSE_IN_PAIRS, true);
    [[dont_unroll]] for (uint tile0 = gl_WorkGroupID.x; tile0 < QKV_TILES; tile0 += QKV_AHEAD * gl_NumWorkGroups.x) {
        [[unroll]] for (uint s = 0; s < QKV_AHEAD; s++) {
            uint tile = tile0 + s * gl_NumWorkGroups.x;
            if (tile >= QKV_TILES) {
                break;
            }
            MatrixSum c;
            PRODUCT_CLEAR(c)
            [[unroll]] for (uint i = 0; i < QKV_EACH; i++) {
                uint step = warp() * QKV_EACH + i;
                uvec4 l[4], h[4];
                dense_f16(qkv_low[s * QKV_EACH + i], l);
                dense_f16(qkv_high[s * QKV_EACH + i], h);
                uint at = min(lane() / 4, p.n_rows - 1) * X_PITCH + min(step, D_STEPS - 1) * 16 + lane() % 4;
                [[unroll]] for (uint k = 0; k < 4; k++) {
                    uvec4 v = step < D_STEPS ? pool[at + k * 4] : uvec4(0);
                    PRODUCT_ADD(c, l[k].xy, h[k].xy, v.xy)
                    PRODUCT_ADD(c, l[k].zw, h[k].zw, v.zw)
                }
            }
            qkv_fetch(tile + QKV_AHEAD * gl_NumWorkGroups.x, s);
            float sum = meet(PRODUCT_VALUES(c));
            if (gl_LocalInvocationIndex < 128 && result_column() < p.n_rows) {
                Shared(work_at(p.qkv)).at[result_column() * QKV_STRIDE + tile * 16 + result_row()] = sum;
            }
        }
    }
    other_logits();
    if (ATTENDED > 0) { /* then the next attention waits for this too */
        count_in(NEXT_PROJECTED);
    }
}

void main()
{
    if (!output_product()) {
        return;
    }
    count_in(0);
    if (!choose()) {
        return;
    }
    up_product();
    count_in(1);
    down_begin();
    if (down_product() && p.layer + 1 < p.n_layer) {
        count_in(2);
        qkv_begin();
        next_product();
    }
}
