#version 460
/* Y[t, r] (+)= sum_c W[r, c] X[t, c] for many rows of X
 * W [rows, cols] packed, decoded to halves in shared memory; X [T, cols] halves; what Y is depends on MODE:
 *   0 dense: y [T, y_stride] f32, added to when ADD, plus bias
 *   1 up:    h [pair, d_ff] halves = act(gate, up); half of the tile's rows are gates, half are ups
 *   2 down:  y [pair, rows] f32, one row per (row, slot) pair
 * Rows of prefill and of larger batches. With TILES the columns of a tile are the pairs of one expert (moe_sort), else TN
 * rows in order. SPLIT carries both sides as two halves each, what rounding lost in the second (times LOW_HALF_SCALE): f32 precision, for
 * the router, whose choice must not depend on rounding.
 * Grid (rows / TM, tiles); a workgroup of 2 TM KSPLIT threads computes TM x TN, a slice of 2 TM of them over every KSPLIT-th
 * step of 64 columns: few rows of X need many short sums, many rows few long ones. Packed words are asked for two steps ahead.
 * Who multiplies: the matrix units, or with PLAIN the threads themselves (products_*.glsl). */
#extension GL_GOOGLE_include_directive : require
#ifndef PLAIN
#define WANT_HALVES
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#include "common.glsl"
#include "quant.glsl"
#include "packed_f16.glsl"
layout(constant_id = SPEC_TILE_M) const uint TM = 64;
layout(constant_id = SPEC_TILE_N) const uint TN = 32;
layout(constant_id = SPEC_MODE) const uint MODE = 0;
layout(constant_id = SPEC_TILES) const bool TILES = false;
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_MATMUL_CLAMP) const bool CLAMP = false;
layout(constant_id = SPEC_MATMUL_SPLIT) const bool SPLIT = false;
layout(constant_id = SPEC_PER_ROW) const uint PER_ROW = 1; /* pairs that share a row of X */
layout(constant_id = SPEC_KSPLIT) const uint KSPLIT = 1;
layout(constant_id = SPEC_BUFFERS) const uint BUFFERS = 1; /* tiles in shared memory: two: one is filled while the other is used */
layout(constant_id = SPEC_ODD) const bool ODD = false;  /* rows of W end in half a step */

/* With TILES: each expert has its pairs in sorted[e LIST_ROWS ..], n_tiles[e] of them, and there are no tiles to look up. */
layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;
/* Of short lists each tile has a workgroup; else each list, because too many would find nothing. */
const bool LIST_LOOPS = LIST_ROWS > LIST_SHORT_ROWS;
const uint LIST_TILES = LIST_LOOPS || LIST_ROWS == 0 ? 1 : (LIST_ROWS + TN - 1) / TN;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Tiles { uvec4 at[]; };

#define PUSH_MATMUL
#include "push.h"

const uint SLICE = 2 * TM; /* threads that share a sum's columns */
const uint THREADS = SLICE * KSPLIT;
const uint B_LOADS = (TN * 8 + SLICE - 1) / SLICE;
const uint PLANES = SPLIT ? 2 : 1;
const uint X_AT = TM * PLANES; /* rows of the tile before X's */
const uint OUT_PITCH = TM / 4 + 1; /* 16-byte words of a column of results */
const uint IN_WORDS = (TM + TN) * PLANES * HALF_PITCH, OUT_WORDS = TN * OUT_PITCH;
const uint SLICE_WORDS = IN_WORDS * BUFFERS > OUT_WORDS ? IN_WORDS * BUFFERS : OUT_WORDS;
shared uvec4 pool[SLICE_WORDS * KSPLIT]; /* of each slice: W's tile, X's tile; then results */
shared uint pair_of[TN];

#ifdef PLAIN
#include "products_plain.glsl"
#else
#include "products_coop.glsl"
#endif

#include "activate.glsl"

/* Row of W that row i of the tile holds. */
uint row_of(uint matrix, uint i)
{
    if (MODE == 1) {
        uint r = gl_WorkGroupID.x * (TM / 2) + i % (TM / 2);
        return matrix + min(r, p.rows - 1) + (i < TM / 2 ? 0 : SPLIT_EXPERTS ? p.rows : p.up_at);
    }
    return matrix + min(gl_WorkGroupID.x * TM + i, p.rows - 1);
}

/* Rows r and r + 1 of a column, summed over the slices. */
vec2 result_pair(uint col, uint r)
{
    vec2 v = vec2(0.0);
    [[unroll]] for (uint i = 0; i < KSPLIT; i++) {
        uvec4 word = pool[i * SLICE_WORDS + col * OUT_PITCH + r / 4];
        v += uintBitsToFloat((r & 2) == 0 ? word.xy : word.zw);
    }
    return v;
}

/* 16 bytes of a row of X: word w of step s; past the row's end zeros, or the last step again where no one looks. */
void load_x(inout uvec4 x, inout uvec4 rest, uint at, uint s, uint w, bool wanted)
{
    uint last = (p.n_chunk - 1) / 2, here = at + min(s, last) * 8 + w;
    bool there = !ODD || min(s, last) * 8 + w < p.n_chunk * 4;
    if (wanted) {
        x = there ? p.x.at[there ? here : at] : uvec4(0);
        if (SPLIT) {
            rest = there ? p.rest.at[there ? here : at] : uvec4(0);
        }
    }
}

/* Writes two rows of one column of results from shared memory to where they belong. */
void write_pair(uint matrix, uint col, uint r, uint first)
{
    uint pair = pair_of[col], row = first + r, at = pair * p.y_stride + row;
    vec2 v = result_pair(col, r);
    bool both = row + 1 < p.rows;
    if (MODE == 1) {
        vec2 u = result_pair(col, r + TM / 2);
        if (BIAS) {
            v += vec2(p.bias.at[matrix + row], p.bias.at[matrix + row + 1]);
            u += vec2(p.bias.at[p.up_at + matrix + row], p.bias.at[p.up_at + matrix + row + 1]);
        }
        vec2 h = vec2(activate(v.x, u.x), activate(v.y, u.y));
        U32(p.y).at[at / 2] = packHalf2x16(h);
        return;
    }
    if (BIAS) {
        v += vec2(p.bias.at[row], both ? p.bias.at[row + 1] : 0.0);
    }
    p.y.at[at] = ADD ? p.y.at[at] + v.x : v.x;
    if (both) {
        p.y.at[at + 1] = ADD ? p.y.at[at + 1] + v.y : v.y;
    }
}

/* One tile: n pairs from first_pair on, rows of W from first_row on. */
void compute(Planes w, uint matrix, uint first_row, uint first_pair, uint n)
{
    uint tid = gl_LocalInvocationIndex;
    for (uint i = tid; i < TN; i += THREADS) {
        uint j = first_pair + min(i, n - 1);
        pair_of[i] = TILES ? p.sorted.at[j] : j;
    }
    barrier();
    uint slice = tid / SLICE, lane = tid % SLICE, chunk = lane & 1, base = slice * SLICE_WORDS;
    uint row = row_of(first_row, row_in_slot(lane / 2)) * p.n_chunk, x_row = p.n_chunk * 4, n_step = (p.n_chunk + 1) / 2;
    uint x_at[B_LOADS];
    [[unroll]] for (uint k = 0; k < B_LOADS; k++) {
        x_at[k] = pair_of[min((lane + k * SLICE) / 8, TN - 1)] / PER_ROW * x_row;
    }
    products_clear();
    Packed packed = packed_load(w, row + min(2 * slice + chunk, p.n_chunk - 1));
    Packed ahead = packed_load(w, row + min(2 * (slice + KSPLIT) + chunk, p.n_chunk - 1));
    uvec4 x[B_LOADS], rest[B_LOADS];
    [[unroll]] for (uint k = 0; k < B_LOADS; k++) {
        x[k] = rest[k] = uvec4(0);
        load_x(x[k], rest[k], x_at[k], slice, (lane + k * SLICE) % 8, (lane + k * SLICE) / 8 < n);
    }
    uint buffer_at = base;
    [[dont_unroll]] for (uint s = slice; s < n_step + slice; s += KSPLIT) {
        uvec4 h[4], l[4];
        if (SPLIT) {
            packed_two_f16(packed, h, l);
        } else {
            packed_f16(packed, h);
        }
        packed = ahead;
        ahead = packed_load(w, row + min(2 * (s + 2 * KSPLIT) + chunk, p.n_chunk - 1));
        bool inside = !(ODD || KSPLIT > 1) || 2 * s + chunk < p.n_chunk; /* what lies past the last chunk counts as zeros */
        if (BUFFERS == 1) {
            slice_barrier();
        }
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint at = buffer_at + (lane / 2) * HALF_PITCH + chunk * 4 + i;
            pool[at] = inside ? h[i] : uvec4(0);
            if (SPLIT) {
                pool[at + TM * HALF_PITCH] = inside ? l[i] : uvec4(0);
            }
        }
        [[unroll]] for (uint k = 0; k < B_LOADS; k++) {
            uint i = lane + k * SLICE, at = buffer_at + (X_AT + i / 8) * HALF_PITCH + i % 8;
            if (i < TN * 8) {
                pool[at] = SPLIT ? x[k] : halves_order(x[k]);
                if (SPLIT) {
                    pool[at + TN * HALF_PITCH] = rest[k];
                }
            }
            load_x(x[k], rest[k], x_at[k], s + KSPLIT, i % 8, i / 8 < n);
        }
        slice_barrier();
        products_add(buffer_at, lane, n);
        if (BUFFERS == 2) {
            buffer_at = buffer_at == base ? base + IN_WORDS : base;
        }
    }
    barrier();
    products_store(base, lane);
    barrier();
    const uint out_rows = MODE == 1 ? TM / 2 : TM;
    uint first = gl_WorkGroupID.x * out_rows;
    [[dont_unroll]] for (uint i = tid; i < n * out_rows / 2; i += THREADS) {
        uint col = i / (out_rows / 2), r = 2 * (i % (out_rows / 2));
        if (first + r < p.rows) {
            write_pair(matrix, col, r, first);
        }
    }
}

void main()
{
    if (!TILES) {
        uint first = gl_WorkGroupID.y * TN;
        compute(p.w, 0, 0, first, min(TN, p.n_x - first));
        return;
    }
    uvec4 t = uvec4(0);
    if (LIST_ROWS > 0) {
        uint e = gl_WorkGroupID.y / LIST_TILES, count = min(p.n_tiles.at[e], LIST_ROWS), from = gl_WorkGroupID.y % LIST_TILES * TN;
        t = uvec4(e, e * LIST_ROWS + from, max(count, from) - from, 0);
    } else if (gl_WorkGroupID.y < p.n_tiles.at[0]) {
        t = p.tiles.at[gl_WorkGroupID.y];
    }
    Planes w = expert_planes(p.w, t.x, MODE == 1 ? 0 : 1);
    if (!LIST_LOOPS) {
        if (t.z > 0) {
            compute(w, t.x * p.rows, expert_row(t.x, p.rows), t.y, min(TN, t.z));
        }
        return;
    }
    [[dont_unroll]] for (uint from = 0; from < t.z; from += TN) {
        if (from > 0) {
            barrier();
        }
        compute(w, t.x * p.rows, expert_row(t.x, p.rows), t.y + from, min(TN, t.z - from));
    }
}
