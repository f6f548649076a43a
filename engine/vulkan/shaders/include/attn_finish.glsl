/* Results of attn.comp: its clusters' sums become one, which is written at once by an only split, else merged by the last of
 * several to arrive. Uses the push constants and variables declared there. */
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

/* Four columns of a head. */
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
    [[unroll]] for (uint i = 0; GATE && i < 4; i++) {
        v[i] *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + column + i]);
    }
    F32x4(uint64_t(p.outs)).at[((t * p.n_head + head) * D + column) / 4] = v;
}

/* Packed: the heads that finish() left in shared memory, rotated back. */
void finish_rotated(uint t, uint kv_head, uint first_head)
{
    uint n = min(HEADS, G - first_head) * D;
    rotate_heads(0, n);
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
        uint head = kv_head * G + first_head + i / D, d = i % D;
        float v = heads_at(i);
        if (GATE) {
            v *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + d]);
        }
        p.outs.at[(t * p.n_head + head) * D + d] = v;
    }
}

/* Where the splits of this row and these heads leave their sums, in vec4: [MAX_SPLITS][HEADS][D / 4]; behind them maxima and
 * denominators, [MAX_SPLITS][HEADS][2]. */
uint parts_at(uint t)
{
    return (t * gl_NumWorkGroups.y + gl_WorkGroupID.y) * (MAX_SPLITS * HEADS * (D + 2) / 4);
}

uint tops_at(uint t, uint split, uint h)
{
    return 4 * (parts_at(t) + MAX_SPLITS * HEADS * D / 4) + (split * HEADS + h) * 2;
}

void merge(uint t, uint kv_head, uint first_head, uint n_splits)
{
    Shared32 maxima = Shared32(uint64_t(p.parts));
    barrier();
    if (gl_LocalInvocationIndex < HEADS) {
        uint h = gl_LocalInvocationIndex;
        float most = NEVER, sum = 0.0;
        [[dont_unroll]] for (uint s = 0; s < n_splits; s++) {
            most = max(most, maxima.at[tops_at(t, s, h)]);
        }
        [[dont_unroll]] for (uint s = 0; s < n_splits; s++) {
            uint at = tops_at(t, s, h);
            sum += maxima.at[at + 1] * exp2(maxima.at[at] - most);
        }
        top[h] = most;
        denominator[h] = sum;
    }
    barrier();
    [[dont_unroll]] for (uint item = gl_LocalInvocationIndex; item < HEADS * D / 4; item += THREADS) {
        uint h = item / (D / 4);
        vec4 sum = vec4(0.0);
        [[dont_unroll]] for (uint s = 0; s < n_splits; s += 4) { /* four loads in flight */
            vec4 part[4];
            float factor[4];
            [[unroll]] for (uint i = 0; i < 4; i++) {
                uint from = min(s + i, n_splits - 1);
                part[i] = p.parts.at[parts_at(t) + from * (HEADS * D / 4) + item];
                factor[i] = maxima.at[tops_at(t, from, h)];
            }
            [[unroll]] for (uint i = 0; i < 4; i++) {
                sum += s + i < n_splits ? exp2(factor[i] - top[h]) * part[i] : vec4(0.0);
            }
        }
        finish(t, kv_head, first_head, h, item % (D / 4) * 4, sum);
    }
    if (KV_PACKED) {
        finish_rotated(t, kv_head, first_head);
    }
}

/* The split's maxima and denominators; the last workgroup to arrive merges, and leaves the counter at zero. */
void hand_in(uint t, uint kv_head, uint first_head, uint split, uint n_splits)
{
    uint counter = t * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    if (gl_LocalInvocationIndex < HEADS) {
        Shared32 maxima = Shared32(uint64_t(p.parts));
        uint at = tops_at(t, split, gl_LocalInvocationIndex);
        maxima.at[at] = top[gl_LocalInvocationIndex];
        maxima.at[at + 1] = denominator[gl_LocalInvocationIndex];
    }
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        uint n = atomicAdd(p.split_done.at[counter], 1);
        is_last = n == n_splits - 1 ? 1 : 0;
    }
    barrier();
    if (is_last == 1) {
        memoryBarrierBuffer();
        merge(t, kv_head, first_head, n_splits);
        if (gl_LocalInvocationIndex == 0) {
            p.split_done.at[counter] = 0;
        }
    }
}

/* The threads' sums over all clusters, ROUND heads at a time, to where they belong. */
void conclude(uint t, uint kv_head, uint first_head, uint split, uint n_splits)
{
    [[unroll]] for (uint i = 0; i < HEADS * 2 * EIGHTS; i++) {
        [[unroll]] for (uint step = 0; step < 7; step++) {
            if ((LANES << step) < THREADS / SUBGROUPS) {
                sum4[i] += subgroupShuffleXor(sum4[i], LANES << step);
            }
        }
    }
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
                p.parts.at[parts_at(t) + (split * HEADS + from) * (D / 4) + item] = sum;
            }
        }
    }
    if (KV_PACKED && n_splits == 1) {
        finish_rotated(t, kv_head, first_head);
    }
    if (n_splits > 1) {
        hand_in(t, kv_head, first_head, split, n_splits);
    }
}
