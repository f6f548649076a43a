/* What a thread of attn.comp does with its cluster's four tokens of a block: it reads them, scores the keys, makes weights of
 * the scores, and adds up the values. Uses the push constants and variables declared there. */
struct run { /* what a thread reads of four tokens' keys or values, [RUN][EIGHTS], as stored; their scales as halves */
    uvec4 raw[64], more[64];
    uvec2 scales[16];
};
run k, v; /* not parameters: each call would copy them */

/* Four tokens of a block; idle clusters read the last four. */
void run_load(uint block, uint kv_head, uint is_v)
{
    uint first = min(cluster(), BLOCK_TOKENS / RUN - 1) * RUN;
    if (KV_PACKED) {
        bool nibbles = FOUR_BIT && is_v == 1;
        uint part = packed_part(block, p.n_kv_head, kv_head), scales = part + (is_v == 1 ? VALUE_SCALES : KEY_SCALES) + first / 2;
        uint from = part + (is_v == 1 ? VALUES : 0);
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
                uint at = (first + u) * D / 8 + i * LANES + lane();
                uvec2 words = nibbles ? uvec2(p.kv.at[from + at], 0) : U32x2(uint64_t(p.kv) + 4ul * (from + 2 * at)).at[0];
                if (is_v == 1) {
                    v.raw[u * EIGHTS + i].xy = words;
                } else {
                    k.raw[u * EIGHTS + i].xy = words;
                }
            }
        }
        [[unroll]] for (uint i = 0; i < (nibbles ? EIGHTS : 1); i++) {
            uint group = nibbles ? (i * LANES + lane()) * 8 / V_GROUP : 0;
            uvec2 four = U32x2(uint64_t(p.kv) + 4ul * (scales + group * (PACKED_TOKENS / 2))).at[0];
            if (is_v == 1) {
                v.scales[i] = four;
            } else {
                k.scales[i] = four;
            }
        }
        return;
    }
    U32x4 from = U32x4(uint64_t(p.kv) + 4ul * kv_word(block, is_v, p.n_kv_head, kv_head, first, D));
    [[unroll]] for (uint u = 0; u < RUN; u++) {
        [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
            uint at = u * (D / 8) + i * LANES + lane();
            uvec4 words = from.at[KV_F32 ? 2 * at : at], more = KV_F32 ? from.at[2 * at + 1] : uvec4(0);
            if (is_v == 1) {
                v.raw[u * EIGHTS + i] = words;
                v.more[u * EIGHTS + i] = more;
            } else {
                k.raw[u * EIGHTS + i] = words;
                k.more[u * EIGHTS + i] = more;
            }
        }
    }
}

/* This position's key or value in place of what its block had there. */
void run_own(uint token, uint is_v)
{
    if (cluster() != token / RUN) {
        return;
    }
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        uint at = ((HEADS + is_v) * D + (i * LANES + lane()) * 8) / 4;
        vec4 low = heads4[at], high = heads4[at + 1];
        uvec4 words = uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            if (u == token % RUN && is_v == 1) {
                v.raw[u * EIGHTS + i] = words;
            } else if (u == token % RUN) {
                k.raw[u * EIGHTS + i] = words;
            }
        }
    }
}

vec4 four_scales(uvec2 halves)
{
    return vec4(half_values(halves.x), half_values(halves.y));
}

/* Eight columns of a token as values; of packed ones without their scale. */
void values(uvec4 raw, uvec4 more, uint is_v, out vec4 low, out vec4 high)
{
    if (KV_F32 && !KV_PACKED) {
        low = uintBitsToFloat(raw);
        high = uintBitsToFloat(more);
    } else if (!KV_PACKED) {
        low = vec4(unpackHalf2x16(raw.x), unpackHalf2x16(raw.y));
        high = vec4(unpackHalf2x16(raw.z), unpackHalf2x16(raw.w));
    } else if (FOUR_BIT && is_v == 1) {
        low = signed_nibbles(raw.x);
        high = signed_nibbles(raw.x >> 16);
    } else {
        low = signed_bytes(raw.x);
        high = signed_bytes(raw.y);
    }
}

/* Products of q with a run of keys, summed over the cluster; s[0 .. OWN - 1] become the thread's own: of head own_first() / RUN and
 * the tokens from own_first() % RUN on. Each step halves the sums that a thread goes on with. */
void score(out float s[32])
{
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        vec4 low[RUN], high[RUN];
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            values(k.raw[u * EIGHTS + i], k.more[u * EIGHTS + i], 0, low[u], high[u]);
        }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            vec4 q_low = q4[(h * EIGHTS + i) * 2 * LANES + lane()], q_high = q4[((h * EIGHTS + i) * 2 + 1) * LANES + lane()];
            [[unroll]] for (uint u = 0; u < RUN; u++) {
                float sum = i == 0 ? 0.0 : s[h * RUN + u];
                [[unroll]] for (uint c = 0; c < 4; c++) {
                    sum = fma(low[u][c], q_low[c], sum);
                }
                [[unroll]] for (uint c = 0; c < 4; c++) {
                    sum = fma(high[u][c], q_high[c], sum);
                }
                s[h * RUN + u] = sum;
            }
        }
    }
    [[unroll]] for (uint step = 0; step < 5; step++) {
        uint bit = LANES >> (step + 1), left = (SCORES >> step) / 2;
        bool upper = (gl_SubgroupInvocationID & bit) != 0;
        if (bit > 0 && left > 0) {
            [[unroll]] for (uint i = 0; i < left; i++) {
                float keep = upper ? s[i + left] : s[i], give = upper ? s[i] : s[i + left];
                s[i] = keep + subgroupShuffleXor(give, bit);
            }
        } else if (bit > 0) {
            s[0] += subgroupShuffleXor(s[0], bit);
        }
    }
}

uint own_first()
{
    return lane() * SCORES / LANES;
}

/* The sums so far, by the factors that their heads' maxima have grown by. */
void shrink(float factor)
{
    uint first = cluster() * HEADS;
    if (lane() % PER_HEAD == 0) {
        weights4[first + lane() / PER_HEAD].x = factor;
    }
    subgroupBarrier();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float f = weights4[first + h].x;
        [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
            sum4[h * 2 * EIGHTS + i] *= f;
        }
    }
    subgroupBarrier();
}

/* Own scores become weights of the values. most, total: of the thread's head; total counts the thread's own tokens. */
void weigh(ivec4 row, uint block_index, uvec2 key_scales, inout float s[32], inout float most, inout float total)
{
    uint token = own_first() % RUN, first = cluster() * RUN;
    float now = NEVER;
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        int at = int(block_index * BLOCK_TOKENS + first + token + j);
        bool seen = first < BLOCK_TOKENS && at <= row.y && (p.window == 0 || at > row.y - int(p.window));
        if (KV_PACKED) {
            s[j] *= four_scales(key_scales)[token + j];
        }
        s[j] = seen ? s[j] : NEVER;
        now = max(now, s[j]);
    }
    [[unroll]] for (uint step = 0; step < 5; step++) {
        if ((1u << step) < PER_HEAD) {
            now = max(now, subgroupShuffleXor(now, 1u << step));
        }
    }
    bool grows = now > most + GROWTH;
    if (subgroupAny(grows)) {
        float next = grows ? now : most, factor = exp2(most - next);
        most = next;
        total *= factor;
        shrink(factor);
    }
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        float w = s[j] > 0.1 * NEVER ? exp2(s[j] - most) : 0.0;
        total += w;
        if (KV_PACKED && !FOUR_BIT) {
            w *= four_scales(v.scales[0])[token + j];
        }
        weights4[cluster() * HEADS + own_first() / RUN][token + j] = w;
    }
    subgroupBarrier();
}

void mix()
{
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        vec4 low[RUN], high[RUN];
        [[unroll]] for (uint u = 0; u < RUN; u++) {
            values(v.raw[u * EIGHTS + i], v.more[u * EIGHTS + i], 1, low[u], high[u]);
            if (FOUR_BIT) {
                float scale = four_scales(v.scales[i])[u];
                low[u] *= scale;
                high[u] *= scale;
            }
        }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            vec4 w = weights4[cluster() * HEADS + h];
            uint at = (h * EIGHTS + i) * 2;
            [[unroll]] for (uint u = 0; u < RUN; u++) {
                sum4[at] = fma(vec4(w[u]), low[u], sum4[at]);
                sum4[at + 1] = fma(vec4(w[u]), high[u], sum4[at + 1]);
            }
        }
    }
    subgroupBarrier();
}
