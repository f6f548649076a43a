/* A row of x times 16 rows of MXFP4 on the matrix units, as exact as products in f32: codes are exact as halves, and the right side's eight
 * columns are x's halves and what these lost, times LOW_HALF_SCALE, for four chunks apart: columns 2 t and 2 t + 1 have chunk t and zeros for the
 * others. So thread 4 g + t, which has chunk t of rows g and g + 8 of W, gets both sums of its own chunks, and scales are applied in f32.
 * 32 threads have a slice of the columns, STEPS steps of four chunks, of which DEPTH are on their way: with more, each thread waits until
 * it could ask for its last one before it uses the first. The including shader says how much of shared memory it needs. */
layout(constant_id = SPEC_UNITS_SLICES) const uint SLICES = 1; /* of a row of W's columns */
layout(constant_id = SPEC_UNITS_STEPS) const uint STEPS = 1;
layout(constant_id = SPEC_UNITS_DEPTH) const uint DEPTH = 1;
const uint CHUNKS = SLICES * STEPS * 4; /* of a row of W */
const uint WARPS = gl_WorkGroupSize.x / 32;
const uint STEP_VECTORS = 32; /* of a step of x */
const uint ZERO_VECTORS = 10; /* behind all steps; they are read from the third on, which lies in other banks than what is read with it */

uvec4 low[DEPTH], high[DEPTH]; /* chunks of rows g and g + 8 of the steps that follow */

uint warp()
{
    return gl_LocalInvocationIndex / 32;
}

uint lane()
{
    return gl_LocalInvocationIndex % 32;
}
