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

#ifdef __AVX512VNNI__
/* A block's quotients, in order, as tile_one.h reads them. */
static inline void pack_halves(struct panel *p, int32_t number, int32_t row, vi values,
                               int32_t total)
{
    static const uint8_t even_odd[16] = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
    static const uint8_t low_high[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    const size_t span = (size_t)(number / PANEL_SPAN) * (size_t)p->rows + (size_t)row,
                 k = (size_t)(number % PANEL_SPAN);
    const vi half = _mm512_set1_epi16(128),
             bytes = _mm512_xor_si512(_mm512_add_epi16(values, half), half); /* low, high */
    p->total[span * PANEL_SPAN + k] = total;
    if (p->kinds & PANEL_NIBBLE) {
        int8_t *to = p->nibble_halves + span * PANEL_SPAN_HALVES + 16 * k;
        const vi v = _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
            vi_shuffle8(bytes, even_odd));
        _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(v));
        _mm_storeu_si128((__m128i *)(to + 64), _mm512_extracti32x4_epi32(v, 1));
        _mm_storeu_si128((__m128i *)(to + 128), _mm512_extracti32x4_epi32(v, 2));
        _mm_storeu_si128((__m128i *)(to + 192), _mm512_extracti32x4_epi32(v, 3));
    }
    if (p->kinds & PANEL_BYTE) {
        int8_t *to = p->byte_halves + span * PANEL_SPAN_HALVES + 32 * k;
        const vi v = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                              vi_shuffle8(bytes, low_high));
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(v));
        _mm256_storeu_si256((__m256i *)(to + 128), _mm512_extracti64x4_epi64(v, 1));
    }
}
#endif

#if LANES == 8
static inline void put_dwords(uint8_t *to, vi v)
{
    int32_t dword[LANES];
    vi_store(dword, v);
    UNROLL
    for (int i = 0; i < LANES; i++)
        memcpy(to + (size_t)i * 32, &dword[i], sizeof *dword);
}

/* Where a row's octet begins. */
static inline size_t octet_offset(const struct panel *p, int32_t octet, int32_t row)
{
    return (size_t)row * panel_octet_row(p->blocks) + (size_t)octet * PANEL_OCTET_BYTES;
}

/* Of one block, beside its quotients. */
static inline void put_scale(uint8_t *octet, int lane, float scale, int32_t total)
{
    const float sum = scale * (float)total;
    memcpy(octet + PANEL_OCTET_SCALE + 4 * lane, &scale, sizeof scale);
    memcpy(octet + PANEL_OCTET_SUM + 4 * lane, &sum, sizeof sum);
    memcpy(octet + PANEL_OCTET_TOTAL + 4 * lane, &total, sizeof total);
}

/* A block's quotients, in order, into its lane of an octet. */
static inline void pack_octet(struct panel *p, int32_t number, int32_t row, const vi block[2],
                              float scale, int32_t total)
{
    const size_t at = octet_offset(p, number / 8, row);
    const int lane = number % 8, half = lane / 2;
    if (p->nibble_octets) {
        uint8_t *to = p->nibble_octets + at;
        put_dwords(to + 4 * lane, vi_shuffle8(block[0], nibble_order));
        put_dwords(to + 4 * lane + 256, vi_shuffle8(block[1], nibble_order));
        put_scale(to, lane, scale, total);
    }
    const vi first = vi_shuffle8(block[0], byte_order), second = vi_shuffle8(block[1], byte_order);
    if (p->byte_octets) {
        uint8_t *to = p->byte_octets + at;
        put_dwords(to + 4 * lane, first);
        put_dwords(to + 4 * lane + 256, second);
        put_scale(to, lane, scale, total);
    }
    if (p->k_octets) {
        uint8_t *to = p->k_octets + at;
        put_dwords(to + lane % 2 * 256 + 4 * half, first);
        put_dwords(to + lane % 2 * 256 + 4 * half + 16, second);
        put_scale(to, lane % 2 * 4 + half, scale, total);
    }
}

/* Zeros in the last octet of a row, if it has fewer than eight blocks. */
static void pack_octet_tail(struct panel *p, int32_t row)
{
    uint8_t *const forms[3] = {p->nibble_octets, p->byte_octets, p->k_octets};
    for (int i = 0; i < 3 && p->blocks % 8; i++)
        if (forms[i])
            memset(forms[i] + octet_offset(p, p->blocks / 8, row), 0, PANEL_OCTET_BYTES);
}
#define PACKED_KINDS                                                                               \
    (PANEL_NIBBLE | PANEL_BYTE | PANEL_NIBBLE_OCTETS | PANEL_BYTE_OCTETS | PANEL_K_OCTETS)
#else
#define PACKED_KINDS (PANEL_NIBBLE | PANEL_BYTE)
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
    if (!(p->kinds & PACKED_KINDS))
        return;
    float highest = vf_highest(top), scale = highest / PANEL_TOP;
    vf inverse = vf_set1(scale > 0 ? PANEL_TOP / highest : 0);
    vi block[BLOCK_VECTORS];
    int32_t sums[2];
    UNROLL
    for (int i = 0; i < 32 / LANES; i++)
        v[i] = vf_mul(v[i], inverse);
    round_block(v, block);
    sum_halves(block, sums);
#ifdef __AVX512VNNI__
    if (p->total)
        pack_halves(p, number, row, block[0], sums[0] + sums[1]);
#endif
#if LANES == 8
    pack_octet(p, number, row, block, scale, sums[0] + sums[1]);
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

/* v / (1 + e^(-slope v)) */
static inline vf vf_silu(vf v, float slope)
{
    return vf_div(v, vf_add(vf_set1(1), vf_exp(vf_mul(v, vf_set1(-slope)))));
}

static inline vf activate_lanes(enum activation a, vf gate, vf up)
{
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
