/* Where attention's result comes from: its workgroups are waited for unless a barrier stands before this dispatch, and what the splits of a row's
 * context left (attn_splits.glsl) is merged as attn_merge.comp does it, by a workgroup for each query head: heads without gates, sinks or a window. */
layout(constant_id = SPEC_ATTENDED) const uint ATTENDED = 0;
layout(constant_id = SPEC_RESIDENT_MERGE) const uint MERGE = 0; /* by record_merge_inside() */
const uint MERGE_SPLITS = MERGE & 255, MERGE_BLOCKS = MERGE >> 8 & 255; /* at most; of a split at least */
const uint MERGE_GROUP = MERGE >> 16 & 31, MERGE_HEADS = MERGE >> 21 & 15; /* query heads of a KV head, of a workgroup of attention */
const uint HEAD_QUADS = MERGE == 0 ? 32 : MERGE >> 25 & 63;              /* four columns each */
const bool MERGE_ROTATED = MERGE >> 31 != 0;                             /* as packed keys and values are */
const uint MERGE_PAIRS = MERGE == 0 ? 1 : (MERGE_GROUP + MERGE_HEADS - 1) / MERGE_HEADS;
const uint N_HEAD = MIXED / (4 * HEAD_QUADS), MOST_RUNS = 8 * STRIDE / HEAD_QUADS;
const uint RUNS = T / HEAD_QUADS < MOST_RUNS ? T / HEAD_QUADS : MOST_RUNS; /* a thread has four columns of every RUNS-th split */
const uint PARTS_EACH = (MERGE_SPLITS + RUNS - 1) / RUNS, TOPS_EACH = (MERGE_SPLITS + LANES - 1) / LANES;

layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer Shared2 { vec2 at[]; };
shared float split_share[MERGE_SPLITS + 1];
vec2 left[TOPS_EACH + 1]; /* of splits, a maximum and a denominator each */

/* Splits of the row's context: splits_of() of attn_splits.glsl, without a window. */
uint n_splits()
{
    if (MERGE_SPLITS == 0) {
        return 1;
    }
    ivec4 row = p.token_rows.at[0]; /* whole, as main() has it: llvmpipe takes the first part for the second of a load by parts here */
    uint n_blocks = uint(row.y) / 32 + 1, each = max(MERGE_BLOCKS, (n_blocks + MERGE_SPLITS - 1) / MERGE_SPLITS);
    return (n_blocks + each - 1) / each;
}

/* Each split's share of the result. */
void weigh_splits(uint n)
{
    float most = -1.0e30, sum = 0.0;
    [[unroll]] for (uint i = 0; i < TOPS_EACH; i++) {
        most = max(most, gl_SubgroupInvocationID + i * LANES < n ? left[i].x : -1.0e30);
    }
    most = subgroupMax(most);
    [[unroll]] for (uint i = 0; i < TOPS_EACH; i++) {
        left[i].x = exp2(left[i].x - most);
        sum += gl_SubgroupInvocationID + i * LANES < n ? left[i].y * left[i].x : 0.0;
    }
    sum = subgroupAdd(sum);
    [[unroll]] for (uint i = 0; i < TOPS_EACH; i++) {
        uint split = gl_SubgroupInvocationID + i * LANES;
        if (split < n) {
            split_share[split] = left[i].x / sum;
        }
    }
}

/* Back from what packed keys and values are rotated by; a subgroup has the head. */
vec4 rotated_back(vec4 v)
{
    vec4 a = vec4(v.x + v.y, v.x - v.y, v.z + v.w, v.z - v.w);
    v = vec4(a.xy + a.zw, a.xy - a.zw) * inversesqrt(float(4 * HEAD_QUADS));
    [[unroll]] for (uint bit = 1; bit < HEAD_QUADS; bit *= 2) {
        v = fma(v, vec4((gl_SubgroupInvocationID & bit) != 0 ? -1.0 : 1.0), subgroupShuffleXor(v, bit));
    }
    return v;
}

void merge_head(uint head, uint n)
{
    uint run = gl_LocalInvocationIndex / HEAD_QUADS, own = gl_LocalInvocationIndex % HEAD_QUADS, h = head % MERGE_GROUP % MERGE_HEADS;
    uint pair = head / MERGE_GROUP * MERGE_PAIRS + head % MERGE_GROUP / MERGE_HEADS;
    uint parts = pair * (MERGE_SPLITS * MERGE_HEADS * (4 * HEAD_QUADS + 2) / 4);
    uint tops = 2 * (parts + MERGE_SPLITS * MERGE_HEADS * HEAD_QUADS) + h;
    vec4 part[PARTS_EACH + 1];
    [[unroll]] for (uint i = 0; i < TOPS_EACH; i++) {
        left[i] = Shared2(work_at(AT_PARTS)).at[tops + min(gl_SubgroupInvocationID + i * LANES, MERGE_SPLITS - 1) * MERGE_HEADS];
    }
    [[unroll]] for (uint i = 0; i < PARTS_EACH; i++) {
        part[i] = Shared4(work_at(AT_PARTS)).at[parts + (min(run + i * RUNS, MERGE_SPLITS - 1) * MERGE_HEADS + h) * HEAD_QUADS + own];
    }
    if (gl_SubgroupID == 0) {
        weigh_splits(n);
    }
    barrier();
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0; i < PARTS_EACH; i++) {
        uint split = run + i * RUNS;
        sum += split < n ? split_share[split] * part[i] : vec4(0.0);
    }
    if (run < RUNS) {
        tile[gl_LocalInvocationIndex] = sum;
    }
    barrier();
    if (run == 0) {
        [[unroll]] for (uint i = 1; i < RUNS; i++) {
            sum += tile[i * HEAD_QUADS + own];
        }
        Shared4(work_at(AT_MIXED)).at[head * HEAD_QUADS + own] = MERGE_ROTATED ? rotated_back(sum) : sum;
    }
}

/* Its result is there behind this. */
void wait_for_attention()
{
    bool merges = MERGE_SPLITS > 0;
    uint n = n_splits();
    if (ATTENDED > 0 && (!merges || gl_WorkGroupID.x < N_HEAD)) {
        wait_for(RESIDENT_ATTENDED, n * ATTENDED);
    }
    if (!merges) {
        return;
    }
    [[dont_unroll]] for (uint head = gl_WorkGroupID.x; head < N_HEAD; head += gl_NumWorkGroups.x) {
        merge_head(head, n);
    }
    if (gl_WorkGroupID.x < N_HEAD) {
        count_in(RESIDENT_MERGED);
    }
    wait_for(RESIDENT_MERGED, min(N_HEAD, gl_NumWorkGroups.x));
}
