#version 460
/* A router of few rows with all that waits for it: logits[t, e] = factor W[e, :] . x[t, :], factor that of the RMS norm, whose weight is in W;
 * the choice of experts as in moe_route, also with LIST_ROWS; out[t, :] = halves of x[t, :], normalised, for the experts' products.
 * W [N_LOGITS, d], x [T, d] f32; with SHARED_GATE the last row of W is that of a shared expert's gate. The last workgroup of a row to have its
 * logits makes the choice: a dispatch for that alone costs more. arrived [T] is zero before and after.
 * Grid (N_LOGITS / (EACH * subgroups), T). */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer SharedF32 { float at[]; };
#define RouteLogits SharedF32
#define RANK_AT_ONCE 8
#include "route.glsl"
#include "few_order.glsl"
layout(constant_id = SPEC_ROWS) const uint EACH = 2; /* experts of a subgroup */
layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;
layout(constant_id = SPEC_SHARED_GATE) const bool SHARED_GATE = false;
layout(constant_id = SPEC_UNITS_X) const bool UNITS_X = false;
const uint N_LOGITS = N_EXPERT + (SHARED_GATE ? 1 : 0);

#define PUSH_ROUTER
#include "push.h"

const uint AT_ONCE = 8; /* loads of a thread in flight, of each row */
shared bool is_last;

/* The subgroup's logits of row t; returns the norm's factor. */
float put_logits(uint t, uint first)
{
    float squares = 0.0, sum[EACH];
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        sum[e] = 0.0;
    }
    [[dont_unroll]] for (uint from = gl_SubgroupInvocationID; from < p.quads; from += AT_ONCE * gl_SubgroupSize) {
        vec4 x[AT_ONCE], w[EACH * AT_ONCE];
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++) {
            uint at = from + k * gl_SubgroupSize, i = min(at, p.quads - 1);
            x[k] = p.x.at[t * p.quads + i] * (at < p.quads ? 1.0 : 0.0);
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                w[e * AT_ONCE + k] = p.w.at[min(first + e, N_LOGITS - 1) * p.quads + i];
            }
        }
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++) {
            squares += dot(x[k], x[k]);
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                sum[e] += dot(x[k], w[e * AT_ONCE + k]);
            }
        }
    }
    float factor = inversesqrt(subgroupAdd(squares) * p.inverse_cols + p.eps);
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        float v = subgroupAdd(sum[e]) * factor;
        if (gl_SubgroupInvocationID == 0 && first + e < N_LOGITS) {
            SharedF32(p.logits).at[t * p.stride + first + e] = v;
        }
    }
    return factor;
}

void main()
{
    uint t = gl_WorkGroupID.y, tid = gl_LocalInvocationIndex;
    ivec4 row = p.rows.at[t];
    float factor = put_logits(t, (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * EACH);
    uint pairs = p.quads * 2, span = (pairs + gl_NumWorkGroups.x - 1) / gl_NumWorkGroups.x;
    for (uint i = gl_WorkGroupID.x * span + tid; i < min(gl_WorkGroupID.x * span + span, pairs); i += gl_WorkGroupSize.x) {
        vec2 v, norm;
        if (UNITS_X) {
            uint c = few_column(i), at = t * pairs * 2 + c;
            v = vec2(F32(uint64_t(p.x)).at[at], F32(uint64_t(p.x)).at[at + 4]);
            norm = vec2(F32(uint64_t(p.norm)).at[c], F32(uint64_t(p.norm)).at[c + 4]);
        } else {
            v = F32x2(uint64_t(p.x)).at[t * pairs + i];
            norm = p.norm.at[i];
        }
        p.outs.at[t * pairs + i] = packHalf2x16(v * factor * norm);
    }
    memoryBarrierBuffer();
    barrier();
    if (tid == 0) {
        is_last = atomicAdd(p.arrived.at[t], 1) == gl_NumWorkGroups.x - 1;
    }
    barrier();
    if (!is_last) {
        return;
    }
    memoryBarrierBuffer();
    if (tid == 0) {
        p.arrived.at[t] = 0;
    }
    route_row(SharedF32(p.logits), p.select_bias, p.ids, p.weights, p.used, p.ids, t, p.stride, 1.0, p.scale, row, true, 0);
    route_list(p.ids, p.counts, p.lists, t, LIST_ROWS);
}
