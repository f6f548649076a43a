/* What the phases of resident_few.comp share: addresses, shared memory, sums, waits. */
#define AT_USED p.used
#define AT_MEETINGS p.meetings
#include "resident/resident_waits.glsl"
#define LOGITS Shared(work_at(p.logits))
#define X Shared(work_at(p.x))
#define X4 Shared4(work_at(p.x))

const uint T = gl_WorkGroupSize.x, SUBGROUPS = T / LANES, WARPS = T / 32;
const uint D_CHUNKS = D_MODEL / 32, MIXED_CHUNKS = MIXED / 32, FF_CHUNKS = D_FF / 32;
const uint D_STEPS = D_CHUNKS / 4, FF_STEPS = FF_CHUNKS / 4; /* of four chunks, of four threads */
const uint X_PITCH = D_MODEL / 8 + 4;     /* of a row of halves: rows g and g + 1 lie in other banks */
const uint PAIRS = MATRIX_FEW * N_USED;
const uint SEGMENTS = D_MODEL / (4 * LANES); /* of a row, four columns for each thread of a subgroup */
const uint EXTRA_PARTS = SEGMENTS > SUBGROUPS ? SEGMENTS : SUBGROUPS;
const uint QKV_AHEAD = 2;                 /* tiles of qkv asked for at once */

const uint POOL_ROWS = MATRIX_FEW * X_PITCH, POOL_PARTS = SLICES * PAIRS * 4;
const uint ZEROS_AT = POOL_ROWS > POOL_PARTS ? POOL_ROWS : POOL_PARTS, ZERO_VECTORS = 13; /* behind it */
shared uvec4 pool[ZEROS_AT + ZERO_VECTORS]; /* halves of X, in few_order; or sums of down [SLICES][PAIRS][16] */
#ifdef EMULATED
const uint UP_BATCH = 32; /* slices of up whose sums have a place */
#else
const uint UP_BATCH = 96;
#endif
const uint TILE_SUMS = WARPS * 128 > UP_BATCH * 32 ? WARPS * 128 : UP_BATCH * 32, ROW_SUMS = MATRIX_FEW * (SEGMENTS + EXTRA_PARTS);
shared float sums[TILE_SUMS > ROW_SUMS ? TILE_SUMS : ROW_SUMS]; /* of one phase at a time */
#define squares_of(i) sums[i]                           /* [MATRIX_FEW][SEGMENTS] */
#define extra_of(i) sums[MATRIX_FEW * SEGMENTS + (i)] /* [MATRIX_FEW][EXTRA_PARTS] */
shared float factor_of[MATRIX_FEW];

Planes wo()
{
    return Planes(weight_at(p.wo_data), weight_at(p.wo_scales), weight_at(p.wo_biases));
}
Planes qkv()
{
    return Planes(weight_at(p.qkv_data), weight_at(p.qkv_scales), weight_at(p.qkv_biases));
}

uint warp()
{
    return gl_LocalInvocationIndex / 32;
}

uint lane()
{
    return gl_LocalInvocationIndex % 32;
}

/* Sums over a subgroup: thread i gets that of v[i % 8]. */
float sum_of_eight(float v[8])
{
    uint l = gl_SubgroupInvocationID;
    float a[4], b[2];
    [[unroll]] for (uint i = 0; i < 4; i++) {
        bool upper = (l & 4) != 0;
        a[i] = (upper ? v[i + 4] : v[i]) + subgroupShuffleXor(upper ? v[i] : v[i + 4], 4);
    }
    [[unroll]] for (uint i = 0; i < 2; i++) {
        bool upper = (l & 2) != 0;
        b[i] = (upper ? a[i + 2] : a[i]) + subgroupShuffleXor(upper ? a[i] : a[i + 2], 2);
    }
    bool upper = (l & 1) != 0;
    float c = (upper ? b[1] : b[0]) + subgroupShuffleXor(upper ? b[0] : b[1], 1);
    [[unroll]] for (uint by = 8; by < LANES; by *= 2) {
        c += subgroupShuffleXor(c, by);
    }
    return c;
}

/* Which of a tile's results thread i < 128 gets from meet(). */
uint result_row()
{
    return lane() / 4 + warp() / 2 * 8;
}
uint result_column()
{
    return lane() % 4 * 2 + warp() % 2;
}

/* The sums over all 32 threads' parts of a tile of 16 rows. */
float meet(vec4 v)
{
    barrier(); /* who still reads the last ones */
    [[unroll]] for (uint i = 0; i < 4; i++) {
        sums[warp() * 128 + i * 32 + lane()] = v[i];
    }
    barrier();
    float sum = 0.0;
    if (gl_LocalInvocationIndex < 128) {
        [[unroll]] for (uint s = 0; s < WARPS; s++) {
            sum += sums[s * 128 + gl_LocalInvocationIndex];
        }
    }
    return sum;
}

/* The logits of expert e: all threads' parts of them. */
void logit_meet(uint e, float part[MATRIX_FEW], bool add)
{
    float sum = sum_of_eight(part);
    barrier(); /* who still reads the last ones */
    if (gl_SubgroupInvocationID < MATRIX_FEW) {
        extra_of(gl_SubgroupInvocationID * EXTRA_PARTS + gl_SubgroupID) = sum;
    }
    barrier();
    uint r = gl_LocalInvocationIndex;
    if (r < p.n_rows) {
        float all = add ? LOGITS.at[r * LOGIT_STRIDE + e] : 0.0;
        [[dont_unroll]] for (uint s = 0; s < SUBGROUPS; s++) {
            all += extra_of(r * EXTRA_PARTS + s);
        }
        LOGITS.at[r * LOGIT_STRIDE + e] = all;
    }
}

#define NEXT_PROJECTED (RESIDENT_MEETINGS + RESIDENT_PROJECTED) /* in the next layer's counters */

/* As in resident_parts.glsl, but who gives up does nothing more: a software device ends all later loops at once. It counts for the next attention,
 * which need not wait in vain too. */
shared bool has_all;
bool wait_for(uint meeting, uint n)
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
            if (ATTENDED > 0 && p.layer + 1 < p.n_layer) {
                atomicAdd(meeting_of(NEXT_PROJECTED).at[0], 1, gl_ScopeDevice, 0, gl_SemanticsRelaxed);
            }
        }
        has_all = all;
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared | gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    return has_all;
}

bool wait_for_all(uint meeting)
{
    return wait_for(meeting, gl_NumWorkGroups.x);
}

/* Attention's result is there behind this: of each row that is alive ATTENDED workgroups count, of padding none. */
bool wait_for_attention()
{
    if (ATTENDED == 0) {
        return true;
    }
    uint n = 0;
    [[dont_unroll]] for (uint r = 0; r < p.n_rows; r++) {
        n += p.token_rows.at[r].y < 0 ? 0 : ATTENDED;
    }
    return wait_for(RESIDENT_ATTENDED, n);
}

/* All threads of a workgroup go through emulated products together, so all have as many units; those past the end repeat the last. */
#ifdef EMULATED
#define UNITS(u, n, first, by) (uint round_ = 0, u = first; round_ < (n + by - 1) / (by); round_++, u += by)
#else
#define UNITS(u, n, first, by) (uint u = first; u < n; u += by)
#endif

/* In experts' products two of the units' eight columns are for each of a step's four chunks, with two rows of X, as in row_units.glsl: thread 4 g + t gets
 * the sums of its own chunks alone, and scales are applied in f32. Whether the thread's column has what it multiplies, not zeros. */
bool has_column()
{
    return lane() / 8 == lane() % 4;
}

/* Codes of a word as halves, times 2^-14, as fp4_bits in fewer instructions. */
uvec4 word_codes(uint q)
{
    return uvec4(((q & 0x40074007u) * 514u) & 0x8e008e00u, (q << 3) & 0x8e008e00u, ((q & 0x20382038u) * 68u) & 0x8e008e00u, q & 0x8e008e00u);
}

float scale_of(uint word)
{
    return uintBitsToFloat(max(((word >> (lane() % 4 * 8)) & 0xffu) << 23, 0x00400000u));
}

/* Two rows of W, whose words of scales are low_scale and high_scale, times two columns: 2^-14 of it. */
vec4 step_sums(uvec4 low, uvec4 high, uint low_scale, uint high_scale, uvec4 x[4])
{
    MatrixSum c;
    PRODUCT_CLEAR(c)
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 l = word_codes(low[i]), h = word_codes(high[i]);
        PRODUCT_ADD(c, l.xy, h.xy, x[i].xy)
        PRODUCT_ADD(c, l.zw, h.zw, x[i].zw)
    }
    return PRODUCT_VALUES(c) * vec4(vec2(scale_of(low_scale)), vec2(scale_of(high_scale)));
}

/* The sums over the four threads of a row, of which thread t gets number t. */
float row_sum(vec4 v)
{
    bool upper = (lane() & 2) != 0, odd = (lane() & 1) != 0;
    vec2 a = (upper ? v.zw : v.xy) + subgroupShuffleXor(upper ? v.xy : v.zw, 2);
    return ((odd ? a.y : a.x) + subgroupShuffleXor(odd ? a.x : a.y, 1)) * 16384.0;
}
