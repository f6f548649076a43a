/* What the phases of resident.comp share: addresses, the tile and products with it, waits. */
#include "resident/resident_waits.glsl"
#define LOGITS Shared(work_at(AT_LOGITS))
#define X Shared(work_at(AT_X))
#define X4 Shared4(work_at(AT_X))
#define LOGITS_ALL (N_EXPERT + (SHARED ? 1 : 0)) /* the last is of the shared expert's gate */

const uint T = gl_WorkGroupSize.x, SUBGROUPS = T / LANES;
const uint D_CHUNKS = D_MODEL / 32, MIXED_CHUNKS = MIXED / 32, FF_CHUNKS = D_FF / 32;
const uint WIDER = D_CHUNKS > MIXED_CHUNKS ? D_CHUNKS : MIXED_CHUNKS;
const uint SLOTS = N_USED + (SHARED ? 1 : 0); /* experts of the row: the shared one is the last */
const uint MOST = WIDER > FF_CHUNKS * SLOTS ? WIDER : FF_CHUNKS * SLOTS; /* chunks of the tile */
const uint X_LOADS = (D_CHUNKS * 8 + T - 1) / T, MIXED_LOADS = (MIXED_CHUNKS * 8 + T - 1) / T,
           H_LOADS = (FF_CHUNKS * SLOTS * 8 + T - 1) / T;
const uint STRIDE = MOST + 1;
const uint VALUES = 4;                    /* gate, up, gate, up: of a subgroup in up */
const uint VALUE_LANES = LANES / VALUES;
const uint QKV_LANES = LANES / 2;         /* two rows of a subgroup read the same x */
const uint AHEAD = 2;                     /* chunks of experts that a thread asks for at once */

shared vec4 tile[8 * STRIDE]; /* float4 number j of chunk c at [j][c], as tile.glsl's */
shared float squares_of[SUBGROUPS], extra_of[BESIDE_LOGITS][SUBGROUPS];
shared float slot_weight[SLOTS];

#if defined(BLOCKS)
#include "resident/resident_blocks.glsl"
#else
#define Matrix Planes
#define EXPERT_DOT(m, w, c) expert_dot(w, c)
#define DENSE_DOT(m, w, c) dense_dot(w, c)
Planes wo()
{
    return Planes(weight_at(p.wo_data), weight_at(p.wo_scales), weight_at(p.wo_biases));
}
Planes up()
{
    return Planes(weight_at(p.up_data), weight_at(p.up_scales), 0);
}
Planes down()
{
    return Planes(weight_at(p.down_data), weight_at(p.down_scales), 0);
}
Planes shared_up()
{
    return Planes(weight_at(p.shared_up_data), weight_at(p.shared_up_scales), weight_at(p.shared_up_biases));
}
Planes shared_down()
{
    return Planes(weight_at(p.shared_down_data), weight_at(p.shared_down_scales), weight_at(p.shared_down_biases));
}
Planes qkv()
{
    return Planes(weight_at(p.qkv_data), weight_at(p.qkv_scales), weight_at(p.qkv_biases));
}
#endif

/* This subgroup's first row, and how far its next one is: neighbours are of different workgroups, so that a rest is spread over all. */
uint first_row()
{
    return gl_SubgroupID * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}
uint next_row()
{
    return SUBGROUPS * gl_NumWorkGroups.x;
}

void tile_put(uint i, vec4 v)
{
    tile[(i & 7) * STRIDE + (i >> 3)] = v;
#if defined(BLOCKS)
    sums_put(i, v);
#endif
}

vec4 tile_at(uint i)
{
    return tile[(i & 7) * STRIDE + (i >> 3)];
}

#if !defined(BLOCKS)
float tile_dot(uint c, vec4 code[8], float scale, float offset, bool has_offset)
{
    vec4 x = tile[c], sum = code[0] * x, plain = x;
    [[unroll]] for (uint j = 1; j < 8; j++) {
        x = tile[j * STRIDE + c];
        sum = fma(code[j], x, sum);
        plain += x;
    }
    float result = scale * ((sum.x + sum.y) + (sum.z + sum.w));
    return has_offset ? result + offset * ((plain.x + plain.y) + (plain.z + plain.w)) : result;
}

float expert_dot(Packed w, uint c)
{
    vec4 code[8];
    float scale, offset;
    packed_decode(w, code, scale, offset);
    return tile_dot(c, code, scale, offset, false);
}
#endif

#if defined(DENSE_MXFP4) || defined(BLOCKS)
#define Dense Packed
#define dense_load packed_load
#define dense_dot expert_dot
#else
#undef HAS_OFFSET
#define Packed Dense
#define packed_load dense_load
#define packed_decode dense_decode
#if defined(DENSE_AFFINE)
#include "quant_affine.glsl"
#elif defined(DENSE_BLOCK)
#include "quant_block.glsl"
#endif
#undef Packed
#undef packed_load
#undef packed_decode
float dense_dot(Dense w, uint c)
{
    vec4 code[8];
    float scale, offset;
    dense_decode(w, code, scale, offset);
    return tile_dot(c, code, scale, offset, HAS_OFFSET == 1);
}
#endif

/* Behind the meetings of all layers: which pieces of a layer's state are a step further. */
U32 advanced_of(uint layer)
{
    return U32(work_at(AT_MEETINGS) + 4ul * (p.n_layer * RESIDENT_MEETINGS * RESIDENT_LINE_WORDS + layer * RESIDENT_ADVANCED_WORDS));
}

/* Formally an acquire is missing, which would cost 2 % of a step on an H100. NVIDIA's devices, which alone come here, begin `coherent` loads that
 * stand behind the barrier only after it, and results are as exact without. */
void wait_for(uint meeting, uint n)
{
    Counter count = meeting_of(meeting);
    if (gl_LocalInvocationIndex == 0) {
        bool all = false, given_up = false;
        for (uint polls = 1; !all && !given_up && polls <= MOST_POLLS; polls++) { /* a software device ends a loop before that */
            all = atomicLoad(count.at[0], gl_ScopeDevice, 0, gl_SemanticsRelaxed) >= n;
            given_up = polls % 64 == 0 && is_given_up();
        }
        if (!all) {
            atomicStore(GAVE_UP, 1u, gl_ScopeDevice, 0, gl_SemanticsRelaxed);
        }
    }
    barrier();
}

void wait_for_all(uint meeting)
{
    wait_for(meeting, gl_NumWorkGroups.x);
}
