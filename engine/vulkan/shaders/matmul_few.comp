#version 460
/* The products of matmul.comp for few rows of X: Y[t, r] (+)= sum_c W[r, c] X[t, c]; MODE, TILES, ADD, BIAS, CLAMP as there; no SPLIT.
 * What bounds it should be the bytes of W: each 16 rows of W go from memory to the units' registers without shared memory, a slice of
 * the columns for each 32 threads, whose part of X stays in registers meanwhile. A thread has of its slice's rows g and g + 8 of W, and of row g of X,
 * CHUNKS chunks of 32 columns, those of its three neighbours beside them (coop_registers.glsl). Slices keep their sums apart in shared memory
 * until all rows of W are through, so nothing in the loop waits for another slice.
 * With TILES the rows of X are the pairs of one expert, 8 at a time, from its list (moe_route); else TN rows in order.
 * Grid (rows / TM, with MODE 1 rows / (TM / 2); experts or rows of X / TN); a workgroup of 32 threads for each slice. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#include "quant.glsl"
#include "packed_f16.glsl"
#include "coop_registers.glsl"
layout(constant_id = SPEC_TILE_M) const uint TM = 64;
layout(constant_id = SPEC_TILE_N) const uint TN = 8;
layout(constant_id = SPEC_MODE) const uint MODE = 0;
layout(constant_id = SPEC_TILES) const bool TILES = false;
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_MATMUL_CLAMP) const bool CLAMP = false;
layout(constant_id = SPEC_PER_ROW) const uint PER_ROW = 1; /* pairs that share a row of X */
layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;
layout(constant_id = SPEC_CHUNKS) const uint CHUNKS = 2;     /* of a thread at a time, in each row */
layout(constant_id = SPEC_SLICES) const uint SLICES = 8;     /* of the columns; threads / 32 */

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Tiles { uvec4 at[]; };

#define PUSH_MATMUL
#include "push.h"

const uint GROUPS = TN / 8, STEPS = TM / 16; /* of 8 rows of X; of 16 rows of W */
const uint SLAB = SLICES * CHUNKS * 4;       /* chunks that all slices take at a time */
const uint STEP_SUMS = GROUPS * 32;          /* vec4, of a slice */
shared vec4 sums[STEPS * SLICES * STEP_SUMS];
shared uint pair_of[TN];
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

float activate(float g, float u)
{
    if (CLAMP) {
        g = min(g, 7.0);
        u = clamp(u, -7.0, 7.0);
        return (u + 1.0) * g * sigmoid(1.702 * g);
    }
    return g * sigmoid(g) * u;
}

/* Asks for the thread's chunks from `first` on of step s. With MODE 1 its second row is the first one's up. */
void fetch(Planes w, uint matrix, uint s, uint first)
{
    uint row = MODE == 1 ? gl_WorkGroupID.x * (TM / 2) + s * 8 + lane() / 4 : gl_WorkGroupID.x * TM + s * 16 + lane() / 4;
    uint a = matrix + min(row, p.rows - 1);
    uint b = MODE == 1 ? a + (SPLIT_EXPERTS ? p.rows : p.up_at) : matrix + min(row + 8, p.rows - 1);
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint chunk = min(first + i * 4 + lane() % 4, p.n_chunk - 1);
        low[i] = packed_load(w, a * p.n_chunk + chunk);
        high[i] = packed_load(w, b * p.n_chunk + chunk);
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
void multiply(uint s, bool again, Planes w, uint matrix, uint first)
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
        fetch(w, matrix, s + 1, first);
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

/* Four results of a thread to where they belong; all threads of a subgroup come here together. */
void put(vec4 v, uint s, uint column, uint matrix, uint n)
{
    uint g = lane() / 4;
    if (MODE == 1) {
        uint row = gl_WorkGroupID.x * (TM / 2) + s * 8 + g;
        if (BIAS) {
            uint r = matrix + min(row, p.rows - 1);
            v += vec4(vec2(p.bias.at[r]), vec2(p.bias.at[p.up_at + r]));
        }
        vec2 h = vec2(activate(v.x, v.z), activate(v.y, v.w));
        /* Neighbouring rows share a word: each of two threads writes one column's. */
        bool odd = (g & 1) == 1;
        float got = subgroupShuffleXor(odd ? h.x : h.y, 4);
        uint c = column + (odd ? 1 : 0), first = row - (g & 1);
        if (c < n && first < p.rows) {
            U32(p.y).at[(pair_of[c] * p.y_stride + first) / 2] = packHalf2x16(odd ? vec2(got, h.y) : vec2(h.x, got));
        }
        return;
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint row = gl_WorkGroupID.x * TM + s * 16 + g + i / 2 * 8, c = column + i % 2;
        if (c < n && row < p.rows) {
            uint at = pair_of[c] * p.y_stride + row;
            float r = BIAS ? v[i] + p.bias.at[row] : v[i];
            p.y.at[at] = ADD ? p.y.at[at] + r : r;
        }
    }
}

/* n rows of X, TN at most: rows[g] is that of the thread's column of group g. */
void compute(Planes w, uint matrix, uint first_row, uint rows[GROUPS], uint n)
{
    [[dont_unroll]] for (uint slab = 0; slab < p.n_chunk; slab += SLAB) {
        uint first = slab + slice() * CHUNKS * 4;
        fetch(w, first_row, 0, first);
        fetch_x(rows, first, n);
        [[dont_unroll]] for (uint s = 0; s < STEPS; s++) {
            multiply(s, slab > 0, w, first_row, first);
        }
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < STEPS * STEP_SUMS; i += gl_WorkGroupSize.x) {
        uint s = i / STEP_SUMS, at = s * SLICES * STEP_SUMS + i % STEP_SUMS;
        vec4 v = sums[at];
        [[unroll]] for (uint k = 1; k < SLICES; k++) {
            v += sums[at + k * STEP_SUMS];
        }
        put(v, s, i % STEP_SUMS / 32 * 8 + lane() % 4 * 2, matrix, n);
    }
}

void main()
{
    uint tid = gl_LocalInvocationIndex;
    uint rows[GROUPS];
    if (!TILES) {
        uint first = gl_WorkGroupID.y * TN, n = min(TN, p.n_x - first);
        if (tid < TN) {
            pair_of[tid] = first + tid;
        }
        [[unroll]] for (uint g = 0; g < GROUPS; g++) {
            rows[g] = first + g * 8 + lane() / 4;
        }
        compute(p.w, 0, 0, rows, n);
        return;
    }
    /* The list is asked for before anyone knows how long it is. */
    uint e = gl_WorkGroupID.y, list = e * LIST_ROWS, pair = p.sorted.at[list + lane() / 4];
    uint count = min(p.n_tiles.at[e], LIST_ROWS);
    if (count == 0) {
        return;
    }
    Planes w = expert_planes(p.w, e, MODE == 1 ? 0 : 1);
    [[dont_unroll]] for (uint from = 0; from < count; from += TN) {
        if (from > 0) {
            barrier(); /* whoever still reads the last ones */
            pair = p.sorted.at[list + from + lane() / 4];
        }
        if (tid < 32 && lane() % 4 == 0) {
            pair_of[lane() / 4] = pair;
        }
        rows[0] = pair / PER_ROW;
        compute(w, e * p.rows, expert_row(e, p.rows), rows, min(TN, count - from));
    }
}
