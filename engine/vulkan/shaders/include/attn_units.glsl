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

/* Two values as halves, and what that lost. */
uvec2 two_halves(vec2 v)
{
    uint high = packHalf2x16(v);
    return uvec2(high, packHalf2x16((v - half_values(high)) * LOW_HALF_SCALE));
}

void load_q()
{
    [[unroll]] for (uint i = 0; i < 8; i++) {
        vec4 v = row_g() < HEADS ? heads4[(row_g() * D + q_column(i)) / 4] * (p.scale * LOG2_E) : vec4(0.0);
        uvec2 a = two_halves(KV_PACKED ? v.xz : v.xy), b = two_halves(KV_PACKED ? v.yw : v.zw);
        q[i] = uvec4(a.x, b.x, a.y, b.y);
    }
}

/* Asks for the keys of a turn: of every eighth token the pieces of 16 bytes that the thread has. */
void load_keys(uint block, uint kv_head, uint part)
{
    if (KV_PACKED) {
        uint from = packed_part(block, p.n_kv_head, kv_head);
        U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * from);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            keys[i] = rows.at[(i / 2 * 8 + row_g()) * (D / 16) + i % 2 * 4 + row_t()];
        }
        [[unroll]] for (uint i = 0; i < 4; i++) {
            key_scales[i] = p.kv.at[from + KEY_SCALES + i * 4 + row_t()];
        }
        return;
    }
    U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * kv_word(block, 0, p.n_kv_head, kv_head, part * TOKENS, D));
    [[unroll]] for (uint i = 0; i < 8; i++) {
        keys[i] = rows.at[(i / 4 * 8 + row_g()) * (D / 8) + i % 4 * 4 + row_t()];
    }
}

/* Token of the turn whose values are the thread's number i: two neighbours make a word. */
uint value_token(uint i)
{
    return i / 2 * 8 + row_t() * 2 + i % 2;
}

void load_values(uint block, uint kv_head, uint part)
{
    if (KV_PACKED) {
        uint from = packed_part(block, p.n_kv_head, kv_head);
        U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * (from + VALUES));
        [[unroll]] for (uint i = 0; i < 8; i++) {
            values[i] = rows.at[value_token(i) * (D / 16) + row_g()];
        }
        [[unroll]] for (uint i = 0; i < 4; i++) {
            value_scales[i] = p.kv.at[from + VALUE_SCALES + i * 4 + row_t()];
        }
        return;
    }
    U32x4 rows = U32x4(uint64_t(p.kv) + 4ul * kv_word(block, 1, p.n_kv_head, kv_head, part * TOKENS, D));
    [[unroll]] for (uint i = 0; i < 8; i++) {
        values[i] = rows.at[value_token(i / 2) * (D / 8) + i % 2 * 8 + row_g()];
    }
}

/* Two int8 in bytes 0 and 2 of a word, as halves. */
uint halves_of_bytes(uint w)
{
    return packFloat2x16(unpackFloat2x16((w & 0x00ff00ffu) ^ 0x64806480u) - f16vec2(1152.0));
}

/* A turn's scores of head g: s[2 i], s[2 i + 1] of the tokens 8 i + 2 t and the next. */
void score(out float s[8])
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
            r *= half_values(key_scales[i]);
        }
        s[2 * i] = r.x;
        s[2 * i + 1] = r.y;
    }
}

/* Scores become weights, two words for each eight tokens: halves, and what that lost. most, total: of head g; total counts the thread's own
 * tokens. */
void weigh(ivec4 row, uint first, float s[8], inout float most, inout float total, out uvec2 weights[4])
{
    float now = NEVER;
    [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
        int at = int(first + i / 2 * 8 + row_t() * 2 + i % 2);
        bool seen = at <= row.y && (p.window == 0 || at > row.y - int(p.window));
        s[i] = seen ? s[i] : NEVER;
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
        vec2 w = vec2(s[2 * i] > 0.1 * NEVER ? exp2(s[2 * i] - most) : 0.0, s[2 * i + 1] > 0.1 * NEVER ? exp2(s[2 * i + 1] - most) : 0.0);
        total += w.x + w.y;
        weights[i] = two_halves(KV_PACKED ? w * half_values(value_scales[i]) : w);
    }
}

/* Column j of the thread's 16 of two neighbouring tokens, the first of them its number i. */
uint value_word(uint i, uint j)
{
    if (KV_PACKED) {
        uint a = values[i][j / 4] >> (j % 4 * 8), b = values[i + 1][j / 4] >> (j % 4 * 8);
        return halves_of_bytes((a & 0xffu) | ((b & 0xffu) << 16));
    }
    uint a = values[i * 2 + j / 8][j % 8 / 2], b = values[i * 2 + 2 + j / 8][j % 8 / 2];
    return j % 2 == 0 ? (a & 0xffffu) | (b << 16) : (a >> 16) | (b & 0xffff0000u);
}

void mix(uvec2 weights[4])
{
    [[unroll]] for (uint k = 0; k < EIGHTS / 2; k++) {
        uvec2 high = uvec2(weights[2 * k].x, weights[2 * k + 1].x), lost = uvec2(weights[2 * k].y, weights[2 * k + 1].y);
        [[unroll]] for (uint j = 0; j < 16; j++) {
            uvec2 w = uvec2(value_word(4 * k, j), value_word(4 * k + 2, j));
            PRODUCT_ADD(sums[j], high, lost, w)
        }
    }
}
