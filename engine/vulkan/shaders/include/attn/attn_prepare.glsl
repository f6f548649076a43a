/* Query heads of attn.comp into shared memory; with PREP normalised and turned, and this position's K and V into the
 * cache. Uses the push constants and shared variables declared there. */
/* Where head h of those that a workgroup loads begins in the row of qkv at `base`: HEADS of q, then k and v of this position. */
uint head_at(uint base, uint kv_head, uint first_head, uint h)
{
    uint k_at = base + p.n_head * p.q_step + kv_head * D;
    return h < HEADS ? base + (kv_head * G + min(first_head + h, G - 1)) * p.q_step : k_at + (h - HEADS) * p.n_kv_head * D;
}

/* One subgroup puts a head into shared memory, four columns a thread; the first of them are here already. */
void put_head(uint to, uint from, F32 norm, bool normed, vec4 v, vec4 w)
{
    F32x4 source = F32x4(uint64_t(p.qkv) + 4ul * from), weight = F32x4(uint64_t(norm));
    float ssq = 0.0;
    for (uint d = gl_SubgroupInvocationID; d < D / 4; d += gl_SubgroupSize) {
        if (d != gl_SubgroupInvocationID) {
            v = source.at[d];
            w = normed ? weight.at[d] : w;
        }
        ssq += dot(v, v);
        heads4[to * (D / 4) + d] = normed ? v * w : v;
    }
    if (normed) {
        float factor = inversesqrt(subgroupAdd(ssq) / float(D) + p.eps);
        for (uint d = gl_SubgroupInvocationID; d < D / 4; d += gl_SubgroupSize) {
            heads4[to * (D / 4) + d] *= factor;
        }
    }
}

/* Puts head h into shared memory; v: its first columns, which are here already. */
void finish_head(uint base, uint kv_head, uint first_head, uint h, vec4 v, vec4 w)
{
    bool normed = PREP && HEAD_NORM && h <= HEADS;
    put_head(h, head_at(base, kv_head, first_head, h), F32(h < HEADS ? uint64_t(p.q_norm) : uint64_t(p.k_norm)), normed, v, w);
}

/* n heads. Where they are few, each thread asks for its first columns of all of them before it uses any: more have no room. */
void load_heads(uint base, uint kv_head, uint first_head, uint n)
{
    uint column = min(gl_SubgroupInvocationID, D / 4 - 1);
    vec4 first[ROUNDS], q_weight = vec4(1.0), k_weight = vec4(1.0);
    [[unroll]] for (uint i = 0; EARLY && i < ROUNDS; i++) {
        uint from = head_at(base, kv_head, first_head, min(gl_SubgroupID + i * SUBGROUPS, n - 1));
        first[i] = F32x4(uint64_t(p.qkv) + 4ul * from).at[column];
    }
    if (PREP && HEAD_NORM) {
        q_weight = F32x4(uint64_t(p.q_norm)).at[column];
        k_weight = F32x4(uint64_t(p.k_norm)).at[column];
    }
    [[unroll]] for (uint i = 0; EARLY && i < ROUNDS; i++) {
        uint h = gl_SubgroupID + i * SUBGROUPS;
        if (h < n) {
            finish_head(base, kv_head, first_head, h, first[i], h < HEADS ? q_weight : k_weight);
        }
    }
    [[dont_unroll]] for (uint h = gl_SubgroupID; !EARLY && h < n; h += SUBGROUPS) {
        vec4 v = F32x4(uint64_t(p.qkv) + 4ul * head_at(base, kv_head, first_head, h)).at[column];
        finish_head(base, kv_head, first_head, h, v, h < HEADS ? q_weight : k_weight);
    }
}

void store_kv(uint block, uint token, uint kv_head)
{
    if (KV_PACKED) { /* rotated, both in shared memory */
        [[dont_unroll]] for (uint is_v = gl_SubgroupID; is_v < 2; is_v += gl_NumSubgroups) {
            packed_store(p.kv, packed_part(block, p.n_kv_head, kv_head), token, is_v, (HEADS + is_v) * D, true);
        }
        return;
    }
    uint k_word = kv_word(block, 0, p.n_kv_head, kv_head, token, D);
    uint v_word = kv_word(block, 1, p.n_kv_head, kv_head, token, D);
    if (KV_F32) {
        [[dont_unroll]] for (uint d = gl_LocalInvocationIndex; d < D; d += THREADS) {
            p.kv.at[k_word + d] = floatBitsToUint(heads_at(HEADS * D + d));
            p.kv.at[v_word + d] = floatBitsToUint(heads_at((HEADS + 1) * D + d));
        }
    } else {
        [[dont_unroll]] for (uint d = gl_LocalInvocationIndex; d < D / 2; d += THREADS) {
            p.kv.at[k_word + d] = packHalf2x16(vec2(heads_at(HEADS * D + 2 * d), heads_at(HEADS * D + 2 * d + 1)));
            p.kv.at[v_word + d] = packHalf2x16(vec2(heads_at((HEADS + 1) * D + 2 * d), heads_at((HEADS + 1) * D + 2 * d + 1)));
        }
    }
}

/* Query heads from first_head of the KV head on into shared memory (the last one again where there are no more); with PREP
 * normalised and turned, and, where the workgroup owns the row, this position's K and V beside them and in the cache (`block`): the same
 * bytes from each workgroup of the KV head. */
void prepare(ivec4 row, uint t, uint kv_head, uint first_head, bool owns_row, uint block)
{
    if (PREP) {
        turn_load(row.y, p.inv_freq, p.rope_scale);
    }
    load_heads(t * p.stride, kv_head, first_head, HEADS + (PREP && owns_row ? 2 : 0));
    if (!PREP) {
        return;
    }
    barrier();
    uint n = (HEADS + (owns_row ? 1 : 0)) * N_PAIRS;
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
        uint h = i / N_PAIRS, pair = i % N_PAIRS;
        vec2 cs = turn[pair];
        uint lo = h * D + (INTERLEAVED ? 2 * pair : pair), hi = INTERLEAVED ? lo + 1 : lo + N_PAIRS;
        float a = heads_at(lo), b = heads_at(hi);
        heads_at(lo) = a * cs.x - b * cs.y;
        heads_at(hi) = b * cs.x + a * cs.y;
    }
    if (KV_PACKED) {
        rotate_heads(0, (HEADS + (owns_row ? 2 : 0)) * D);
    }
    if (owns_row) {
        barrier();
        store_kv(block, uint(row.y) % BLOCK_TOKENS, kv_head);
        if (!OWN_FROM_SHARED) {
            memoryBarrierBuffer();
        }
    }
}
