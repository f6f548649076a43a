/* A split's result where it is the only one of its row: what attn.comp and attn_units.comp do with a head's sums. Uses the push constants
 * and variables declared there. */
/* Four columns of the result, from column `at` of all on. */
void put_result(uint at, vec4 v)
{
    if (HALVES_OUT) {
        U32x2(uint64_t(p.outs)).at[at / 4] = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    } else {
        F32x4(uint64_t(p.outs)).at[at / 4] = v;
    }
}

/* Four columns of a head. */
void finish(uint t, uint kv_head, uint first_head, uint h, uint column, vec4 v)
{
    uint head = kv_head * G + first_head + h;
    if (first_head + h >= G) {
        return;
    }
    float l = denominator[h];
    if (SINKS) {
        l += exp2(p.sinks.at[head] * LOG2_E - top[h]);
    }
    v /= l;
    if (KV_PACKED) {
        heads4[(h * D + column) / 4] = v;
        return;
    }
    [[unroll]] for (uint i = 0; GATE && i < 4; i++) {
        v[i] *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + column + i]);
    }
    put_result((t * p.n_head + head) * D + column, v);
}

/* Packed: the heads that finish() left in shared memory, rotated back. */
void finish_rotated(uint t, uint kv_head, uint first_head)
{
    uint n = min(HEADS, G - first_head) * D;
    rotate_heads(0, n);
    [[dont_unroll]] for (uint i = 4 * gl_LocalInvocationIndex; i < n; i += 4 * THREADS) {
        uint head = kv_head * G + first_head + i / D, d = i % D;
        vec4 v = heads4[i / 4];
        [[unroll]] for (uint k = 0; GATE && k < 4; k++) {
            v[k] *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + d + k]);
        }
        put_result((t * p.n_head + head) * D + d, v);
    }
}
