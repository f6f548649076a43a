/* What prepare() of attn_prepare.glsl does, in registers, for heads of 128 columns that all turn: a subgroup takes a head, each thread the
 * same columns of all its heads, and asks for all of them before it uses one. Uses the push constants and variables declared there. */
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
            bool upper = ((gl_SubgroupInvocationID + i * LANES) & bit) != 0;
            v[i] = upper ? other[i] - v[i] : v[i] + other[i];
        }
    }
}

/* Columns c and c + 64 turn together. */
void turn_quads(inout vec4 v[QUADS], vec4 angle_cos[QUADS], vec4 angle_sin[QUADS])
{
    vec4 other[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        other[i] = partner(v, i, 16);
    }
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        bool upper = ((gl_SubgroupInvocationID + i * LANES) & 16) != 0;
        v[i] = v[i] * angle_cos[i] + other[i] * (upper ? angle_sin[i] : -angle_sin[i]);
    }
}

vec4 asked[ROUNDS * QUADS], q_weight[QUADS], k_weight[QUADS], frequency[QUADS];

/* Asks for what turn_heads() needs, before keys and values are asked for. */
void ask_heads(uint base, uint kv_head)
{
    [[unroll]] for (uint k = 0; k < ROUNDS; k++) {
        uint from = head_at(base, kv_head, 0, min(gl_SubgroupID + k * SUBGROUPS, HEADS + 1));
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            asked[k * QUADS + i] = F32x4(uint64_t(p.qkv) + 4ul * from).at[gl_SubgroupInvocationID + i * LANES];
        }
    }
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        uint quad = gl_SubgroupInvocationID + i * LANES;
        if (HEAD_NORM) {
            q_weight[i] = F32x4(uint64_t(p.q_norm)).at[quad];
            k_weight[i] = F32x4(uint64_t(p.k_norm)).at[quad];
        }
        frequency[i] = F32x4(uint64_t(p.inv_freq)).at[quad & 15];
    }
}

void turn_heads(ivec4 row, uint kv_head, bool owns_row, uint block)
{
    uint n = HEADS + (owns_row ? 2 : 0);
    vec4 angle_cos[QUADS], angle_sin[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        vec4 angle = float(row.y) * frequency[i];
        [[unroll]] for (uint c = 0; c < 4; c++) {
            vec2 cs = cos_sin(angle[c]) * p.rope_scale;
            angle_cos[i][c] = cs.x;
            angle_sin[i][c] = cs.y;
        }
    }
    [[unroll]] for (uint k = 0; k < ROUNDS; k++) {
        uint h = gl_SubgroupID + k * SUBGROUPS;
        vec4 v[QUADS];
        float squares = 0.0;
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            v[i] = asked[k * QUADS + i];
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
            if (h < n) {
                heads4[h * (D / 4) + gl_SubgroupInvocationID + i * LANES] = v[i];
            }
        }
    }
    if (owns_row) {
        barrier();
        store_kv(block, uint(row.y) % BLOCK_TOKENS, kv_head);
        memoryBarrierBuffer();
    }
}
