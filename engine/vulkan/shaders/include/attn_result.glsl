/* Where attn.comp and attn_units.comp leave a head's result. Uses the push constants and variables declared there. */
/* Four columns of the result, from column `at` of all on. */
void put_result(uint at, vec4 v)
{
    if (HALVES_OUT) {
        U32x2(uint64_t(p.outs)).at[at / 4] = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    } else {
        F32x4(uint64_t(p.outs)).at[at / 4] = v;
    }
}
