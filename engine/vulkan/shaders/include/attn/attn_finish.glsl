/* Results of attn.comp: its clusters' sums become one, which is the head's result where the split is the only one, else left
 * to attn_merge.comp. Uses the push constants and variables declared there. */
/* Four columns of a head of the only split. */
void finish(uint t, uint kv_head, uint first_head, uint h, uint column, vec4 v)
{
    uint head = kv_head * G + first_head + h;
    if (first_head + h >= G) {
        return;
    }
    float l = denominator[h];
    if (SINKS) {
        l += exp2(p.sinks.at[head] * LOG2_E - top[h]);
    }
    v /= l;
    if (KV_PACKED) {
        heads4[(h * D + column) / 4] = v;
        return;
    }
    put_result((t * p.n_head + head) * D + column, gated(v, t, head, column));
}

/* Packed: the heads that finish() left in shared memory, rotated back. */
void finish_rotated(uint t, uint kv_head, uint first_head)
{
    uint n = min(HEADS, G - first_head) * D;
    rotate_heads(0, n);
    [[dont_unroll]] for (uint i = 4 * gl_LocalInvocationIndex; i < n; i += 4 * THREADS) {
        uint head = kv_head * G + first_head + i / D, d = i % D;
        put_result((t * p.n_head + head) * D + d, gated(heads4[i / 4], t, head, d));
    }
}

/* Maxima and denominators of the heads over all clusters; each thread's sums then count from the common maximum. */
void join_clusters(float most, float total)
{
    total = lane() % SAME == 0 ? total : 0.0;
    [[unroll]] for (uint step = 0; step < 5; step++) {
        if ((1u << step) < PER_HEAD) {
            total += subgroupShuffleXor(total, 1u << step);
        }
    }
    uint first = cluster() * HEADS;
    if (lane() % PER_HEAD == 0) {
        tops[first + lane() / PER_HEAD] = most;
        denominators[first + lane() / PER_HEAD] = total;
    }
    barrier();
    if (gl_LocalInvocationIndex < HEADS) {
        uint h = gl_LocalInvocationIndex;
        float top_of_all = NEVER, sum = 0.0;
        [[dont_unroll]] for (uint c = 0; c < CLUSTERS; c++) {
            top_of_all = max(top_of_all, tops[c * HEADS + h]);
        }
        [[dont_unroll]] for (uint c = 0; c < CLUSTERS; c++) {
            sum += denominators[c * HEADS + h] * exp2(tops[c * HEADS + h] - top_of_all);
        }
        top[h] = top_of_all;
        denominator[h] = sum;
    }
    barrier();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float factor = exp2(tops[first + h] - top[h]);
        [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
            sum4[h * 2 * EIGHTS + i] *= factor;
        }
    }
}

/* The threads' sums over all clusters, ROUND heads at a time, to where they belong; with several splits also the split's maxima
 * and denominators. */
void conclude(uint t, uint kv_head, uint first_head, uint split, uint n_splits)
{
    [[unroll]] for (uint i = 0; i < HEADS * 2 * EIGHTS; i++) {
        [[unroll]] for (uint step = 0; step < 7; step++) {
            if ((LANES << step) < THREADS / SUBGROUPS) {
                sum4[i] += subgroupShuffleXor(sum4[i], LANES << step);
            }
        }
    }
    uint parts = parts_at(t * gl_NumWorkGroups.y + gl_WorkGroupID.y);
    [[unroll]] for (uint from = 0; from < HEADS; from += ROUND) {
        barrier();
        if (gl_SubgroupInvocationID < LANES) {
            [[unroll]] for (uint h = 0; h < ROUND; h++) {
                [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
                    sums4[(gl_SubgroupID * ROUND + h) * (D / 4) + (i / 2 * LANES + lane()) * 2 + i % 2] =
                        sum4[(from + h) * 2 * EIGHTS + i];
                }
            }
        }
        barrier();
        [[dont_unroll]] for (uint item = gl_LocalInvocationIndex; item < ROUND * D / 4; item += THREADS) {
            vec4 sum = sums4[item];
            [[dont_unroll]] for (uint i = 1; i < SUBGROUPS; i++) {
                sum += sums4[i * ROUND * D / 4 + item];
            }
            if (n_splits == 1) {
                finish(t, kv_head, first_head, from + item / (D / 4), item % (D / 4) * 4, sum);
            } else {
                p.parts.at[parts + (split * HEADS + from) * (D / 4) + item] = sum;
            }
        }
    }
    if (KV_PACKED && n_splits == 1) {
        finish_rotated(t, kv_head, first_head);
    }
    if (n_splits > 1 && gl_LocalInvocationIndex < HEADS) {
        uint h = gl_LocalInvocationIndex;
        F32x2(uint64_t(p.parts)).at[parts_tops(parts, split, h)] = vec2(top[h], denominator[h]);
    }
}
