/* Activations in shared memory for dot products with packed rows: COLS rows of x, a tile of STEPS chunks per thread of a
 * subgroup at a time. Inside a tile, float4 number j of chunk c lies at [j][c]: the threads of a subgroup take
 * neighbouring chunks, so that their reads fall into different banks. A thread adds its chunks in ascending order whatever
 * STEPS and COLS are: a row's sum never depends on the batch. */
layout(constant_id = 2) const uint COLS = 1;  /* rows of x that a workgroup keeps */
layout(constant_id = 3) const uint STEPS = 2; /* chunks of a tile for each thread of a subgroup, all in flight at once */
layout(constant_id = 4) const bool NORM = false; /* x is RMS-normalised: its weight in the tile, its factor at the end */
layout(constant_id = 15) const uint LANES = 32; /* threads of a subgroup */

const uint TILE_CHUNKS = STEPS * LANES;
const uint TILE_STRIDE = TILE_CHUNKS + 1;
shared vec4 tile[COLS * 8 * TILE_STRIDE];

/* Loads chunks [first, first + n) of row `col` of x (address of its start), times the norm's weight; adds the
 * squares seen by this thread to `squares`. */
void tile_load(uint col, F32x4 x, F32x4 norm, uint first, uint n, inout float squares)
{
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < n * 8; i += gl_WorkGroupSize.x) {
        vec4 v = x.at[first * 8 + i];
        if (NORM) {
            squares += dot(v, v);
            v *= norm.at[first * 8 + i];
        }
        tile[(col * 8 + (i & 7)) * TILE_STRIDE + (i >> 3)] = v;
    }
}

/* Dot product of a decoded chunk with chunk c of row col in the tile. */
float tile_dot(uint col, uint c, vec4 code[8], float scale, float offset)
{
    vec4 sum = vec4(0.0), plain = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 8; j++) {
        vec4 v = tile[(col * 8 + j) * TILE_STRIDE + c];
        sum = fma(code[j], v, sum);
        if (HAS_OFFSET == 1) {
            plain += v;
        }
    }
    float result = scale * ((sum.x + sum.y) + (sum.z + sum.w));
    if (HAS_OFFSET == 1) {
        result += offset * ((plain.x + plain.y) + (plain.z + plain.w));
    }
    return result;
}
