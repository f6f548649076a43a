/* What a thread of attn_units.comp does with a turn of tokens: it reads them into its places of the units' registers, scores the keys, makes
 * weights of the scores, and adds up the values. Uses the push constants and variables declared there. */
vec2 scales_of(uint word)
{
    return vec2(unpackFloat2x16(word));
}

/* What prepare() left becomes words, where it is. */
void make_words()
{
    uvec4 words[QUADS_OF_THREAD];
    [[unroll]] for (uint i = 0; i < QUADS_OF_THREAD; i++) {
        words[i] = q_words(heads4[min(gl_LocalInvocationIndex + i * THREADS, HEADS * D / 4 - 1)]);
    }
    barrier();
    [[unroll]] for (uint i = 0; i < QUADS_OF_THREAD; i++) {
        uint item = gl_LocalInvocationIndex + i * THREADS;
        if (item < HEADS * D / 4) {
            heads4[quad_place(item / (D / 4), item % (D / 4))] = uintBitsToFloat(words[i]);
        }
    }
    barrier();
}

/* Of head g, or of the last one: two words of product i, then of what rounding lost. */
uvec4 q_of(uint i)
{
    return floatBitsToUint(heads4[word_place(min(row_g(), HEADS - 1), row_t(), i)]);
}

/* Of the thread's tokens of a turn, in order. */
uvec2 load_scales(uint scales, uint part)
{
    return U32x2(uint64_t(p.kv) + 4ul * (scales + part * (TOKENS / 2) + row_t() * 2)).at[0];
}

/* Token of a turn in column c of its eight number i: a thread's tokens follow each other, so that their scales are neighbours too. */
uint key_token(uint i, uint c)
{
    return KV_PACKED ? c / 2 * (TOKENS / 4) + 2 * i + c % 2 : i * 8 + c;
}

/* Asks for the keys of a turn: the pieces of 16 bytes that the thread has. */
void load_keys(uint block, uint kv_head, uint part)
{
    if (KV_PACKED) {
        uint from = packed_part(block, p.n_kv_head, kv_head);
        U32x4 own = U32x4(uint64_t(p.kv) + 4ul * from + part * (TOKENS * D) + (key_token(0, row_g()) * (D / 16) + row_t()) * 16);
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            keys[i] = own.at[key_token(i / 2, 0) * (D / 16) + i % 2 * 4];
        }
        key_scales = load_scales(from + KEY_SCALES, part);
        return;
    }
    uint from = kv_word(block, 0, p.n_kv_head, kv_head, part * TOKENS, D);
    U32x4 own = U32x4(uint64_t(p.kv) + 4ul * from + (key_token(0, row_g()) * (D / 8) + row_t()) * 16);
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        keys[i] = own.at[key_token(i / 4, 0) * (D / 8) + i % 4 * 4];
    }
}

/* First of the thread's tokens of a turn's values: two neighbours make a word. */
uint value_token()
{
    return key_token(0, row_t() * 2);
}

void load_values(uint block, uint kv_head, uint part)
{
    if (KV_PACKED) {
        uint from = packed_part(block, p.n_kv_head, kv_head);
        U32x4 own = U32x4(uint64_t(p.kv) + 4ul * (from + VALUES) + part * (TOKENS * D) + (value_token() * (D / 16) + row_g()) * 16);
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            values[i] = own.at[key_token(i / 2, i % 2) * (D / 16)];
        }
        value_scales = load_scales(from + VALUE_SCALES, part);
        return;
    }
    uint from = kv_word(block, 1, p.n_kv_head, kv_head, part * TOKENS, D);
    U32x4 own = U32x4(uint64_t(p.kv) + 4ul * from + (value_token() * (D / 8) + row_g()) * 16);
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        values[i] = own.at[key_token(i / 4, i / 2 % 2) * (D / 8) + i % 2 * 8];
    }
}

/* Two int8 in bytes 0 and 2 of a word, as halves. */
uint halves_of_bytes(uint w)
{
    return packFloat2x16(unpackFloat2x16((w & 0x00ff00ffu) ^ 0x64806480u) - f16vec2(1152.0));
}

/* A turn's scores of head g: s[2 i], s[2 i + 1] of the tokens 8 i + 2 t and the next. */
void score(out float s[4])
{
    MatrixSum c[2 * EIGHTS]; /* two chains of products for each eight tokens: a product waits for the one before it */
    [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
        PRODUCT_CLEAR(c[i])
    }
    [[unroll]] for (uint k = 0; k < 8; k++) {
        uvec4 a = q_of(k);
        [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
            uvec2 w;
            if (KV_PACKED) {
                uint four = keys[i * 2 + k / 4][k % 4];
                w = uvec2(halves_of_bytes(four), halves_of_bytes(four >> 8));
            } else {
                uvec4 v = keys[i * 4 + k / 2];
                w = k % 2 == 0 ? v.xy : v.zw;
            }
            PRODUCT_ADD(c[2 * i + k % 2], a.xy, a.zw, w)
        }
    }
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        vec4 v = PRODUCT_VALUES(c[2 * i]) + PRODUCT_VALUES(c[2 * i + 1]);
        vec2 r = v.xy + v.zw * (1.0 / LOW_HALF_SCALE);
        if (KV_PACKED) {
            r *= scales_of(key_scales[i]);
        }
        s[2 * i] = r.x;
        s[2 * i + 1] = r.y;
    }
}

/* First column of those of head g that the thread has from column j of the units' eight: 16 of them follow each other with q8, else eight. */
uint sum_column(uint j, uint odd)
{
    return KV_PACKED ? row_t() * 32 + odd * 16 + j : j / 8 * 64 + row_t() * 16 + odd * 8 + j % 8;
}

/* What a sequence's own key and value, which turn_heads() left in shared memory, add to the result: the state that a warp begins with, so that
 * nobody reads them again from the cache. Their place there is not seen. */
void begin_with_own(out float most, out float total)
{
    float score = 0.0;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uvec4 q = q_of(i);
        vec2 a = vec2(unpackFloat2x16(q.x)) + vec2(unpackFloat2x16(q.z)) * (1.0 / LOW_HALF_SCALE);
        vec2 b = vec2(unpackFloat2x16(q.y)) + vec2(unpackFloat2x16(q.w)) * (1.0 / LOW_HALF_SCALE);
        score += dot(KV_PACKED ? vec4(a.x, b.x, a.y, b.y) : vec4(a, b), heads4[(HEADS * D + q_column(i)) / 4]);
    }
    score += subgroupShuffleXor(score, 1);
    most = score + subgroupShuffleXor(score, 2);
    total = row_t() == 0 ? 1.0 : 0.0;
    [[unroll]] for (uint j = 0; j < 16; j++) {
        PRODUCT_SET(sums[j], heads_at((HEADS + 1) * D + sum_column(j, 0)), heads_at((HEADS + 1) * D + sum_column(j, 1)))
    }
}

void store_own_scales(uint block, uint token, uint kv_head)
{
    uint is_v = gl_SubgroupInvocationID, scales = packed_part(block, p.n_kv_head, kv_head) + (is_v == 1 ? VALUE_SCALES : KEY_SCALES);
    if (is_v < 2) {
        store_scale(p.kv, scales, token, own_scales[is_v], true);
    }
}

/* Scores become weights, two words for each eight tokens: halves, and what that lost. most, total: of head g; total counts the thread's own
 * tokens. */
void weigh(ivec4 row, uint first, float s[4], inout float most, inout float total, out uvec2 weights[2])
{
    float now = NEVER;
    if (int(first + TOKENS) > row.y || p.window != 0) {
        [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
            int at = int(first + key_token(i / 2, row_t() * 2 + i % 2));
            bool seen = (TURNS_WHOLE ? at < row.y : at <= row.y) && (p.window == 0 || at > row.y - int(p.window));
            s[i] = seen ? s[i] : NEVER;
        }
    }
    [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
        now = max(now, s[i]);
    }
    now = max(now, subgroupShuffleXor(now, 1));
    now = max(now, subgroupShuffleXor(now, 2));
    bool grows = now > most + GROWTH;
    float next = grows ? now : most, factor = exp2(most - next);
    bool sums_grow = subgroupAny(grows && most > LEAST); /* else there is nothing yet */
    most = next;
    if (sums_grow) {
        total *= factor;
        [[unroll]] for (uint j = 0; j < 16; j++) {
            PRODUCT_SCALE(sums[j], factor)
        }
    }
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        vec2 w = exp2(vec2(s[2 * i], s[2 * i + 1]) - most);
        total += w.x + w.y;
        w *= KV_PACKED ? scales_of(value_scales[i]) : vec2(1.0);
        weights[i] = two_halves(w);
    }
}

/* Column j of the thread's 16 of two neighbouring tokens, the first of them its number i. */
uint value_word(uint i, uint j)
{
    uint a = values[i * 2 + j / 8][j % 8 / 2], b = values[i * 2 + 2 + j / 8][j % 8 / 2];
    return j % 2 == 0 ? (a & 0xffffu) | (b << 16) : (a >> 16) | (b & 0xffff0000u);
}

/* Four columns from 4 j on of tokens i and i + 1. */
uvec4 value_words(uint i, uint j)
{
    uint a = values[i][j], b = values[i + 1][j];
    uint low = (a & 0xffffu) | (b << 16), high = (a >> 16) | (b & 0xffff0000u);
    return uvec4(halves_of_bytes(low), halves_of_bytes(low >> 8), halves_of_bytes(high), halves_of_bytes(high >> 8));
}

void mix(uvec2 weights[2])
{
    [[unroll]] for (uint k = 0; k < EIGHTS / 2; k++) {
        uvec2 high = uvec2(weights[2 * k].x, weights[2 * k + 1].x), lost = uvec2(weights[2 * k].y, weights[2 * k + 1].y);
        [[unroll]] for (uint j = 0; j < 16; j += 4) {
            uvec4 a, b;
            if (KV_PACKED) {
                a = value_words(4 * k, j / 4);
                b = value_words(4 * k + 2, j / 4);
            }
            [[unroll]] for (uint i = 0; i < 4; i++) {
                uvec2 w = KV_PACKED ? uvec2(a[i], b[i]) : uvec2(value_word(4 * k, j + i), value_word(4 * k + 2, j + i));
                PRODUCT_ADD(sums[j + i], high, lost, w)
            }
        }
    }
}
