#version 460
/* ids[t, k], weights[t, k] = the N_USED best experts of logits[t, :] and what their outputs are multiplied by
 * logits [T, stride] f32 (bias added already); used: one bit per expert that any row chose; a row that uses fewer than
 * N_USED has ids -1 behind them; trace [T, N_USED]: with TRACE the ids, in place of the best
 * With LIST_ROWS the pairs of each expert go to its list, lists [n_expert, LIST_ROWS], of counts[e], zero before
 * After the router's projection, before the experts.
 * Grid (T); one workgroup per row. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "route.glsl"

#define PUSH_MOE_ROUTE
#include "push.h"

layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;

void main()
{
    uint t = gl_WorkGroupID.x;
    route_row(p.logits, p.select_bias, p.ids, p.weights, p.used, p.trace, t, p.stride, 1.0, p.scale, p.rows.at[t], true, 0);
    for (uint i = gl_LocalInvocationIndex; LIST_ROWS > 0 && i < N_USED; i += gl_WorkGroupSize.x) {
        int e = p.ids.at[t * N_USED + i]; /* which this very thread wrote */
        uint place = e >= 0 ? atomicAdd(p.counts.at[e], 1) : LIST_ROWS;
        if (place < LIST_ROWS) { /* always, unless logits are no numbers: then a row may have an expert twice */
            p.lists.at[uint(e) * LIST_ROWS + place] = t * N_USED + i;
        }
    }
}
