#version 460
/* The products of matmul.comp for few rows of X: Y[t, r] (+)= sum_c W[r, c] X[t, c]; ADD, BIAS as there; no MODE, TILES, SPLIT.
 * What bounds it should be the bytes of W: each 16 rows of W go from memory to the units' registers without shared memory, a slice of
 * the columns for each 32 threads, whose part of X stays in registers meanwhile. A thread has of its slice's rows g and g + 8 of W, and of row g of X,
 * CHUNKS chunks of 32 columns, those of its three neighbours beside them (coop_registers.glsl). Slices keep their sums apart in shared memory
 * until all rows of W are through, so nothing in the loop waits for another slice.
 * Grid (rows / TM + rows of `beside`, rows of X / TN); a workgroup of 32 threads for each slice. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#include "quant.glsl"
#include "packed_f16.glsl"
#include "coop_registers.glsl"
layout(constant_id = SPEC_TILE_M) const uint TM = 64;
layout(constant_id = SPEC_TILE_N) const uint TN = 8;
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_CHUNKS) const uint CHUNKS = 2;     /* of a thread at a time, in each row */
layout(constant_id = SPEC_SLICES) const uint SLICES = 8;     /* of the columns; threads / 32 */

#define PUSH_MATMUL_FEW
#include "push.h"

const uint GROUPS = TN / 8, STEPS = TM / 16; /* of 8 rows of X; of 16 rows of W */
const uint SLAB = SLICES * CHUNKS * 4;       /* chunks that all slices take at a time */
const uint STEP_SUMS = GROUPS * 32;          /* vec4, of a slice */
shared vec4 sums[STEPS * SLICES * STEP_SUMS];
#include "router_beside.glsl"
Packed low[CHUNKS], high[CHUNKS]; /* rows g and g + 8 of the next step */
uvec4 x[GROUPS * CHUNKS * 4];

uint slice()
{
    return gl_LocalInvocationIndex / 32;
}

uint lane()
{
    return gl_LocalInvocationIndex % 32;
}

/* Asks for the thread's chunks from `first` on of step s. */
void fetch(uint s, uint first)
{
    uint row = gl_WorkGroupID.x * TM + s * 16 + lane() / 4, a = min(row, p.rows - 1), b = min(row + 8, p.rows - 1);
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint chunk = min(first + i * 4 + lane() % 4, p.n_chunk - 1);
        low[i] = packed_load(p.w, a * p.n_chunk + chunk);
        high[i] = packed_load(p.w, b * p.n_chunk + chunk);
    }
}

/* The thread's part of X, of rows rows[g] of it; what is past n rows or their end counts as zeros. */
void fetch_x(uint rows[GROUPS], uint first, uint n)
{
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            uint chunk = first + i * 4 + lane() % 4;
            bool there = g * 8 + lane() / 4 < n && chunk < p.n_chunk;
            [[unroll]] for (uint k = 0; k < 4; k++) {
                x[(g * CHUNKS + i) * 4 + k] = there ? halves_order(p.x.at[(rows[g] * p.n_chunk + chunk) * 4 + k]) : uvec4(0);
            }
        }
    }
}

/* The thread's chunks of 16 rows of W times its part of X, into the slice's sums of that step. */
void multiply(uint s, bool again, uint first)
{
    MatrixSum c[GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        PRODUCT_CLEAR(c[g])
    }
    Packed now_low[CHUNKS], now_high[CHUNKS];
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        now_low[i] = low[i];
        now_high[i] = high[i];
    }
    if (s + 1 < STEPS) {
        fetch(s + 1, first);
    }
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uvec4 l[4], h[4];
        packed_f16(now_low[i], l);
        packed_f16(now_high[i], h);
        [[unroll]] for (uint k = 0; k < 4; k++) {
            [[unroll]] for (uint g = 0; g < GROUPS; g++) {
                uvec4 v = x[(g * CHUNKS + i) * 4 + k];
                PRODUCT_ADD(c[g], l[k].xy, h[k].xy, v.xy)
                PRODUCT_ADD(c[g], l[k].zw, h[k].zw, v.zw)
            }
        }
    }
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        uint at = (s * SLICES + slice()) * STEP_SUMS + g * 32 + lane();
        vec4 v = PRODUCT_VALUES(c[g]);
        sums[at] = again ? sums[at] + v : v;
    }
}

/* Four results of a thread to where they belong. */
void put(vec4 v, uint s, uint column, uint from, uint n)
{
    uint g = lane() / 4;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint row = gl_WorkGroupID.x * TM + s * 16 + g + i / 2 * 8, c = column + i % 2;
        if (c < n && row < p.rows) {
            uint at = (from + c) * p.y_stride + row;
            float r = BIAS ? v[i] + p.bias.at[row] : v[i];
            p.y.at[at] = ADD ? p.y.at[at] + r : r;
        }
    }
}

void main()
{
    uint from = gl_WorkGroupID.y * TN, n = min(TN, p.n_x - from);
    if (BESIDE != 0 && gl_WorkGroupID.x >= p.groups) {
        beside_rows(gl_WorkGroupID.x - p.groups, from, n);
        return;
    }
    uint rows[GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        rows[g] = from + g * 8 + lane() / 4;
    }
    [[dont_unroll]] for (uint slab = 0; slab < p.n_chunk; slab += SLAB) {
        uint first = slab + slice() * CHUNKS * 4;
        fetch(0, first);
        fetch_x(rows, first, n);
        [[dont_unroll]] for (uint s = 0; s < STEPS; s++) {
            multiply(s, slab > 0, first);
        }
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < STEPS * STEP_SUMS; i += gl_WorkGroupSize.x) {
        uint s = i / STEP_SUMS, at = s * SLICES * STEP_SUMS + i % STEP_SUMS;
        vec4 v = sums[at];
        [[unroll]] for (uint k = 1; k < SLICES; k++) {
            v += sums[at + k * STEP_SUMS];
        }
        put(v, s, i % STEP_SUMS / 32 * 8 + lane() % 4 * 2, from, n);
    }
}
