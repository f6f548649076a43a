/* What a thread of attn_units.comp does with a turn of tokens: it reads them into its places of the units' registers, scores the keys, makes
 * weights of the scores, and adds up the values. Uses the push constants and variables declared there. */
uint warp()
{
    return gl_LocalInvocationIndex / 32;
}

uint row_g()
{
    return gl_LocalInvocationIndex % 32 / 4;
}

uint row_t()
{
    return gl_LocalInvocationIndex % 4;
}

/* First column of the four of q and K that the thread has in product i. */
uint q_column(uint i)
{
    return KV_PACKED ? i / 4 * 64 + row_t() * 16 + i % 4 * 4 : (i / 2 * 4 + row_t()) * 8 + i % 2 * 4;
}

/* Two values as halves, and what that lost. A compiler that saw the halves to be those of v would call it nothing. */
uvec2 two_halves(vec2 v)
{
    uint high = packHalf2x16(v);
    vec2 rounded = vec2(unpackFloat2x16(high ^ (p.q_step >> 31)));
    return uvec2(high, packHalf2x16((v - rounded) * LOW_HALF_SCALE));
}

vec2 scales_of(uint word)
{
    return vec2(unpackFloat2x16(word));
}

void load_q()
{
    [[unroll]] for (uint i = 0; i < 8; i++) {
        vec4 v = row_g() < HEADS ? heads4[(row_g() * D + q_column(i)) / 4] * (p.scale * LOG2_E) : vec4(0.0);
        uvec2 a = two_halves(KV_PACKED ? v.xz : v.xy), b = two_halves(KV_PACKED ? v.yw : v.zw);
        q[i] = uvec4(a.x, b.x, a.y, b.y);
    }
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
        U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * from + part * (TOKENS * D));
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            keys[i] = rows.at[key_token(i / 2, row_g()) * (D / 16) + i % 2 * 4 + row_t()];
        }
        key_scales = load_scales(from + KEY_SCALES, part);
        return;
    }
    U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * kv_word(block, 0, p.n_kv_head, kv_head, part * TOKENS, D));
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        keys[i] = rows.at[key_token(i / 4, row_g()) * (D / 8) + i % 4 * 4 + row_t()];
    }
}

/* Token of the turn whose values are the thread's number i: two neighbours make a word. */
uint value_token(uint i)
{
    return key_token(i / 2, row_t() * 2 + i % 2);
}

void load_values(uint block, uint kv_head, uint part)
{
    if (KV_PACKED) {
        uint from = packed_part(block, p.n_kv_head, kv_head);
        U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * (from + VALUES) + part * (TOKENS * D));
        [[unroll]] for (uint i = 0; i < PIECES; i++) {
            values[i] = rows.at[value_token(i) * (D / 16) + row_g()];
        }
        value_scales = load_scales(from + VALUE_SCALES, part);
        return;
    }
    U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * kv_word(block, 1, p.n_kv_head, kv_head, part * TOKENS, D));
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        values[i] = rows.at[value_token(i / 2) * (D / 8) + i % 2 * 8 + row_g()];
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
    [[unroll]] for (uint i = 0; i < EIGHTS; i++) {
        MatrixSum c;
        PRODUCT_CLEAR(c)
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uvec2 w;
            if (KV_PACKED) {
                uint four = keys[i * 2 + k / 4][k % 4];
                w = uvec2(halves_of_bytes(four), halves_of_bytes(four >> 8));
            } else {
                uvec4 v = keys[i * 4 + k / 2];
                w = k % 2 == 0 ? v.xy : v.zw;
            }
            PRODUCT_ADD(c, q[k].xy, q[k].zw, w)
        }
        vec4 v = PRODUCT_VALUES(c);
        vec2 r = v.xy + v.zw * (1.0 / LOW_HALF_SCALE);
        if (KV_PACKED) {
            r *= scales_of(key_scales[i]);
        }
        s[2 * i] = r.x;
        s[2 * i + 1] = r.y;
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
            bool seen = at <= row.y && (p.window == 0 || at > row.y - int(p.window));
            s[i] = seen ? s[i] : NEVER;
        }
    }
    [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
        now = max(now, s[i]);
    }
    now = max(now, subgroupShuffleXor(now, 1));
    now = max(now, subgroupShuffleXor(now, 2));
    bool grows = now > most + GROWTH;
    if (subgroupAny(grows)) {
        float next = grows ? now : most, factor = exp2(most - next);
        most = next;
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

/* Columns j and j + 1 of two neighbouring tokens' bytes a and b, from their halves. */
uvec2 pair_words(uint a, uint b)
{
    f16vec2 x = unpackFloat2x16(a), y = unpackFloat2x16(b);
    return uvec2(packFloat2x16(f16vec2(x.x, y.x)), packFloat2x16(f16vec2(x.y, y.y)));
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
    uvec2 even = pair_words(halves_of_bytes(a), halves_of_bytes(b)), odd = pair_words(halves_of_bytes(a >> 8), halves_of_bytes(b >> 8));
    return uvec4(even.x, odd.x, even.y, odd.y);
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
