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

/* Pairs, tiles and small ones of n pairs of an expert. */
uvec3 share_of(uint n)
{
    return uvec3(n, tiles_of(n), has_small(n) ? 1 : 0);
}

/* By one subgroup, each thread a run of experts. */
void list_tiles()
{
    const uint each = (N_EXPERT + gl_SubgroupSize - 1) / gl_SubgroupSize;
    uint from = min(gl_SubgroupInvocationID * each, N_EXPERT), end = min(from + each, N_EXPERT);
    uvec3 sum = uvec3(0);
    for (uint e = from; e < end; e++) {
        sum += share_of(count[e]);
    }
    uvec3 before = subgroupExclusiveAdd(sum);
    for (uint e = from; e < end; e++) {
        uint n = count[e], mine = tiles_of(n);
        start[e] = before.x;
        for (uint k = 0; k < mine; k++) {
            p.tiles.at[before.y + k] = uvec4(e, before.x + k * TILE_ROWS, min(TILE_ROWS, n - k * TILE_ROWS), 0);
        }
        if (has_small(n)) {
            p.tiles.at[p.small_at + before.z] = uvec4(e, before.x + mine * TILE_ROWS, n - mine * TILE_ROWS, 0);
        }
        before += share_of(n);
    }
    if (gl_SubgroupInvocationID == gl_SubgroupSize - 1) {
        p.n_tiles.at[0] = before.y;
        p.n_tiles.at[1] = before.z;
    }
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
    if (gl_SubgroupID == 0) {
        list_tiles();
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < p.n; i += gl_WorkGroupSize.x) {
        int e = p.ids.at[i];
        if (e >= 0) {
            p.sorted.at[atomicAdd(start[e], 1)] = i;
        }
    }
}
