/* What prepare() of attn_prepare.glsl does, in registers, for heads of 128 columns that all turn: a subgroup takes a head, each thread the
 * same columns of all its heads, and asks for all of them before it uses one. q becomes the words of the units' products at once.
 * Uses the push constants and variables declared there. */
const bool TURNS_WHOLE = PREP && D == 128 && N_ROPE == 128 && !INTERLEAVED;
const uint QUADS = 32 / LANES; /* vec4 of a head that a thread has: column 4 (lane + i LANES) and the three after it */

vec4 partner(vec4 v[QUADS], uint i, uint bit) /* of quad i, the one whose number differs in one bit */
{
    return bit < LANES ? subgroupShuffleXor(v[i], bit) : v[i ^ (bit / LANES)];
}

/* By a Hadamard matrix of 128 columns. */
void rotate_quads(inout vec4 v[QUADS])
{
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        vec4 a = vec4(v[i].x + v[i].y, v[i].x - v[i].y, v[i].z + v[i].w, v[i].z - v[i].w);
        v[i] = vec4(a.xy + a.zw, a.xy - a.zw) * inversesqrt(float(D));
    }
    [[unroll]] for (uint bit = 1; bit < 32; bit *= 2) {
        vec4 other[QUADS];
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            other[i] = partner(v, i, bit);
        }
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            float sign = ((gl_SubgroupInvocationID + i * LANES) & bit) != 0 ? -1.0 : 1.0;
            v[i] = fma(v[i], vec4(sign), other[i]);
        }
    }
}

/* Columns c and c + 64 turn together; the sine has the sign that its column takes it with. */
void turn_quads(inout vec4 v[QUADS], vec4 angle_cos[QUADS], vec4 angle_sin[QUADS])
{
    vec4 other[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        other[i] = partner(v, i, 16);
    }
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        v[i] = v[i] * angle_cos[i] + other[i] * angle_sin[i];
    }
}

shared uint own_scales[2]; /* halves, of this position's key and value */
vec4 asked[ROUNDS * QUADS], q_weight[QUADS], k_weight[QUADS], frequency[QUADS];

/* Asks for the heads that turn_heads() turns: past the caches that are not shared, since nobody may have emptied them (attn_chain.glsl). */
void ask_heads(uint base, uint kv_head, uint first_head)
{
    [[unroll]] for (uint k = 0; k < ROUNDS; k++) {
        uint from = head_at(base, kv_head, first_head, min(gl_SubgroupID + k * SUBGROUPS, HEADS + 1));
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            asked[k * QUADS + i] = Shared4(uint64_t(p.qkv) + 4ul * from).at[gl_SubgroupInvocationID + i * LANES];
        }
    }
}

/* And for what it turns them with. */
void ask_turning()
{
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        uint quad = gl_SubgroupInvocationID + i * LANES;
        if (HEAD_NORM) {
            q_weight[i] = F32x4(uint64_t(p.q_norm)).at[quad];
            k_weight[i] = F32x4(uint64_t(p.k_norm)).at[quad];
        }
        frequency[i] = F32x4(uint64_t(p.inv_freq)).at[quad & 15];
    }
}

/* Head h, the first of asked[]: of q as words, of this position's key and value back into its place. */
void turn_head(uint h, vec4 angle_cos[QUADS], vec4 angle_sin[QUADS])
{
    vec4 v[QUADS];
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        v[i] = asked[i];
        squares += dot(v[i], v[i]);
    }
    if (HEAD_NORM && h <= HEADS) {
        float factor = inversesqrt(subgroupAdd(squares) / float(D) + p.eps);
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            v[i] *= (h < HEADS ? q_weight[i] : k_weight[i]) * factor;
        }
    }
    if (h <= HEADS) {
        turn_quads(v, angle_cos, angle_sin);
    }
    if (KV_PACKED) {
        rotate_quads(v);
    }
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        if (h < HEADS) {
            heads4[quad_place(h, gl_SubgroupInvocationID + i * LANES)] = uintBitsToFloat(q_words(v[i]));
        }
        asked[i] = v[i];
    }
}

/* This position's key or value, the first of asked[], into the cache, and into shared memory as it is stored there. Its scale
 * shares a word with others' and is left to store_own_scales(). */
void put_own(uint is_v, uint block, uint token, uint kv_head)
{
    uint to = KV_PACKED ? packed_part(block, p.n_kv_head, kv_head) + (is_v == 1 ? VALUES : 0) + token * (D / 4)
                        : kv_word(block, is_v, p.n_kv_head, kv_head, token, D);
    float top = 0.0, scale = 1.0, inverse = 1.0;
    if (KV_PACKED) {
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            vec4 v = abs(asked[i]);
            top = max(top, max(max(v.x, v.y), max(v.z, v.w)));
        }
        uint bits = scale_half(subgroupMax(top) / 127.0);
        scale = half_values(bits).x;
        inverse = inverse_scale(bits);
        if (gl_SubgroupInvocationID == 0) {
            own_scales[is_v] = bits;
        }
    }
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        uint quad = gl_SubgroupInvocationID + i * LANES;
        vec4 v = asked[i];
        if (KV_PACKED) {
            v = clamp(roundEven(v * inverse), -127.0, 127.0);
            uvec4 bytes = uvec4(ivec4(v)) & 0xffu;
            p.kv.at[to + quad] = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
            v *= scale;
        } else {
            uvec2 words = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
            U32x2(uint64_t(p.kv) + 4ul * to).at[quad] = words;
            v = vec4(hidden_halves(words.x), hidden_halves(words.y));
        }
        heads4[(HEADS + is_v) * (D / 4) + quad] = v;
    }
}

void turn_heads(ivec4 row, uint kv_head, bool owns_row, uint block)
{
    uint n = HEADS + (owns_row ? 2 : 0);
    vec4 angle_cos[QUADS], angle_sin[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        vec4 angle = float(row.y) * frequency[i];
        float sign = ((gl_SubgroupInvocationID + i * LANES) & 16) != 0 ? 1.0 : -1.0;
        [[unroll]] for (uint c = 0; c < 4; c++) {
            vec2 cs = cos_sin(angle[c]) * p.rope_scale;
            angle_cos[i][c] = cs.x;
            angle_sin[i][c] = cs.y * sign;
        }
    }
    [[dont_unroll]] for (uint h = gl_SubgroupID; h < n; h += SUBGROUPS) { /* one copy of the code: it is read once, from memory */
        turn_head(h, angle_cos, angle_sin);
        if (h >= HEADS) {
            put_own(h - HEADS, block, uint(row.y) % BLOCK_TOKENS, kv_head);
        }
        [[unroll]] for (uint i = 0; i < (ROUNDS - 1) * QUADS; i++) {
            asked[i] = asked[i + QUADS];
        }
    }
}
