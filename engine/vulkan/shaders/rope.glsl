/* Per-head RMS norm and rotary embedding in shared memory: heads[h * D + d]. */
layout(constant_id = 8) const uint D = 64;         /* d_head */
layout(constant_id = 9) const uint N_ROPE = 64;    /* dimensions that rotate */
layout(constant_id = 10) const bool INTERLEAVED = false;
layout(constant_id = 11) const bool HEAD_NORM = false;

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

/* One subgroup loads one head; needs a barrier before head_rotate. */
#define HEAD_LOAD(shared_row, source, at0, norm, eps)                                             \
    {                                                                                             \
        float ssq = 0.0;                                                                          \
        for (uint d = gl_SubgroupInvocationID; d < D; d += gl_SubgroupSize) {                     \
            float v = source.at[(at0) + d];                                                       \
            ssq += v * v;                                                                         \
        }                                                                                         \
        float factor = HEAD_NORM ? inversesqrt(subgroupAdd(ssq) / float(D) + eps) : 1.0;          \
        for (uint d = gl_SubgroupInvocationID; d < D; d += gl_SubgroupSize) {                     \
            float v = source.at[(at0) + d];                                                       \
            heads[(shared_row) * D + d] = HEAD_NORM ? v * factor * norm.at[d] : v;                \
        }                                                                                         \
    }

/* Rotates pair i of a head at `position`. */
#define HEAD_ROTATE(shared_row, i, position, inv_freq, rope_scale)                                \
    {                                                                                             \
        vec2 cs = cos_sin(float(position) * inv_freq.at[i]) * rope_scale;                         \
        uint lo = (shared_row) * D + (INTERLEAVED ? 2 * (i) : (i));                               \
        uint hi = INTERLEAVED ? lo + 1 : lo + N_ROPE / 2;                                         \
        float a = heads[lo], b = heads[hi];                                                       \
        heads[lo] = a * cs.x - b * cs.y;                                                          \
        heads[hi] = b * cs.x + a * cs.y;                                                          \
    }
