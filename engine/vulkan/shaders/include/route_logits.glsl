/* The choice of experts straight from logits that lack the norm's factor: it is positive, so the order does not wait for it, only the
 * weights do. For softmax routers without bias or groups, with a thread for each expert at least; all others go by route_row. */
bool by_logits()
{
    return FOLDED && SCORE != 2 && !SELECT_BIAS && N_GROUP == 1 && gl_WorkGroupSize.x >= EXPERTS4 * 4;
}

/* Neighbouring threads that share the counting for an expert. */
const uint LOGIT_PARTS = gl_WorkGroupSize.x >= 4 * N_EXPERT ? 4 : gl_WorkGroupSize.x >= 2 * N_EXPERT ? 2 : 1;
shared float chosen_logit[N_USED];

/* Whole numbers in the order of logits: comparing them takes fewer instructions where equal ones have an order too. */
int logit_key(float v)
{
    int bits = v == 0.0 ? 0 : floatBitsToInt(v);
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* Puts this thread's logit where all see it. Places that no rank fills, because logits are no numbers, keep an expert that exists. A
 * barrier comes before any use. */
void logits_put(float logit)
{
    uint i = gl_LocalInvocationIndex;
    if (i < EXPERTS4 * 4) {
        float v = i < N_EXPERT ? logit : -3.0e38;
        route_score(i) = v;
        route_logit(i) = intBitsToFloat(logit_key(v));
    }
    if (i < N_USED) {
        chosen_id[i] = int(i);
        chosen_logit[i] = 0.0;
    }
}

/* Fills chosen_id and chosen_logit; a barrier comes before any use. */
void logits_choose()
{
    uint e = gl_LocalInvocationIndex / LOGIT_PARTS, part = gl_LocalInvocationIndex % LOGIT_PARTS, rank = 0;
    if (e >= N_EXPERT) {
        return;
    }
    int s = floatBitsToInt(route_logit(e));
    [[dont_unroll]] for (uint i = part; i < EXPERTS4; i += LOGIT_PARTS) {
        ivec4 o = floatBitsToInt(route_logit4[i]);
        int least = i < e / 4 ? s : s + 1; /* equal ones before it come first */
        [[unroll]] for (uint j = 0; j < 4; j++) {
            rank += o[j] >= least ? 1 : 0;
        }
    }
    if (part == 0) { /* those beside it */
        ivec4 o = floatBitsToInt(route_logit4[e / 4]);
        [[unroll]] for (uint j = 0; j < 3; j++) {
            rank += j < e % 4 && o[j] == s ? 1 : 0;
        }
    }
    [[unroll]] for (uint by = 1; by < LOGIT_PARTS; by *= 2) {
        rank += subgroupShuffleXor(rank, by);
    }
    if (rank < N_USED && part == 0) {
        chosen_id[rank] = int(e);
        chosen_logit[rank] = route_score(e);
    }
}

/* Writes the choice down as route_row does: n_used experts of row t. */
void logits_write(I32 ids, F32 weights, U32 used, uint t, uint n_used, float factor, float scale)
{
    float most = chosen_logit[0], sum = 0.0;
    bool all = SCORE == 0 && !NORMALIZE; /* the plain softmax */
    [[dont_unroll]] for (uint i = 0; i < (all ? N_EXPERT : n_used); i++) {
        sum += exp(((all ? route_score(i) : chosen_logit[i]) - most) * factor);
    }
    uint i = gl_LocalInvocationIndex;
    if (i < N_USED) {
        int e = i < n_used ? chosen_id[i] : -1;
        ids.at[t * N_USED + i] = e;
        weights.at[t * N_USED + i] = e >= 0 ? exp((chosen_logit[i] - most) * factor) / sum * scale : 0.0;
        if (e >= 0) {
            atomicOr(used.at[e / 32], 1u << (e % 32));
        }
    }
}
