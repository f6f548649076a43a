/* Row-wise kernels in vector form: packing, norm, activations, sums of exponentials.
 * Included after simd_<isa>.h. */
#pragma once
#include <math.h>

#include "engine/cpu/kernels/kernels.h"

/* e^x, relative error below 2e-7; x under -87.3 gives the smallest normal number. Cephes'
 * polynomial. */
static inline vf vf_exp(vf x)
{
    x = vf_min(vf_max(x, vf_set1(-87.3f)), vf_set1(88.7f));
    vf n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    vf r = vf_fma(n, vf_set1(-0.693359375f), x);
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(vf_mul(p, r), r, vf_add(r, vf_set1(1)));
    return vf_scale(p, n);
}

static const uint8_t byte_order[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
static const uint8_t nibble_order[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};

#if LANES == 16 && defined(__AVX512VNNI__)
/* A block's quotients, in order, as tile_one.h and tile_bytes.h read them, and their sums. */
static inline void pack_halves(struct panel *p, int32_t number, int32_t row, vi values,
                               const int32_t sums[2])
{
    static const uint8_t even_odd[16] = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
    static const uint8_t low_high[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    const size_t span = (size_t)(number / PANEL_SPAN) * (size_t)p->rows + (size_t)row,
                 k = (size_t)(number % PANEL_SPAN);
    const vi half = _mm512_set1_epi16(128),
             bytes = _mm512_xor_si512(_mm512_add_epi16(values, half), half); /* low, high */
    p->total[span * (2 * PANEL_SPAN) + k] = sums[0] + sums[1];
    p->total[span * (2 * PANEL_SPAN) + PANEL_SPAN + k] = sums[0];
    if (p->kinds & PANEL_NIBBLE_HALVES) {
        int8_t *to = p->nibble_halves + span * PANEL_SPAN_HALVES + 16 * k;
        const vi v = _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
            vi_shuffle8(bytes, even_odd));
        _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(v));
        _mm_storeu_si128((__m128i *)(to + 64), _mm512_extracti32x4_epi32(v, 1));
        _mm_storeu_si128((__m128i *)(to + 128), _mm512_extracti32x4_epi32(v, 2));
        _mm_storeu_si128((__m128i *)(to + 192), _mm512_extracti32x4_epi32(v, 3));
    }
    if (p->kinds & PANEL_BYTE_HALVES) {
        int8_t *to = p->byte_halves + span * PANEL_SPAN_HALVES + 32 * k;
        const vi v = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                              vi_shuffle8(bytes, low_high));
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(v));
        _mm256_storeu_si256((__m256i *)(to + 128), _mm512_extracti64x4_epi64(v, 1));
    }
}
#endif

#if LANES == 8
/* Where a row's octet begins. */
static inline size_t octet_offset(const struct panel *p, int32_t octet, int32_t row)
{
    return (size_t)row * panel_octet_row(p->blocks) + (size_t)octet * PANEL_OCTET_BYTES;
}

/* The eight dwords of v, `apart` bytes from each other. */
static inline void put_dwords(uint8_t *to, vi v, size_t apart)
{
    int32_t dword[LANES];
    vi_store(dword, v);
    UNROLL
    for (int i = 0; i < LANES; i++)
        memcpy(to + (size_t)i * apart, &dword[i], sizeof *dword);
}

/* The two halves of a block's dwords as PANEL_K_OCTETS has them. */
static inline void put_halves(uint8_t *to, vi v)
{
    int32_t dword[LANES];
    vi_store(dword, v);
    UNROLL
    for (int i = 0; i < 4; i++) {
        memcpy(to + (size_t)i * 32, &dword[i], sizeof *dword);
        memcpy(to + (size_t)i * 32 + 16, &dword[i + 4], sizeof *dword);
    }
}

static inline void put_float(uint8_t *to, float v)
{
    memcpy(to, &v, sizeof v);
}

static inline void put_int(uint8_t *to, int32_t v)
{
    memcpy(to, &v, sizeof v);
}

struct quotients { /* of a block, in order, and what is said of them */
    vi pairs[2], high, low;
    float scale;
    int32_t sums[2]; /* of the halves */
    bool one;        /* byte each: no high ones */
};

static inline vi narrow(const vi v[2])
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(v[0], v[1]), 0xd8);
}

/* The bytes of the pairs: 256 high + low. */
static inline void split_quotients(struct quotients *q)
{
    vi high[2], low[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        high[i] = vi_sar16(_mm256_add_epi16(q->pairs[i], _mm256_set1_epi16(128)), 8);
        low[i] = vi_sar16(vi_shl16(q->pairs[i], 8), 8);
    }
    q->high = narrow(high);
    q->low = narrow(low);
}

/* A block's quotients into its lane. The two shuffles: int16 to pairs, and a plane's bytes. */
static inline void put_quotients(uint8_t *to, int lane, const struct quotients *q, bool planes,
                                 const uint8_t pairs[16], const uint8_t *bytes)
{
    if (!planes) {
        put_dwords(to + 4 * lane, vi_shuffle8(q->pairs[0], pairs), 32);
        put_dwords(to + 4 * lane + 256, vi_shuffle8(q->pairs[1], pairs), 32);
        return;
    }
    if (!q->one)
        put_dwords(to + 4 * lane, bytes ? vi_shuffle8(q->high, bytes) : q->high, 32);
    put_dwords(to + PANEL_OCTET_LOW + 4 * lane, bytes ? vi_shuffle8(q->low, bytes) : q->low, 32);
}

static inline void put_sums(uint8_t *to, int lane, const struct quotients *q)
{
    const int32_t total = q->sums[0] + q->sums[1];
    put_float(to + PANEL_OCTET_SCALE + 4 * lane, q->scale);
    put_float(to + PANEL_OCTET_SUM + 4 * lane, q->scale * (float)total);
    put_int(to + PANEL_OCTET_LESS_8 + 4 * lane, -8 * total);
    put_int(to + PANEL_OCTET_LESS_12 + 4 * lane, -12 * total);
}

/* Of two bytes: those of one are super-blocks. */
static inline void pack_k(uint8_t *to, int lane, const struct quotients *q, bool planes)
{
    const int odd = lane % 2, at = lane / 2;
    if (planes) {
        put_halves(to + 128 * odd + 4 * at, q->high);
        put_halves(to + PANEL_OCTET_LOW + 128 * odd + 4 * at, q->low);
    } else {
        put_dwords(to + 256 * odd + 4 * at, vi_shuffle8(q->pairs[0], byte_order), 32);
        put_dwords(to + 256 * odd + 4 * at + 16, vi_shuffle8(q->pairs[1], byte_order), 32);
    }
    put_float(to + PANEL_OCTET_SCALE + 16 * odd + 4 * at, q->scale);
    put_float(to + PANEL_OCTET_SUM + 16 * odd + 4 * at,
              -q->scale * (float)(q->sums[0] + q->sums[1]));
    put_int(to + PANEL_OCTET_LESS_32 + 32 * odd + 4 * at, -32 * q->sums[0]);
    put_int(to + PANEL_OCTET_LESS_32 + 32 * odd + 4 * at + 16, -32 * q->sums[1]);
}

/* Whether the panel's octets of K-quants are super-blocks. */
static inline bool has_supers(const struct panel *p)
{
    return p->k_octets && p->kinds & PANEL_ONE_BYTE;
}

/* A block's bytes in the order of its columns. */
static inline void put_columns(const struct panel *p, uint8_t *octets, int32_t number, int32_t row,
                               vi bytes)
{
    vi_store(octets + octet_offset(p, 0, row) + panel_octet_columns(p->blocks) +
                 (size_t)number * PANEL_BLOCK,
             bytes);
}

/* A block's quotients into its lane of an octet. */
static inline void pack_octet(struct panel *p, int32_t number, int32_t row, struct quotients *q)
{
    static const uint8_t even_odd[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
    static const uint8_t pairs[16] = {0, 1, 8, 9, 4, 5, 12, 13, 2, 3, 10, 11, 6, 7, 14, 15};
    const size_t at = octet_offset(p, number / 8, row);
    const int lane = number % 8;
#ifdef __AVX512VNNI__
    const bool planes = true;
#else
    const bool planes = p->kinds & (PANEL_OCTET_PLANES | PANEL_ONE_BYTE);
#endif
    if (planes)
        split_quotients(q);
    if (p->byte_octets) {
        put_quotients(p->byte_octets + at, lane, q, false, byte_order, NULL);
        put_sums(p->byte_octets + at, lane, q);
        put_int(p->byte_octets + at + PANEL_OCTET_LESS_127 + 4 * lane,
                -127 * (q->sums[0] + q->sums[1]));
        if (q->one)
            put_columns(p, p->byte_octets, number, row, q->low);
    }
    if (p->plane_octets) {
        put_quotients(p->plane_octets + at, lane, q, planes, byte_order, NULL);
        put_sums(p->plane_octets + at, lane, q);
        if (planes && q->one) {
            put_int(p->plane_octets + at + PANEL_OCTET_LESS_128 + 4 * lane,
                    -128 * (q->sums[0] + q->sums[1]));
            put_columns(p, p->plane_octets, number, row, q->low);
        }
    }
    if (p->nibble_octets) {
        put_quotients(p->nibble_octets + at, lane, q, planes, pairs, even_odd);
        put_sums(p->nibble_octets + at, lane, q);
    }
    if (p->k_octets && !has_supers(p))
        pack_k(p->k_octets + at, lane, q, planes);
}

/* The first and second, and the third and fourth, of each four columns of half a block, added up.
 */
static inline void super_sums_of(vi half, int32_t sums[2])
{
    const vi pairs = _mm256_madd_epi16(half, _mm256_set1_epi16(1));
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storel_epi64((__m128i *)(void *)sums, _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e)));
}

/* Columns of a super-block, with one scale for all of them: panel.h. */
static void pack_super(uint8_t *to, const float *x)
{
    vf top = vf_zero();
    for (int i = 0; i < 32; i++)
        top = vf_max(top, vf_abs(vf_load(x + i * LANES)));
    const float highest = vf_highest(top), scale = highest / PANEL_TOP_BYTE;
    const vf inverse = vf_set1(scale > 0 ? PANEL_TOP_BYTE / highest : 0);
    int16_t sums[8], of_halves[16], less[2][2][4][2]; /* odd, half, pair of blocks */
    int32_t lane_less[2][2][4];
    for (int b = 0; b < 8; b++) {
        vf v[4];
        vi block[2];
        int32_t halves[2][2];
        UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = vf_mul(vf_load(x + 32 * b + i * LANES), inverse);
        round_block(v, block);
        put_halves(to + PANEL_OCTET_LOW + 128 * (b % 2) + 4 * (b / 2), narrow(block));
        UNROLL
        for (int h = 0; h < 2; h++) {
            super_sums_of(block[h], halves[h]);
            for (int i = 0; i < 2; i++)
                less[b % 2][h][b / 2][i] = (int16_t)(-32 * halves[h][i]);
            of_halves[2 * b + h] = (int16_t)(halves[h][0] + halves[h][1]);
            lane_less[b % 2][h][b / 2] = -32 * of_halves[2 * b + h];
        }
        sums[b] = (int16_t)(of_halves[2 * b] + of_halves[2 * b + 1]);
    }
    put_float(to + PANEL_OCTET_SCALE, scale);
    memcpy(to + PANEL_SUPER_HALF_SUMS, of_halves, sizeof of_halves);
    memcpy(to + PANEL_SUPER_LESS, lane_less, sizeof lane_less);
    memcpy(to + PANEL_SUPER_SUMS, sums, sizeof sums);
    memcpy(to + PANEL_SUPER_LESS_32, less, sizeof less);
}

static void pack_supers(struct panel *p, int32_t row, const float *x)
{
    for (int32_t g = 0; g < p->blocks / 8; g++) {
        uint8_t *to = p->k_octets + octet_offset(p, g, row);
        const int32_t i = g % PANEL_SUPER_FOUR;
        uint8_t *scales = to - i * PANEL_OCTET_BYTES + PANEL_SUPER_SCALES;
        pack_super(to, x + (size_t)g * 256);
        if (i == 0)
            memset(scales, 0, PANEL_SUPER_FOUR * sizeof(float));
        memcpy(scales + (size_t)i * sizeof(float), to + PANEL_OCTET_SCALE, sizeof(float));
    }
}

/* Zeros in the last octet of a row, if it has fewer than eight blocks. */
static void pack_octet_tail(struct panel *p, int32_t row)
{
    uint8_t *const forms[4] = {p->byte_octets, p->plane_octets, p->nibble_octets, p->k_octets};
    for (int i = 0; i < 4 && p->blocks % 8; i++)
        if (forms[i]) {
            uint8_t *columns = forms[i] + octet_offset(p, 0, row) + panel_octet_columns(p->blocks);
            memset(forms[i] + octet_offset(p, p->blocks / 8, row), 0, PANEL_OCTET_BYTES);
            memset(columns + (size_t)(p->blocks / 8) * PANEL_OCTET_COLUMNS, 0, PANEL_OCTET_COLUMNS);
        }
}
#define OCTET_FORMS (PANEL_BYTE_OCTETS | PANEL_PLANE_OCTETS | PANEL_NIBBLE_OCTETS | PANEL_K_OCTETS)
#define OCTET_KINDS (OCTET_FORMS | PANEL_OCTET_PLANES)
#define PACKED_KINDS (PANEL_NIBBLE | PANEL_BYTE | OCTET_FORMS)
#else
#define PACKED_KINDS (PANEL_NIBBLE | PANEL_BYTE | PANEL_NIBBLE_HALVES | PANEL_BYTE_HALVES)
#define has_supers(p) false
#endif

static inline void pack_block(struct panel *p, int32_t number, int32_t row, const float x[32])
{
    const size_t at = (size_t)number * (size_t)p->rows + (size_t)row;
    vf v[32 / LANES], top = vf_zero();
    UNROLL
    for (int i = 0; i < 32 / LANES; i++) {
        v[i] = vf_load(x + i * LANES);
        top = vf_max(top, vf_abs(v[i]));
    }
    if (p->kinds & PANEL_F32)
        UNROLL
    for (int i = 0; i < 32 / LANES; i++)
        vf_store(p->f32 + at * PANEL_BLOCK + i * LANES, v[i]);
    if (!(p->kinds & PACKED_KINDS & ~(has_supers(p) ? (unsigned)PANEL_K_OCTETS : 0u)))
        return; /* super-blocks are packed apart */
    const float most = p->kinds & PANEL_ONE_BYTE ? PANEL_TOP_BYTE : PANEL_TOP;
    float highest = vf_highest(top), scale = highest / most;
    vf inverse = vf_set1(scale > 0 ? most / highest : 0);
    vi block[BLOCK_VECTORS];
    int32_t sums[2];
    UNROLL
    for (int i = 0; i < 32 / LANES; i++)
        v[i] = vf_mul(v[i], inverse);
    round_block(v, block);
    sum_halves(block, sums);
#if LANES == 16 && defined(__AVX512VNNI__)
    if (p->total)
        pack_halves(p, number, row, block[0], sums);
#endif
#if LANES == 8
    if (p->kinds & OCTET_FORMS)
        pack_octet(p, number, row,
                   &(struct quotients){.pairs = {block[0], block[1]},
                                       .scale = scale,
                                       .sums = {sums[0], sums[1]},
                                       .one = p->kinds & PANEL_ONE_BYTE});
    if (!p->scale)
        return;
#endif
    p->scale[at] = scale;
    p->sum[2 * at] = scale * (float)sums[0];
    p->sum[2 * at + 1] = scale * (float)sums[1];
    UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        size_t to = at * PANEL_BLOCK + (size_t)i * (PANEL_BLOCK / BLOCK_VECTORS);
        if (p->kinds & PANEL_NIBBLE)
            vi_store(p->nibble + to, vi_shuffle8(block[i], nibble_order));
        if (p->kinds & PANEL_BYTE)
            vi_store(p->byte + to, vi_shuffle8(block[i], byte_order));
    }
}

static void pack(struct panel *p, int32_t row, const float *x)
{
    int32_t whole = p->cols / PANEL_BLOCK, left = p->cols % PANEL_BLOCK;
#if LANES == 8
    pack_octet_tail(p, row);
#endif
    for (int32_t b = 0; b < whole; b++)
        pack_block(p, b, row, x + (size_t)b * PANEL_BLOCK);
    if (left) {
        float tail[PANEL_BLOCK] = {0};
        memcpy(tail, x + (size_t)whole * PANEL_BLOCK, (size_t)left * sizeof *x);
        pack_block(p, whole, row, tail);
    }
#if LANES == 8
    if (has_supers(p))
        pack_supers(p, row, x);
#endif
}

static void rms_norm(const float *x, const float *weight, float eps, int32_t n, float *out)
{
    vf sum[2] = {vf_zero(), vf_zero()};
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf v = vf_load(x + i);
        sum[i / LANES % 2] = vf_fma(v, v, sum[i / LANES % 2]);
    }
    int32_t whole = i;
    if (i < n) {
        vf v = vf_load_n(x + i, n - i);
        sum[0] = vf_fma(v, v, sum[0]);
    }
    vf factor = vf_set1(1 / sqrtf(vf_sum(vf_add(sum[0], sum[1])) / (float)n + eps));
    for (i = 0; i < whole; i += LANES)
        vf_store(out + i, vf_mul(vf_mul(vf_load(x + i), factor), vf_load(weight + i)));
    if (i < n)
        vf_store_n(out + i,
                   vf_mul(vf_mul(vf_load_n(x + i, n - i), factor), vf_load_n(weight + i, n - i)),
                   n - i);
}

static void layer_norm(const struct layer_norm_plan *p, const float *x, float eps, int32_t n,
                       float *out)
{
    const float *weight = p->weight.at, *bias = p->bias.at;
    vf sum = vf_zero(), squares = vf_zero();
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = vf_add(sum, vf_load(x + i));
    const int32_t whole = i;
    if (i < n)
        sum = vf_add(sum, vf_load_n(x + i, n - i));
    const float mean = vf_sum(sum) / (float)n;
    for (i = 0; i < whole; i += LANES) {
        const vf v = vf_sub(vf_load(x + i), vf_set1(mean));
        squares = vf_fma(v, v, squares);
    }
    float rest = 0;
    for (; i < n; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / sqrtf((vf_sum(squares) + rest) / (float)n + eps);
    for (i = 0; i < whole; i += LANES)
        vf_store(out + i, vf_fma(vf_mul(vf_sub(vf_load(x + i), vf_set1(mean)), vf_set1(factor)),
                                 vf_load(weight + i), vf_load(bias + i)));
    for (; i < n; i++)
        out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
}

/* v Phi(v) = v (1 + erf(v / sqrt 2)) / 2, by Abramowitz and Stegun 7.1.26 with error below 1.5e-7:
 * for u = |v| / sqrt 2, erf u = 1 - (a1 t + .. + a5 t^5) e^(-u^2), t = 1 / (1 + p u). */
static inline vf vf_gelu(vf v)
{
    static const float a[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f,
                              0.254829592f};
    const vf u = vf_mul(vf_abs(v), vf_set1(0.70710678f));
    const vf t = vf_div(vf_set1(1), vf_fma(vf_set1(0.3275911f), u, vf_set1(1)));
    vf sum = vf_set1(a[0]);
    for (int i = 1; i < 5; i++)
        sum = vf_fma(sum, t, vf_set1(a[i]));
    /* half of 1 - erf u: what Phi lacks to 1 on the right, and what it is on the left */
    const vf tail =
        vf_mul(vf_mul(vf_mul(sum, t), vf_exp(vf_sub(vf_zero(), vf_mul(u, u)))), vf_set1(0.5f));
    /* max(v, 0) - |v| tail is v (1 - tail) on the right and v tail on the left */
    return vf_sub(vf_max(v, vf_zero()), vf_mul(vf_abs(v), tail));
}

/* v / (1 + e^(-slope v)) */
static inline vf vf_silu(vf v, float slope)
{
    return vf_div(v, vf_add(vf_set1(1), vf_exp(vf_mul(v, vf_set1(-slope)))));
}

static inline vf activate_lanes(enum activation a, vf gate, vf up)
{
    if (a == ACT_GELU)
        return vf_gelu(gate);
    if (a == ACT_SWIGLU)
        return vf_mul(vf_silu(gate, 1), up);
    gate = vf_min(gate, vf_set1(7));
    up = vf_max(vf_min(up, vf_set1(7)), vf_set1(-7));
    return vf_mul(vf_add(up, vf_set1(1)), vf_silu(gate, 1.702f));
}

static void activate(enum activation a, float *gate, const float *up, int32_t n)
{
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(gate + i, activate_lanes(a, vf_load(gate + i), vf_load(up + i)));
    if (i < n)
        vf_store_n(gate + i,
                   activate_lanes(a, vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

static void add_scaled(float *to, const float *from, float weight, int32_t n)
{
    const vf factor = vf_set1(weight);
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(to + i, vf_add(vf_load(to + i), vf_mul(factor, vf_load(from + i))));
    if (i < n)
        vf_store_n(to + i,
                   vf_add(vf_load_n(to + i, n - i), vf_mul(factor, vf_load_n(from + i, n - i))),
                   n - i);
}

static float max(const float *x, int32_t n)
{
    vf top = vf_set1(-INFINITY);
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        top = vf_max(top, vf_load(x + i));
    float highest = vf_highest(top);
    for (; i < n; i++)
        highest = x[i] > highest ? x[i] : highest;
    return highest;
}

static float sum_exp(const float *x, int32_t n, float top)
{
    vf sum = vf_zero();
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = vf_add(sum, vf_exp(vf_sub(vf_load(x + i), vf_set1(top))));
    if (i < n)
        sum = vf_add(sum, vf_keep(vf_exp(vf_sub(vf_load_n(x + i, n - i), vf_set1(top))), vf_zero(),
                                  0, n - i));
    return vf_sum(sum);
}
