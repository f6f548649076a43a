/* Per-head RMS norm and rotary embedding in shared memory: heads[h * D + d]. */
layout(constant_id = SPEC_D_HEAD) const uint D = 64;         /* d_head */
layout(constant_id = SPEC_N_ROPE) const uint N_ROPE = 64;    /* dimensions that rotate */
layout(constant_id = SPEC_INTERLEAVED) const bool INTERLEAVED = false;
layout(constant_id = SPEC_HEAD_NORM) const bool HEAD_NORM = false;

const uint N_PAIRS = N_ROPE / 2;
shared vec2 turn[N_PAIRS]; /* cos and sin of each pair at this row's position */

/* cos and sin of an angle in radians, exact to f32 rounding over the range of positions: the hardware's own are only
 * good near zero, so whole turns are taken off first, in three parts of 2 pi. */
vec2 cos_sin(float a)
{
    float n = round(a * 0.15915494309189535);
    a = fma(n, -6.28125, a);
    a = fma(n, -1.9353071693331003e-3, a);
    a = fma(n, -1.0253131677018246e-11, a);
    return vec2(cos(a), sin(a));
}

/* Fills turn[]; a barrier comes before its use. */
void turn_load(int position, F32 inv_freq, float rope_scale)
{
    for (uint i = gl_LocalInvocationIndex; i < N_PAIRS; i += gl_WorkGroupSize.x) {
        turn[i] = cos_sin(float(position) * inv_freq.at[i]) * rope_scale;
    }
}
