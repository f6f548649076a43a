/* The steps of moe_few.comp over all columns: multiply_all, for formats that unpack word by word and for the others. */
#ifdef HAS_WORDS
/* Whether any of the threads has it that go through the products together. */
bool anyone(bool has)
{
#ifdef EMULATED /* barriers inside: all of the workgroup */
    barrier();
    found = 0;
    barrier();
    if (has) {
        found = 1;
    }
    barrier();
    return found == 1;
#else
    return subgroupAny(has);
#endif
}

/* Step k, whose chunks are a and b, into c: those whose scales are large, or of the others. */
void multiply_words(Packed a, Packed b, bool large, uint k, uint row)
{
    f16vec2 low_factor = packed_part_factor(a, large), high_factor = packed_part_factor(b, large);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 x = x_at(k, i, row), l = packed_word(a, i, low_factor), h = packed_word(b, i, high_factor);
        PRODUCT_ADD(c, l.xy, h.xy, x.xy)
        PRODUCT_ADD(c, l.zw, h.zw, x.zw)
    }
}

/* Scales of the SPAN steps from s on of the row whose first is chunk `from`, a word for each. */
uvec4 scales_at(Planes w, uint from, uint s)
{
    uint64_t at = w.scales + from + s * 4;
    return SPAN == 4 ? U32x4(at).at[0] : SPAN == 2 ? uvec4(U32x2(at).at[0], 0, 0) : uvec4(U32(at).at[0], 0, 0, 0);
}

/* All steps, of which `low` and `high` hold the first: large scales by themselves, in a second turn that hardly any matrix needs, for in the
 * first they would take registers and instructions from all. */
vec4 multiply_all(Planes w, uint at, uint other, uint row)
{
    vec4 v = vec4(0.0);
    [[dont_unroll]] for (uint large = 0; large < 2; large++) {
        bool more = false;
        uvec4 a, b, next_a, next_b;
        if (large > 0) {
            fetch_first(w, at, other);
        }
        if (SPAN > 0) {
            next_a = scales_at(w, at, 0);
            next_b = scales_at(w, other, 0);
        }
        PRODUCT_CLEAR(c)
        [[dont_unroll]] for (uint k0 = 0; k0 < STEPS; k0 += TURN) {
            [[unroll]] for (uint i = 0; i < TURN; i++) { /* whose words stay where they arrive */
                uint k = k0 + i, slot = i % DEPTH;
                if (STEPS % TURN != 0 && k >= STEPS) {
                    break;
                }
                if (SPAN > 0 && i % SPAN == 0) {
                    a = next_a;
                    b = next_b;
                    next_a = scales_at(w, at, min(k + SPAN, STEPS - SPAN));
                    next_b = scales_at(w, other, min(k + SPAN, STEPS - SPAN));
                }
                if (SPAN > 0) {
                    low[slot].e = (a[i % SPAN] >> (lane() % 4 * 8)) & 0xffu;
                    high[slot].e = (b[i % SPAN] >> (lane() % 4 * 8)) & 0xffu;
                }
                more = more || packed_extreme(low[slot]) || packed_extreme(high[slot]);
                multiply_words(low[slot], high[slot], large > 0, k, row);
                if (k + DEPTH < STEPS) {
                    fetch(w, at, other, k + DEPTH, low[slot], high[slot]);
                }
            }
        }
        v += PRODUCT_VALUES(c) * (large > 0 ? PACKED_LARGE : 1.0);
        if (!anyone(more)) {
            break;
        }
    }
    return v;
}
#else
/* Step k, whose chunks are a and b, into c. */
void multiply(Packed a, Packed b, uint k, uint row)
{
    uvec4 l[4], h[4];
    packed_f16(a, l);
    packed_f16(b, h);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 x = x_at(k, i, row);
        PRODUCT_ADD(c, l[i].xy, h[i].xy, x.xy)
        PRODUCT_ADD(c, l[i].zw, h[i].zw, x.zw)
    }
}

/* All steps, of which `low` and `high` hold the first. */
vec4 multiply_all(Planes w, uint at, uint other, uint row)
{
    PRODUCT_CLEAR(c)
    [[dont_unroll]] for (uint k0 = 0; k0 < STEPS; k0 += DEPTH) {
        [[unroll]] for (uint i = 0; i < DEPTH; i++) { /* whose words stay where they arrive */
            uint k = k0 + i;
            if (STEPS % DEPTH == 0 || k < STEPS) {
                multiply(low[i], high[i], k, row);
                if (k + DEPTH < STEPS) {
                    fetch(w, at, other, k + DEPTH, low[i], high[i]);
                }
            }
        }
    }
    return PRODUCT_VALUES(c);
}
#endif
