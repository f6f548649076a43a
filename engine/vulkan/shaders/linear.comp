#version 460
/* y[t, r] (+)= W[r, :] . norm(x[t, :]) + bias[r]
 * W [rows, cols] packed; x [T, cols], y [T, rows] f32; norm, bias absent as the constants say
 * Projections of attention, router, dense parts, the head (which gathers its rows of x).
 * Grid (rows / (ROWS * subgroups), T / COLS); see tile.glsl. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
#include "tile.glsl"
layout(constant_id = SPEC_ROWS) const uint ROWS = 2; /* rows of W of a subgroup */
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_GATHER) const bool GATHER = false;

#define PUSH_LINEAR
#include "push.h"

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
