#version 460
/* moe_up.comp for routed experts in MXFP4 on the matrix units (row_units.glsl): h[t, k, r] = act(G_e[r, :] . norm(x[t, :]), U_e[r, :] . norm(x[t, :])).
 * 32 threads have TILES tiles of 8 gates and their ups, of a slice of the columns. With ROUTE each subgroup finds its slot's expert from
 * logits that lack the norm's factor by itself, without a barrier, and asks for its weights; x is put in order while they come. One more
 * workgroup of a row does nothing but write the choice down.
 * Grid (rows / (8 TILES WARPS / SLICES), and with ROUTE one more; T * K). */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#define BY_LOGITS_ALONE
#include "common.glsl"
#include "quant.glsl"
#include "coop_registers.glsl"
#include "route.glsl"
#include "row_units.glsl"
layout(constant_id = SPEC_UNITS_TILES) const uint TILES = 1;
layout(constant_id = SPEC_UP_CLAMP) const bool CLAMP = false; /* gpt-oss's activation */
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_ROUTE) const bool ROUTE = false;
layout(constant_id = SPEC_UNITS_D_MODEL) const uint D_MODEL = 512;
layout(constant_id = SPEC_LANES) const uint LANES = 32;
const bool FOLDED = true; /* of route_logits.glsl: the logits lack the factor */
const uint X_STEPS = SLICES * STEPS;
const uint X_VECTORS = X_STEPS * STEP_VECTORS + ZERO_VECTORS;
const uint X_LOADS = (CHUNKS * 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x; /* of eight columns */
const uint SUBGROUPS = gl_WorkGroupSize.x / LANES;
const uint ROWS = WARPS / SLICES * TILES * 16;   /* of W of a workgroup, for each slice */
const uint SCALE_WORDS = ROWS * SLICES * STEPS;
const uint HELD = (TILES + 1) / 2;               /* rows whose scales a thread asks for */
const uint OWN = (N_EXPERT + LANES - 1) / LANES; /* experts of a thread */

#define PUSH_MOE_UP
#include "push.h"

#include "activate.glsl"
#include "route_logits.glsl"
#include "row_units_steps.glsl"

shared float squares_of[SUBGROUPS];
shared float sums[SLICES * ROWS];
vec4 x_part[2 * X_LOADS], norm_part[2 * X_LOADS];
uint keys[OWN];              /* the experts' logits, in their order as whole numbers; 0: taken */
uint held[HELD * STEPS];     /* scales on their way */
uint first_low, first_high;  /* vectors of W's codes: this thread's first ones */

void ask_x(uint t)
{
    F32x4 x = F32x4(uint64_t(p.x) + 128ul * t * CHUNKS);
    [[unroll]] for (uint i = 0; i < 2 * X_LOADS; i++) {
        uint at = min(gl_LocalInvocationIndex + i / 2 * gl_WorkGroupSize.x, CHUNKS * 4 - 1) * 2 + i % 2;
        x_part[i] = x.at[at];
        norm_part[i] = p.norm.at[at];
    }
}

/* x times the norm's weight into shared memory, and the sum of its squares; a barrier comes before any use. */
void put_x()
{
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint at = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        bool has = at < CHUNKS * 4;
        vec4 a = x_part[2 * i], b = x_part[2 * i + 1];
        squares += has ? dot(a, a) + dot(b, b) : 0.0;
        put_columns(at, at * 2, a * norm_part[2 * i], b * norm_part[2 * i + 1], has);
    }
    if (gl_LocalInvocationIndex < ZERO_VECTORS) {
        x_units[X_STEPS * STEP_VECTORS + gl_LocalInvocationIndex] = uvec4(0);
    }
    squares = subgroupAdd(squares);
    if (gl_SubgroupInvocationID == 0) {
        squares_of[gl_SubgroupID] = squares;
    }
}

float norm_factor()
{
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < SUBGROUPS; i++) {
        sum += squares_of[i];
    }
    return inversesqrt(sum * (1.0 / float(D_MODEL)) + p.eps);
}

void ask_logits(uint t)
{
    F32 logits = F32(uint64_t(p.logits) + 4ul * t * p.router_stride);
    [[unroll]] for (uint i = 0; i < OWN; i++) {
        uint e = gl_SubgroupInvocationID * OWN + i;
        uint u = floatBitsToUint(OWN == 4 ? F32x4(uint64_t(logits)).at[gl_SubgroupInvocationID][i] : logits.at[min(e, N_EXPERT - 1)]);
        u = (u << 1) == 0 ? 0 : u; /* both zeros are equal */
        keys[i] = e < N_EXPERT ? u ^ ((u >> 31) != 0 ? 0xffffffffu : 0x80000000u) : 0;
    }
}

/* The expert of the greatest logit that is left, of equals the first, and takes it; always one that exists, also of logits that are no numbers. */
uint take_best()
{
    uint best = 0, own = 0;
    [[unroll]] for (uint i = 0; i < OWN; i++) {
        own = keys[i] > best ? i : own;
        best = max(best, keys[i]);
    }
    uint who = subgroupBallotFindLSB(subgroupBallot(best == subgroupMax(best)));
    [[unroll]] for (uint i = 0; i < OWN; i++) {
        keys[i] = gl_SubgroupInvocationID == who && own == i ? 0 : keys[i];
    }
    return min(who * OWN + subgroupShuffle(own, who), N_EXPERT - 1);
}

/* The choice of row t for whoever reads it later, by a whole workgroup. */
void write_choice(uint t, uint n_used)
{
    logits_put(p.logits.at[t * p.router_stride + min(gl_LocalInvocationIndex, N_EXPERT - 1)]);
    put_x();
    barrier();
    if (gl_SubgroupID == 0) {
        [[dont_unroll]] for (uint i = 0; i < n_used; i++) {
            uint e = take_best();
            if (gl_SubgroupInvocationID == 0) {
                chosen_id[i] = int(e);
                chosen_logit[i] = route_score(e);
            }
        }
    }
    barrier();
    logits_write(p.ids, p.weights, p.used, t, n_used, norm_factor(), p.scale);
}

/* Step n of the thread's: of a tile all steps, then of the next. */
void fetch(uint n, uint slot)
{
    uint at = n / STEPS * 8 * CHUNKS + n % STEPS * 4;
    low[slot] = U32x4(p.w.data).at[first_low + at];
    high[slot] = U32x4(p.w.data).at[first_high + at];
}

/* Asks for what comes first of the 32 threads' rows, which begin with gate `first`. */
void ask_weights(uint first, uint slice)
{
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint r = min(i * 32 + lane(), TILES * 16 - 1), row = first + r / 16 * 8 + r % 8 + (r % 16 < 8 ? 0 : p.up_at);
        uint64_t at = p.w.scales + (row * X_STEPS + slice * STEPS) * 4;
        [[unroll]] for (uint s = 0; s < STEPS; s++) {
            held[i * STEPS + s] = STEPS % 4 == 0 ? U32x4(at).at[s / 4][s % 4] : STEPS % 2 == 0 ? U32x2(at).at[s / 2][s % 2] : U32(at).at[s];
        }
    }
    first_low = (first + lane() / 4) * CHUNKS + slice * STEPS * 4 + lane() % 4;
    first_high = first_low + p.up_at * CHUNKS;
    [[unroll]] for (uint i = 0; i < DEPTH; i++) {
        fetch(i, i);
    }
}

void put_scales()
{
    [[unroll]] for (uint i = 0; i < HELD * STEPS; i++) {
        uint r = i / STEPS * 32 + lane();
        if (r < TILES * 16) {
            scale_words[(warp() * TILES * 16 + r) * STEPS + i % STEPS] = held[i];
        }
    }
    WARP_BARRIER
}

/* All tiles of the 32 threads, from row `to` of the slice's sums on. */
void multiply(uint slice, uint to)
{
    vec2 sum = vec2(0.0);
    [[dont_unroll]] for (uint n0 = 0; n0 < TILES * STEPS; n0 += DEPTH) {
        [[unroll]] for (uint i = 0; i < DEPTH; i++) {
            uint n = n0 + i, tile = n / STEPS, s = n % STEPS, k = slice * STEPS + s;
            sum += step_sums(i, columns_at(k * STEP_VECTORS, X_STEPS * STEP_VECTORS), k,
                             ((warp() * TILES + tile) * 16 + lane() / 4) * STEPS + s);
            if (n + DEPTH < TILES * STEPS) {
                fetch(n + DEPTH, i);
            }
            if (s == STEPS - 1) {
                sum = row_sums(sum);
                if (lane() % 4 == 0) {
                    sums[to + tile * 16 + lane() / 4] = sum.x;
                    sums[to + tile * 16 + lane() / 4 + 8] = sum.y;
                }
                sum = vec2(0.0);
            }
        }
    }
}

/* Results of the workgroup's row i. */
void put_row(uint i, uint slot, uint matrix)
{
    uint row = gl_WorkGroupID.x * (ROWS / 2) + i, at = i / 8 * 16 + i % 8;
    float a = 0.0, b = 0.0, factor = norm_factor();
    [[unroll]] for (uint s = 0; s < SLICES; s++) {
        a += sums[s * ROWS + at];
        b += sums[s * ROWS + at + 8];
    }
    a *= factor;
    b *= factor;
    if (BIAS) {
        a += p.bias.at[matrix + row];
        b += p.bias.at[p.up_at + matrix + row];
    }
    p.h.at[slot * ((p.rows + 31) / 32 * 32) + row] = activate(a, b);
}

void main()
{
    uint slot = gl_WorkGroupID.y, t = slot / N_USED, k_slot = slot % N_USED, expert = 0;
    ask_x(t);
    if (ROUTE) {
        ask_logits(t);
        ivec4 row = p.token_rows.at[t];
        uint n_used = row.y < 0 ? 0 : row_experts(row, N_USED);
        if (gl_WorkGroupID.x == gl_NumWorkGroups.x - 1) {
            if (k_slot == 0) {
                write_choice(t, n_used);
            }
            return;
        }
        if (k_slot >= n_used) {
            return;
        }
        [[dont_unroll]] for (uint i = 0; i <= k_slot; i++) {
            expert = take_best();
        }
    } else {
        int id = p.ids.at[slot];
        if (id < 0) {
            return;
        }
        expert = uint(id);
    }
    uint slice = warp() % SLICES, part = warp() / SLICES, matrix = expert * p.rows;
    ask_weights(matrix + gl_WorkGroupID.x * (ROWS / 2) + part * TILES * 8, slice);
    put_x();
    barrier();
    put_scales();
    multiply(slice, slice * ROWS + part * TILES * 16);
    barrier();
    if (gl_LocalInvocationIndex < ROWS / 2) {
        put_row(gl_LocalInvocationIndex, slot, matrix);
    }
}
