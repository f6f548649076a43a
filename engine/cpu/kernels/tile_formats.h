/* Unpacking of the formats that have a vector form: block by block into sixteen vectors of int16
 * pairs, rows in lanes. Scales are prepared a segment at a time. Included after tile_core.h. */
#pragma once
#include "engine/cpu/kernels/tile_core.h"

static const int8_t fp4_levels[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                      0, -1, -2, -3, -4, -6, -8, -12}; /* doubled */
static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t minus_8_levels[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static const int8_t plain_levels[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* 2^(e - 127); e = 0 gives 2^-127. 255 is refused when a model is opened. */
static inline vf vf_e8m0(vi e)
{
    return vf_bits(vi_max(vi_shl(e, 23), vi_set1(0x00400000)));
}

static inline vf vf_bf16_low(vi v)
{
    return vf_bits(vi_shl(v, 16));
}

static inline vf vf_bf16_high(vi v)
{
    return vf_bits(vi_and(v, vi_set1((int32_t)0xffff0000)));
}

/* One 16-bit word of each row. */
static inline vi load_words(const uint8_t *const *rows, size_t at)
{
    int32_t v[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++) {
        uint16_t word;
        memcpy(&word, rows[i] + at, sizeof word);
        v[i] = word;
    }
    return vi_load(v);
}

static inline vi load_dwords(const uint8_t *const *rows, size_t at)
{
    int32_t v[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++)
        memcpy(&v[i], rows[i] + at, sizeof v[i]);
    return vi_load(v);
}

/* Four E8M0 bytes of each row, halved since the levels are doubled. */
static inline void e8m0_four(vi v, float out[4][LANES])
{
    vf half = vf_set1(0.5f);
    vi byte = vi_set1(255);
    vf_store(out[0], vf_mul(vf_e8m0(vi_and(v, byte)), half));
    vf_store(out[1], vf_mul(vf_e8m0(vi_and(vi_shr(v, 8), byte)), half));
    vf_store(out[2], vf_mul(vf_e8m0(vi_and(vi_shr(v, 16), byte)), half));
    vf_store(out[3], vf_mul(vf_e8m0(vi_shr(v, 24)), half));
}

/* Scales of n blocks from `first` on. */
static inline void scales_mxfp4(const struct lanes *l, int32_t first, int32_t n, struct scales *s)
{
    int32_t b = 0;
    for (; b + 16 <= n; b += 16) {
        vi v[4];
        load_rows16(l->scales, (size_t)(first + b), v);
        UNROLL
        for (int j = 0; j < 4; j++)
            e8m0_four(v[j], s->scale + b + 4 * j);
    }
    /* Rows of four blocks, as experts' down matrices of small models have: one run of scales. */
    const bool run = l->scales[LANES - 1] == l->scales[0] + 4 * (LANES - 1);
    for (; b + 4 <= n; b += 4)
        e8m0_four(run ? vi_load(l->scales[0] + first + b)
                      : load_dwords(l->scales, (size_t)(first + b)),
                  s->scale + b);
    for (; b < n; b++) {
        int32_t byte[LANES];
        for (int r = 0; r < LANES; r++)
            byte[r] = l->scales[r][first + b];
        vf_store(s->scale[b], vf_mul(vf_e8m0(vi_load(byte)), vf_set1(0.5f)));
    }
}

static inline __attribute__((always_inline)) void tile_mxfp4(const struct lanes *l, enum mode mode,
                                                             struct sums *acc)
{
    nibble_table table = nibble_levels(fp4_levels);
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_mxfp4(l, first, n, &s);
        for (int32_t b = 0; b < n; b++) {
            vi v[4], q[16];
            load_rows16(l->data, (size_t)(first + b) * 16, v);
            UNROLL
            for (int j = 0; j < 4; j++)
                look_up(v[j], table, q + 4 * j);
            vf scale[2], zero[2] = {vf_zero(), vf_zero()};
            scale[0] = scale[1] = vf_load(s.scale[b]);
            block_apply(l, first + b, q, scale, zero, PLAIN, PANEL_NIBBLE, mode, acc);
        }
    }
}

/* Group scales (or biases) g .. g + n of each row as f32. Eight at a time where 16 bytes are there.
 */
static inline void group_floats(const uint8_t *const *rows, enum scale_type type, int32_t g,
                                int32_t n, float out[][LANES])
{
    size_t size = type == SCALE_F32 ? 4 : 2;
    int32_t i = 0, step = (int32_t)(16 / size);
    for (; i + step <= n; i += step) {
        vi v[4];
        load_rows16(rows, (size_t)(g + i) * size, v);
        UNROLL
        for (int j = 0; j < 4; j++) {
            if (type == SCALE_F32) {
                vf_store(out[i + j], vf_bits(v[j]));
            } else {
                bool half = type == SCALE_F16;
                vf_store(out[i + 2 * j], half ? vf_from_half_lanes(v[j]) : vf_bf16_low(v[j]));
                vf_store(out[i + 2 * j + 1],
                         half ? vf_from_half_lanes(vi_shr(v[j], 16)) : vf_bf16_high(v[j]));
            }
        }
    }
    for (; i < n; i++) {
        size_t at = (size_t)(g + i) * size;
        if (type == SCALE_F32)
            vf_store(out[i], vf_bits(load_dwords(rows, at)));
        else
            vf_store(out[i], type == SCALE_F16 ? vf_from_half_lanes(load_words(rows, at))
                                               : vf_bf16_low(load_words(rows, at)));
    }
}

/* Scales and biases of the groups of n blocks from `first` on. */
static inline void scales_affine(const struct lanes *l, int32_t first, int32_t n, struct scales *s)
{
    const struct weight *w = l->tile->weight;
    const int32_t per_group = w->group / 32;
    group_floats(l->scales, w->scale_type, first / per_group, n / per_group, s->scale);
    group_floats(l->biases, w->scale_type, first / per_group, n / per_group, s->min);
}

static inline void affine_q(const struct lanes *l, int32_t block, int bits, nibble_table table,
                            vi q[16])
{
    vi v[8];
    if (bits == 4) {
        load_rows16(l->data, (size_t)block * 16, v);
        UNROLL
        for (int j = 0; j < 4; j++)
            look_up(v[j], table, q + 4 * j);
        return;
    }
    load_rows16(l->data, (size_t)block * 32, v);
    load_rows16(l->data, (size_t)block * 32 + 16, v + 4);
    UNROLL
    for (int j = 0; j < 8; j++) {
        q[2 * j] = vi_and(v[j], vi_set1(0x00ff00ff));
        q[2 * j + 1] = vi_shr16(v[j], 8);
    }
}

/* Affine 4 and 8 bit. */
static inline __attribute__((always_inline)) void tile_affine(const struct lanes *l, int bits,
                                                              enum mode mode, struct sums *acc)
{
    const int32_t per_group = l->tile->weight->group / 32;
    nibble_table table = nibble_levels(plain_levels);
    for (int32_t first = 0; first < l->blocks; first += SEGMENT_BLOCKS) {
        const int32_t n = segment_blocks(l, first);
        struct scales s;
        scales_affine(l, first, n, &s);
        for (int32_t b = 0; b < n; b++) {
            vi q[16];
            affine_q(l, first + b, bits, table, q);
            vf scale[2], min[2];
            scale[0] = scale[1] = vf_load(s.scale[b / per_group]);
            min[0] = min[1] = vf_load(s.min[b / per_group]);
            block_apply(l, first + b, q, scale, min, WITH_MIN,
                        bits == 4 ? PANEL_NIBBLE : PANEL_BYTE, mode, acc);
        }
    }
}

/* GGUF's 32-column blocks of nibbles: byte i holds columns i and i + 16, which are pairs of the
 * byte order. */
struct nibble_format {
    size_t block_bytes, at; /* `at`: of the nibbles */
    const int8_t *levels;
    int shape;
    bool e8m0; /* scale: one E8M0 byte, else f16 (and an f16 minimum after it) */
};

static inline __attribute__((always_inline)) void nibbles_to_pairs(const vi v[4],
                                                                   nibble_table table, vi q[16])
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        vi out[4];
        look_up(v[j], table, out);
        q[2 * j] = out[0];
        q[2 * j + 1] = out[2];
        q[8 + 2 * j] = out[1];
        q[8 + 2 * j + 1] = out[3];
    }
}

static inline __attribute__((always_inline)) void
tile_nibbles(const struct lanes *l, struct nibble_format f, enum mode mode, struct sums *acc)
{
    nibble_table table = nibble_levels(f.levels);
    for (int32_t b = 0; b < l->blocks; b++) {
        size_t at = (size_t)b * f.block_bytes;
        vi v[4], q[16];
        load_rows16(l->data, at + f.at, v);
        nibbles_to_pairs(v, table, q);
        vf scale[2], min[2] = {vf_zero(), vf_zero()};
        if (f.e8m0)
            scale[0] =
                vf_mul(vf_e8m0(vi_and(load_words(l->data, at), vi_set1(255))), vf_set1(0.5f));
        else
            scale[0] = vf_from_half_lanes(load_words(l->data, at));
        scale[1] = scale[0];
        if (f.shape & WITH_MIN)
            min[0] = min[1] = vf_from_half_lanes(load_words(l->data, at + 2));
        block_apply(l, b, q, scale, min, f.shape, PANEL_BYTE, mode, acc);
    }
}

static inline __attribute__((always_inline)) void tile_q8_0(const struct lanes *l, enum mode mode,
                                                            struct sums *acc)
{
    for (int32_t b = 0; b < l->blocks; b++) {
        size_t at = (size_t)b * 34;
        vi v[8], q[16];
        load_rows16(l->data, at + 2, v);
        load_rows16(l->data, at + 18, v + 4);
        UNROLL
        for (int j = 0; j < 8; j++) {
            q[2 * j] = vi_sar16(vi_shl16(v[j], 8), 8);
            q[2 * j + 1] = vi_sar16(v[j], 8);
        }
        vf scale[2], zero[2] = {vf_zero(), vf_zero()};
        scale[0] = scale[1] = vf_from_half_lanes(load_words(l->data, at));
        block_apply(l, b, q, scale, zero, PLAIN, PANEL_BYTE, mode, acc);
    }
}

/* Q4_K's and Q5_K's eight six-bit scales and minima (see block.c), rows in lanes. */
static inline void scales_k4(const struct lanes *l, size_t at, float scale[8][LANES],
                             float min[8][LANES])
{
    vi v[4], six = vi_set1(63), nibble = vi_set1(15);
    load_rows16(l->data, at, v);
    vf d = vf_from_half_lanes(v[0]), m = vf_sub(vf_zero(), vf_from_half_lanes(vi_shr(v[0], 16)));
    UNROLL
    for (int j = 0; j < 4; j++) {
        vi a = vi_set1(0), b = a, c = a;
        switch (j) { /* shifts must be constants */
        case 0:
            a = v[1], b = v[2], c = v[3];
            break;
        case 1:
            a = vi_shr(v[1], 8), b = vi_shr(v[2], 8), c = vi_shr(v[3], 8);
            break;
        case 2:
            a = vi_shr(v[1], 16), b = vi_shr(v[2], 16), c = vi_shr(v[3], 16);
            break;
        case 3:
            a = vi_shr(v[1], 24), b = vi_shr(v[2], 24), c = vi_shr(v[3], 24);
            break;
        }
        vi high_scale = vi_or(vi_and(c, nibble), vi_shl(vi_and(vi_shr(a, 6), vi_set1(3)), 4));
        vi high_min =
            vi_or(vi_and(vi_shr(c, 4), nibble), vi_shl(vi_and(vi_shr(b, 6), vi_set1(3)), 4));
        vf_store(scale[j], vf_mul(d, vf_from_int(vi_and(a, six))));
        vf_store(min[j], vf_mul(m, vf_from_int(vi_and(b, six))));
        vf_store(scale[j + 4], vf_mul(d, vf_from_int(high_scale)));
        vf_store(min[j + 4], vf_mul(m, vf_from_int(high_min)));
    }
}

/* Bit `n` of each byte moved to bit 4. */
static inline vi bit_to_16(vi v, int n)
{
    vi mask = vi_set1(0x10101010);
    switch (n) {
    case 0:
        return vi_and(vi_shl(v, 4), mask);
    case 1:
        return vi_and(vi_shl(v, 3), mask);
    case 2:
        return vi_and(vi_shl(v, 2), mask);
    case 3:
        return vi_and(vi_shl(v, 1), mask);
    case 4:
        return vi_and(v, mask);
    case 5:
        return vi_and(vi_shr(v, 1), mask);
    case 6:
        return vi_and(vi_shr(v, 2), mask);
    default:
        return vi_and(vi_shr(v, 3), mask);
    }
}

/* Bytes of 4 columns in each lane to pairs of the byte order. */
static inline void bytes_to_pairs(const vi v[8], vi q[16])
{
    UNROLL
    for (int j = 0; j < 8; j++) {
        q[2 * j] = vi_and(v[j], vi_set1(0x00ff00ff));
        q[2 * j + 1] = vi_shr16(v[j], 8);
    }
}

/* Q4_K (five == false) and Q5_K: 64 columns share 32 bytes, so two blocks per load. */
static inline __attribute__((always_inline)) void tile_k4(const struct lanes *l, bool five,
                                                          enum mode mode, struct sums *acc)
{
    size_t block_bytes = five ? 176 : 144, codes = five ? 48 : 16;
    vi nibbles = vi_set1(0x0f0f0f0f);
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        float scales[8][LANES], mins[8][LANES];
        size_t at = (size_t)super * block_bytes;
        vi high[8];
        scales_k4(l, at, scales, mins);
        if (five) {
            load_rows16(l->data, at + 16, high);
            load_rows16(l->data, at + 32, high + 4);
        }
        UNROLL
        for (int sub = 0; sub < 8; sub++) {
            vi v[8], q[16];
            load_rows16(l->data, at + codes + (size_t)(sub / 2) * 32, v);
            load_rows16(l->data, at + codes + (size_t)(sub / 2) * 32 + 16, v + 4);
            UNROLL
            for (int j = 0; j < 8; j++) {
                v[j] = vi_and(sub % 2 ? vi_shr(v[j], 4) : v[j], nibbles);
                if (five)
                    v[j] = vi_or(v[j], bit_to_16(high[j], sub));
            }
            bytes_to_pairs(v, q);
            vf scale[2], min[2];
            scale[0] = scale[1] = vf_load(scales[sub]);
            min[0] = min[1] = vf_load(mins[sub]);
            block_apply(l, super * 8 + sub, q, scale, min, WITH_MIN, PANEL_BYTE, mode, acc);
        }
    }
}

/* 32 columns of Q6_K, four in each lane, from their low four bits and from the two bits above them
 * of four blocks. */
static inline __attribute__((always_inline)) void q6_quarter(const vi low[8], const vi high[8],
                                                             int quarter, vi v[8])
{
    const vi nibbles = vi_set1(0x0f0f0f0f), twos = vi_set1(0x30303030);
    UNROLL
    for (int j = 0; j < 8; j++) {
        vi nibble = vi_and(quarter / 2 ? vi_shr(low[j], 4) : low[j], nibbles);
        vi two = quarter == 0   ? vi_shl(high[j], 4)
                 : quarter == 1 ? vi_shl(high[j], 2)
                 : quarter == 2 ? high[j]
                                : vi_shr(high[j], 2);
        v[j] = vi_or(nibble, vi_and(two, twos));
    }
}

/* Codes of half a super-block of Q6_K, for its four quarters. */
static inline __attribute__((always_inline)) void load_q6_half(const struct lanes *l, size_t at,
                                                               int half, vi low[16], vi high[8])
{
    UNROLL
    for (int i = 0; i < 4; i++)
        load_rows16(l->data, at + (size_t)(64 * half + 16 * i), low + 4 * i);
    load_rows16(l->data, at + (size_t)(128 + 32 * half), high);
    load_rows16(l->data, at + (size_t)(144 + 32 * half), high + 4);
}

static inline void q6_bytes(const struct lanes *l, size_t at, int sub, vi v[8])
{
    int half = sub / 4, quarter = sub % 4;
    size_t low_at = at + (size_t)(half * 64 + quarter % 2 * 32),
           high_at = at + 128 + (size_t)half * 32;
    vi low[8], high[8];
    load_rows16(l->data, low_at, low);
    load_rows16(l->data, low_at + 16, low + 4);
    load_rows16(l->data, high_at, high);
    load_rows16(l->data, high_at + 16, high + 4);
    q6_quarter(low, high, quarter, v);
}

/* Scales of the halves of a block: two of a dword's four bytes. */
static inline void q6_scales(vi bytes, vf d, int odd, vf scale[2])
{
    const vi low = odd ? vi_shl(bytes, 8) : vi_shl(bytes, 24),
             high = odd ? bytes : vi_shl(bytes, 16);
    scale[0] = vf_mul(d, vf_from_int(vi_sar(low, 24)));
    scale[1] = vf_mul(d, vf_from_int(vi_sar(high, 24)));
}

static inline __attribute__((always_inline)) void tile_q6_k(const struct lanes *l, enum mode mode,
                                                            struct sums *acc)
{
    vi offset = vi_set1(0x00200020);
    for (int32_t super = 0; super < l->blocks / 8; super++) {
        size_t at = (size_t)super * 210;
        vi s[4];
        load_rows16(l->data, at + 192, s);
        vf d = vf_from_half_lanes(load_words(l->data, at + 208)), zero[2] = {vf_zero(), vf_zero()};
        UNROLL
        for (int sub = 0; sub < 8; sub++) {
            vi v[8], q[16];
            vf scale[2];
            q6_bytes(l, at, sub, v);
            bytes_to_pairs(v, q);
            UNROLL
            for (int i = 0; i < 16; i++)
                q[i] = vi_sub16(q[i], offset);
            q6_scales(s[sub / 2], d, sub % 2, scale);
            block_apply(l, super * 8 + sub, q, scale, zero, HALVES, PANEL_BYTE, mode, acc);
        }
    }
}
