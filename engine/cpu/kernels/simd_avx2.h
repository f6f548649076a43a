/* The vector words that tile_core.h and ops_simd.h are written in, of 8 lanes: AVX2, FMA, F16C.
 */
#pragma once
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Loops over vectors of constant length must become straight code, or the vectors live in memory.
 */
#define UNROLL _Pragma("GCC unroll 32")
#define LANES 8
typedef __m256i vi; /* 8 x int32, or 16 x int16 */
typedef __m256 vf;  /* 8 x f32 */

static inline vi vi_zero(void)
{
    return _mm256_setzero_si256();
}
static inline vi vi_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline void vi_store(void *p, vi v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}
static inline vi vi_set1(int32_t v)
{
    return _mm256_set1_epi32(v);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
static inline vi vi_sub16(vi a, vi b)
{
    return _mm256_sub_epi16(a, b);
}
static inline vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
static inline vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}
static inline vi vi_max(vi a, vi b)
{
    return _mm256_max_epi32(a, b);
}
#define vi_shl(v, n) _mm256_slli_epi32(v, n)
#define vi_shr(v, n) _mm256_srli_epi32(v, n)
#define vi_sar(v, n) _mm256_srai_epi32(v, n)
#define vi_shl16(v, n) _mm256_slli_epi16(v, n)
#define vi_shr16(v, n) _mm256_srli_epi16(v, n)
#define vi_sar16(v, n) _mm256_srai_epi16(v, n)

/* acc + a.lo * b.lo + a.hi * b.hi in each lane, int16 pairs */
static inline vi vi_dot(vi acc, vi a, vi b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}

/* The same four bytes in every lane. */
static inline vi vi_pair(const int16_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

/* 2 x LANES int8 as int16 */
static inline vi vi_load_widened(const int8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

/* to[i] = first + i * stride */
static inline void rows_apart(const uint8_t *to[LANES], const uint8_t *first, size_t stride)
{
    UNROLL
    for (int i = 0; i < LANES; i++, first += stride)
        to[i] = first;
}

static inline vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
static inline vf vf_set1(float v)
{
    return _mm256_set1_ps(v);
}
static inline vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
static inline vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_from_int(vi a)
{
    return _mm256_cvtepi32_ps(a);
}
static inline vi vf_to_int(vf a)
{
    return _mm256_cvtps_epi32(a);
}
static inline vf vf_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}
/* All ones in lanes from <= lane < to. */
static inline vi lane_mask(int from, int to)
{
    vi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(from), lane),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32(to), lane));
}
/* The first n lanes, zeros after. */
static inline vf vf_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, lane_mask(0, n));
}
static inline void vf_store_n(float *p, vf v, int n)
{
    _mm256_maskstore_ps(p, lane_mask(0, n), v);
}
/* Lanes from <= lane < to keep a, the others get b. */
static inline vf vf_keep(vf a, vf b, int from, int to)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(lane_mask(from, to)));
}
/* p[0], p[stride], p[2 stride] ... */
static inline vf vf_gather(const float *p, int stride)
{
    vi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_i32gather_ps(p, _mm256_mullo_epi32(lane, _mm256_set1_epi32(stride)), 4);
}
static inline float vf_sum(vf v)
{
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
static inline float vf_highest(vf v)
{
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

static inline vf vf_load_half(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline void vf_store_half(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf vf_load_bytes(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* Nibbles less 8, the low one of a byte first. */
static inline vf vf_load_nibbles(const uint8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    const vi v =
        _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    return _mm256_cvtepi32_ps(
        _mm256_sub_epi32(_mm256_and_si256(v, _mm256_set1_epi32(15)), _mm256_set1_epi32(8)));
}
/* Sums and differences of lanes that are `step`, a power of two, apart: first the sum. */
static inline vf vf_butterfly(vf v, int step)
{
    const vi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), bit = _mm256_set1_epi32(step);
    const vf other = _mm256_permutevar8x32_ps(v, _mm256_xor_si256(lane, bit));
    const vi high = _mm256_cmpeq_epi32(_mm256_and_si256(lane, bit), bit);
    return _mm256_blendv_ps(_mm256_add_ps(v, other), _mm256_sub_ps(other, v),
                            _mm256_castsi256_ps(high));
}
/* The low halves of the lanes, as f16. */
static inline vf vf_from_half_lanes(vi v)
{
    vi low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}

static inline vi two_rows(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                   _mm_loadu_si128((const __m128i *)high), 1);
}

/* Sixteen bytes of each row: out[j] holds dword j of row r in lane r. */
static inline void load_rows16(const uint8_t *const *rows, size_t at, vi out[4])
{
    vi part[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        part[i] = two_rows(rows[i] + at, rows[i + 4] + at);
    vi ab_low = _mm256_unpacklo_epi32(part[0], part[1]),
       ab_high = _mm256_unpackhi_epi32(part[0], part[1]);
    vi cd_low = _mm256_unpacklo_epi32(part[2], part[3]),
       cd_high = _mm256_unpackhi_epi32(part[2], part[3]);
    out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

typedef __m256i nibble_table; /* 16 int8 levels in each half */
static inline nibble_table nibble_levels(const int8_t *levels)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)levels));
}
/* Nibbles s and s + 4 of each lane become the int16 pair out[s], through the table. */
static inline void look_up(vi v, nibble_table table, vi out[4])
{
    vi mask = _mm256_set1_epi8(15);
    vi even = _mm256_shuffle_epi8(table, _mm256_and_si256(v, mask));
    vi odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
    out[0] = _mm256_srai_epi16(_mm256_slli_epi16(even, 8), 8);
    out[1] = _mm256_srai_epi16(_mm256_slli_epi16(odd, 8), 8);
    out[2] = _mm256_srai_epi16(even, 8);
    out[3] = _mm256_srai_epi16(odd, 8);
}

#define BLOCK_VECTORS 2 /* of int16 for 32 columns */
/* 32 values of a block, already scaled, to rounded int16 in column order. */
static inline void round_block(const vf v[4], vi out[BLOCK_VECTORS])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        vi packed =
            _mm256_packs_epi32(_mm256_cvtps_epi32(v[2 * i]), _mm256_cvtps_epi32(v[2 * i + 1]));
        out[i] = _mm256_permute4x64_epi64(packed, 0xd8);
    }
}
/* Bytes of each 128-bit part in the given order. */
static inline vi vi_shuffle8(vi v, const uint8_t order[16])
{
    return _mm256_shuffle_epi8(
        v, _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)order)));
}
/* Sums of columns 0..15 and 16..31. */
static inline void sum_halves(const vi block[BLOCK_VECTORS], int32_t out[2])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        vi pairs = _mm256_madd_epi16(block[i], _mm256_set1_epi16(1));
        __m128i v =
            _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
        v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
        out[i] = _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
    }
}
/* v * 2^n for whole n; two factors, so that n = -149..128 all work */
static inline vf vf_scale(vf v, vf n)
{
    vi whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1),
       other = _mm256_sub_epi32(whole, half);
    vi bias = _mm256_set1_epi32(127);
    vf first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(other, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(v, first), second);
}
