/* Tiles of interleaved weights (AVX2, activations of one byte). Few rows of activations meet 256
 * columns of sixteen weight rows at a time, four by four; more go the way of other weights, but for
 * the unpacking. Both give the bits that the weights would give as they lay in the file. */
#pragma once
#include "engine/cpu/kernels/interleaved_blocks.h"

#define SIDE_FEW 8 /* rows, at most, that unpack anew for each four */

/* 256 columns of sixteen weight rows times some rows, whose octets are at `rows`. */
typedef void (*side_super_run)(const uint8_t *data, const uint8_t *const *rows, super_sums *sums);
typedef void (*side_octet_run)(const uint8_t *data, const uint8_t *const *rows, wide_sums *sums);

struct side_format {
    struct super_format super; /* K-quants, */
    side_super_run few_super[WIDE_ROWS];
    struct wide_format wide; /* or blocks */
    side_octet_run few_octets[WIDE_ROWS];
    int32_t few; /* rows, up to which unpacking anew for each four is faster */
};

#define SIDE_RUN(name, function, form, n, type)                                                    \
    static __attribute__((noinline)) void name(const uint8_t *data, const uint8_t *const *rows,    \
                                               type *sums)                                         \
    {                                                                                              \
        const uint8_t *x[n];                                                                       \
        UNROLL                                                                                     \
        for (int t = 0; t < (n); t++)                                                              \
            x[t] = rows[t];                                                                        \
        function(data, form, x, n, sums);                                                          \
    }
#define SIDE_RUNS(name, function, form, type)                                                      \
    SIDE_RUN(name##_1, function, form, 1, type)                                                    \
    SIDE_RUN(name##_2, function, form, 2, type)                                                    \
    SIDE_RUN(name##_3, function, form, 3, type)                                                    \
    SIDE_RUN(name##_4, function, form, 4, type)
SIDE_RUNS(side_q4_k, side_super, SUPER_Q4_K, super_sums)
SIDE_RUNS(side_q5_k, side_super, SUPER_Q5_K, super_sums)
SIDE_RUNS(side_q4_0, side_octet, SIDE_Q4_0, wide_sums)
SIDE_RUNS(side_mxfp4, side_octet, SIDE_MXFP4, wide_sums)
SIDE_RUNS(side_q8_0, side_octet, SIDE_Q8_0, wide_sums)
#undef SIDE_RUNS
#undef SIDE_RUN

/* NULL: these are not faster interleaved. */
static const struct side_format *side_format(const struct weight *w)
{
#define SIDE_RUNS_OF(name)                                                                         \
    {                                                                                              \
        name##_1, name##_2, name##_3, name##_4                                                     \
    }
    static const struct side_format formats[WEIGHT__N] = {
        [WEIGHT_Q4_K] = {.super = {side_unpack_q4_k, super_run_q4_k},
                         .few_super = SIDE_RUNS_OF(side_q4_k),
                         .few = SIDE_FEW},
        [WEIGHT_Q5_K] = {.super = {side_unpack_q5_k, super_run_q5_k},
                         .few_super = SIDE_RUNS_OF(side_q5_k),
                         .few = WIDE_ROWS},
        [WEIGHT_Q4_0] = {.wide = {side_unpack_q4_0, wide_bytes_less_8, NULL, true},
                         .few_octets = SIDE_RUNS_OF(side_q4_0),
                         .few = SIDE_FEW},
        [WEIGHT_MXFP4_BLOCK] = {.wide = {side_unpack_mxfp4, wide_bytes_less_12, NULL, true},
                                .few_octets = SIDE_RUNS_OF(side_mxfp4),
                                .few = SIDE_FEW},
        [WEIGHT_Q8_0] = {.wide = {side_unpack_q8_0, NULL, wide_pairs_plain, false},
                         .few_octets = SIDE_RUNS_OF(side_q8_0),
                         .few = SIDE_FEW},
    };
#undef SIDE_RUNS_OF
    const struct side_format *f = &formats[w->type];
    return f->few ? f : NULL;
}

static bool side_reads(const struct weight *w)
{
    return side_format(w) != NULL;
}

/* One tile times few rows. */
static void side_few(const struct side_format *f, const uint8_t *data, int32_t bytes,
                     int32_t octets, struct octet_rows *x, float *acc)
{
    wide_sums sums[SIDE_FEW];
    super_sums *out = (super_sums *)(void *)acc;
    const bool super = f->super.run;
    if (super)
        memset(out, 0, (size_t)x->n * sizeof *out);
    else
        memset(sums, 0, (size_t)x->n * sizeof *sums);
    for (int32_t g = 0; g < octets; g++, data += INTERLEAVE_ROWS * bytes)
        for (int32_t t = 0; t < x->n; t += WIDE_ROWS) {
            const int32_t count = x->n - t < WIDE_ROWS ? x->n - t : WIDE_ROWS;
            if (super)
                f->few_super[count - 1](data, x->row + t, out + t);
            else
                f->few_octets[count - 1](data, x->row + t, sums + t);
            for (int32_t i = t; i < t + count; i++)
                x->row[i] += PANEL_OCTET_BYTES;
        }
    for (int32_t t = 0; !super && t < x->n; t++)
        for (int half = 0; half < WIDE_HALVES; half++)
            vf_store(out[t][half], wide_sum(&sums[t], half));
}

/* One tile times many rows. */
static void side_many(const struct side_format *f, const struct tile *t, const struct octet_rows *x,
                      float *acc)
{
    struct lanes l[WIDE_HALVES];
    wide_init(t, l, NULL);
    wide_fetch_next(l);
    if (f->super.run)
        super_tile(l, &f->super, x, acc);
    else
        wide_tile(l, &f->wide, !f->wide.bytes, x, acc);
}

static void side_tiles(const struct tile *t, float *acc)
{
    const struct weight *w = t->weight;
    const struct panel *p = t->panel;
    const struct side_format *f = side_format(w);
    const struct octet_format *octet = octet_format(w);
    const uint8_t *octets = octet_panel(p, octet);
    struct tile one = *t;
    for (int32_t i = 0; i <= t->more; i++, one.row += INTERLEAVE_ROWS, one.more--) {
        struct octet_rows x; /* not cleared: see octet_wide() */
        x.n = t->n;
        for (int32_t r = 0; r < t->n; r++)
            x.row[r] = octets +
                       (size_t)(t->index ? t->index[r] : t->first + r) * panel_octet_row(p->blocks);
        if (t->n <= f->few)
            side_few(f, weight_planes(w, t->matrix).data + (size_t)one.row * w->row_bytes,
                     octet->bytes, p->blocks / 8, &x, acc);
        else
            side_many(f, &one, &x, acc);
        acc += t->n * INTERLEAVE_ROWS;
    }
}
