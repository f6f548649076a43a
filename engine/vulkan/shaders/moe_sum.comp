#version 460
/* y[t, r] += sum_k weights[t, k] (parts[t, k, r] + bias_e[r]), k over the experts that the row uses, and with SHARED one for all rows
 * parts [T, K, d] f32, what moe's matrix products left for each slot; y [T, d] the residual stream
 * With CAST also what cast_f16 would do next: out[t, :] = halves of y[t, :], RMS-normalised by the next layer's norm.
 * After the grouped down product.
 * Grid (T); a workgroup has a row, each thread pairs of columns. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "reduce.glsl"
layout(constant_id = SPEC_K) const uint K = 4;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_WEIGHTS) const uint WEIGHTS = 0; /* 0: routed; 1: all ones */
layout(constant_id = SPEC_D_MODEL) const uint D_MODEL = 512;
layout(constant_id = SPEC_SUM_AHEAD) const bool AHEAD = false; /* of few rows latency counts, of many how many threads are resident */
layout(constant_id = SPEC_SUM_CAST) const bool CAST = false;
layout(constant_id = SPEC_SUM_SHARED) const uint SHARED = 0; /* 1: of weight 1; 2: of the sigmoid of gate[t] */

#define PUSH_MOE_SUM
#include "push.h"

const uint PAIRS = (D_MODEL + 31) / 32 * 16; /* of a padded row */
const uint EACH = (PAIRS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;

/* Two columns of a row of floats that begins at `from`; what lies past the row's end counts as zeros. */
vec2 pair_at(F32 a, uint from, uint column)
{
    if (D_MODEL % 2 == 0) {
        return column < D_MODEL ? F32x2(uint64_t(a) + 4ul * (from + column)).at[0] : vec2(0.0);
    }
    return vec2(column < D_MODEL ? a.at[from + column] : 0.0, column + 1 < D_MODEL ? a.at[from + column + 1] : 0.0);
}

void main()
{
    uint t = gl_WorkGroupID.x;
    for (uint e = gl_LocalInvocationIndex; t == 0 && uint64_t(p.counts) != 0 && e < p.n_expert; e += gl_WorkGroupSize.x) {
        p.counts.at[e] = 0;
    }
    ivec4 row = p.token_rows.at[t];
    if (row.y < 0) {
        return;
    }
    uint n_used = WEIGHTS == 0 ? row_experts(row, K) : 1;
    vec2 kept[EACH];
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint column = 2 * (gl_LocalInvocationIndex + i * gl_WorkGroupSize.x);
        vec2 sum = vec2(0.0), part[K], also = vec2(0.0);
        [[unroll]] for (uint k = 0; AHEAD && k < K; k++) { /* all on their way together, also of places that no expert has */
            part[k] = pair_at(p.parts, (t * K + k) * D_MODEL, column);
        }
        if (SHARED != 0) {
            also = pair_at(p.beside, t * D_MODEL, column);
            if (uint64_t(p.beside_bias) != 0) {
                also += pair_at(p.beside_bias, 0, column);
            }
            also *= SHARED == 2 ? sigmoid(p.gate.at[t * p.gate_stride]) : 1.0;
        }
        [[unroll]] for (uint k = 0; k < K; k++) {
            if (AHEAD || k < n_used) {
                float w = WEIGHTS == 1 ? 1.0 : p.weights.at[t * K + k];
                vec2 v = AHEAD ? part[k] : pair_at(p.parts, (t * K + k) * D_MODEL, column);
                if (BIAS) {
                    v += pair_at(p.bias, WEIGHTS == 0 ? uint(max(p.ids.at[t * K + k], 0)) * D_MODEL : 0, column);
                }
                sum += k < n_used ? w * v : vec2(0.0);
            }
        }
        kept[i] = vec2(0.0);
        if (column < p.y_stride) {
            uint at = (t * p.y_stride + column) / 2;
            kept[i] = F32x2(uint64_t(p.y)).at[at] + sum + also;
            F32x2(uint64_t(p.y)).at[at] = kept[i];
            squares += dot(kept[i], kept[i]);
        }
    }
    if (!CAST) {
        return;
    }
    float factor = inversesqrt(workgroup_sum(squares) / float(D_MODEL) + p.eps);
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint at = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        if (at < PAIRS) {
            p.outs.at[t * PAIRS + at] = packHalf2x16(kept[i] * factor * p.norm.at[at]);
        }
    }
}
