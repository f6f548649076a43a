#version 460
/* The products of routed experts for few rows of X, of which an expert has one to a few: MODE 1 h[pair, r] = act(G_e[r, :] . X, U_e[r, :] . X)
 * in halves, MODE 2 y[pair, r] = D_e[r, :] . X in f32; X [rows, d] halves, a pair has row pair / PER_ROW of it. CLAMP, BIAS as in matmul.comp.
 * What bounds it should be the bytes of W: each 32 threads take 16 rows of W, with MODE 1 eight gates and their ups, straight from memory to the
 * units' registers, a chunk of 32 columns a thread and row at a time, DEPTH of them on their way. X comes from
 * the caches: what counts is that many threads are resident, so few registers and hardly any shared memory.
 * Grid (rows / TM, with MODE 1 rows / (TM / 2); experts, of which each has a list (moe_route), or without LIST_ROWS pairs: then the first
 * one of an expert takes all of them). */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#include "quant.glsl"
#include "packed_f16.glsl"
#include "coop_registers.glsl"
#include "few_order.glsl"
layout(constant_id = SPEC_MODE) const uint MODE = 1;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_MATMUL_CLAMP) const bool CLAMP = false;
layout(constant_id = SPEC_PER_ROW) const uint PER_ROW = 1;
layout(constant_id = SPEC_LIST_ROWS) const uint LIST_ROWS = 0;
layout(constant_id = SPEC_CHUNKS) const uint CHUNKS = 64; /* of a row: p.n_chunk */
layout(constant_id = SPEC_DEPTH) const uint DEPTH = 2;
layout(constant_id = SPEC_AT_ONCE) const uint AT_ONCE = 1;
layout(constant_id = SPEC_UNITS_X) const bool UNITS_X = false;
layout(constant_id = SPEC_UNITS_Y) const bool UNITS_Y = false;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Tiles { uvec4 at[]; };

#define PUSH_MATMUL
#include "push.h"

const uint TN = MATRIX_FEW;
const uint TM = gl_WorkGroupSize.x / 2;        /* rows of W of a workgroup */
const uint STEPS = (CHUNKS + 3) / 4;
/* Words of scales, one for each step, that a thread has of a row, its three neighbours those that follow, of a format with a plane of bytes for
 * them; 0: each step's are asked for by themselves, for a row's do not begin at a word. */
const uint SPAN = CHUNKS % 16 == 0 ? 4 : CHUNKS % 8 == 0 ? 2 : CHUNKS % 4 == 0 ? 1 : 0;
const uint HELD = SPAN > 0 ? SPAN : 1;
const uint TURN = SPAN > DEPTH ? SPAN : DEPTH; /* powers of two */
shared uint pair_of[FEW_PAIRS];
shared uint n_pairs, n_before;
#ifdef EMULATED
shared uint found;
#endif

Packed low[DEPTH], high[DEPTH]; /* rows g and g + 8 of the steps that follow */
MatrixSum c;

uint lane()
{
    return gl_LocalInvocationIndex % 32;
}

#include "activate.glsl"

/* First of the 8 (MODE 1) or 16 rows of the results that these 32 threads have. */
uint first_row()
{
    uint at = gl_LocalInvocationIndex / 32 * 16;
    return MODE == 1 ? gl_WorkGroupID.x * (TM / 2) + at / 2 : gl_WorkGroupID.x * TM + at;
}

/* The thread's row of those from first_row on: with UNITS_Y such that rows whose results share a word are neighbours'. */
uint own_row()
{
    uint g = lane() / 4;
    return UNITS_Y ? g / 2 + g % 2 * 4 : g;
}

/* Asks for the thread's chunks of a step. */
void fetch(Planes w, uint first, uint second, uint s, out Packed a, out Packed b)
{
    uint chunk = s * 4 + lane() % 4;
    chunk = CHUNKS % 4 == 0 ? chunk : min(chunk, CHUNKS - 1);
    a = packed_load(w, first + chunk);
    b = packed_load(w, second + chunk);
}

/* The steps that come first. */
void fetch_first(Planes w, uint first, uint second)
{
    [[unroll]] for (uint i = 0; i < DEPTH; i++) {
        fetch(w, first, second, min(i, STEPS - 1), low[i], high[i]);
    }
}

/* The pairs of expert e into pair_of. False: another workgroup has it, or nobody. */
bool find_pairs(int e)
{
    uint tid = gl_LocalInvocationIndex, mine = gl_WorkGroupID.y;
    if (LIST_ROWS > 0) {
        uint count = min(p.n_tiles.at[mine], LIST_ROWS);
        if (tid < LIST_ROWS && tid < FEW_PAIRS) {
            pair_of[tid] = p.sorted.at[mine * LIST_ROWS + tid];
        }
        if (tid == 0) {
            n_pairs = count;
        }
        barrier();
        return count > 0;
    }
    if (tid == 0) {
        n_pairs = n_before = 0;
    }
    barrier();
    [[dont_unroll]] for (uint i = tid; i < p.n_x; i += gl_WorkGroupSize.x) {
        if (I32(p.sorted).at[i] == e) {
            pair_of[atomicAdd(n_pairs, 1)] = i;
            if (i < mine) {
                n_before = 1;
            }
        }
    }
    barrier();
    return e >= 0 && n_before == 0;
}

/* Four results of a thread to where they belong; all threads of a subgroup come here together. */
void put(vec4 v, uint first, uint expert, uint from, uint n)
{
    uint g = lane() / 4, column = lane() % 4 * 2, matrix = expert * p.rows;
    if (MODE == 1) {
        uint row = first + own_row();
        if (BIAS) {
            uint r = matrix + min(row, p.rows - 1);
            v += vec4(vec2(p.bias.at[r]), vec2(p.bias.at[p.up_at + r]));
        }
        vec2 h = vec2(activate(v.x, v.z), activate(v.y, v.w));
        /* Two rows share a word: each of two threads writes one column's. */
        bool odd = (g & 1) == 1;
        float got = subgroupShuffleXor(odd ? h.x : h.y, 4);
        uint c = column + (odd ? 1 : 0);
        uint place = UNITS_Y ? few_place(first) + g / 2 * 2 : row - (g & 1);
        if (c < n && row < p.rows) {
            U32(p.y).at[(pair_of[from + c] * p.y_stride + place) / 2] = packHalf2x16(odd ? vec2(got, h.y) : vec2(h.x, got));
        }
        return;
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint row = first + g + i / 2 * 8, c = column + i % 2;
        if (c < n && row < p.rows) {
            p.y.at[pair_of[from + c] * p.y_stride + row] = v[i];
        }
    }
}

/* Where step k's part of X for this thread begins; `row` is where its row does. */
U32x4 x_from(uint k, uint row)
{
    if (UNITS_X) {
        return U32x4(uint64_t(p.x) + 16ul * ((row + k * 4) * 4 + lane() % 4));
    }
    return U32x4(uint64_t(p.x) + 64ul * (row + min(k * 4 + lane() % 4, CHUNKS - 1)));
}

/* Word i of it. */
uvec4 x_at(U32x4 from, uint k, uint i)
{
    if (UNITS_X) {
        return from.at[i * 4];
    }
    uvec4 v = halves_order(from.at[i]);
    return CHUNKS % 4 == 0 || k * 4 + lane() % 4 < CHUNKS ? v : uvec4(0);
}

#include "moe_few_steps.glsl"

void main()
{
    int e = LIST_ROWS > 0 ? int(gl_WorkGroupID.y) : I32(p.sorted).at[gl_WorkGroupID.y];
    uint expert = uint(max(e, 0)), result = first_row(), at = expert_row(expert, p.rows) + min(result + own_row(), p.rows - 1);
    uint other = MODE == 1 ? at + (SPLIT_EXPERTS ? p.rows : p.up_at)
                           : expert_row(expert, p.rows) + min(result + lane() / 4 + 8, p.rows - 1);
    if (SPLIT_EXPERTS && !find_pairs(e)) { /* an expert that no row uses may lie nowhere */
        return;
    }
    Planes w = expert_planes(p.w, expert, MODE == 1 ? 0 : 1);
    at *= CHUNKS;
    other *= CHUNKS;
    fetch_first(w, at, other); /* before anyone knows whose they are */
    if (!SPLIT_EXPERTS && !find_pairs(e)) {
        return;
    }
    uint count = n_pairs;
    [[dont_unroll]] for (uint from = 0; from < count; from += TN) {
        uint n = min(TN, count - from), row = pair_of[from + min(lane() / 4, n - 1)] / PER_ROW * CHUNKS;
        if (from > 0) {
            fetch_first(w, at, other);
        }
        put(multiply_all(w, at, other, row), result, expert, from, n);
    }
}
