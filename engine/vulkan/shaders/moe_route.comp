#version 460
/* ids[t, k], weights[t, k] = the N_USED best experts of logits[t, :] and what their outputs are multiplied by
 * logits [T, stride] f32 (bias added already); used: one bit per expert that any row chose; a row that uses fewer than
 * N_USED has ids -1 behind them; trace [T, N_USED]: with TRACE the ids, in place of the best
 * With LIST_ROWS the pairs of each expert go to its list, lists [n_expert, LIST_ROWS], of counts[e], zero before
 * After the router's projection, before the experts.
 * Grid (T); one workgroup per row. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define RANK_AT_ONCE 8
#include "route.glsl"

#define PUSH_MOE_ROUTE
#include "push.h"

layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;

void main()
{
    uint t = gl_WorkGroupID.x;
    route_row(p.logits, p.select_bias, p.ids, p.weights, p.used, p.trace, t, p.stride, 1.0, p.scale, p.rows.at[t], true, 0);
    route_list(p.ids, p.counts, p.lists, t, LIST_ROWS);
}
