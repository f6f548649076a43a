/* The vector words that tile_core.h and ops_simd.h are written in, of 16 lanes. With AVX512-VNNI
 * (decided by the compiler's flags) a pair product and its sum are one instruction. */
#pragma once
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Loops over vectors of constant length must become straight code, or the vectors live in memory.
 */
#define UNROLL _Pragma("GCC unroll 32")
#define LANES 16
typedef __m512i vi; /* 16 x int32, or 32 x int16 */
typedef __m512 vf;  /* 16 x f32 */

static inline vi vi_zero(void)
{
    return _mm512_setzero_si512();
}
static inline vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
/* The first n bytes, zeros after; n may be less than 1 or more than 64. */
static inline vi vi_load_bytes(const void *p, int n)
{
    return n >= 64  ? _mm512_loadu_si512(p)
           : n <= 0 ? _mm512_setzero_si512()
                    : _mm512_maskz_loadu_epi8((1ull << n) - 1, p);
}
static inline void vi_store(void *p, vi v)
{
    _mm512_storeu_si512(p, v);
}
static inline vi vi_set1(int32_t v)
{
    return _mm512_set1_epi32(v);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
static inline vi vi_sub16(vi a, vi b)
{
    return _mm512_sub_epi16(a, b);
}
static inline vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
static inline vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
static inline vi vi_max(vi a, vi b)
{
    return _mm512_max_epi32(a, b);
}
#define vi_shl(v, n) _mm512_slli_epi32(v, n)
#define vi_shr(v, n) _mm512_srli_epi32(v, n)
#define vi_sar(v, n) _mm512_srai_epi32(v, n)
#define vi_shl16(v, n) _mm512_slli_epi16(v, n)
#define vi_shr16(v, n) _mm512_srli_epi16(v, n)
#define vi_sar16(v, n) _mm512_srai_epi16(v, n)

/* acc + a.lo * b.lo + a.hi * b.hi in each lane, int16 pairs */
static inline vi vi_dot(vi acc, vi a, vi b)
{
#ifdef __AVX512VNNI__
    return _mm512_dpwssd_epi32(acc, a, b);
#else
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
#endif
}

/* The same four bytes in every lane. */
static inline vi vi_pair(const int16_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

/* 2 x LANES int8 as int16 */
static inline vi vi_load_widened(const int8_t *p)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

/* to[i] = first + i * stride: a tile's addresses cost as much as a few of its blocks one by one. */
static inline void rows_apart(const uint8_t *to[LANES], const uint8_t *first, size_t stride)
{
    const vi eight = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const vi at = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(uintptr_t)first),
                                   _mm512_mullo_epi64(eight, _mm512_set1_epi64((int64_t)stride)));
    _mm512_storeu_si512(to, at);
    _mm512_storeu_si512(to + 8, _mm512_add_epi64(at, _mm512_set1_epi64((int64_t)(8 * stride))));
}

static inline vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
static inline vf vf_set1(float v)
{
    return _mm512_set1_ps(v);
}
static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
static inline vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_from_int(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
static inline vi vf_to_int(vf a)
{
    return _mm512_cvtps_epi32(a);
}
static inline vf vf_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}
/* The first n lanes, zeros after. */
static inline vf vf_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline void vf_store_n(float *p, vf v, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
/* Lanes from <= lane < to keep a, the others get b. */
static inline vf vf_keep(vf a, vf b, int from, int to)
{
    return _mm512_mask_blend_ps((__mmask16)(((1u << to) - 1) & ~((1u << from) - 1)), b, a);
}
/* p[0], p[stride], p[2 stride] ... */
static inline vf vf_gather(const float *p, int stride)
{
    vi lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_ps(_mm512_mullo_epi32(lane, _mm512_set1_epi32(stride)), p, 4);
}
static inline float vf_sum(vf v)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
static inline float vf_highest(vf v)
{
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

static inline vf vf_load_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline vf vf_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline void vf_store_half(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf vf_load_bytes(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* Nibbles less 8, the low one of a byte first. */
static inline vf vf_load_nibbles(const uint8_t *p)
{
    const vi word = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
             shift = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const vf levels = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)p);
    return _mm512_permutexvar_ps(
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(word, _mm512_castsi128_si512(bytes)), shift),
        levels);
}
/* Sums and differences of lanes that are `step`, a power of two, apart: first the sum. */
static inline vf vf_butterfly(vf v, int step)
{
    const vi lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const vf other = _mm512_permutexvar_ps(_mm512_xor_si512(lane, _mm512_set1_epi32(step)), v);
    const __mmask16 high = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(step));
    return _mm512_mask_sub_ps(_mm512_add_ps(v, other), high, other, v);
}
/* The low halves of the lanes, as f16. */
static inline vf vf_from_half_lanes(vi v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* Sixteen bytes of each row: out[j] holds dword j of row r in lane r. Rows are loaded so that a 4 x
 * 4 transposition within 128-bit parts puts them in order; masked broadcasts keep the shuffle unit
 * free. */
static inline void load_rows16(const uint8_t *const *rows, size_t at, vi out[4])
{
    vi part[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        vi v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(rows[i] + at)));
        v = _mm512_mask_broadcast_i32x4(v, 0x00f0,
                                        _mm_loadu_si128((const __m128i *)(rows[i + 4] + at)));
        v = _mm512_mask_broadcast_i32x4(v, 0x0f00,
                                        _mm_loadu_si128((const __m128i *)(rows[i + 8] + at)));
        part[i] = _mm512_mask_broadcast_i32x4(
            v, 0xf000, _mm_loadu_si128((const __m128i *)(rows[i + 12] + at)));
    }
    vi ab_low = _mm512_unpacklo_epi32(part[0], part[1]),
       ab_high = _mm512_unpackhi_epi32(part[0], part[1]);
    vi cd_low = _mm512_unpacklo_epi32(part[2], part[3]),
       cd_high = _mm512_unpackhi_epi32(part[2], part[3]);
    out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

typedef __m512i
    nibble_table; /* 16 int16 levels, twice, so that the fifth index bit is of no matter */
static inline nibble_table nibble_levels(const int8_t *levels)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)levels));
    return _mm512_broadcast_i64x4(wide);
}
/* Nibbles s and s + 4 of each lane become the int16 pair out[s], through the table. */
static inline void look_up(vi v, nibble_table table, vi out[4])
{
    out[0] = _mm512_permutexvar_epi16(v, table);
    out[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 4), table);
    out[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 8), table);
    out[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 12), table);
}

#define BLOCK_VECTORS 1 /* of int16 for 32 columns */
/* 32 values of a block, already scaled, to rounded int16 in column order. */
static inline void round_block(const vf v[2], vi out[BLOCK_VECTORS])
{
    __m256i low = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v[0]));
    __m256i high = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v[1]));
    out[0] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
/* Bytes of each 128-bit part in the given order. */
static inline vi vi_shuffle8(vi v, const uint8_t order[16])
{
    return _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)order)));
}
static inline int32_t sum_pairs(__m256i pairs)
{
    __m128i v = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}
/* Sums of columns 0..15 and 16..31. */
static inline void sum_halves(const vi block[BLOCK_VECTORS], int32_t out[2])
{
    vi pairs = _mm512_madd_epi16(block[0], _mm512_set1_epi16(1));
    out[0] = sum_pairs(_mm512_castsi512_si256(pairs));
    out[1] = sum_pairs(_mm512_extracti64x4_epi64(pairs, 1));
}
/* v * 2^n for whole n in the range of f32's exponents */
static inline vf vf_scale(vf v, vf n)
{
    return _mm512_scalef_ps(v, n);
}
