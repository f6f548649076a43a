/* Keys and values in fewer bits, as tiles of attention read them (engine/model/kv_type.h says what the numbers mean). Needs D and, in
 * shaders of f32 tiles, KV_F32.
 * A head of a block is one part: keys int8 [32 tokens][D], their scales f16 [32]; values int8 [32][D] or nibbles [32][D / 2], their
 * scales f16 [groups][32]. The twin of the cpu's kv_layout.h: the same bytes, but keys as rows. */
layout(constant_id = SPEC_KV_TYPE) const uint KV_TYPE = 1; /* enum kv_type */
const bool KV_PACKED = KV_TYPE == 2 || KV_TYPE == 3;
const bool FOUR_BIT = KV_TYPE == 3; /* values */
const uint PACKED_TOKENS = 32;
const uint V_GROUP = FOUR_BIT ? (D % 32 == 0 ? 32 : 16) : D;
const uint V_BYTES = FOUR_BIT ? D / 2 : D;
const uint ROW_WORDS = PACKED_TOKENS / 4; /* of all tokens, for each byte of a row */
const uint KEY_SCALES = ROW_WORDS * D, VALUES = KEY_SCALES + PACKED_TOKENS / 2, VALUE_SCALES = VALUES + ROW_WORDS * V_BYTES;
const uint PART_WORDS = VALUE_SCALES + PACKED_TOKENS / 2 * (D / V_GROUP);

uint packed_part(uint block, uint n_kv_head, uint head)
{
    return (block * n_kv_head + head) * PART_WORDS;
}

/* Four (wide: eight) values from column d of a row: their bits, and the half of their scale. */
uvec4 packed_load(U32 kv, uint part, uint is_v, uint token, uint d, bool wide)
{
    uint i = token * D + d, half_at = token + (is_v == 1 ? d / V_GROUP * PACKED_TOKENS : 0);
    uint scales = kv.at[part + (is_v == 1 ? VALUE_SCALES : KEY_SCALES) + half_at / 2];
    uvec4 v = uvec4(0, 0, scales >> (half_at % 2 * 16) & 0xffff, 0);
    if (FOUR_BIT && is_v == 1) {
        v.x = kv.at[part + VALUES + i / 8] >> (i % 8 * 4);
    } else if (wide) {
        v.xy = U32x2(uint64_t(kv) + 4ul * (part + (is_v == 1 ? VALUES : 0) + i / 4)).at[0];
    } else {
        v.x = kv.at[part + (is_v == 1 ? VALUES : 0) + i / 4];
    }
    return v;
}

vec4 signed_bytes(uint w)
{
    return vec4(unpack8(int(w)));
}

vec4 signed_nibbles(uint w)
{
    return vec4((uvec4(w) >> uvec4(0, 4, 8, 12)) & 15) - 8.0;
}

/* What packed_load read, as values. */
void packed_values(uvec4 v, uint is_v, out vec4 low, out vec4 high)
{
    float scale = half_values(v.z).x;
    bool nibbles = FOUR_BIT && is_v == 1;
    low = scale * (nibbles ? signed_nibbles(v.x) : signed_bytes(v.x));
    high = scale * (nibbles ? signed_nibbles(v.x >> 16) : signed_bytes(v.y));
}

/* The same as eight halves. */
uvec4 packed_halves(uvec4 v, uint is_v)
{
    vec4 low, high;
    packed_values(v, is_v, low, high);
    return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
}
