/* Rotating heads in shared memory and storing them in fewer bits. The shader defines HEAD_AT(i), its shared floats. */
const uint ROTATION = D & (~D + 1); /* dimensions that rotate together: the largest power of two that divides D */

/* n values from `from` on, whole heads, by all threads of the workgroup; a barrier follows. */
void rotate_heads(uint from, uint n)
{
    [[dont_unroll]] for (uint step = 1; step < ROTATION; step *= 2) {
        barrier();
        [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < n / 2; i += gl_WorkGroupSize.x) {
            uint lo = from + (i / step) * 2 * step + i % step, hi = lo + step;
            float a = HEAD_AT(lo), b = HEAD_AT(hi), norm = step * 2 == ROTATION ? inversesqrt(float(ROTATION)) : 1.0;
            HEAD_AT(lo) = (a + b) * norm;
            HEAD_AT(hi) = (a - b) * norm;
        }
    }
    barrier();
}

uint scale_half(float v)
{
    return packHalf2x16(vec2(clamp(v, -65504.0, 65504.0), 0.0)) & 0xffff;
}

float inverse_scale(uint bits)
{
    float scale = half_values(bits).x;
    return scale == 0.0 ? 0.0 : 1.0 / scale;
}

/* A token's scale shares its word with its neighbour's. alone: the neighbour's is not written now. */
void store_scale(U32 kv, uint scales, uint half_at, uint bits, bool alone)
{
    uint at = scales + half_at / 2, shift = half_at % 2 * 16, others = ~(0xffff << shift);
    if (alone) {
        kv.at[at] = (kv.at[at] & others) | bits << shift;
    } else {
        atomicAnd(kv.at[at], others);
        atomicOr(kv.at[at], bits << shift);
    }
}

void store_bytes(U32 kv, uint part, uint token, uint is_v, uint from, bool alone)
{
    float top = 0.0;
    for (uint d = gl_SubgroupInvocationID; d < D; d += gl_SubgroupSize) {
        top = max(top, abs(HEAD_AT(from + d)));
    }
    uint bits = scale_half(subgroupMax(top) / 127.0);
    float inverse = inverse_scale(bits);
    for (uint w = gl_SubgroupInvocationID; w < D / 4; w += gl_SubgroupSize) {
        uint word = 0;
        for (uint i = 0; i < 4; i++) {
            int q = int(clamp(roundEven(HEAD_AT(from + 4 * w + i) * inverse), -127.0, 127.0));
            word |= (uint(q) & 0xff) << (8 * i);
        }
        kv.at[part + (is_v == 1 ? VALUES : 0) + token * (D / 4) + w] = word;
    }
    if (gl_SubgroupInvocationID == 0) {
        store_scale(kv, part + (is_v == 1 ? VALUE_SCALES : KEY_SCALES), token, bits, alone);
    }
}

/* Each thread with a word of eight values finds the scale of their group by itself. */
void store_nibbles(U32 kv, uint part, uint token, uint from, bool alone)
{
    for (uint w = gl_SubgroupInvocationID; w < D / 8; w += gl_SubgroupSize) {
        uint group = 8 * w / V_GROUP, word = 0;
        float most = -3.0e38, least = 3.0e38;
        for (uint i = 0; i < V_GROUP; i++) {
            float v = HEAD_AT(from + group * V_GROUP + i);
            most = max(most, v);
            least = min(least, v);
        }
        uint bits = scale_half((most >= -least ? most : least) / -8.0);
        float inverse = inverse_scale(bits);
        for (uint i = 0; i < 8; i++) {
            int q = int(clamp(roundEven(HEAD_AT(from + 8 * w + i) * inverse), -8.0, 7.0));
            word |= uint(q + 8) << (4 * i);
        }
        kv.at[part + VALUES + token * (D / 8) + w] = word;
        if (8 * w % V_GROUP == 0) {
            store_scale(kv, part + VALUE_SCALES, group * PACKED_TOKENS + token, bits, alone);
        }
    }
}

/* The rotated key or value at `from`, by one subgroup. */
void packed_store(U32 kv, uint part, uint token, uint is_v, uint from, bool alone)
{
    if (FOUR_BIT && is_v == 1) {
        store_nibbles(kv, part, token, from, alone);
    } else {
        store_bytes(kv, part, token, is_v, from, alone);
    }
}
