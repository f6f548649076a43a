/* Choice of experts by rank: each thread holds experts e, e + threads, ... and counts how many come before its own
 * (greater score, or equal score and lower id), so that no step depends on another and ties always fall alike. */
layout(constant_id = SPEC_N_EXPERT) const uint N_EXPERT = 24;
layout(constant_id = SPEC_N_USED) const uint N_USED = 4;
layout(constant_id = SPEC_SCORE) const uint SCORE = 0; /* enum router_score: softmax, top-k then softmax, sigmoid */
layout(constant_id = SPEC_NORMALIZE) const bool NORMALIZE = true;
#ifdef BY_LOGITS_ALONE /* route_logits.glsl, of whoever needs the numbers of these constants */
const uint N_GROUP = 1, N_GROUP_USED = 1;
#else
layout(constant_id = SPEC_N_GROUP) const uint N_GROUP = 1;
layout(constant_id = SPEC_N_GROUP_USED) const uint N_GROUP_USED = 1;
#endif
layout(constant_id = SPEC_SELECT_BIAS) const bool SELECT_BIAS = false;
layout(constant_id = SPEC_TRACE) const bool TRACE = false; /* measurements: the experts of a trace take the chosen ones' places */

const uint EXPERTS4 = (N_EXPERT + 3) / 4;
shared vec4 route_score4[EXPERTS4]; /* what the choice goes by; past the end: least */
shared vec4 route_logit4[EXPERTS4];
#define route_score(e) route_score4[(e) >> 2][(e) & 3]
#define route_logit(e) route_logit4[(e) >> 2][(e) & 3]
shared float route_group[N_GROUP];
shared int chosen_id[N_USED];
shared float chosen_weight[N_USED]; /* e^(logit - max), or the sigmoid */

const uint GROUP_SIZE = N_EXPERT / N_GROUP;

/* Loads from shared memory in flight while an expert's rank is counted: more take registers from what else a shader does. */
#ifndef RANK_AT_ONCE
#define RANK_AT_ONCE 1
#endif
#ifndef RouteLogits
#define RouteLogits F32
#endif

/* Threads that share the counting for an expert: neighbours. */
const uint RANK_PARTS = gl_WorkGroupSize.x >= 2 * N_EXPERT ? 2 : 1;

uint route_rank(uint e, uint part)
{
    const uint each = (EXPERTS4 + RANK_PARTS - 1) / RANK_PARTS;
    float s = route_score(e);
    uvec4 rank = uvec4(0);
    [[dont_unroll]] for (uint from = part * each; from < part * each + each; from += RANK_AT_ONCE) {
        vec4 o[RANK_AT_ONCE];
        [[unroll]] for (uint k = 0; k < RANK_AT_ONCE; k++) {
            o[k] = route_score4[min(from + k, EXPERTS4 - 1)];
        }
        [[unroll]] for (uint k = 0; k < RANK_AT_ONCE; k++) {
            uint i = from + k;
            bool counts = i < min(part * each + each, EXPERTS4);
            uvec4 id = i * 4 + uvec4(0, 1, 2, 3);
            uvec4 before = uvec4(greaterThan(o[k], vec4(s))) + uvec4(equal(o[k], vec4(s))) * uvec4(lessThan(id, uvec4(e)));
            rank += counts ? before : uvec4(0);
        }
    }
    uint sum = rank.x + rank.y + rank.z + rank.w;
    return RANK_PARTS == 2 ? sum + subgroupShuffleXor(sum, 1) : sum;
}

/* Group score: the sum of its two best; groups outside the best N_GROUP_USED drop out. */
void route_groups()
{
    for (uint g = gl_LocalInvocationIndex; g < N_GROUP; g += gl_WorkGroupSize.x) {
        float best = -1.0e30, next = -1.0e30;
        for (uint i = g * GROUP_SIZE; i < (g + 1) * GROUP_SIZE; i++) {
            float s = route_score(i);
            next = max(next, min(best, s));
            best = max(best, s);
        }
        route_group[g] = best + next;
    }
    barrier();
    for (uint e = gl_LocalInvocationIndex; e < N_EXPERT; e += gl_WorkGroupSize.x) {
        uint mine = e / GROUP_SIZE, rank = 0;
        float s = route_group[mine];
        for (uint g = 0; g < N_GROUP; g++) {
            float o = route_group[g];
            rank += (o > s || (o == s && g < mine)) ? 1 : 0;
        }
        if (rank >= N_GROUP_USED) {
            route_score(e) = -1.0e30;
        }
    }
    barrier();
}

/* Fills n_used places of chosen_id, chosen_weight from route_score and route_logit; ends with a barrier. Returns the
 * factor that makes weights of chosen_weight (before moe_plan.scale). Scores that are no numbers share a rank: places that
 * none has keep an expert that exists, since ids are addresses and indices for whoever reads them. */
float route_choose(uint n_used)
{
    for (uint i = gl_LocalInvocationIndex; i < N_USED; i += gl_WorkGroupSize.x) {
        chosen_id[i] = int(i);
        chosen_weight[i] = 0.0;
    }
    barrier();
    if (N_GROUP > 1) {
        route_groups();
    }
    vec4 most4 = vec4(-1.0e30);
    for (uint i = gl_SubgroupInvocationID; i < EXPERTS4; i += gl_SubgroupSize) {
        most4 = max(most4, route_logit4[i]);
    }
    float most = subgroupMax(max(max(most4.x, most4.y), max(most4.z, most4.w)));
    for (uint i = gl_LocalInvocationIndex; i < N_EXPERT * RANK_PARTS; i += gl_WorkGroupSize.x) {
        uint e = i / RANK_PARTS, rank = route_rank(e, i % RANK_PARTS);
        if (rank < n_used && i % RANK_PARTS == 0) {
            chosen_id[rank] = int(e);
            chosen_weight[rank] = SCORE == 2 ? sigmoid(route_logit(e)) : exp(route_logit(e) - most);
        }
    }
    barrier();
    float sum = 0.0;
    if (SCORE == 0 && !NORMALIZE) { /* the plain softmax over all experts */
        for (uint i = 0; i < N_EXPERT; i++) {
            sum += exp(route_logit(i) - most);
        }
    } else if (NORMALIZE || SCORE == 1) {
        for (uint i = 0; i < n_used; i++) {
            sum += chosen_weight[i];
        }
    } else {
        sum = 1.0;
    }
    return 1.0 / sum;
}

/* Loads the logits of one row, chooses, and returns the expert of slot k; `writes` workgroups also write ids, weights and
 * the bits of experts in use. The logits count times logit_scale. Slots that the row does not use have expert -1, all of them where it only pads the batch.
 * trace [T, N_USED]: read with TRACE only. */
int route_row(RouteLogits logits, F32 select_bias, I32 ids, F32 weights, U32 used, I32 trace, uint t, uint stride, float logit_scale,
              float scale, ivec4 row, bool writes, uint k)
{
    bool dead = row.y < 0;
    uint n_used = row_experts(row, N_USED);
    for (uint e = gl_LocalInvocationIndex; e < EXPERTS4 * 4; e += gl_WorkGroupSize.x) {
        if (e >= N_EXPERT) {
            route_logit(e) = route_score(e) = -2.0e30;
            continue;
        }
        float v = logits.at[t * stride + e] * logit_scale;
        route_logit(e) = v;
        float s = SCORE == 2 ? sigmoid(v) : v;
        route_score(e) = SELECT_BIAS ? s + select_bias.at[e] : s;
    }
    float factor = route_choose(n_used) * scale;
    for (uint i = gl_LocalInvocationIndex; writes && i < N_USED; i += gl_WorkGroupSize.x) {
        int e = dead || i >= n_used ? -1 : TRACE ? trace.at[t * N_USED + i] : chosen_id[i];
        ids.at[t * N_USED + i] = e;
        weights.at[t * N_USED + i] = i < n_used ? chosen_weight[i] * factor : 0.0;
        if (e >= 0) {
            atomicOr(used.at[e / 32], 1u << (e % 32));
        }
    }
    return dead || k >= n_used ? -1 : chosen_id[k];
}

/* The pairs of row t, just written by route_row, to their experts' lists [n_expert, list_rows], of counts[e] so far; 0: there are none. */
void route_list(I32 ids, U32 counts, U32 lists, uint t, uint list_rows)
{
    for (uint i = gl_LocalInvocationIndex; list_rows > 0 && i < N_USED; i += gl_WorkGroupSize.x) {
        int e = ids.at[t * N_USED + i]; /* which this very thread wrote */
        uint place = e >= 0 ? atomicAdd(counts.at[e], 1) : list_rows;
        if (place < list_rows) { /* always, unless logits are no numbers: then a row may have an expert twice */
            lists.at[uint(e) * list_rows + place] = t * N_USED + i;
        }
    }
}
