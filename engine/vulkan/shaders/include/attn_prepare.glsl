/* Query heads of attn.comp into shared memory; with PREP normalised and turned, and this position's K and V into the
 * cache. Uses the push constants and shared variables declared there. */
/* One subgroup loads one head, four columns a thread. */
void load_head(uint to, uint from, F32 norm, bool normed)
{
    F32x4 source = F32x4(uint64_t(p.qkv) + 4ul * from), weight = F32x4(uint64_t(norm));
    float ssq = 0.0;
    for (uint d = gl_SubgroupInvocationID; d < D / 4; d += gl_SubgroupSize) {
        vec4 v = source.at[d];
        ssq += dot(v, v);
        heads4[to * (D / 4) + d] = normed ? v * weight.at[d] : v;
    }
    if (normed) {
        float factor = inversesqrt(subgroupAdd(ssq) / float(D) + p.eps);
        for (uint d = gl_SubgroupInvocationID; d < D / 4; d += gl_SubgroupSize) {
            heads4[to * (D / 4) + d] *= factor;
        }
    }
}

void store_kv(ivec4 row, uint kv_head, uint v_at)
{
    uint block = uint(p.tables.at[row.z + row.y / int(BLOCK_TOKENS)]), token = uint(row.y) % BLOCK_TOKENS;
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
            p.kv.at[v_word + d] = floatBitsToUint(p.qkv.at[v_at + d]);
        }
    } else {
        [[dont_unroll]] for (uint d = gl_LocalInvocationIndex; d < D / 2; d += THREADS) {
            p.kv.at[k_word + d] = packHalf2x16(vec2(heads_at(HEADS * D + 2 * d), heads_at(HEADS * D + 2 * d + 1)));
            p.kv.at[v_word + d] = packHalf2x16(vec2(p.qkv.at[v_at + 2 * d], p.qkv.at[v_at + 2 * d + 1]));
        }
    }
}

/* Query heads from first_head of the KV head on into shared memory (the last one again where there are no more); with PREP
 * normalised and turned, and this position's K, V into the cache: the same bytes from each workgroup of the KV head. */
void prepare(ivec4 row, uint t, uint kv_head, uint first_head, bool owns_row)
{
    uint base = t * p.stride, k_at = base + p.n_head * p.q_step + kv_head * D;
    if (PREP) {
        turn_load(row.y, p.inv_freq, p.rope_scale);
    }
    [[dont_unroll]] for (uint h = gl_SubgroupID; h < HEADS + (PREP && owns_row ? 1 : 0); h += gl_NumSubgroups) {
        bool is_q = h < HEADS;
        load_head(h, is_q ? base + (kv_head * G + min(first_head + h, G - 1)) * p.q_step : k_at, F32(is_q ? uint64_t(p.q_norm) : uint64_t(p.k_norm)),
                  PREP && HEAD_NORM);
    }
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
        [[dont_unroll]] for (uint d = gl_LocalInvocationIndex; owns_row && d < D; d += THREADS) {
            heads_at((HEADS + 1) * D + d) = p.qkv.at[k_at + p.n_kv_head * D + d];
        }
        rotate_heads(0, (HEADS + (owns_row ? 2 : 0)) * D);
    }
    if (owns_row) {
        barrier();
        store_kv(row, kv_head, k_at + p.n_kv_head * D);
        memoryBarrierBuffer();
    }
}
