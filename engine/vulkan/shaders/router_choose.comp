#version 460
/* What is left of a folded router (ops/router_fold.h) in steps whose experts are products of many rows: the choice of experts by logits
 * [T, stride] that lack the norm's factor, as router.comp makes it, with LIST_ROWS and SHARED_GATE as there; out[t, :] = halves of x[t, :],
 * normalised, for the experts' products. x [T, d] f32.
 * Grid (T); a workgroup has a row, each thread pairs of columns and one expert. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define RANK_AT_ONCE 8
#include "route.glsl"
const bool FOLDED = true;
#include "route_logits.glsl"
#include "reduce.glsl"
#include "few_order.glsl"
layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;
layout(constant_id = SPEC_SHARED_GATE) const bool SHARED_GATE = false;
layout(constant_id = SPEC_UNITS_X) const bool UNITS_X = false;
layout(constant_id = SPEC_D_MODEL) const uint D_MODEL = 512;

#define PUSH_ROUTER
#include "push.h"

const uint PAIRS = (D_MODEL + 31) / 32 * 16; /* of a padded row */
const uint EACH = (PAIRS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;

/* The columns that share word i of the result: of a padded row, times their part of the norm's weight, and as they are. */
void ask(uint t, uint i, out vec2 v, out vec2 norm)
{
    if (UNITS_X) {
        uint c = few_column(i), at = t * PAIRS * 2 + c;
        v = vec2(F32(uint64_t(p.x)).at[at], F32(uint64_t(p.x)).at[at + 4]);
        norm = vec2(F32(uint64_t(p.norm)).at[c], F32(uint64_t(p.norm)).at[c + 4]);
    } else {
        v = F32x2(uint64_t(p.x)).at[t * PAIRS + i];
        norm = p.norm.at[i];
    }
}

void main()
{
    uint t = gl_WorkGroupID.x, tid = gl_LocalInvocationIndex;
    float logit = p.logits.at[t * p.stride + min(tid, N_EXPERT - 1)], squares = 0.0;
    ivec4 row = p.rows.at[t];
    vec2 v[EACH], norm[EACH];
    [[unroll]] for (uint k = 0; k < EACH; k++) {
        uint i = tid + k * gl_WorkGroupSize.x;
        ask(t, min(i, PAIRS - 1), v[k], norm[k]);
        squares += i < PAIRS ? dot(v[k], v[k]) : 0.0;
    }
    if (by_logits()) {
        logits_put(logit);
    }
    float factor = inversesqrt(workgroup_sum(squares) * p.inverse_cols + p.eps);
    if (by_logits()) {
        logits_choose();
    }
    [[unroll]] for (uint k = 0; k < EACH; k++) {
        uint i = tid + k * gl_WorkGroupSize.x;
        if (i < PAIRS) {
            p.outs.at[t * PAIRS + i] = packHalf2x16(v[k] * factor * norm[k]);
        }
    }
    if (by_logits()) {
        barrier();
        logits_write(p.ids, p.weights, p.used, t, row.y < 0 ? 0 : row_experts(row, N_USED), factor, p.scale);
    } else {
        route_row(p.logits, p.select_bias, p.ids, p.weights, p.used, p.ids, t, p.stride, factor, p.scale, row, true, 0);
    }
    route_list(p.ids, p.counts, p.lists, t, LIST_ROWS);
    if (SHARED_GATE && tid == 0) {
        p.logits.at[t * p.stride + N_EXPERT] *= factor;
    }
}
