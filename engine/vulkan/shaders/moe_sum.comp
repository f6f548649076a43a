#version 460
/* y[t, r] += sum_k weights[t, k] (parts[t, k, r] + bias_e[r]), k over the experts that the row uses
 * parts [T, K, d] f32, what moe's matrix products left for each slot; y [T, d] the residual stream
 * After the grouped down product.
 * Grid (d / threads, T). */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = SPEC_K) const uint K = 4;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_WEIGHTS) const uint WEIGHTS = 0; /* as in moe_down */

#define PUSH_MOE_SUM
#include "push.h"

void main()
{
    uint t = gl_WorkGroupID.y, r = gl_GlobalInvocationID.x;
    ivec4 row = p.token_rows.at[t];
    if (r >= p.rows || row.y < 0) {
        return;
    }
    uint n_used = WEIGHTS == 0 ? row_experts(row, K) : 1;
    float sum = 0.0;
    [[dont_unroll]] for (uint k = 0; k < n_used; k++) {
        float w = WEIGHTS == 1 ? 1.0 : p.weights.at[t * K + k];
        float v = p.parts.at[(t * K + k) * p.rows + r];
        if (BIAS) {
            v += p.bias.at[(WEIGHTS == 0 ? uint(p.ids.at[t * K + k]) * p.rows : 0) + r];
        }
        sum += (WEIGHTS == 2 ? sigmoid(w) : w) * v;
    }
    p.y.at[t * p.y_stride + r] += sum;
}
