/* Both halves of the experts of resident_few.comp. */
const uint HELD = 4; /* words of scales that a thread has of a row, its three neighbours those that follow */
const uint UP_TILES = D_FF / 8; /* units of an expert: 8 gates and their ups */
const uint UP_SLICES = D_STEPS % 8 == 0 ? 2 : 1, UP_STEPS = D_STEPS / UP_SLICES;
uvec4 low[DEPTH], high[DEPTH]; /* chunks of rows g and g + 8 of the steps that follow */
uvec4 low_scales, high_scales; /* of the unit that follows */
uint at_after;

/* Gate number g, its up 8 rows later in the units: such that those whose results share a word are neighbours'. */
uint own_row()
{
    uint g = lane() / 4;
    return g / 2 + g % 2 * 4;
}

/* Slices of units that this workgroup has. */
uint up_slices()
{
    uint n = n_entries * UP_TILES;
    return n > gl_WorkGroupID.x ? ((n - gl_WorkGroupID.x - 1) / gl_NumWorkGroups.x + 1) * UP_SLICES : 0;
}

/* The unit of slice j of this workgroup. */
uint up_unit(uint j)
{
    return j / UP_SLICES * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

/* First chunk of the thread's gate of slice j. */
uint up_at(uint j)
{
    uint u = up_unit(j), e = entries[min(u / UP_TILES, max(n_entries, 1) - 1)];
    return (e * D_FF + u % UP_TILES * 8 + own_row()) * D_CHUNKS + j % UP_SLICES * UP_STEPS * 4;
}

void up_fetch(uint at, uint slot)
{
    const uint linear = D_FF * N_EXPERT * D_CHUNKS;
    U32x4 w = U32x4(weight_at(p.up_data));
    low[slot] = w.at[at + lane() % 4];
    high[slot] = w.at[at + linear + lane() % 4];
}

/* Words of the scales of 16 steps from step s of a slice on. */
void up_scales(uint at, uint s)
{
    const uint linear = D_FF * N_EXPERT * D_CHUNKS / 16;
    uint i = at / 16 + min(s / 4 + lane() % 4, UP_STEPS / 4 - 1);
    U32x4 w = U32x4(weight_at(p.up_scales));
    low_scales = w.at[i];
    high_scales = w.at[i + linear];
}

/* Asks for what comes first. */
void up_begin()
{
    at_after = up_at(min(warp(), max(up_slices(), 1) - 1));
    up_scales(at_after, 0);
    [[unroll]] for (uint i = 0; i < DEPTH; i++) {
        up_fetch(at_after + i * 4, i);
    }
}

/* The sums of slice `at`, of which slice number `after` follows. */
float up_slice(uint at, uint x_at, uint x_step)
{
    vec4 sum = vec4(0.0);
    uvec4 held_low, held_high;
    [[dont_unroll]] for (uint k0 = 0; k0 < UP_STEPS; k0 += HELD) {
        if (k0 % 16 == 0) {
            if (k0 > 0) {
                up_scales(at, k0);
            }
            held_low = low_scales;
            held_high = high_scales;
            if (k0 + 16 >= UP_STEPS) {
                up_scales(at_after, 0);
            }
        }
        uint who = (gl_SubgroupInvocationID & ~3u) | (k0 / HELD % 4);
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            uint k = k0 + i, slot = i % DEPTH;
            uvec4 x[4];
            [[unroll]] for (uint j = 0; j < 4; j++) {
                x[j] = pool[x_at + k * x_step + j * 4];
            }
            sum += step_sums(low[slot], high[slot], subgroupShuffle(held_low[i], who), subgroupShuffle(held_high[i], who), x);
            up_fetch(k + DEPTH < UP_STEPS ? at + (k + DEPTH) * 4 : at_after + (k + DEPTH - UP_STEPS) * 4, slot);
        }
    }
    return row_sum(sum);
}

/* Results of 8 gates and ups for an entry's rows, in few_order: v is gate or up of the first row or the second. */
void up_put(float v, uint u)
{
    uint g = lane() / 4, t = lane() % 4;
    float linear = subgroupShuffleXor(v, 2), h = activate(v, linear), got = subgroupShuffleXor(h, 4);
    uint pair = pair_of[u / UP_TILES * ENTRY_ROWS + t % 2];
    if (t < 2 && g % 2 == 0 && pair != NO_PAIR) {
        SharedWords(work_at(p.h)).at[(pair * D_FF + few_place(u % UP_TILES * 8) + g) / 2] = packHalf2x16(vec2(h, got));
    }
}

/* H = silu(gate X) * (up X) of all pairs. Slices of a unit meet in shared memory when all of them are done: so many that no 32 threads have
 * much more to do than others. */
void up_product()
{
    uint n = up_slices(), x_step = has_column() ? 16 : 0;
    [[dont_unroll]] for (uint base = 0; base < n; base += UP_BATCH) {
        uint end = min(base + UP_BATCH, n);
        [[dont_unroll]] for UNITS(j, end - base, warp(), WARPS) {
            uint me = base + min(j, end - base - 1), at = at_after;
            at_after = base + j + WARPS < n ? up_at(base + j + WARPS) : at;
            uint x_at = has_column() ? column_pair(up_unit(me) / UP_TILES) / N_USED * X_PITCH + me % UP_SLICES * UP_STEPS * 16 + lane() % 4 : ZEROS_AT;
            float v = up_slice(at, x_at, x_step);
            if (me == base + j) {
                sums[(me - base) * 32 + lane()] = v;
            }
        }
        barrier();
        [[dont_unroll]] for (uint i = warp(); i * UP_SLICES < end - base; i += WARPS) {
            float v = 0.0;
            [[unroll]] for (uint s = 0; s < UP_SLICES; s++) {
                v += sums[(i * UP_SLICES + s) * 32 + lane()];
            }
            up_put(v, up_unit(base + i * UP_SLICES));
        }
        if (end < n) {
            barrier();
        }
    }
}

const uint PART = FF_STEPS / SLICES; /* steps of a slice */
uvec4 down_low[PART], down_high[PART], h_part[PART * 4];
uint down_low_scale[PART], down_high_scale[PART];

/* Asks for step k of slice u, of rows from `row` on. */
void down_fetch(uint u, uint row, uint k)
{
    uint at = (entries[u / SLICES] * D_MODEL + row + lane() / 4) * FF_CHUNKS + (u % SLICES * PART + k) * 4;
    U32x4 w = U32x4(weight_at(p.down_data));
    U32 scales = U32(weight_at(p.down_scales));
    down_low[k] = w.at[at + lane() % 4];
    down_high[k] = w.at[at + 8 * FF_CHUNKS + lane() % 4];
    down_low_scale[k] = scales.at[at / 4];
    down_high_scale[k] = scales.at[at / 4 + 2 * FF_CHUNKS];
}

void h_fetch(uint u, uint k)
{
    if (has_column()) {
        uint at = column_pair(u / SLICES) * (D_FF / 8) + (u % SLICES * PART + k) * 16 + lane() % 4;
        [[unroll]] for (uint j = 0; j < 4; j++) {
            h_part[k * 4 + j] = SharedWords4(work_at(p.h)).at[at + j * 4];
        }
    }
}

uint down_first()
{
    return min(warp(), max(n_entries * SLICES, 1) - 1);
}

void down_begin()
{
    [[unroll]] for (uint k = 0; k < PART; k++) {
        down_fetch(down_first(), min(gl_WorkGroupID.x * 16, D_MODEL - 16), k);
    }
}

/* X += sum of weight * (down H): a workgroup has 16 rows of all experts. False: given up. */
bool down_product()
{
    uint n_units = n_entries * SLICES, first = down_first(), row0 = gl_WorkGroupID.x * 16;
    [[unroll]] for (uint k = 0; k < PART; k++) {
        [[unroll]] for (uint j = 0; j < 4; j++) {
            h_part[k * 4 + j] = uvec4(0);
        }
    }
    if (!wait_for_all(1)) {
        return false;
    }
    [[dont_unroll]] for (; row0 < D_MODEL && n_units > 0; row0 += gl_NumWorkGroups.x * 16) {
        uint r = gl_LocalInvocationIndex / 16, row = row0 + gl_LocalInvocationIndex % 16;
        float old = r < p.n_rows ? X.at[r * D_MODEL + row] : 0.0;
        [[unroll]] for (uint k = 0; k < PART; k++) {
            h_fetch(first, k);
        }
        [[dont_unroll]] for UNITS(u, n_units, warp(), WARPS) {
            uint me = min(u, n_units - 1);
            bool ends = u + WARPS >= n_units;
            uint after = ends ? first : u + WARPS, row_after = ends ? min(row0 + gl_NumWorkGroups.x * 16, D_MODEL - 16) : row0;
            vec4 sum = vec4(0.0);
            [[unroll]] for (uint k = 0; k < PART; k++) {
                uvec4 x[4];
                [[unroll]] for (uint j = 0; j < 4; j++) {
                    x[j] = h_part[k * 4 + j];
                }
                sum += step_sums(down_low[k], down_high[k], down_low_scale[k], down_high_scale[k], x);
                down_fetch(after, row_after, k);
                h_fetch(after, k);
            }
            float v = row_sum(sum);
            uint t = lane() % 4, pair = pair_of[me / SLICES * ENTRY_ROWS + t % 2];
            if (pair != NO_PAIR && me == u) {
                uint to = (me % SLICES * PAIRS + pair) * 16 + lane() / 4 + t / 2 * 8;
                pool[to / 4][to % 4] = floatBitsToUint(v);
            }
        }
        barrier();
        if (r < p.n_rows) {
            float all = 0.0;
            [[unroll]] for (uint k = 0; k < N_USED; k++) {
                float sum = 0.0;
                [[unroll]] for (uint s = 0; s < SLICES; s++) {
                    uint from = (s * PAIRS + r * N_USED + k) * 16 + gl_LocalInvocationIndex % 16;
                    sum += uintBitsToFloat(pool[from / 4][from % 4]);
                }
                all += chosen_id[r * N_USED + k] >= 0 ? chosen_weight[r * N_USED + k] * sum : 0.0;
            }
            X.at[r * D_MODEL + row] = old + all;
        }
        barrier();
    }
    return true;
}
