/* Octets with AVX512-VNNI, in words of 256 bits; called by kernels_avx512vnni.c alone. */
#include "engine/cpu/kernels/simd_avx2.h"

#define WIDE_VECTORS 8 /* weights are unpacked to bytes alone */

/* Of the headers below only packing and the octets of bytes are taken. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "engine/cpu/kernels/ops_simd.h"
#include "engine/cpu/kernels/octets_vnni.h"
#include "engine/cpu/kernels/vnni_few.h"
#include "engine/cpu/kernels/vnni_super.h"

struct vnni_format {
    /* Some rows of activations, at most `most`, times the eight weight rows of `l`. */
    void (*few)(const struct lanes *l, const uint8_t *const *rows, int32_t n, float *acc);
    wide_unpack unpack; /* blocks of sixteen weight rows */
    vnni_run run;       /* and their products with many rows; NULL: the format has super-blocks, */
    vnni_super_unpack super_unpack; /* which are unpacked */
    vnni_super_run super_run;       /* and multiplied by these two */
    int32_t most;                   /* rows that `few` takes */
    unsigned kind;                  /* of panel */
};

static const struct vnni_format *vnni_format(const struct weight *w)
{
#define VNNI_ENTRY(name, shape, form)                                                              \
    {                                                                                              \
        .few = vnni_few_##name, .unpack = wide_##name, .run = vnni_wide_##shape, .most = VNNI_FEW, \
        .kind = PANEL_##form##_OCTETS                                                              \
    }
#define VNNI_SUPER(name, shape, rows)                                                              \
    {                                                                                              \
        .few = vnni_few_##name, .super_unpack = vnni_super_##name,                                 \
        .super_run = vnni_super_run_##shape, .most = (rows), .kind = PANEL_K_OCTETS                \
    }
    static const struct vnni_format affine[9] = {
        [4] = VNNI_ENTRY(affine_4, min, NIBBLE), [8] = VNNI_ENTRY(affine_8, min, PLANE)};
    static const struct vnni_format others[WEIGHT__N] = {
        [WEIGHT_MXFP4] = VNNI_ENTRY(mxfp4, less_12, NIBBLE),
        [WEIGHT_Q8_0] = VNNI_ENTRY(q8_0_bytes, less_128, PLANE),
        [WEIGHT_Q4_0] = VNNI_ENTRY(q4_0, less_8, PLANE),
        [WEIGHT_Q4_1] = VNNI_ENTRY(q4_1, min, PLANE),
        [WEIGHT_Q4_K] = VNNI_SUPER(q4_k, k4, VNNI_SUPER_FEW),
        [WEIGHT_Q5_K] = VNNI_SUPER(q5_k, k4, VNNI_SUPER_FEW),
        [WEIGHT_Q6_K] = VNNI_SUPER(q6_k, q6_k, VNNI_SUPER_FEW_Q6),
        [WEIGHT_MXFP4_BLOCK] = VNNI_ENTRY(mxfp4_block, less_12, PLANE),
    };
#undef VNNI_SUPER
#undef VNNI_ENTRY
    const struct vnni_format *f = w->type == WEIGHT_AFFINE ? &affine[w->bits] : &others[w->type];
    return f->few ? f : NULL;
}

unsigned octets_vnni_kinds(const struct weight *w)
{
    const struct vnni_format *f = vnni_format(w);
    return f ? f->kind : 0u;
}

void octets_vnni_pack(struct panel *p, int32_t row, const float *x)
{
    pack(p, row, x);
}

static const uint8_t *vnni_panel(const struct panel *p, const struct vnni_format *f)
{
    return f->kind == PANEL_K_OCTETS        ? p->k_octets
           : f->kind == PANEL_NIBBLE_OCTETS ? p->nibble_octets
                                            : p->plane_octets;
}

/* Sixteen weight rows, of which `halves` times eight exist. */
static void vnni_rows(struct lanes l[WIDE_HALVES], int halves, const struct vnni_format *f,
                      const struct octet_rows *x, float *acc)
{
    if (x->n > f->most && halves == WIDE_HALVES) {
        if (f->run)
            vnni_wide(l, f->unpack, f->run, x, acc);
        else
            vnni_super_wide(l, f->super_unpack, f->super_run, x, acc);
        return;
    }
    for (int32_t first = 0; first < x->n; first += f->most) {
        const int32_t n = x->n - first < f->most ? x->n - first : f->most;
        for (int half = 0; half < halves; half++)
            f->few(&l[half], x->row + first, n, acc + (first * WIDE_HALVES + half) * LANES);
    }
}

/* The rows of activations of a tile. */
static struct octet_rows vnni_activations(const struct tile *t, const struct vnni_format *f)
{
    const uint8_t *from = vnni_panel(t->panel, f);
    const size_t stride = panel_octet_row(t->panel->blocks);
    struct octet_rows x = {.n = t->n};
    for (int32_t i = 0; i < t->n; i++)
        x.row[i] = from + (size_t)(t->index ? t->index[i] : t->first + i) * stride;
    return x;
}

/* Whole tiles times at most f->most rows: placing a tile's rows anew takes as long as some of its
 * products. Returns how many of the tiles are done. */
static int32_t vnni_few_tiles(const struct tile *t, const struct vnni_format *f,
                              const struct octet_rows *x, float *acc)
{
    const int32_t count = wide_whole(t);
    struct lanes l[WIDE_HALVES];
    if (t->n > f->most || count == 0)
        return 0;
    wide_init(t, l, NULL);
    for (int32_t i = 0; i < count; i++, acc += t->n * WIDE_HALVES * LANES)
        for (int half = 0; half < WIDE_HALVES; half++) {
            f->few(&l[half], x->row, t->n, acc + half * LANES);
            wide_step(&l[half]);
        }
    return count;
}

static void vnni_tile(const struct tile *t, const struct vnni_format *f, const struct octet_rows *x,
                      float *acc)
{
    struct lanes l[WIDE_HALVES];
    const int halves = wide_init(t, l, NULL);
    if (halves == 1) /* rows that do not exist: the same whatever was in memory */
        memset(acc, 0, (size_t)t->n * WIDE_HALVES * LANES * sizeof *acc);
    vnni_rows(l, halves, f, x, acc);
}

void octets_vnni_tile(const struct tile *t, float *acc)
{
    const struct vnni_format *f = vnni_format(t->weight);
    const struct octet_rows x = vnni_activations(t, f);
    struct tile one = *t;
    for (int32_t i = vnni_few_tiles(t, f, &x, acc); i <= t->more; i++) {
        one.row = t->row + i * WIDE_HALVES * LANES;
        vnni_tile(&one, f, &x, acc + i * t->n * WIDE_HALVES * LANES);
    }
}
