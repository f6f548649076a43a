/* Paged KV of one attention layer. Block b holds K then V, each [n_kv_head][32 tokens][D], as f16 pairs or f32; packed blocks:
 * kv_packed.glsl. */
layout(constant_id = SPEC_KV_F32) const bool KV_F32 = false;
const uint BLOCK_TOKENS = 32;

/* Words of 4 bytes from the start of the layer's KV to a row of D values. */
uint kv_word(uint block, uint is_v, uint n_kv_head, uint head, uint token, uint d_head)
{
    uint row = ((block * 2 + is_v) * n_kv_head + head) * BLOCK_TOKENS + token;
    return row * (KV_F32 ? d_head : d_head / 2);
}
