/* Which part of the units' products a thread of attn_units.comp has, and q as their words. Uses the push constants declared there. */
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

/* Two halves as floats. A compiler that saw them to be what packHalf2x16 made of floats would take those. */
vec2 hidden_halves(uint w)
{
    return vec2(unpackFloat2x16(w ^ (p.q_step >> 31)));
}

/* Two values as halves, and what that lost. */
uvec2 two_halves(vec2 v)
{
    uint high = packHalf2x16(v);
    return uvec2(high, packHalf2x16((v - hidden_halves(high)) * LOW_HALF_SCALE));
}

/* Four columns of q times the scale, as two words and what those lost. */
uvec4 q_words(vec4 v)
{
    v *= p.scale * LOG2_E;
    uvec2 a = two_halves(KV_PACKED ? v.xz : v.xy), b = two_halves(KV_PACKED ? v.yw : v.zw);
    return uvec4(a.x, b.x, a.y, b.y);
}

/* Where the words of product i of a head's thread t lie: what a subgroup reads at a time follows each other. */
uint word_place(uint h, uint t, uint i)
{
    return (i * HEADS + h) * 4 + t;
}

/* The same of a head's four columns number `quad`: q_column() the other way round. */
uint quad_place(uint h, uint quad)
{
    return KV_PACKED ? word_place(h, quad / 4 % 4, quad / 16 * 4 + quad % 4) : word_place(h, quad / 2 % 4, quad / 8 * 2 + quad % 2);
}
