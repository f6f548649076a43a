/* x in the tile of resident.comp, its norm, and the router's logits beside it. */
/* The router's rows that this workgroup multiplies beside a product; there may be fewer. */
uint logit_of(uint r)
{
    return gl_WorkGroupID.x + r * gl_NumWorkGroups.x;
}

/* Float4 number i of each of them. */
void extra_load(uint64_t w, uint i, uint quads, out vec4 extra[BESIDE_LOGITS])
{
    [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
        extra[r] = F32x4(w).at[min(logit_of(r), LOGITS_ALL - 1) * quads + i];
    }
}

/* Their sums over each subgroup. */
void extra_put(float part[BESIDE_LOGITS])
{
    [[unroll]] for (uint r = 0; r < BESIDE_LOGITS; r++) {
        float sum = subgroupAdd(part[r]);
        if (gl_SubgroupInvocationID == 0) {
            extra_of[r][gl_SubgroupID] = sum;
        }
    }
}

/* x into the tile, and the sums that go with it: each thread's float4 v[k] are on their way. */
void x_put(vec4 v[X_LOADS], vec4 norm[X_LOADS])
{
    float squares = 0.0;
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * T;
        if (i < D_CHUNKS * 8) {
            squares += dot(v[k], v[k]);
            tile_put(i, v[k] * norm[k]);
        }
    }
    squares = subgroupAdd(squares);
    if (gl_SubgroupInvocationID == 0) {
        squares_of[gl_SubgroupID] = squares;
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

/* The logit whose parts are in extra_of[r]; one subgroup does it, while the others go on. */
void logit_put(uint r, uint e, float before)
{
    if (e < LOGITS_ALL && gl_SubgroupID == SUBGROUPS - 1 - r) {
        float sum = 0.0;
        [[unroll]] for (uint i = 0; i < SUBGROUPS; i += LANES) {
            uint at = i + gl_SubgroupInvocationID;
            sum += at < SUBGROUPS ? extra_of[r][min(at, SUBGROUPS - 1)] : 0.0;
        }
        sum = subgroupAdd(sum);
        if (gl_SubgroupInvocationID == 0) {
            LOGITS.at[e] = before + sum;
        }
    }
}

/* The logits of rows for which there are too few workgroups: this one's first were done beside the tile.
 * mixed: of the mixer's output, which is in the tile as it is, and added. */
void other_logits(uint64_t w, uint quads, bool mixed)
{
    [[dont_unroll]] for (uint e = gl_WorkGroupID.x + BESIDE_LOGITS * gl_NumWorkGroups.x; e < LOGITS_ALL; e += gl_NumWorkGroups.x) {
        float part = 0.0;
        [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < quads; i += T) {
            part += dot(F32x4(w).at[e * quads + i], mixed ? tile_at(i) : X4.at[i]);
        }
        part = subgroupAdd(part);
        barrier();
        if (gl_SubgroupInvocationID == 0) {
            extra_of[0][gl_SubgroupID] = part;
        }
        barrier();
        logit_put(0, e, mixed ? LOGITS.at[e] : 0.0);
    }
}
