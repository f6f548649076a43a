/* Unpacking of eight successive blocks of one weight row, a block in each lane, in the orders of
 * panel.h: into eight vectors of bytes without a sign, where the format's numbers are few enough
 * for their products to be added up in 16 bits, else into sixteen of int16 pairs. Included after
 * tile_rare.h, by instruction sets of eight lanes. */
#pragma once
#include "engine/cpu/kernels/tile_rare.h"

struct octet {
    vi q[16];         /* of bytes: 8 */
    vf scale[2], min; /* of the lanes' blocks; OCTET_HALVES: of the lanes' halves of blocks */
};

/* How a format's numbers become weights: a sum of one format's flags is its shape. */
enum octet_shape {
    OCTET_PLAIN = 0, /* scale * q */
    OCTET_MIN = 1,   /* scale * q + min */
    OCTET_HALVES =
        2, /* a scale for each half of a block: scale[0] of even blocks, [1] of odd ones */
    OCTET_SPLIT =
        4,         /* q and lanes as PANEL_K_OCTETS has them: q[0..3] even blocks, then odd ones */
    OCTET_ONE = 8, /* activations are one byte: the low plane alone */
    OCTET_DEPTH_SHIFT = 4,
    OCTET_LESS_SHIFT = 8,
};

/* q are bytes, and the products of `depth` of them with signed bytes may be added up in 16 bits:
 * 2 * depth * 128 times the largest q is below 2^15. */
#define OCTET_BYTES(depth) ((depth) << OCTET_DEPTH_SHIFT)
static inline int octet_depth(int shape)
{
    return shape >> OCTET_DEPTH_SHIFT & 15;
}
#define OCTET_LESS(n) ((n) << OCTET_LESS_SHIFT) /* scale * (q - n) */
#define OCTET_K (OCTET_BYTES(4) | OCTET_SPLIT | OCTET_MIN)
#define OCTET_Q6_K (OCTET_BYTES(2) | OCTET_SPLIT | OCTET_HALVES | OCTET_LESS(32))

struct octet_at { /* where eight blocks begin */
    const uint8_t *data, *scales, *biases;
};

/* The rows of load_rows16: eight blocks. */
#define BLOCKS_APART(rows, at, bytes)                                                              \
    const uint8_t *const rows[8] = {(at),                                                          \
                                    (at) + (bytes),                                                \
                                    (at) + 2 * (size_t)(bytes),                                    \
                                    (at) + 3 * (size_t)(bytes),                                    \
                                    (at) + 4 * (size_t)(bytes),                                    \
                                    (at) + 5 * (size_t)(bytes),                                    \
                                    (at) + 6 * (size_t)(bytes),                                    \
                                    (at) + 7 * (size_t)(bytes)}

static inline uint64_t four_words(const uint8_t *p, size_t bytes)
{
    return general(word_at(p)) | general(word_at(p + bytes)) << 16 |
           general(word_at(p + 2 * bytes)) << 32 | general(word_at(p + 3 * bytes)) << 48;
}

/* The word at p and seven more, each `bytes` further: put together in general registers, for the
 * shuffle units have enough to do. */
static inline __attribute__((always_inline)) __m128i words_apart(const uint8_t *p, size_t bytes)
{
    return _mm_set_epi64x((int64_t)four_words(p + 4 * bytes, bytes), (int64_t)four_words(p, bytes));
}

static inline vf halves_apart(const uint8_t *p, size_t bytes)
{
    return _mm256_cvtph_ps(words_apart(p, bytes));
}

static inline __m128i load8(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)p);
}

/* Levels are doubled, so half of each scale. */
static inline vf octet_e8m0(vi bytes)
{
    return vf_mul(vf_e8m0(bytes), vf_set1(0.5f));
}

static inline vi low_nibbles(vi v)
{
    return vi_and(v, vi_set1(0x0f0f0f0f));
}

static inline vi high_nibbles(vi v)
{
    return low_nibbles(vi_shr16(v, 4));
}

/* Blocks of 16 bytes whose byte i holds columns i and i + 16. */
static inline void split_nibbles(const vi v[4], vi q[8])
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        q[j] = low_nibbles(v[j]);
        q[4 + j] = high_nibbles(v[j]);
    }
}

/* Blocks of 16 bytes whose byte i holds columns 2i and 2i + 1. */
static inline void alternate_nibbles(const vi v[4], vi q[8])
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        q[2 * j] = low_nibbles(v[j]);
        q[2 * j + 1] = high_nibbles(v[j]);
    }
}

/* Levels without a sign, less so much. */
static const int8_t fp4_from_12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
static const uint8_t iq4_from_127[16] = {0,   23,  44,  62,  78,  92,  105, 117,
                                         128, 140, 152, 165, 180, 196, 216, 240};

static inline void look_up_bytes(vi q[8], nibble_table table)
{
    UNROLL
    for (int j = 0; j < 8; j++)
        q[j] = _mm256_shuffle_epi8(table, q[j]);
}

/* Blocks of 16 bytes whose byte i holds columns i and i + 16, to pairs of the byte order through a
 * table of bytes without a sign. */
static inline void look_up_split(const vi v[4], nibble_table table, vi q[16])
{
    const vi low = vi_set1(0x00ff00ff);
    UNROLL
    for (int j = 0; j < 4; j++) {
        const vi even = _mm256_shuffle_epi8(table, low_nibbles(v[j])),
                 odd = _mm256_shuffle_epi8(table, high_nibbles(v[j]));
        q[2 * j] = vi_and(even, low);
        q[2 * j + 1] = vi_shr16(even, 8);
        q[8 + 2 * j] = vi_and(odd, low);
        q[8 + 2 * j + 1] = vi_shr16(odd, 8);
    }
}

/* Eight blocks of 32 bytes in column order, a block a vector, become dword j of each in v[j]. */
static inline void turn_blocks(vi v[8])
{
    vi a[8], b[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

static inline void signed_bytes_to_pairs(const vi v[8], vi q[16])
{
    UNROLL
    for (int j = 0; j < 8; j++) {
        q[2 * j] = vi_sar16(vi_shl16(v[j], 8), 8);
        q[2 * j + 1] = vi_sar16(v[j], 8);
    }
}

static inline __attribute__((always_inline)) void octet_q8_0(const struct octet_at *at,
                                                             struct octet *o)
{
    BLOCKS_APART(rows, at->data, 34);
    vi v[8];
    load_rows16(rows, 2, v);
    load_rows16(rows, 18, v + 4);
    signed_bytes_to_pairs(v, o->q);
    o->scale[0] = _mm256_cvtph_ps(words_apart(at->data, 34));
}

static inline __attribute__((always_inline)) void octet_q4_0(const struct octet_at *at,
                                                             struct octet *o)
{
    BLOCKS_APART(rows, at->data, 18);
    vi v[4];
    load_rows16(rows, 2, v);
    split_nibbles(v, o->q);
    o->scale[0] = _mm256_cvtph_ps(words_apart(at->data, 18));
}

static inline __attribute__((always_inline)) void octet_q4_1(const struct octet_at *at,
                                                             struct octet *o)
{
    BLOCKS_APART(rows, at->data, 20);
    vi v[4];
    load_rows16(rows, 4, v);
    split_nibbles(v, o->q);
    o->scale[0] = halves_apart(at->data, 20);
    o->min = halves_apart(at->data + 2, 20);
}

static inline __attribute__((always_inline)) void octet_iq4_nl(const struct octet_at *at,
                                                               struct octet *o)
{
    BLOCKS_APART(rows, at->data, 18);
    vi v[4];
    load_rows16(rows, 2, v);
    look_up_split(v, nibble_levels((const int8_t *)iq4_from_127), o->q);
    o->scale[0] = _mm256_cvtph_ps(words_apart(at->data, 18));
}

static inline __attribute__((always_inline)) void octet_mxfp4_block(const struct octet_at *at,
                                                                    struct octet *o)
{
    BLOCKS_APART(rows, at->data, 17);
    vi v[4];
    load_rows16(rows, 1, v);
    split_nibbles(v, o->q);
    look_up_bytes(o->q, nibble_levels(fp4_from_12));
    o->scale[0] =
        octet_e8m0(vi_and(_mm256_cvtepu16_epi32(words_apart(at->data, 17)), vi_set1(255)));
}

static inline __attribute__((always_inline)) void octet_mxfp4(const struct octet_at *at,
                                                              struct octet *o)
{
    BLOCKS_APART(rows, at->data, 16);
    vi v[4];
    load_rows16(rows, 0, v);
    alternate_nibbles(v, o->q);
    look_up_bytes(o->q, nibble_levels(fp4_from_12));
    o->scale[0] = octet_e8m0(_mm256_cvtepu8_epi32(load8(at->scales)));
}

/* Scales or biases of eight blocks, of which `per_group`, 1, 2 or a multiple of 4, share one. */
static inline vf octet_group_floats(const uint8_t *p, enum scale_type type, int32_t per_group)
{
    const size_t size = type == SCALE_F32 ? 4 : 2;
    const int32_t n = per_group < 8 ? 8 / per_group : 1;
    uint8_t held[32];
    if (n == 8)
        memcpy(held, p, 8 * size);
    else
        for (int32_t i = 0; i < 8; i++)
            memcpy(held + (size_t)i * size, p + (size_t)(i / per_group) * size, size);
    if (type == SCALE_F32)
        return vf_load((const float *)(const void *)held);
    const __m128i v = _mm_loadu_si128((const __m128i *)held);
    return type == SCALE_F16 ? _mm256_cvtph_ps(v) : vf_bits(vi_shl(_mm256_cvtepu16_epi32(v), 16));
}

/* Two groups of each size are a shuffle; the others go through memory. */
static inline vf octet_groups(const uint8_t *p, enum scale_type type, int32_t per_group)
{
    static const uint8_t twice[16] = {0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7};
    if (type == SCALE_F32 || per_group > 2)
        return octet_group_floats(p, type, per_group);
    const __m128i v = per_group == 1
                          ? _mm_loadu_si128((const __m128i *)p)
                          : _mm_shuffle_epi8(load8(p), _mm_loadu_si128((const __m128i *)twice));
    return type == SCALE_F16 ? _mm256_cvtph_ps(v) : vf_bits(vi_shl(_mm256_cvtepu16_epi32(v), 16));
}

static inline __attribute__((always_inline)) void
octet_affine(const struct weight *w, int bits, const struct octet_at *at, struct octet *o)
{
    BLOCKS_APART(rows, at->data, 4 * bits);
    vi v[8];
    load_rows16(rows, 0, v);
    if (bits == 4) {
        alternate_nibbles(v, o->q);
    } else if (bits == 8) {
        load_rows16(rows, 16, v + 4);
        bytes_to_pairs(v, o->q);
    } else {
        vi part[4];
        load_rows16(rows, 4 * (size_t)bits - 16, part);
        UNROLL
        for (int i = 4; i < bits; i++)
            v[i] = part[i + 4 - bits];
        UNROLL
        for (int i = 0; i < 16; i++) {
            const int c = i / 2 * 4 + i % 2;
            o->q[i] = vi_or(stream_value(v, bits, c), vi_shl(stream_value(v, bits, c + 2), 16));
        }
    }
    o->scale[0] = octet_groups(at->scales, w->scale_type, w->group / 32);
    o->min = octet_groups(at->biases, w->scale_type, w->group / 32);
}

/* Eight bytes, as floats, even ones first. */
static inline vf even_odd_floats(uint64_t bytes)
{
    const vi order = _mm256_setr_epi32(
        (int32_t)0x80808000, (int32_t)0x80808002, (int32_t)0x80808004, (int32_t)0x80808006,
        (int32_t)0x80808001, (int32_t)0x80808003, (int32_t)0x80808005, (int32_t)0x80808007);
    return vf_from_int(_mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)bytes), order));
}

/* Q4_K's and Q5_K's eight six-bit scales and minima (see block.c), a byte each. */
static inline uint64_t octet_k4_numbers(const uint8_t *p, uint64_t *all_mins)
{
    uint32_t a, b, c;
    memcpy(&a, p + 4, 4);
    memcpy(&b, p + 8, 4);
    memcpy(&c, p + 12, 4);
    const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x30303030;
    const uint64_t scales = general((c & four) | (a >> 2 & two)),
                   mins = general((c >> 4 & four) | (b >> 2 & two));
    *all_mins = mins << 32 | general(b & six);
    return scales << 32 | general(a & six);
}

/* The panel's sums are negative, as minima are subtracted. */
static inline void octet_k4_scales(const uint8_t *p, struct octet *o)
{
    uint64_t mins;
    const uint64_t scales = octet_k4_numbers(p, &mins);
    const __m128 head = _mm_cvtph_ps(load8(p));
    o->scale[0] = vf_mul(_mm256_broadcastss_ps(head), even_odd_floats(scales));
    o->min = vf_mul(_mm256_broadcastss_ps(_mm_movehdup_ps(head)), even_odd_floats(mins));
}

/* Four blocks of 32 bytes, a block a vector, become dword j of the halves of each in v[j]. */
static inline __attribute__((always_inline)) void turn_halves(const vi b[4], vi v[4])
{
    const vi ab_low = _mm256_unpacklo_epi32(b[0], b[1]),
             ab_high = _mm256_unpackhi_epi32(b[0], b[1]),
             cd_low = _mm256_unpacklo_epi32(b[2], b[3]),
             cd_high = _mm256_unpackhi_epi32(b[2], b[3]);
    v[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    v[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    v[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    v[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

/* Q4_K (five == false) and Q5_K: 32 bytes hold an even block's columns in their low nibbles and the
 * next block's in their high ones, so the lanes take the halves of four even blocks and of four odd
 * ones: turning eight whole blocks would take three times as many shuffles. */
static inline __attribute__((always_inline)) void
octet_k4_codes(bool five, const struct octet_at *at, struct octet *o)
{
    const uint8_t *codes = at->data + (five ? 48 : 16);
    const vi b[4] = {vi_load(codes), vi_load(codes + 32), vi_load(codes + 64), vi_load(codes + 96)};
    vi v[4];
    turn_halves(b, v);
    split_nibbles(v, o->q);
    if (five) {
        const vi high = vi_load(at->data + 16), fifth = vi_set1(0x10101010),
                 shifts = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
        const vi dwords[4] = {_mm256_shuffle_epi32(high, 0x00), _mm256_shuffle_epi32(high, 0x55),
                              _mm256_shuffle_epi32(high, 0xaa), _mm256_shuffle_epi32(high, 0xff)};
        UNROLL
        for (int j = 0; j < 4; j++) {
            const vi bits = _mm256_srlv_epi32(dwords[j], shifts);
            o->q[j] = vi_or(o->q[j], vi_and(vi_shl(bits, 4), fifth));
            o->q[4 + j] = vi_or(o->q[4 + j], vi_and(vi_shl(bits, 3), fifth));
        }
    }
}

static inline __attribute__((always_inline)) void octet_k4(bool five, const struct octet_at *at,
                                                           struct octet *o)
{
    octet_k4_codes(five, at, o);
    octet_k4_scales(at->data, o);
}

/* Scales of halves of blocks, in order; as the lanes have them. */
static inline void octet_q6_scales(const uint8_t *p, struct octet *o)
{
    static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const __m128i scales = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p),
                                            _mm_loadu_si128((const __m128i *)order));
    const vf d = _mm256_cvtph_ps(_mm_set1_epi16((short)word_at(p + 16)));
    o->scale[0] = vf_mul(d, vf_from_int(_mm256_cvtepi8_epi32(scales)));
    o->scale[1] = vf_mul(d, vf_from_int(_mm256_cvtepi8_epi32(_mm_srli_si128(scales, 8))));
}

static inline __attribute__((always_inline)) void octet_q6_codes(const struct octet_at *at,
                                                                 struct octet *o)
{
    const vi twos = vi_set1(0x30303030);
    vi even[4], odd[4];
    UNROLL
    for (int half = 0; half < 2; half++) {
        const vi a = vi_load(at->data + 64 * half), b = vi_load(at->data + 64 * half + 32),
                 high = vi_load(at->data + 128 + 32 * half);
        even[2 * half] = vi_or(low_nibbles(a), vi_and(vi_shl16(high, 4), twos));
        odd[2 * half] = vi_or(low_nibbles(b), vi_and(vi_shl16(high, 2), twos));
        even[2 * half + 1] = vi_or(high_nibbles(a), vi_and(high, twos));
        odd[2 * half + 1] = vi_or(high_nibbles(b), vi_and(vi_shr16(high, 2), twos));
    }
    turn_halves(even, o->q);
    turn_halves(odd, o->q + 4);
}

static inline __attribute__((always_inline)) void octet_q6_k(const struct octet_at *at,
                                                             struct octet *o)
{
    octet_q6_codes(at, o);
    octet_q6_scales(at->data + 192, o);
}

/* Scales of 32 + four bits low and two bits high. */
static inline vf iq4_xs_scales(const uint8_t *p)
{
    uint32_t low;
    memcpy(&low, p + 4, sizeof low);
    const vi lane4 = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28),
             lane2 = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const vi four = vi_and(_mm256_srlv_epi32(vi_set1((int32_t)low), lane4), vi_set1(15)),
             two = vi_and(_mm256_srlv_epi32(vi_set1((int32_t)word_at(p + 2)), lane2), vi_set1(3));
    const vf d = _mm256_cvtph_ps(_mm_set1_epi16((short)word_at(p)));
    return vf_mul(d, vf_from_int(vi_add(vi_or(four, vi_shl(two, 4)), vi_set1(-32))));
}

static inline __attribute__((always_inline)) void octet_iq4_xs(const struct octet_at *at,
                                                               struct octet *o)
{
    BLOCKS_APART(rows, at->data + 8, 16);
    vi v[4];
    load_rows16(rows, 0, v);
    look_up_split(v, nibble_levels((const int8_t *)iq4_from_127), o->q);
    o->scale[0] = iq4_xs_scales(at->data);
}
