/* The experts of resident.comp: their choice, both halves of them. */
/* The experts of the row, and x times the norm's weight in the tile. */
void choose()
{
    uint me = gl_LocalInvocationIndex;
    vec4 norm[X_LOADS], x[X_LOADS];
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        norm[k] = F32x4(weight_at(p.ffn_norm)).at[min(me + k * T, D_CHUNKS * 8 - 1)];
    }
    wait_for_all(0);
    float logit = LOGITS.at[min(me, LOGITS_ALL - 1)];
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        x[k] = X4.at[min(me + k * T, D_CHUNKS * 8 - 1)];
    }
    logits_put(logit);
    if (SHARED && me == N_EXPERT) {
        slot_weight[SLOTS - 1] = logit;
    }
    barrier();
    logits_choose();
    x_put(x, norm);
    barrier();
}

/* Weights of the chosen experts, as logits_write() has them; the first workgroup says which were used. */
void weigh(uint n_used)
{
    uint i = gl_LocalInvocationIndex;
    float factor = norm_factor();
    if (SHARED && i == N_EXPERT) { /* which put it there */
        slot_weight[SLOTS - 1] = sigmoid(slot_weight[SLOTS - 1] * factor);
    }
    if (i >= n_used) {
        return;
    }
    float most = chosen_logit[0], sum = 0.0;
    bool all = SCORE == 0 && !NORMALIZE; /* the plain softmax */
    [[dont_unroll]] for (uint j = 0; j < (all ? N_EXPERT : n_used); j++) {
        sum += exp(((all ? route_score(j) : chosen_logit[j]) - most) * factor);
    }
    slot_weight[i] = exp((chosen_logit[i] - most) * factor) / sum * p.scale;
    if (gl_WorkGroupID.x == 0) {
        uint e = uint(chosen_id[i]);
        atomicOr(U32(USED_AT).at[p.layer * RESIDENT_USED_WORDS + e / 32], 1u << (e % 32));
    }
}

/* h = silu(gate x) * (up x): a subgroup has two gates and their ups, as in moe_up. */
void up_product(uint n_used)
{
    uint lane = gl_SubgroupInvocationID, value = lane / VALUE_LANES, l = lane % VALUE_LANES;
    float factor = norm_factor();
    [[dont_unroll]] for (uint u = first_row(); u < n_used * D_FF / 2; u += next_row()) {
        uint slot = u / (D_FF / 2), row = u % (D_FF / 2) * 2 + value / 2;
        uint at = (uint(chosen_id[slot]) * D_FF + row + (value & 1) * (D_FF * N_EXPERT)) * D_CHUNKS;
        Packed now[AHEAD];
        [[unroll]] for (uint k = 0; k < AHEAD; k++) {
            now[k] = packed_load(up(), at + min(l + k * VALUE_LANES, D_CHUNKS - 1));
        }
        float sum = 0.0;
        [[dont_unroll]] for (uint from = l; from < D_CHUNKS; from += AHEAD * VALUE_LANES) {
            [[unroll]] for (uint k = 0; k < AHEAD; k++) {
                uint c = from + k * VALUE_LANES;
                Packed w = now[k];
                now[k] = packed_load(up(), at + min(c + AHEAD * VALUE_LANES, D_CHUNKS - 1));
                if (D_CHUNKS % (AHEAD * VALUE_LANES) == 0 || c < D_CHUNKS) {
                    sum += EXPERT_DOT(up(), w, c);
                }
            }
        }
        [[unroll]] for (uint by = 1; by < VALUE_LANES; by *= 2) {
            sum += subgroupShuffleXor(sum, by);
        }
        float gate = sum * factor, linear = subgroupShuffleXor(gate, VALUE_LANES);
        if (lane % (2 * VALUE_LANES) == 0) {
            Shared(work_at(AT_H)).at[slot * D_FF + row] = gate * sigmoid(gate) * linear;
        }
    }
}

/* The same of the shared expert, by the subgroups that have least to do before: one gate and its up each. */
void shared_up_product(uint n_used)
{
    const uint each = LANES / 2;
    uint value = gl_SubgroupInvocationID / each, lane = gl_SubgroupInvocationID % each;
    float factor = norm_factor();
    uint first = (first_row() + next_row() - n_used * D_FF / 2 % next_row()) % next_row();
    [[dont_unroll]] for (uint row = first; row < D_FF; row += next_row()) {
        uint at = (row + value * D_FF) * D_CHUNKS;
        Dense now[AHEAD];
        [[unroll]] for (uint k = 0; k < AHEAD; k++) {
            now[k] = dense_load(shared_up(), at + min(lane + k * each, D_CHUNKS - 1));
        }
        float sum = 0.0;
        [[dont_unroll]] for (uint from = lane; from < D_CHUNKS; from += AHEAD * each) {
            [[unroll]] for (uint k = 0; k < AHEAD; k++) {
                uint c = from + k * each;
                Dense w = now[k];
                now[k] = dense_load(shared_up(), at + min(c + AHEAD * each, D_CHUNKS - 1));
                if (D_CHUNKS % (AHEAD * each) == 0 || c < D_CHUNKS) {
                    sum += DENSE_DOT(shared_up(), w, c);
                }
            }
        }
        [[unroll]] for (uint by = 1; by < each; by *= 2) {
            sum += subgroupShuffleXor(sum, by);
        }
        float gate = sum * factor, linear = subgroupShuffleXor(gate, each);
        if (gl_SubgroupInvocationID == 0) {
            Shared(work_at(AT_H)).at[(SLOTS - 1) * D_FF + row] = gate * sigmoid(gate) * linear;
        }
    }
}

Packed down_load(uint row, uint c)
{
    uint k = c / FF_CHUNKS;
    return packed_load(down(), (uint(chosen_id[k]) * D_MODEL + row) * FF_CHUNKS + c % FF_CHUNKS);
}

Dense shared_down_load(uint row, uint c)
{
    return dense_load(shared_down(), row * FF_CHUNKS + min(c, FF_CHUNKS - 1));
}

/* x += sum of weight * (down h) */
void down_product(uint n_used)
{
    uint lane = gl_SubgroupInvocationID, n = n_used * FF_CHUNKS;
    Packed now[AHEAD];
    [[unroll]] for (uint k = 0; k < AHEAD; k++) {
        now[k] = down_load(min(first_row(), D_MODEL - 1), min(lane + k * LANES, n - 1));
    }
    Dense beside;
    if (SHARED) {
        beside = shared_down_load(min(first_row(), D_MODEL - 1), lane);
    }
    wait_for_all(1);
    vec4 h[H_LOADS];
    [[unroll]] for (uint k = 0; k < H_LOADS; k++) {
        h[k] = Shared4(work_at(AT_H)).at[min(gl_LocalInvocationIndex + k * T, SLOTS * FF_CHUNKS * 8 - 1)];
    }
    [[unroll]] for (uint k = 0; k < H_LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * T;
        if (i < SLOTS * FF_CHUNKS * 8) { /* of slots that the row does not use as well, for nobody */
            tile_put(i, h[k]);
        }
    }
    barrier();
    [[dont_unroll]] for (uint row = first_row(); row < D_MODEL; row += next_row()) {
        float old = X.at[row], sum = 0.0;
        uint after = min(row + next_row(), D_MODEL - 1);
        [[dont_unroll]] for (uint from = lane; from < n; from += AHEAD * LANES) {
            [[unroll]] for (uint k = 0; k < AHEAD; k++) {
                uint c = from + k * LANES, next = c + AHEAD * LANES;
                Packed w = now[k];
                now[k] = down_load(next < n ? row : after, next < n ? next : min(lane + k * LANES, n - 1));
                if (c < n) {
                    sum += slot_weight[c / FF_CHUNKS] * EXPERT_DOT(down(), w, c);
                }
            }
        }
        if (SHARED) {
            [[dont_unroll]] for (uint c = lane; c < FF_CHUNKS; c += LANES) {
                uint next = c + LANES;
                Dense w = beside;
                beside = shared_down_load(next < FF_CHUNKS ? row : after, next < FF_CHUNKS ? next : lane);
                sum += slot_weight[SLOTS - 1] * DENSE_DOT(shared_down(), w, (SLOTS - 1) * FF_CHUNKS + c);
            }
        }
        sum = subgroupAdd(sum);
        if (lane == 0) {
            X.at[row] = old + sum;
        }
    }
}
