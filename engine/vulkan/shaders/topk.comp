#version 460
/* The n_top greatest of a row of logits, by descending logit, equal logits by lower id; and log sum exp
 * MERGE false: values [n_out, n_vocab], slices of SLICE; writes candidates [n_out, n_slices, MAX_TOP] and statistics
 * MERGE true: reads those; writes ids and logits [n_out, MAX_TOP], log_sum_exp [n_out]
 * After the head, twice.
 * Grid (n_slices or 1, n_out); a workgroup finds the n_top-th key by four histograms of 8 bits, then sorts by rank. Of one key alone
 * a maximum is enough. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "reduce.glsl"
layout(constant_id = SPEC_MERGE) const bool MERGE = false;
layout(constant_id = SPEC_TOPK_THREADS) const uint THREADS = 256;
layout(constant_id = SPEC_SLICE) const uint SLICE = 2048;
const uint MAX_TOP = 128;

#define PUSH_TOPK
#include "push.h"

shared uint histogram[256];
shared uint picked_bin, picked_above, n_list, least_id;
shared uint list_key[MAX_TOP], list_id[MAX_TOP];

shared uint cached[SLICE]; /* keys of the first elements: all of a slice */

uint row, first, count, n_top;

uint key_of(float v)
{
    uint u = floatBitsToUint(v);
    return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}

float value_of(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

/* Element i of this workgroup's share; dead candidates have id -1, the greatest as unsigned. */
uint element_at(uint i)
{
    return MERGE ? row * p.n_slices * MAX_TOP + (i / n_top) * MAX_TOP + i % n_top : row * p.n + first + i;
}

uint element_key(uint i)
{
    return i < SLICE ? cached[i] : key_of(p.values.at[element_at(i)]);
}

uint element_id(uint i)
{
    return MERGE ? uint(p.ids.at[element_at(i)]) : first + i;
}

/* All of a thread's loads are in flight together. */
void cache_keys()
{
    const uint each = (SLICE + THREADS - 1) / THREADS;
    uint n = min(count, SLICE);
    float v[each];
    [[unroll]] for (uint k = 0; k < each; k++) {
        v[k] = p.values.at[element_at(min(gl_LocalInvocationIndex + k * THREADS, n - 1))];
    }
    [[unroll]] for (uint k = 0; k < each; k++) {
        uint i = gl_LocalInvocationIndex + k * THREADS;
        if (i < n) {
            cached[i] = key_of(v[k]);
        }
    }
}

/* The bin that has the need-th greatest, by one subgroup: each thread a run of bins, the first the greatest. */
void pick_bin(uint need)
{
    uint each = 256 / gl_SubgroupSize, top = 255 - gl_SubgroupInvocationID * each, sum = 0;
    for (uint i = 0; i < each; i++) {
        sum += histogram[top - i];
    }
    uint above = subgroupExclusiveAdd(sum);
    for (uint i = 0; i < each; i++) {
        uint n = histogram[top - i];
        if (above < need && above + n >= need) {
            picked_bin = top - i;
            picked_above = above;
        }
        above += n;
    }
}

/* Greatest key such that at least n_top elements have it or more; `need`: how many of the equal ones to take. */
uint find_threshold(inout uint need)
{
    uint prefix = 0, mask = 0;
    [[dont_unroll]] for (int shift = 24; shift >= 0; shift -= 8) {
        for (uint i = gl_LocalInvocationIndex; i < 256; i += THREADS) {
            histogram[i] = 0;
        }
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < count; i += THREADS) {
            uint key = element_key(i);
            if ((key & mask) == prefix) {
                atomicAdd(histogram[(key >> shift) & 255], 1);
            }
        }
        barrier();
        if (gl_SubgroupID == 0) {
            pick_bin(need);
        }
        barrier();
        prefix |= picked_bin << shift;
        mask |= 255u << shift;
        need -= picked_above;
        barrier();
    }
    return prefix;
}

/* Greatest key of all. */
uint find_greatest()
{
    uint most = 0;
    for (uint i = gl_LocalInvocationIndex; i < count; i += THREADS) {
        most = max(most, element_key(i));
    }
    most = subgroupMax(most);
    if (gl_SubgroupInvocationID == 0) {
        histogram[gl_SubgroupID & 255] = most;
    }
    barrier();
    for (uint i = 0; i < gl_NumSubgroups; i++) {
        most = max(most, histogram[i & 255]);
    }
    return most;
}

/* Appends the `need` lowest ids among the elements whose key is `threshold`. */
void take_equal(uint threshold, uint need)
{
    uint least = 0;
    for (uint taken = 0; taken < need; taken++) {
        if (gl_LocalInvocationIndex == 0) {
            least_id = 0xffffffffu;
        }
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < count; i += THREADS) {
            uint id = element_id(i);
            if (element_key(i) == threshold && id >= least) {
                atomicMin(least_id, id);
            }
        }
        barrier();
        least = least_id + 1;
        if (gl_LocalInvocationIndex == 0 && n_list < MAX_TOP) {
            list_key[n_list] = threshold;
            list_id[n_list] = least_id;
            n_list++;
        }
        barrier();
    }
}

void write_sorted(uint at)
{
    for (uint i = gl_LocalInvocationIndex; i < n_top; i += THREADS) {
        if (i >= n_list) {
            p.out_values.at[at + i] = -3.0e38;
            p.out_ids.at[at + i] = -1;
            continue;
        }
        uint key = list_key[i], id = list_id[i], rank = 0;
        for (uint j = 0; j < n_list; j++) {
            rank += (list_key[j] > key || (list_key[j] == key && list_id[j] < id)) ? 1 : 0;
        }
        p.out_values.at[at + rank] = value_of(key);
        p.out_ids.at[at + rank] = int(id);
    }
}

void sum_exponentials()
{
    float most = -3.0e38, sum = 0.0;
    uint n = MERGE ? p.n_slices : count;
    for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
        most = max(most, MERGE ? p.stats.at[row * p.n_slices + i].x : value_of(cached[i]));
    }
    most = workgroup_max(most);
    for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
        if (MERGE) {
            vec2 s = p.stats.at[row * p.n_slices + i];
            sum += s.y * exp(s.x - most);
        } else {
            sum += exp(value_of(cached[i]) - most);
        }
    }
    sum = workgroup_sum(sum);
    if (gl_LocalInvocationIndex == 0) {
        if (MERGE) {
            p.log_sum_exp.at[row] = most + log(sum);
        } else {
            p.stats.at[row * p.n_slices + gl_WorkGroupID.x] = vec2(most, sum);
        }
    }
}

void main()
{
    row = gl_WorkGroupID.y;
    n_top = uint(p.n_top_at.at[0]);
    first = MERGE ? 0 : gl_WorkGroupID.x * SLICE;
    count = MERGE ? p.n_slices * n_top : min(SLICE, p.n - first);
    cache_keys();
    if (gl_LocalInvocationIndex == 0) {
        n_list = 0;
    }
    barrier();
    uint need = min(n_top, count);
    uint threshold = n_top == 1 ? find_greatest() : find_threshold(need);
    for (uint i = gl_LocalInvocationIndex; i < count; i += THREADS) {
        uint key = element_key(i);
        if (key > threshold) {
            uint at = atomicAdd(n_list, 1);
            if (at < MAX_TOP) {
                list_key[at] = key;
                list_id[at] = element_id(i);
            }
        }
    }
    barrier();
    take_equal(threshold, need);
    write_sorted(MERGE ? row * MAX_TOP : (row * p.n_slices + gl_WorkGroupID.x) * MAX_TOP);
    sum_exponentials();
}
