/* Dot products of packed rows with rows of x. A subgroup owns ROWS rows of W, its threads, in moe_up those of each row, stride over
 * chunks of 32 columns; the packed words of the next chunk are asked for before this one is used, the first before x is staged.
 * x lies in shared memory, COLS rows of it, STEPS chunks for each thread of a subgroup at a time; float4 number j of chunk
 * c at [j][c], so that neighbouring threads read different banks.
 * The order of a row's additions depends on the subgroup's size (in moe_up also on ROWS), never on the batch. */
layout(constant_id = SPEC_COLS) const uint COLS = 1;  /* rows of x that a workgroup keeps */
layout(constant_id = SPEC_STEPS) const uint STEPS = 2; /* chunks of a tile for each thread of a subgroup */
layout(constant_id = SPEC_NORM) const bool NORM = false; /* x is RMS-normalised: its weight in the tile, its factor at the end */
layout(constant_id = SPEC_LANES) const uint LANES = 32; /* threads of a subgroup */

const uint TILE_CHUNKS = STEPS * LANES;
const uint TILE_STRIDE = TILE_CHUNKS + 1;
const uint TILE_LOADS = (TILE_CHUNKS * 8 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint SUBGROUPS = gl_WorkGroupSize.x / LANES;
shared vec4 tile[COLS * 8 * TILE_STRIDE];
shared float tile_squares[COLS * SUBGROUPS];

/* Asks for chunks [first, first + n) of a row of x (address of its start), and of the norm's weight; all of a thread's loads are in
 * flight together. */
void tile_ask(F32x4 x, F32x4 norm, uint first, uint n, out vec4 v[TILE_LOADS], out vec4 w[TILE_LOADS])
{
    [[unroll]] for (uint k = 0; k < TILE_LOADS; k++) {
        uint at = first * 8 + min(gl_LocalInvocationIndex + k * gl_WorkGroupSize.x, n * 8 - 1);
        v[k] = x.at[at];
        if (NORM) {
            w[k] = norm.at[at];
        }
    }
}

/* Puts what was asked for into row `col` of the tile, times the norm's weight. Adds its squares to the row's; a barrier comes before any
 * use. */
void tile_put(uint col, vec4 v[TILE_LOADS], vec4 w[TILE_LOADS], uint first, uint n)
{
    float squares = 0.0;
    [[unroll]] for (uint k = 0; k < TILE_LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * gl_WorkGroupSize.x;
        if (i < n * 8) {
            if (NORM) {
                squares += dot(v[k], v[k]);
                v[k] *= w[k];
            }
            tile[(col * 8 + (i & 7)) * TILE_STRIDE + (i >> 3)] = v[k];
        }
    }
    if (NORM) {
        squares = subgroupAdd(squares);
        if (gl_SubgroupInvocationID == 0) {
            uint at = col * SUBGROUPS + gl_SubgroupID;
            tile_squares[at] = first == 0 ? squares : tile_squares[at] + squares;
        }
    }
}

void tile_load(uint col, F32x4 x, F32x4 norm, uint first, uint n)
{
    vec4 v[TILE_LOADS], w[TILE_LOADS];
    tile_ask(x, norm, first, n, v, w);
    tile_put(col, v, w, first, n);
}

/* 1 / root mean square of row `col`, after all its tiles. */
float tile_factor(uint col, float inverse_cols, float eps)
{
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < SUBGROUPS; i++) {
        sum += tile_squares[col * SUBGROUPS + i];
    }
    return inversesqrt(sum * inverse_cols + eps);
}

/* This thread's chunk of row `col`, and its sum where the format has an offset. */
void tile_read(uint col, uint c, out vec4 x[8], out float plain)
{
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 8; j++) {
        x[j] = tile[(col * 8 + j) * TILE_STRIDE + c];
        sum += x[j];
    }
    plain = HAS_OFFSET == 1 ? (sum.x + sum.y) + (sum.z + sum.w) : 0.0;
}

/* A decoded chunk times x. */
float chunk_dot(vec4 x[8], float plain, vec4 code[8], float scale, float offset)
{
    vec4 sum = code[0] * x[0];
    [[unroll]] for (uint j = 1; j < 8; j++) {
        sum = fma(code[j], x[j], sum);
    }
    float result = scale * ((sum.x + sum.y) + (sum.z + sum.w));
    return HAS_OFFSET == 1 ? result + offset * plain : result;
}
