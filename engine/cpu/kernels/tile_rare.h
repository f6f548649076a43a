/* The formats that are met less often, through MODE_CALL: affine 2, 3, 5 and 6 bit, Q4_1, Q5_0,
 * Q5_1, IQ4_NL, IQ4_XS, Q2_K, Q3_K, Q5_K. Included after tile_formats.h, whose order of pairs (the
 * byte order) they share. */
#pragma once
#include "engine/cpu/kernels/tile_formats.h"

/* The `bits` dwords of a block of an affine row, never a byte past the row. */
static inline __attribute__((always_inline)) void load_stream(const struct lanes *l, int32_t block,
                                                              int bits, vi *v)
{
    size_t at = (size_t)block * 4 * (size_t)bits;
    vi part[4];
    if (bits >= 4) {
        load_rows16(l->data, at, v);
        load_rows16(l->data, at + 4 * (size_t)bits - 16, part);
        UNROLL
        for (int i = 4; i < bits; i++)
            v[i] = part[i + 4 - bits];
    } else if (bits == 3 && block > 0) {
        load_rows16(l->data, at - 4, part);
        UNROLL
        for (int i = 0; i < 3; i++)
            v[i] = part[i + 1];
    } else {
        UNROLL
        for (int i = 0; i < bits; i++)
            v[i] = load_dwords(l->data, at + 4 * (size_t)i);
    }
}

/* Column c of the stream in each lane. Constants but for v. */
static inline __attribute__((always_inline)) vi stream_value(const vi *v, int bits, int c)
{
    int dword = c * bits / 32, shift = c * bits % 32;
    vi low = shift ? vi_shr(v[dword], shift) : v[dword];
    if (shift + bits > 32)
        low = vi_or(low, vi_shl(v[dword + 1], 32 - shift));
    return vi_and(low, vi_set1((1 << bits) - 1));
}

static inline __attribute__((always_inline)) void tile_stream(const struct lanes *l, int bits,
                                                              struct sums *acc)
{
    const int32_t per_group = l->tile->weight->group / 32;
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_affine(l, first, n, &s);
        for (int32_t b = 0; b < n; b++) {
            vi v[8], q[16];
            load_stream(l, first + b, bits, v);
            UNROLL
            for (int i = 0; i < 16; i++) {
                int c = i / 2 * 4 + i % 2;
                q[i] = vi_or(stream_value(v, bits, c), vi_shl(stream_value(v, bits, c + 2), 16));
            }
            vf scale[2], min[2];
            scale[0] = scale[1] = vf_load(s.scale[b / per_group]);
            min[0] = min[1] = vf_load(s.min[b / per_group]);
            block_apply(l, first + b, q, scale, min, WITH_MIN, PANEL_BYTE, MODE_CALL, acc);
        }
    }
}

/* Q5_0 (with_min == false: offset 16) and Q5_1: a fifth bit for each column in one dword. */
static inline __attribute__((always_inline)) void tile_q5_legacy(const struct lanes *l,
                                                                 bool with_min, struct sums *acc)
{
    nibble_table table = nibble_levels(plain_levels);
    size_t block_bytes = with_min ? 24 : 22, bits_at = with_min ? 4 : 2;
    for (int32_t b = 0; b < l->blocks; b++) {
        size_t at = (size_t)b * block_bytes;
        vi v[4], q[16], high = load_dwords(l->data, at + bits_at);
        load_rows16(l->data, at + bits_at + 4, v);
        nibbles_to_pairs(v, table, q);
        UNROLL
        for (int i = 0; i < 16; i++) {
            int c = i / 2 * 4 + i % 2;
            vi first = vi_and(c < 4 ? vi_shl(high, 4 - c) : vi_shr(high, c - 4), vi_set1(16));
            vi second =
                vi_and(c + 2 < 20 ? vi_shl(high, 18 - c) : vi_shr(high, c - 18), vi_set1(16 << 16));
            q[i] = vi_or(q[i], vi_or(first, second));
            if (!with_min)
                q[i] = vi_sub16(q[i], vi_set1(0x00100010));
        }
        vf scale[2], min[2] = {vf_zero(), vf_zero()};
        scale[0] = scale[1] = vf_from_half_lanes(load_words(l->data, at));
        if (with_min)
            min[0] = min[1] = vf_from_half_lanes(load_words(l->data, at + 2));
        block_apply(l, b, q, scale, min, with_min ? WITH_MIN : PLAIN, PANEL_BYTE, MODE_CALL, acc);
    }
}

/* v shifted right by a multiple of 2 (or by 1 per step), which the loops don't know as a constant.
 */
static inline vi shift_right(vi v, int n)
{
    switch (n) {
    case 0:
        return v;
    case 1:
        return vi_shr(v, 1);
    case 2:
        return vi_shr(v, 2);
    case 3:
        return vi_shr(v, 3);
    case 4:
        return vi_shr(v, 4);
    case 5:
        return vi_shr(v, 5);
    case 6:
        return vi_shr(v, 6);
    case 7:
        return vi_shr(v, 7);
    case 8:
        return vi_shr(v, 8);
    case 16:
        return vi_shr(v, 16);
    case 24:
        return vi_shr(v, 24);
    default:
        return vi_zero();
    }
}

/* The two-bit codes of sub-block `sub`, four columns a lane, of Q2_K and Q3_K. */
static inline void two_bit_codes(const struct lanes *l, size_t codes_at, int sub, vi v[8])
{
    load_rows16(l->data, codes_at + (size_t)(sub / 4) * 32, v);
    load_rows16(l->data, codes_at + (size_t)(sub / 4) * 32 + 16, v + 4);
    UNROLL
    for (int j = 0; j < 8; j++)
        v[j] = vi_and(shift_right(v[j], sub % 4 * 2), vi_set1(0x03030303));
}

static inline __attribute__((always_inline)) void tile_q2_k(const struct lanes *l, struct sums *acc)
{
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        size_t at = (size_t)super * 84;
        vi s[4];
        load_rows16(l->data, at, s);
        vf d = vf_from_half_lanes(load_words(l->data, at + 80));
        vf m = vf_sub(vf_zero(), vf_from_half_lanes(load_words(l->data, at + 82)));
        for (int sub = 0; sub < 8; sub++) {
            vi v[8], q[16], nibble = vi_set1(15);
            two_bit_codes(l, at + 16, sub, v);
            bytes_to_pairs(v, q);
            vf scale[2], min[2];
            for (int h = 0; h < 2; h++) {
                vi byte = shift_right(s[sub / 2], (sub % 2 * 2 + h) * 8);
                scale[h] = vf_mul(d, vf_from_int(vi_and(byte, nibble)));
                min[h] = vf_mul(m, vf_from_int(vi_and(vi_shr(byte, 4), nibble)));
            }
            block_apply(l, super * 8 + sub, q, scale, min, WITH_MIN | HALVES, PANEL_BYTE, MODE_CALL,
                        acc);
        }
    }
}

/* Q3_K's scale s (0..15) of the twelve bytes, see block.c; offset removed. */
static inline vf q3_scale(const vi bytes[3], int s, vf d)
{
    vi low = vi_and(shift_right(shift_right(bytes[s % 8 / 4], s % 4 * 8), s / 8 * 4), vi_set1(15));
    vi high = vi_and(shift_right(shift_right(bytes[2], s % 4 * 8), s / 4 * 2), vi_set1(3));
    vi scale = vi_add(vi_or(low, vi_shl(high, 4)), vi_set1(-32));
    return vf_mul(d, vf_from_int(scale));
}

static inline __attribute__((always_inline)) void tile_q3_k(const struct lanes *l, struct sums *acc)
{
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        size_t at = (size_t)super * 110;
        vi high[8], bytes[3];
        load_rows16(l->data, at, high);
        load_rows16(l->data, at + 16, high + 4);
        for (int i = 0; i < 3; i++)
            bytes[i] = load_dwords(l->data, at + 96 + 4 * (size_t)i);
        vf d = vf_from_half_lanes(load_words(l->data, at + 108)), zero[2] = {vf_zero(), vf_zero()};
        for (int sub = 0; sub < 8; sub++) {
            vi v[8], q[16];
            two_bit_codes(l, at + 32, sub, v);
            UNROLL
            for (int j = 0; j < 8; j++) {
                vi bit = vi_and(shift_right(high[j], sub), vi_set1(0x01010101));
                v[j] = vi_or(v[j], vi_shl(bit, 2));
            }
            bytes_to_pairs(v, q);
            UNROLL
            for (int i = 0; i < 16; i++)
                q[i] = vi_sub16(q[i], vi_set1(0x00040004));
            vf scale[2] = {q3_scale(bytes, 2 * sub, d), q3_scale(bytes, 2 * sub + 1, d)};
            block_apply(l, super * 8 + sub, q, scale, zero, HALVES, PANEL_BYTE, MODE_CALL, acc);
        }
    }
}

static inline __attribute__((always_inline)) void tile_iq4_xs(const struct lanes *l,
                                                              struct sums *acc)
{
    nibble_table table = nibble_levels(iq4_levels);
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        size_t at = (size_t)super * 136;
        vi head = load_dwords(l->data, at), low = load_dwords(l->data, at + 4),
           two_bits = vi_shr(head, 16);
        vf d = vf_from_half_lanes(head), zero[2] = {vf_zero(), vf_zero()};
        for (int sub = 0; sub < 8; sub++) {
            vi v[4], q[16];
            load_rows16(l->data, at + 8 + (size_t)sub * 16, v);
            nibbles_to_pairs(v, table, q);
            vi four = vi_and(shift_right(shift_right(low, sub / 2 * 8), sub % 2 * 4), vi_set1(15));
            vi two =
                vi_and(shift_right(shift_right(two_bits, sub / 4 * 8), sub % 4 * 2), vi_set1(3));
            vf scale[2];
            scale[0] = scale[1] =
                vf_mul(d, vf_from_int(vi_add(vi_or(four, vi_shl(two, 4)), vi_set1(-32))));
            block_apply(l, super * 8 + sub, q, scale, zero, PLAIN, PANEL_BYTE, MODE_CALL, acc);
        }
    }
}

static void run_rare(const struct lanes *l, struct sums *acc)
{
    const struct weight *w = l->tile->weight;
    switch (w->type) {
    case WEIGHT_AFFINE:
        if (w->bits == 2)
            tile_stream(l, 2, acc);
        else if (w->bits == 3)
            tile_stream(l, 3, acc);
        else if (w->bits == 5)
            tile_stream(l, 5, acc);
        else
            tile_stream(l, 6, acc);
        break;
    case WEIGHT_Q4_1:
        tile_nibbles(l,
                     (struct nibble_format){
                         .block_bytes = 20, .at = 4, .levels = plain_levels, .shape = WITH_MIN},
                     MODE_CALL, acc);
        break;
    case WEIGHT_IQ4_NL:
        tile_nibbles(l, (struct nibble_format){.block_bytes = 18, .at = 2, .levels = iq4_levels},
                     MODE_CALL, acc);
        break;
    case WEIGHT_Q5_K:
        tile_k4(l, true, MODE_CALL, acc);
        break;
    case WEIGHT_Q5_0:
        tile_q5_legacy(l, false, acc);
        break;
    case WEIGHT_Q5_1:
        tile_q5_legacy(l, true, acc);
        break;
    case WEIGHT_Q2_K:
        tile_q2_k(l, acc);
        break;
    case WEIGHT_Q3_K:
        tile_q3_k(l, acc);
        break;
    default:
        tile_iq4_xs(l, acc);
    }
}
