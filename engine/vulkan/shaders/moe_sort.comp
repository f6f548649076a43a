#version 460
/* Groups the (row, slot) pairs of a step by expert, for one matrix product per expert
 * ids [n] experts, -1 for dead rows; sorted [n] pair numbers, experts together; tiles [.] of (expert, first, count, 0) with
 * at most TILE_ROWS pairs each; n_tiles. With SMALL_ROWS those of at most so many pairs, of which an expert has one at most, come in
 * a second list at tile small_at, their number in n_tiles[1]
 * After moe_route, when the rows of a step are many.
 * Grid (1); one workgroup counts, sums and scatters. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = SPEC_TILE_ROWS) const uint TILE_ROWS = 32;
layout(constant_id = SPEC_SMALL_ROWS) const uint SMALL_ROWS = 0;
layout(constant_id = SPEC_N_EXPERT) const uint N_EXPERT = 24;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Tiles { uvec4 at[]; };

#define PUSH_MOE_SORT
#include "push.h"

shared uint count[N_EXPERT], start[N_EXPERT];

bool has_small(uint n)
{
    uint rest = n % TILE_ROWS;
    return rest > 0 && rest <= SMALL_ROWS;
}

/* Tiles of n pairs in the first list. */
uint tiles_of(uint n)
{
    return n / TILE_ROWS + (n % TILE_ROWS > SMALL_ROWS ? 1 : 0);
}

void main()
{
    for (uint e = gl_LocalInvocationIndex; e < N_EXPERT; e += gl_WorkGroupSize.x) {
        count[e] = 0;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < p.n; i += gl_WorkGroupSize.x) {
        int e = p.ids.at[i];
        if (e >= 0) {
            atomicAdd(count[e], 1);
        }
    }
    barrier();
    for (uint e = gl_LocalInvocationIndex; e < N_EXPERT; e += gl_WorkGroupSize.x) {
        uint before = 0, tiles = 0, small = 0, n = count[e];
        for (uint i = 0; i < e; i++) {
            before += count[i];
            tiles += tiles_of(count[i]);
            small += has_small(count[i]) ? 1 : 0;
        }
        start[e] = before;
        uint mine = tiles_of(n);
        for (uint k = 0; k < mine; k++) {
            p.tiles.at[tiles + k] = uvec4(e, before + k * TILE_ROWS, min(TILE_ROWS, n - k * TILE_ROWS), 0);
        }
        if (has_small(n)) {
            p.tiles.at[p.small_at + small] = uvec4(e, before + mine * TILE_ROWS, n - mine * TILE_ROWS, 0);
        }
        if (e == N_EXPERT - 1) {
            p.n_tiles.at[0] = tiles + mine;
            p.n_tiles.at[1] = small + (has_small(n) ? 1 : 0);
        }
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < p.n; i += gl_WorkGroupSize.x) {
        int e = p.ids.at[i];
        if (e >= 0) {
            p.sorted.at[atomicAdd(start[e], 1)] = i;
        }
    }
}
