/* The kernel table of one instruction set: include simd_<isa>.h first, and define KERNELS to its
 * name. */
#pragma once
#include "engine/cpu/kernels/attend_rows_simd.h"
#include "engine/cpu/kernels/delta_simd.h"
#include "engine/cpu/kernels/ops_simd.h"
#include "engine/cpu/kernels/tile_formats.h"
#include "engine/cpu/kernels/tile_rare.h"

#if LANES == 8
#include "engine/cpu/kernels/interleaved_tile.h"
#define FAST_KINDS OCTET_KINDS
#else
#ifdef __AVX512VNNI__
#include "engine/cpu/kernels/octets_vnni.h"
#include "engine/cpu/kernels/tile_few.h"
#define FAST_KINDS (PANEL_NIBBLE | PANEL_NIBBLE_HALVES | PANEL_BYTE_HALVES)
#else
#define FAST_KINDS PANEL_NIBBLE
#endif
#endif

/* Formats of tile_formats.h; the others go through run_rare. */
static bool is_common(const struct weight *w)
{
    switch (w->type) {
    case WEIGHT_AFFINE:
        return w->bits == 4 || w->bits == 8;
    case WEIGHT_MXFP4:
    case WEIGHT_Q8_0:
    case WEIGHT_Q4_0:
    case WEIGHT_MXFP4_BLOCK:
    case WEIGHT_Q4_K:
    case WEIGHT_Q6_K:
        return true;
    default:
        return false;
    }
}

static inline __attribute__((always_inline)) void run_format(const struct lanes *l, enum mode mode,
                                                             struct sums *acc)
{
    const struct weight *w = l->tile->weight;
    switch (w->type) {
    case WEIGHT_MXFP4:
        tile_mxfp4(l, mode, acc);
        break;
    case WEIGHT_AFFINE:
        if (w->bits == 8)
            tile_affine(l, 8, mode, acc);
        else
            tile_affine(l, 4, mode, acc);
        break;
    case WEIGHT_Q8_0:
        tile_q8_0(l, mode, acc);
        break;
    case WEIGHT_Q4_0:
        tile_nibbles(l,
                     (struct nibble_format){.block_bytes = 18, .at = 2, .levels = minus_8_levels},
                     mode, acc);
        break;
    case WEIGHT_MXFP4_BLOCK:
        tile_nibbles(
            l,
            (struct nibble_format){.block_bytes = 17, .at = 1, .levels = fp4_levels, .e8m0 = true},
            mode, acc);
        break;
    case WEIGHT_Q4_K:
        tile_k4(l, false, mode, acc);
        break;
    case WEIGHT_Q6_K:
        tile_q6_k(l, mode, acc);
        break;
    default:
        break;
    }
}

static void run_floats(const struct lanes *l, float *acc)
{
    if (l->tile->weight->cols % PANEL_BLOCK)
        tile_plain_floats(l, acc);
    else
        tile_floats(l, acc);
}

static void run_call(const struct lanes *l, float *acc)
{
    struct sums sums = {.many = acc};
    if (is_common(l->tile->weight))
        run_format(l, MODE_CALL, &sums);
    else
        run_rare(l, &sums);
}

/* The ways that one instruction set has for 16-bit activations, and the form of a panel that they
 * read; 0: none for this weight. */
#if LANES == 8
static unsigned fast_kinds(const struct weight *w)
{
    return octet_kinds(w);
}

static void run_fast(const struct lanes *l, float *acc)
{
    octet_tile(l, acc);
}
#else
static unsigned fast_kinds(const struct weight *w)
{
    const bool nibbles = w->type == WEIGHT_MXFP4 || (w->type == WEIGHT_AFFINE && w->bits == 4);
    const unsigned kinds = !is_common(w) ? 0u : nibbles ? PANEL_NIBBLE : PANEL_BYTE;
#ifdef __AVX512VNNI__
    return kinds | bytes_kind(w);
#else
    return kinds;
#endif
}

static void run_many(const struct lanes *l, float *acc)
{
    run_format(l, MODE_MANY, &(struct sums){.many = acc});
}

static void run_one(const struct lanes *l, float *acc)
{
    struct sums sums = {.one = vf_zero()};
    run_format(l, MODE_ONE, &sums);
    vf_store(acc, sums.one);
}

static void run_fast(const struct lanes *l, float *acc)
{
    const struct tile *t = l->tile;
#ifdef __AVX512VNNI__
    if (t->panel->total && t->n == 1 && has_one_row(t->weight) &&
        t->row + LANES <= t->weight->rows) {
        vf_store(acc, one_row(l));
        return;
    }
    if (t->panel->total && bytes_are_faster(t->weight, t->n, t->panel->kinds & PANEL_ONE_BYTE)) {
        bytes_of(t->weight)(l, acc);
        return;
    }
#endif
    if (t->n == 1)
        run_one(l, acc);
    else
        run_many(l, acc);
}
#endif

static unsigned panel_kinds(const struct weight *w, bool exact)
{
    if (exact || !block_is_packed(w))
        return PANEL_F32;
    return fast_kinds(w) ? fast_kinds(w) : PANEL_BYTE;
}

static void run_packed(const struct lanes *l, float *acc)
{
    if (fast_kinds(l->tile->weight) && !l->exact)
        run_fast(l, acc);
    else
        run_call(l, acc);
}

static void run_lanes(const struct lanes *l, float *acc)
{
    if (block_is_packed(l->tile->weight))
        run_packed(l, acc);
    else
        run_floats(l, acc);
}

#if LANES == 8
/* Two times eight weight rows, which many rows of activations take at once. */
#define TILE_LANES (2 * LANES)
static void tile_alone(const struct tile *t, bool exact, float *acc)
{
    struct lanes l[2];
    struct tile half[2] = {*t, *t};
    _Alignas(64) float part[2][KERNEL_MAX_TILE_ROWS * LANES];
    const int n = t->weight->rows - t->row > LANES ? 2 : 1;
    half[1].row += LANES;
    for (int i = 0; i < n; i++) {
        lanes_init(&l[i], &half[i], part[i]);
        l[i].exact = exact;
    }
    if (n == 2 && !exact && octet_wide(l, acc))
        return;
    if (n == 1) /* there are no such rows: the same whatever was in memory */
        memset(part[1], 0, (size_t)t->n * LANES * sizeof part[1][0]);
    for (int i = 0; i < n; i++)
        run_lanes(&l[i], part[i]);
    for (int32_t row = 0; row < t->n; row++)
        for (int i = 0; i < 2; i++)
            vf_store(acc + row * TILE_LANES + i * LANES, vf_load(part[i] + row * LANES));
}
#else
#define TILE_LANES LANES
static void tile_alone(const struct tile *t, bool exact, float *acc)
{
    struct lanes l;
    lanes_init(&l, t, acc);
    l.exact = exact;
    run_lanes(&l, acc);
}
#endif

static void tile(const struct tile *t, bool exact, float *acc)
{
    struct tile one = *t;
    int32_t done = 0;
#ifdef __AVX512VNNI__
    if (t->panel->kinds & PANEL_ONE_BYTE && octets_vnni_kinds(t->weight)) {
        octets_vnni_tile(t, acc);
        return;
    }
    if (!exact)
        done = few_tiles(t, acc);
#elif LANES == 8
    if (t->weight->interleaved) {
        side_tiles(t, acc);
        return;
    }
    if (!exact)
        done = octet_few_tiles(t, acc);
#endif
    for (; done <= t->more; done++) {
        one.row = t->row + done * TILE_LANES;
        tile_alone(&one, exact, acc + done * t->n * TILE_LANES);
    }
}

#ifdef __AVX512VNNI__
static void pack_any(struct panel *p, int32_t row, const float *x)
{
    (p->kinds & OCTETS_VNNI_KINDS ? octets_vnni_pack : pack)(p, row, x);
}
#define BYTE_KINDS octets_vnni_kinds
#define ALL_BYTE_KINDS (PANEL_F32 | PANEL_BYTE | OCTETS_VNNI_KINDS)
#else
#define pack_any pack
#define BYTE_KINDS NULL
#define ALL_BYTE_KINDS 0
#endif

#define KERNELS_JOIN_(a, b) a##b
#define KERNELS_JOIN(a, b) KERNELS_JOIN_(a, b)
#define KERNELS_TEXT_(a) #a
#define KERNELS_TEXT(a) KERNELS_TEXT_(a)

extern const struct kernels KERNELS_JOIN(kernels_, KERNELS);
const struct kernels KERNELS_JOIN(kernels_, KERNELS) = {
    .name = KERNELS_TEXT(KERNELS),
    .lanes = TILE_LANES,
    .half_kv = true,
    .kinds = PANEL_F32 | PANEL_BYTE | FAST_KINDS,
    .panel_kinds = panel_kinds,
    .byte_kinds = BYTE_KINDS,
    .all_byte_kinds = ALL_BYTE_KINDS,
#if LANES == 8
    .reads_interleaved = side_reads,
#endif
    .pack = pack_any,
    .tile = tile,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .l2_normalize = l2_normalize,
    .convolve = convolve,
    .delta_scan = delta_scan,
    .activate = activate,
    .rotate = rotate,
    .store_kv = store_kv,
    .attend = attend,
    .attend_rows = attend_rows,
    .add_scaled = add_scaled,
    .max = max,
    .sum_exp = sum_exp,
};
