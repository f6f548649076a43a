/* The steps of moe_few.comp over all columns: multiply_all, for formats that unpack word by word and for the others. */
#ifdef HAS_WORDS
uint held_low[HELD], held_high[HELD]; /* words of factors of rows g and g + 8 */

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

/* Step k, whose chunks are a and b, into c. */
void multiply_words(Packed a, Packed b, uint k, uint row, f16vec2 low_factor, f16vec2 high_factor)
{
    U32x4 from = x_from(k, row);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 x = x_at(from, k, i), l = packed_word(a, i, low_factor), h = packed_word(b, i, high_factor);
        PRODUCT_ADD(c, l.xy, h.xy, x.xy)
        PRODUCT_ADD(c, l.zw, h.zw, x.zw)
    }
}

/* The thread's words of scales of a row, which begins at chunk `from`, for the 4 SPAN steps from s on, as factors. Returns whether one of
 * them belongs to the other sum. */
bool hold_row(Planes w, uint from, uint s, bool large, out uint held[HELD])
{
    uint64_t at = w.scales + from + min(s + lane() % 4 * SPAN, STEPS - SPAN) * 4;
    uvec4 v = SPAN == 4 ? U32x4(at).at[0] : SPAN == 2 ? uvec4(U32x2(at).at[0], 0, 0) : uvec4(U32(at).at[0], 0, 0, 0);
    bool more = false;
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        more = more || packed_any_extreme(v[i]);
        held[i] = packed_part_factors(v[i], large);
    }
    return more;
}

bool hold_scales(Planes w, uint at, uint other, uint s, bool large)
{
    bool of_low = hold_row(w, at, s, large, held_low), of_high = hold_row(w, other, s, large, held_high);
    return of_low || of_high;
}

/* The factor of step k, whose place in its turn is i, from who has its word. */
f16vec2 held_factor(uint held[HELD], uint k, uint i)
{
    uint who = (gl_SubgroupInvocationID & ~3u) | (k / HELD % 4);
    return packed_held_factor(subgroupShuffle(held[i % HELD], who) >> (lane() % 4 * 8));
}

/* Asks for step k + DEPTH into what step k has left. Past the end for the last one again: where the load depends on a condition, the compiler
 * keeps both ways' words apart and copies all of them at the loop's end, so that it waits there for what the next turns need. */
void fetch_ahead(Planes w, uint at, uint other, uint k, out Packed a, out Packed b)
{
    fetch(w, at, other, min(k + DEPTH, STEPS - 1), a, b);
}

/* All steps, of which `low` and `high` hold the first: large scales by themselves, in a second turn that hardly any matrix needs, for in the
 * first they would take registers and instructions from all. */
vec4 multiply_all(Planes w, uint at, uint other, uint row)
{
    vec4 v = vec4(0.0);
    [[dont_unroll]] for (uint large = 0; large < 2; large++) {
        bool more = false;
        if (large > 0) {
            fetch_first(w, at, other);
        }
        PRODUCT_CLEAR(c)
        [[dont_unroll]] for (uint k0 = 0; k0 < STEPS; k0 += TURN) {
            if (SPAN > 0 && k0 % (4 * HELD) == 0) {
                bool next = hold_scales(w, at, other, k0, large > 0);
                more = more || next;
            }
            [[unroll]] for (uint i = 0; i < TURN; i++) { /* whose words stay where they arrive */
                uint k = k0 + i, slot = i % DEPTH;
                if (STEPS % TURN != 0 && k >= STEPS) {
                    break;
                }
                if (SPAN > 0) {
                    multiply_words(low[slot], high[slot], k, row, held_factor(held_low, k, i), held_factor(held_high, k, i));
                } else {
                    more = more || packed_extreme(low[slot]) || packed_extreme(high[slot]);
                    multiply_words(low[slot], high[slot], k, row, packed_part_factor(low[slot], large > 0),
                                   packed_part_factor(high[slot], large > 0));
                }
                [[unroll]] for (uint j = 0; j < AT_ONCE && i % AT_ONCE == AT_ONCE - 1; j++) {
                    uint back = AT_ONCE - 1 - j; /* steps that ended before this one */
                    if (!SPLIT_EXPERTS || k - back + DEPTH < STEPS) { /* in host memory the last one may cross the bus again */
                        fetch_ahead(w, at, other, k - back, low[slot - back], high[slot - back]);
                    }
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
    U32x4 from = x_from(k, row);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 x = x_at(from, k, i);
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
