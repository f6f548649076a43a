#version 460
/* ids[t, k], weights[t, k] = the N_USED best experts of logits[t, :] and what their outputs are multiplied by
 * logits [T, stride] f32 (bias added already); used: one bit per expert that any row chose
 * After the router's projection, before the experts.
 * Grid (T); one workgroup per row. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "route.glsl"

layout(push_constant, std430) uniform Push {
    F32 logits, select_bias;
    Rows rows;
    I32 ids;
    F32 weights;
    U32 used;
    uint stride;
    float scale;
    uint has_select_bias;
} p;

void main()
{
    uint t = gl_WorkGroupID.x;
    bool dead = p.rows.at[t].y < 0;
    for (uint e = gl_LocalInvocationIndex; e < N_EXPERT; e += gl_WorkGroupSize.x) {
        float v = p.logits.at[t * p.stride + e];
        route_logit[e] = v;
        float s = SCORE == 2 ? sigmoid(v) : v;
        route_score[e] = p.has_select_bias == 1 ? s + p.select_bias.at[e] : s;
    }
    float factor = route_choose() * p.scale;
    for (uint k = gl_LocalInvocationIndex; k < N_USED; k += gl_WorkGroupSize.x) {
        int e = dead ? -1 : chosen_id[k];
        p.ids.at[t * N_USED + k] = e;
        p.weights.at[t * N_USED + k] = chosen_weight[k] * factor;
        if (e >= 0) {
            atomicOr(p.used.at[e / 32], 1u << (e % 32));
        }
    }
}
