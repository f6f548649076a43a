#version 460
/* h[t, k, r] = act(G_e[r, :] . norm(x[t, :]) + bg, U_e[r, :] . norm(x[t, :]) + bu), e = k-th expert of row t
 * G, U [n_expert, d_ff, d] packed alike; x [T, d]; h [T, K, stride] f32
 * First half of the experts; of a dense layer or shared expert with one expert (expert 0). With ROUTE each workgroup makes
 * the choice of experts itself from the router's logits, and the first ones of a row write it down for moe_down: that is
 * cheaper than a dependent dispatch.
 * Grid (d_ff / (ROWS * subgroups), T * K); see tile.glsl. A subgroup owns ROWS gates and their ups; as many of its threads have each, so that
 * the code is that of one row and few registers leave room for many subgroups. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
#include "tile.glsl"
#include "route.glsl"
layout(constant_id = SPEC_ROWS) const uint ROWS = 2;
layout(constant_id = SPEC_UP_CLAMP) const bool CLAMP = false; /* gpt-oss's activation */
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_ROUTED) const bool ROUTED = true;
layout(constant_id = SPEC_ROUTE) const bool ROUTE = false;
layout(constant_id = SPEC_FOLDED) const bool FOLDED = false; /* then a tile has the whole row */

layout(constant_id = SPEC_SHARED_GATE) const bool SHARED_GATE = false;
layout(constant_id = SPEC_D_MODEL) const uint D_MODEL = 512;
const uint VALUE_LANES = LANES / (2 * ROWS); /* threads of a gate, of an up, of a gate ... */

#define PUSH_MOE_UP
#include "push.h"

#include "activate.glsl"
#include "route_logits.glsl"

/* Adds this thread's part of a row of W times the tile to sum. W's chunks begin at w_at, the tile is its chunks [first, first + n);
 * `now` is the thread's first one of these, and then of the next tile. */
void add_tile(Planes w, uint w_at, uint first, uint n, inout Packed now, inout float sum)
{
    uint last = p.n_chunk - 1;
    [[dont_unroll]] for (uint c = gl_SubgroupInvocationID % VALUE_LANES; c < n; c += VALUE_LANES) {
        Packed next = packed_load(w, w_at + min(first + c + VALUE_LANES, last)); /* past the end the last one, to be thrown away */
        vec4 v[8], code[8];
        float plain, scale, offset;
        tile_read(0, c, v, plain);
        packed_decode(now, code, scale, offset);
        sum += chunk_dot(v, plain, code, scale, offset);
        now = next;
    }
}

/* This thread's part of a row of W times x. */
float row_part(Planes w, uint w_at, F32x4 x, vec4 x_part[TILE_LOADS], vec4 norm_part[TILE_LOADS])
{
    float sum = 0.0;
    Packed now = packed_load(w, w_at + min(gl_SubgroupInvocationID % VALUE_LANES, p.n_chunk - 1));
    if (FOLDED) {
        add_tile(w, w_at, 0, p.n_chunk, now, sum);
        return sum;
    }
    [[dont_unroll]] for (uint first = 0; first < p.n_chunk; first += TILE_CHUNKS) {
        uint n = min(TILE_CHUNKS, p.n_chunk - first);
        if (first > 0) {
            barrier();
            tile_ask(x, p.norm, first, n, x_part, norm_part);
        }
        tile_put(0, x_part, norm_part, first, n);
        barrier();
        add_tile(w, w_at, first, n, now, sum);
    }
    return sum;
}

/* The logit of a shared expert's gate lacks the norm's factor too; the workgroup that does this is the only one that reads it here. */
void scale_shared_gate(uint t, float factor)
{
    if (FOLDED && SHARED_GATE && gl_LocalInvocationIndex == 0) {
        p.logits.at[t * p.router_stride + N_EXPERT] *= factor;
    }
}

/* The choice of row t's experts, with the tile filled meanwhile; the expert of slot k, or -1. */
int choose_expert(uint t, uint k, ivec4 row, float logit, vec4 x_part[TILE_LOADS], vec4 norm_part[TILE_LOADS])
{
    bool writes = gl_WorkGroupID.x == 0 && k == 0;
    if (by_logits()) {
        logits_put(logit);
        barrier();
        logits_choose();
        tile_put(0, x_part, norm_part, 0, p.n_chunk);
        barrier();
        if (writes) {
            float factor = tile_factor(0, 1.0 / float(D_MODEL), p.eps);
            scale_shared_gate(t, factor);
            logits_write(p.ids, p.weights, p.used, t, row.y < 0 ? 0 : row_experts(row, N_USED), factor, p.scale);
        }
        return row.y < 0 || k >= row_experts(row, N_USED) ? -1 : chosen_id[k];
    }
    float factor = 1.0;
    if (FOLDED) {
        tile_put(0, x_part, norm_part, 0, p.n_chunk);
        barrier();
        factor = tile_factor(0, 1.0 / float(D_MODEL), p.eps);
        if (writes) {
            scale_shared_gate(t, factor);
        }
    }
    return route_row(p.logits, p.select_bias, p.ids, p.weights, p.used, p.ids, t, p.router_stride, factor, p.scale, row, writes, k);
}

void main()
{
    uint row0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * ROWS, slot = gl_WorkGroupID.y;
    uint t = slot / N_USED, k_slot = slot % N_USED;
    F32x4 x = F32x4(uint64_t(p.x) + 128ul * t * p.n_chunk);
    vec4 x_part[TILE_LOADS], norm_part[TILE_LOADS]; /* on their way while experts are chosen */
    tile_ask(x, p.norm, 0, min(TILE_CHUNKS, p.n_chunk), x_part, norm_part);
    int expert = 0;
    if (ROUTE) {
        float logit = by_logits() ? p.logits.at[t * p.router_stride + min(gl_LocalInvocationIndex, N_EXPERT - 1)] : 0.0;
        ivec4 row = p.token_rows.at[t];
        if (!by_logits() && k_slot >= row_experts(row, N_USED)) {
            return;
        }
        expert = choose_expert(t, k_slot, row, logit, x_part, norm_part);
    } else if (ROUTED) {
        expert = p.ids.at[slot];
    }
    if (expert < 0) {
        return;
    }
    Planes w = expert_planes(p.w, uint(expert), 0);
    if (OFFLOADS_MISSES && w.data == 0) {
        return;
    }
    uint value = gl_SubgroupInvocationID / VALUE_LANES, row = row0 + value / 2;
    uint up_at = SPLIT_EXPERTS && ROUTED ? p.rows : p.up_at;
    uint w_row = expert_row(uint(expert), p.rows) + min(row, p.rows - 1) + (value & 1) * up_at;
    float sum = row_part(w, w_row * p.n_chunk, x, x_part, norm_part);
    [[unroll]] for (uint by = 1; by < VALUE_LANES; by *= 2) {
        sum += subgroupShuffleXor(sum, by);
    }
    float a = sum * tile_factor(0, 1.0 / float(D_MODEL), p.eps), b = subgroupShuffleXor(a, VALUE_LANES);
    if (gl_SubgroupInvocationID % (2 * VALUE_LANES) == 0 && row < p.rows) {
        if (BIAS) {
            uint bias_at = uint(expert) * p.rows + row;
            a += p.bias.at[bias_at];
            b += p.bias.at[p.up_at + bias_at];
        }
        p.h.at[slot * ((p.rows + 31) / 32 * 32) + row] = activate(a, b);
    }
}
