/* x in the tile of resident.comp, its norm, and the router's logits beside it. */
/* x, and this workgroup's row of the router's share, into the tile: each thread's float4 v[k] are on their way. */
void x_put(vec4 v[X_LOADS], vec4 norm[X_LOADS], vec4 extra[X_LOADS])
{
    float squares = 0.0, part = 0.0;
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * T;
        if (i < D_CHUNKS * 8) {
            squares += dot(v[k], v[k]);
            part += dot(extra[k], v[k]);
            tile_put(i, v[k] * norm[k]);
        }
    }
    squares = subgroupAdd(squares);
    part = subgroupAdd(part);
    if (gl_SubgroupInvocationID == 0) {
        squares_of[gl_SubgroupID] = squares;
        extra_of[gl_SubgroupID] = part;
    }
}

/* 1 / root mean square of x. */
float norm_factor()
{
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < SUBGROUPS; i++) {
        sum += squares_of[i];
    }
    return inversesqrt(sum * (1.0 / float(D_MODEL)) + p.eps);
}

/* The logit whose parts are in extra_of; one subgroup does it, while the others go on. */
void logit_put(uint e, float before)
{
    if (e < N_EXPERT && gl_SubgroupID == SUBGROUPS - 1) {
        float sum = 0.0;
        [[unroll]] for (uint i = 0; i < SUBGROUPS; i += LANES) {
            uint at = i + gl_SubgroupInvocationID;
            sum += at < SUBGROUPS ? extra_of[min(at, SUBGROUPS - 1)] : 0.0;
        }
        sum = subgroupAdd(sum);
        if (gl_SubgroupInvocationID == 0) {
            LOGITS.at[e] = before + sum;
        }
    }
}

/* The logits of rows for which there are too few workgroups: this one's first was done beside the tile. */
void other_logits(uint64_t w, uint64_t x, uint quads, bool add)
{
    [[dont_unroll]] for (uint e = gl_WorkGroupID.x + gl_NumWorkGroups.x; e < N_EXPERT; e += gl_NumWorkGroups.x) {
        float part = 0.0;
        [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < quads; i += T) {
            part += dot(F32x4(w).at[e * quads + i], Shared4(x).at[i]);
        }
        part = subgroupAdd(part);
        barrier();
        if (gl_SubgroupInvocationID == 0) {
            extra_of[gl_SubgroupID] = part;
        }
        barrier();
        logit_put(e, add ? LOGITS.at[e] : 0.0);
    }
}
