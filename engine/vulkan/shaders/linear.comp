#version 460
/* y[t, r] (+)= W[r, :] . norm(x[t, :]) + bias[r]
 * W [rows, cols] packed; x [T, cols], y [T, rows] f32; norm, bias absent as the constants say
 * Projections of attention, router, dense parts, the head (which gathers its rows of x).
 * With EXTRA also extra_y[t, e] (+)= extra[e, :] . x[t, :], f32, of as many columns: half of a folded router's logits (router_fold.h),
 * beside this product because another pipeline would wait for this one's end.
 * Grid (rows / (ROWS * subgroups) + rows of extra, T / COLS); see tile.glsl. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
#include "tile.glsl"
#include "reduce.glsl"
layout(constant_id = SPEC_ROWS) const uint ROWS = 2; /* rows of W of a subgroup */
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_GATHER) const bool GATHER = false;

layout(constant_id = SPEC_EXTRA) const uint EXTRA = 0;

#define PUSH_LINEAR
#include "push.h"

const uint AT_ONCE = 4; /* loads of a thread in flight, of each side */

/* Row e of the extra matrix times a row of x, by the whole workgroup. */
void extra_dot(uint e, uint t)
{
    uint quads = p.n_chunk * 8, w_at = e * quads, x_at = t * p.x_stride;
    vec4 sum = vec4(0.0);
    [[dont_unroll]] for (uint from = gl_LocalInvocationIndex; from < quads; from += AT_ONCE * gl_WorkGroupSize.x) {
        vec4 w[AT_ONCE], x[AT_ONCE];
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++) {
            uint i = min(from + k * gl_WorkGroupSize.x, quads - 1);
            w[k] = p.extra.at[w_at + i];
            x[k] = p.x.at[x_at + i];
        }
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++) {
            sum = from + k * gl_WorkGroupSize.x < quads ? fma(w[k], x[k], sum) : sum;
        }
    }
    float all = workgroup_sum((sum.x + sum.y) + (sum.z + sum.w));
    if (gl_LocalInvocationIndex == 0) {
        uint at = t * p.extra_stride + e;
        p.extra_y.at[at] = EXTRA == 2 ? p.extra_y.at[at] + all : all;
    }
}

/* The same chunk of each row; past the end the last one, to be thrown away. */
void load_rows(uint row0, uint chunk, out Packed packed[ROWS])
{
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        packed[r] = packed_load(p.w, min(row0 + r, p.rows - 1) * p.n_chunk + min(chunk, p.n_chunk - 1));
    }
}

void main()
{
    uint row0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * ROWS, t0 = gl_WorkGroupID.y * COLS;
    if (EXTRA != 0 && gl_WorkGroupID.x >= p.groups) {
        [[dont_unroll]] for (uint t = t0; t < min(t0 + COLS, p.n_x); t++) {
            extra_dot(gl_WorkGroupID.x - p.groups, t);
        }
        return;
    }
    float sum[ROWS * COLS];
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        sum[i] = 0.0;
    }
    Packed now[ROWS], next[ROWS];
    load_rows(row0, gl_SubgroupInvocationID, now);
    [[dont_unroll]] for (uint first = 0; first < p.n_chunk; first += TILE_CHUNKS) {
        uint n = min(TILE_CHUNKS, p.n_chunk - first);
        if (first > 0) {
            barrier();
        }
        [[unroll]] for (uint i = 0; i < COLS; i++) {
            uint t = min(t0 + i, p.n_x - 1);
            if (GATHER) {
                t = uint(p.gather.at[t]);
            }
            tile_load(i, F32x4(uint64_t(p.x) + 16ul * t * p.x_stride), p.norm, first, n);
        }
        barrier();
        [[dont_unroll]] for (uint c = gl_SubgroupInvocationID; c < n; c += LANES) {
            load_rows(row0, first + c + LANES, next);
            vec4 x[8];
            float plain;
            if (COLS == 1) {
                tile_read(0, c, x, plain);
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                vec4 code[8];
                float scale, offset;
                packed_decode(now[r], code, scale, offset);
                [[unroll]] for (uint i = 0; i < COLS; i++) {
                    if (COLS > 1) {
                        tile_read(i, c, x, plain);
                    }
                    sum[r * COLS + i] += chunk_dot(x, plain, code, scale, offset);
                }
                now[r] = next[r];
            }
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        sum[i] = subgroupAdd(sum[i]);
    }
    [[unroll]] for (uint i = 0; i < COLS; i++) {
        float factor = NORM ? tile_factor(i, p.inverse_cols, p.eps) : 1.0;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            if (gl_SubgroupInvocationID == r % LANES && row0 + r < p.rows && t0 + i < p.n_x) {
                uint at = (t0 + i) * p.y_stride + row0 + r;
                float v = sum[r * COLS + i] * factor;
                if (BIAS) {
                    v += p.bias.at[row0 + r];
                }
                p.y.at[at] = ADD ? p.y.at[at] + v : v;
            }
        }
    }
}
