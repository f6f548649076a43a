/* Shared memory and products of row_units.glsl, for X_STEPS steps of x in X_VECTORS vectors and SCALE_WORDS words of W's scales. */
shared uvec4 x_units[X_VECTORS];
shared float x_scale[X_STEPS * 4]; /* powers of two, of each chunk of x: halves hold what is left */
shared uint scale_words[SCALE_WORDS]; /* a word for the four chunks of a step */

/* Halves of eight columns of which four stand in each vector, in the order of packed_word. */
uvec4 halves_of(vec4 a, vec4 b)
{
    return uvec4(packHalf2x16(vec2(a.x, b.x)), packHalf2x16(vec2(a.y, b.y)), packHalf2x16(vec2(a.z, b.z)), packHalf2x16(vec2(a.w, b.w)));
}

vec4 leading_bits(vec4 v)
{
    return uintBitsToFloat(floatBitsToUint(v) & 0xffffe000u);
}

/* Columns 8 i .. 8 i + 7 of x to vector `at` and the next. Threads i with the same i / 4 are neighbours and come here together. */
void put_columns(uint i, uint at, vec4 a, vec4 b, bool has)
{
    vec4 most4 = max(abs(a), abs(b));
    float most = max(max(most4.x, most4.y), max(most4.z, most4.w));
    most = max(most, subgroupShuffleXor(most, 1));
    most = max(most, subgroupShuffleXor(most, 2));
    uint exponent = min(floatBitsToUint(most) & 0x7f800000u, 0x7e800000u);
    float factor = uintBitsToFloat(0x7f000000u - exponent);
    a *= factor;
    b *= factor;
    if (has) {
        vec4 a_high = leading_bits(a), b_high = leading_bits(b);
        x_units[at] = halves_of(a_high, b_high);
        x_units[at + 1] = halves_of((a - a_high) * LOW_HALF_SCALE, (b - b_high) * LOW_HALF_SCALE);
        if (i % 4 == 0) {
            x_scale[i / 4] = uintBitsToFloat(exponent);
        }
    }
}

/* Where this thread's part of a step of x begins; its words are 2 apart. */
uint columns_at(uint step_at, uint zeros_at)
{
    uint g = lane() / 4, t = lane() % 4;
    return g / 2 == t ? step_at + t * 8 + g % 2 : zeros_at + 2;
}

/* Codes of a word as halves, times 2^-14, as fp4_bits in fewer instructions. */
uvec4 word_codes(uint q)
{
    return uvec4(((q & 0x40074007u) * 514u) & 0x8e008e00u, (q << 3) & 0x8e008e00u, ((q & 0x20382038u) * 68u) & 0x8e008e00u, q & 0x8e008e00u);
}

/* The chunks of slot i times step `at` of x, whose number is k; the words of their scales are number `from` and 8 rows later. */
vec2 step_sums(uint i, uint at, uint k, uint from)
{
    MatrixSum c;
    PRODUCT_CLEAR(c)
    [[unroll]] for (uint j = 0; j < 4; j++) {
        uvec4 x = x_units[at + 2 * j], l = word_codes(low[i][j]), h = word_codes(high[i][j]);
        PRODUCT_ADD(c, l.xy, h.xy, x.xy)
        PRODUCT_ADD(c, l.zw, h.zw, x.zw)
    }
    uint shift = lane() % 4 * 8;
    uvec2 e = (uvec2(scale_words[from], scale_words[from + 8 * STEPS]) >> shift) & 0xffu;
    vec2 scale = uintBitsToFloat(max(e << 23, uvec2(0x00400000u))) * (16384.0 * x_scale[k * 4 + lane() % 4]);
    vec4 v = PRODUCT_VALUES(c);
    return scale * (v.xz + v.yw * (1.0 / LOW_HALF_SCALE));
}

/* What the four threads of a row have. */
vec2 row_sums(vec2 v)
{
    v += subgroupShuffleXor(v, 1);
    return v + subgroupShuffleXor(v, 2);
}

/* A barrier of these 32 threads. */
#ifdef EMULATED
#define WARP_BARRIER barrier();
#else
#define WARP_BARRIER               \
    subgroupMemoryBarrierShared(); \
    subgroupBarrier();
#endif
