#version 460
/* ids[t, k], weights[t, k] = the N_USED best experts of logits[t, :] and what their outputs are multiplied by
 * logits [T, stride] f32 (bias added already); used: one bit per expert that any row chose; a row that uses fewer than
 * N_USED has ids -1 behind them; trace [T, N_USED]: with TRACE the ids, in place of the best
 * After the router's projection, before the experts.
 * Grid (T); one workgroup per row. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "route.glsl"

#define PUSH_MOE_ROUTE
#include "push.h"

void main()
{
    uint t = gl_WorkGroupID.x;
    route_row(p.logits, p.select_bias, p.ids, p.weights, p.used, p.trace, t, p.stride, p.scale, p.rows.at[t], true, 0);
}
