#version 460
/* The same products as matmul.comp's in whole tiles of 128 rows of W times TN rows of X on the matrix units
 * Y[t, r] (+)= sum_c W[r, c] X[t, c]; MODE, TILES, ADD, BIAS, CLAMP as there; no SPLIT. Rows of W are a multiple of 32 with MODE 1,
 * else of 4, Y is aligned to 16 bytes.
 * What a fragment that was loaded from shared memory is worth decides: a subgroup multiplies 64 x 64 (TN 128), 64 x 32 (TN 64) or
 * 32 x 32 (TN 32), so that a fragment serves 2 to 4 products. With MODE 1 a subgroup has gates and ups of the same rows.
 * Grid (rows / 128, or with MODE 1 rows / 64; tiles); a workgroup of 4 subgroups of 32 threads. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#include "quant.glsl"
#include "packed_f16.glsl"
#ifdef EMULATED
#include "coop_emulated.glsl"
#else
#include "coop_fragments.glsl"
#endif
layout(constant_id = SPEC_TILE_N) const uint TN = 128;
layout(constant_id = SPEC_MODE) const uint MODE = 0;
layout(constant_id = SPEC_TILES) const bool TILES = false;
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_MATMUL_CLAMP) const bool CLAMP = false;
layout(constant_id = SPEC_PER_ROW) const uint PER_ROW = 1;
layout(constant_id = SPEC_ODD) const bool ODD = false;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Tiles { uvec4 at[]; };

#define PUSH_MATMUL
#include "push.h"

const uint TM = WIDE_TILE_M, THREADS = 128;
const uint ACROSS = TN < 64 ? 4 : 2;          /* subgroups side by side over the rows of W; the others over X's */
const uint WM = TM / ACROSS, WN = TN * ACROSS / 4; /* of a subgroup */
const uint FM = WM / 16, FN = WN / 16;             /* its fragments */
const uint A_LOADS = TM * 2 / THREADS, B_LOADS = TN * 8 / THREADS;
const uint OUT_PITCH = WM / 4 + 1; /* 16-byte words of a column of results, 16 columns at a time */
const uint IN_WORDS = (TM + TN) * HALF_PITCH, OUT_WORDS = 64 * OUT_PITCH;
shared uvec4 pool[IN_WORDS > OUT_WORDS ? IN_WORDS : OUT_WORDS];
shared uint pair_of[TN];
MatrixC sums[FM * FN];
Packed packed[A_LOADS];
uvec4 x[B_LOADS];

#include "activate.glsl"

/* Row of W that row i of the tile holds. */
uint row_of(uint matrix, uint i)
{
    if (MODE == 1) {
        uint r = gl_WorkGroupID.x * (TM / 2) + i / WM * (WM / 2) + i % (WM / 2);
        return matrix + min(r, p.rows - 1) + (i % WM < WM / 2 ? 0 : SPLIT_EXPERTS ? p.rows : p.up_at);
    }
    return matrix + min(gl_WorkGroupID.x * TM + i, p.rows - 1);
}

/* Asks for step s of this thread's rows of W and of X; n: rows of X that there are. */
void fetch(Planes w, uint w_at[A_LOADS], uint x_at[B_LOADS], uint s, uint n)
{
    uint tid = gl_LocalInvocationIndex, word = s * 8 + tid % 8;
    [[unroll]] for (uint k = 0; k < A_LOADS; k++) {
        packed[k] = packed_load(w, w_at[k] + min(2 * s + tid % 2, p.n_chunk - 1));
    }
    [[unroll]] for (uint k = 0; k < B_LOADS; k++) {
        if (tid / 8 + k * (THREADS / 8) < n) {
            x[k] = !ODD || word < p.n_chunk * 4 ? p.x.at[x_at[k] + word] : uvec4(0);
        }
    }
}

/* Puts them into shared memory; what lies past the last chunk counts as zeros. */
void put(uint s)
{
    uint tid = gl_LocalInvocationIndex;
    bool inside = !ODD || 2 * s + tid % 2 < p.n_chunk;
    [[unroll]] for (uint k = 0; k < A_LOADS; k++) {
        uvec4 h[4];
        packed_f16(packed[k], h);
        uint at = (tid / 2 + k * (THREADS / 2)) * HALF_PITCH + tid % 2 * 4;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            pool[at + i] = inside ? h[i] : uvec4(0);
        }
    }
    [[unroll]] for (uint k = 0; k < B_LOADS; k++) {
        pool[(TM + tid / 8 + k * (THREADS / 8)) * HALF_PITCH + tid % 8] = halves_order(x[k]);
    }
}

void multiply(uint across, uint along)
{
    [[FRAGMENT_UNROLL]] for (uint k = 0; k < K_TILE / 16; k++) {
        MatrixA a[FM];
        [[unroll]] for (uint i = 0; i < FM; i++) {
            FRAGMENT_A(a[i], (across * WM + i * 16) * HALF_PITCH + k * 2)
        }
        [[FRAGMENT_UNROLL]] for (uint j = 0; j < FN; j++) {
            MatrixB b;
            FRAGMENT_B(b, (TM + along * WN + j * 16) * HALF_PITCH + k * 2)
            [[FRAGMENT_UNROLL]] for (uint i = 0; i < FM; i++) {
                FRAGMENT_ADD(sums[j * FM + i], a[i], b)
            }
        }
    }
}

vec4 bias_at(uint row)
{
    return vec4(p.bias.at[row], p.bias.at[row + 1], p.bias.at[row + 2], p.bias.at[row + 3]);
}

/* Four rows of one column of results, of which the first is the subgroup's number r: from shared memory to where they belong. */
void write_rows(uint matrix, uint pair, uint across, uint r, uint at)
{
    vec4 v = uintBitsToFloat(pool[at]);
    if (MODE == 1) {
        uint row = gl_WorkGroupID.x * (TM / 2) + across * (WM / 2) + r;
        vec4 u = uintBitsToFloat(pool[at + WM / 8]);
        if (row >= p.rows) {
            return;
        }
        if (BIAS) {
            v += bias_at(matrix + row);
            u += bias_at(p.up_at + matrix + row);
        }
        vec2 low = vec2(activate(v.x, u.x), activate(v.y, u.y)), high = vec2(activate(v.z, u.z), activate(v.w, u.w));
        U32x2(p.y).at[(pair * p.y_stride + row) / 4] = uvec2(packHalf2x16(low), packHalf2x16(high));
        return;
    }
    uint row = gl_WorkGroupID.x * TM + across * WM + r, y = (pair * p.y_stride + row) / 4;
    if (row >= p.rows) {
        return;
    }
    if (BIAS) {
        v += bias_at(row);
    }
    F32x4(p.y).at[y] = ADD ? F32x4(p.y).at[y] + v : v;
}

void main()
{
    uint matrix = 0, first_row = 0, first_pair = gl_WorkGroupID.y * TN, n = TN, tid = gl_LocalInvocationIndex;
    Planes w = p.w;
    if (TILES) {
        if (gl_WorkGroupID.y >= p.n_tiles.at[0]) {
            return;
        }
        uvec4 t = p.tiles.at[gl_WorkGroupID.y];
        matrix = t.x * p.rows;
        first_row = expert_row(t.x, p.rows);
        w = expert_planes(p.w, t.x, MODE == 1 ? 0 : 1);
        first_pair = t.y;
        n = t.z;
    } else {
        n = min(TN, p.n_x - first_pair);
    }
    if (tid < TN) {
        uint j = first_pair + min(tid, n - 1);
        pair_of[tid] = TILES ? p.sorted.at[j] : j;
    }
    barrier();
    uint w_at[A_LOADS], x_at[B_LOADS], n_step = (p.n_chunk + 1) / 2;
    [[unroll]] for (uint k = 0; k < A_LOADS; k++) {
        w_at[k] = row_of(first_row, tid / 2 + k * (THREADS / 2)) * p.n_chunk;
    }
    [[unroll]] for (uint k = 0; k < B_LOADS; k++) {
        x_at[k] = pair_of[tid / 8 + k * (THREADS / 8)] / PER_ROW * p.n_chunk * 4;
        x[k] = uvec4(0);
    }
    [[FRAGMENT_UNROLL]] for (uint i = 0; i < FM * FN; i++) {
        FRAGMENT_CLEAR(sums[i])
    }
    uint lane = tid % 32, across = tid / 32 % ACROSS, along = tid / 32 / ACROSS;
    fetch(w, w_at, x_at, 0, n);
    [[dont_unroll]] for (uint s = 0; s < n_step; s++) {
        barrier();
        put(s);
        barrier();
        fetch(w, w_at, x_at, min(s + 1, n_step - 1), n);
        multiply(across, along);
    }
    barrier();
    const uint quads = (MODE == 1 ? WM / 2 : WM) / 4; /* of a column */
    uint base = tid / 32 * 16 * OUT_PITCH;
    [[FRAGMENT_UNROLL]] for (uint j = 0; j < FN; j++) {
        [[FRAGMENT_UNROLL]] for (uint i = 0; i < FM; i++) {
            FRAGMENT_STORE(sums[j * FM + i], base + i * 4)
        }
        FRAGMENT_BARRIER
        [[unroll]] for (uint i = 0; i < 16 * quads / 32; i++) {
            uint item = i * 32 + lane, at = item / quads, col = along * WN + j * 16 + at;
            if (col < n) {
                write_rows(matrix, pair_of[col], across, item % quads * 4, base + at * OUT_PITCH + item % quads);
            }
        }
        FRAGMENT_BARRIER
    }
}
