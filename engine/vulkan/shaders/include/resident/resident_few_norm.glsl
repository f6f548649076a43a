/* The rows of resident_few.comp, normed, in the pool, and the router's logits beside them. */
const uint NORM_EACH = (SEGMENTS + SUBGROUPS - 1) / SUBGROUPS; /* segments of a subgroup, of each row */
vec4 norm_of[NORM_EACH], extra_part[NORM_EACH];

uint segment_of(uint k)
{
    return gl_SubgroupID + k * SUBGROUPS;
}

/* Asks for what the rows are multiplied by. */
void norm_ask(uint64_t norm, uint64_t extra)
{
    [[unroll]] for (uint k = 0; k < NORM_EACH; k++) {
        uint quad = min(segment_of(k), SEGMENTS - 1) * LANES + gl_SubgroupInvocationID;
        norm_of[k] = F32x4(norm).at[quad];
        if (extra != 0) {
            extra_part[k] = F32x4(extra).at[min(gl_WorkGroupID.x, N_EXPERT - 1) * (D_MODEL / 4) + quad];
        }
    }
}

/* Four columns of row r to the pool. Neighbouring threads have neighbouring columns. */
void pool_put(uint r, uint quad, vec4 v, bool in_pairs)
{
    bool odd = (quad & 1) == 1;
    uvec2 word;
    if (in_pairs) {
        vec2 got = subgroupShuffleXor(odd ? v.xy : v.zw, 1);
        word = odd ? uvec2(packHalf2x16(vec2(got.x, v.z)), packHalf2x16(vec2(got.y, v.w)))
                   : uvec2(packHalf2x16(vec2(v.x, got.x)), packHalf2x16(vec2(v.y, got.y)));
    } else {
        word = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    }
    uint at = r * X_PITCH + few_place(quad / 2 * 8) / 8;
    if (odd) {
        pool[at].zw = word;
    } else {
        pool[at].xy = word;
    }
}

/* The rows of X, of which all workgroups have written theirs: normed, to the pool. Their factors are in factor_of. With `logits` this workgroup's
 * row of the router's share, too. */
void norm_rows(bool in_pairs, bool logits)
{
    vec4 v[NORM_EACH * MATRIX_FEW];
    uint l = gl_SubgroupInvocationID;
    [[unroll]] for (uint k = 0; k < NORM_EACH; k++) {
        uint quad = min(segment_of(k), SEGMENTS - 1) * LANES + l;
        [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
            v[k * MATRIX_FEW + r] = X4.at[min(r, p.n_rows - 1) * (D_MODEL / 4) + quad];
        }
    }
    [[unroll]] for (uint k = 0; k < NORM_EACH; k++) {
        float square[MATRIX_FEW], extra[MATRIX_FEW];
        [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
            square[r] = dot(v[k * MATRIX_FEW + r], v[k * MATRIX_FEW + r]);
            extra[r] = logits ? dot(extra_part[k], v[k * MATRIX_FEW + r]) : 0.0;
        }
        float square_sum = sum_of_eight(square), extra_sum = logits ? sum_of_eight(extra) : 0.0;
        if (l < MATRIX_FEW && segment_of(k) < SEGMENTS) {
            squares_of(l * SEGMENTS + segment_of(k)) = square_sum;
            if (logits) {
                extra_of(l * EXTRA_PARTS + segment_of(k)) = extra_sum;
            }
        }
    }
    barrier();
    uint r = gl_LocalInvocationIndex;
    if (r < MATRIX_FEW) {
        float sum = 0.0;
        [[unroll]] for (uint s = 0; s < SEGMENTS; s++) {
            sum += squares_of(r * SEGMENTS + s);
        }
        factor_of[r] = inversesqrt(sum * (1.0 / float(D_MODEL)) + p.eps);
    } else if (logits && r >= LANES && r - LANES < p.n_rows && gl_WorkGroupID.x < N_EXPERT) {
        float sum = 0.0;
        [[unroll]] for (uint s = 0; s < SEGMENTS; s++) {
            sum += extra_of((r - LANES) * EXTRA_PARTS + s);
        }
        LOGITS.at[(r - LANES) * LOGIT_STRIDE + gl_WorkGroupID.x] = sum;
    }
    barrier();
    [[unroll]] for (uint k = 0; k < NORM_EACH; k++) {
        if (segment_of(k) < SEGMENTS) {
            [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
                pool_put(r, segment_of(k) * LANES + l, v[k * MATRIX_FEW + r] * factor_of[r] * norm_of[k], in_pairs);
            }
        }
    }
    barrier();
}

/* The logits of experts for which there are too few workgroups: this one's first was done beside the norm. */
void other_logits()
{
    [[dont_unroll]] for (uint e = gl_WorkGroupID.x + gl_NumWorkGroups.x; e < N_EXPERT; e += gl_NumWorkGroups.x) {
        float part[MATRIX_FEW];
        [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
            part[r] = 0.0;
        }
        [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < D_MODEL / 4; i += T) {
            vec4 w = F32x4(weight_at(p.qkv_extra)).at[e * (D_MODEL / 4) + i];
            [[unroll]] for (uint r = 0; r < MATRIX_FEW; r++) {
                part[r] += dot(w, X4.at[min(r, p.n_rows - 1) * (D_MODEL / 4) + i]);
            }
        }
        logit_meet(e, part, false);
    }
}
