/* Products of eight blocks at a time (AVX2): eight successive blocks of one weight row stand in the
 * lanes, and the activations lie in the same order (panel.h), so that no product needs a shuffle
 * and sums never cross lanes before a row's end, where they are summed in one order.
 *
 * A few rows of activations take a weight row at once, as bytes where the format has few enough
 * numbers: half the unpacking. More rows take sixteen weight rows (tile_wide.h); at the end of a
 * matrix those of one byte go a few at a time, and others, as in formats without that way, share
 * the unpacking of two weight rows to pairs of int16, eight sums at a time in registers. All ways
 * sum a block exactly and add blocks in the same order, so they give the same bits. */
#pragma once
#include "engine/cpu/kernels/eight_few.h"

#define OCTET_BEYOND 2 /* rows over OCTET_FEW, at most, that weights are still near for */
#define OCTET_FEW_PAIRS                                                                            \
    2 /* OCTET_FEW of a format without bytes, whose pairs fill the registers                       \
       */

typedef void (*octet_unpack)(const struct weight *w, const struct octet_at *at, struct octet *o);
/* sums[.][0] is of the pair's first weight row, sums[.][1] of its second. */
typedef void (*octet_run)(const struct octet *o, const struct octet_rows *x, size_t at,
                          float sums[][2][LANES]);

struct octet_format {
    octet_unpack unpack;
    octet_run run; /* many rows */
    int bytes;     /* of an octet, in data */
    unsigned kind; /* of panel */
    bool planes;   /* few rows read the panel's planes of bytes */
    /* Weight rows one after the other, for n rows of activations: at most OCTET_FEW of planes,
     * OCTET_FEW_PAIRS of pairs. */
    void (*few)(const struct lanes *l, const uint8_t *const *rows, int32_t n, float *acc);
    /* The same, at most OCTET_FEW, for activations of one byte. `beyond`: so many more go this way
     * too, which meet the weights while they are near; with more, sixteen weight rows are faster.
     */
    void (*few_byte)(const struct lanes *l, const uint8_t *const *rows, int32_t n, float *acc);
    int32_t beyond;
};

/* Octets of a weight row from the one that `at` names, times those of a few rows of activations,
 * which x[.] moves on from. */
static inline __attribute__((always_inline)) void
octet_run_octets(const struct weight *w, struct octet_at at, octet_unpack unpack, int shape,
                 int32_t bytes, size_t scales, int32_t n, size_t ahead, const uint8_t **x,
                 int count, vf *sum)
{
    const struct octet_join join = octet_join();
    for (; n > 0; n--) {
        struct octet o;
        fetch_lines(at.data + ahead, (size_t)bytes);
        unpack(w, &at, &o);
        UNROLL
        for (int t = 0; t < count; t++) {
            sum[t] = octet_dot(&o, shape, x[t], &join, sum[t]);
            x[t] += PANEL_OCTET_BYTES;
        }
        at.data += bytes;
        at.scales += scales;
        at.biases += scales;
    }
}

/* A part of a row of weights times a few rows of activations: adds to the lanes' sums. `last` adds
 * what is left after the whole octets; the loop has no call, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void
octet_line(const struct lanes *l, octet_unpack unpack, octet_last last, int shape, int32_t bytes,
           int32_t r, const struct octet_run_part *p, const uint8_t *const *rows, int count,
           vf *out)
{
    const struct weight *w = l->tile->weight;
    const uint8_t *x[OCTET_FEW];
    vf sum[OCTET_FEW];
    UNROLL
    for (int t = 0; t < count; t++) {
        x[t] = rows[t] + (size_t)p->first * PANEL_OCTET_BYTES;
        sum[t] = p->first ? out[8 * t] : vf_zero();
    }
    const bool copied = p->last && octet_copied(l, bytes, r);
    octet_run_octets(w, octet_place(l, bytes, r, p->first), unpack, shape, bytes, octet_scales(w),
                     p->end - p->first - (copied ? 1 : 0), p->distance, x, count, sum);
    UNROLL
    for (int t = 0; t < count; t++)
        out[8 * t] = copied ? last(l, r, x[t], sum[t]) : sum[t];
}

/* Whole rows of whole octets: where a row is short, what octet_line() finds out for each takes a
 * tenth of its products' time. */
static inline __attribute__((always_inline)) void
octet_whole(const struct lanes *l, octet_unpack unpack, int shape, int32_t bytes,
            const uint8_t *const *rows, int count, vf *out)
{
    const size_t scales = octet_scales(l->tile->weight);
    for (int r = 0; r < 8; r++) {
        const uint8_t *x[OCTET_FEW];
        vf sum[OCTET_FEW];
        UNROLL
        for (int t = 0; t < count; t++) {
            x[t] = rows[t];
            sum[t] = vf_zero();
        }
        octet_run_octets(l->tile->weight, (struct octet_at){l->data[r], l->scales[r], l->biases[r]},
                         unpack, shape, bytes, scales, l->blocks / 8, SUPER_AHEAD, x, count, sum);
        UNROLL
        for (int t = 0; t < count; t++)
            out[8 * t + r] = sum[t];
    }
}

/* Eight rows of weights times `count` rows of activations. */
static inline __attribute__((always_inline)) void
octet_lines(const struct lanes *l, octet_unpack unpack, octet_last last, int shape, int32_t bytes,
            const uint8_t *const *rows, int count, float *acc)
{
    vf v[8 * OCTET_FEW];
    struct octet_run_part p = octet_first_part(l, count, shape);
    if (shape & OCTET_ONE && p.last && l->blocks % 8 == 0)
        octet_whole(l, unpack, shape, bytes, rows, count, v);
    else
        do
            for (int32_t r = 0; r < 8; r++)
                octet_line(l, unpack, last, shape, bytes, r, &p, rows, count, v + r);
        while (octet_next_part(l, &p));
    UNROLL
    for (int t = 0; t < count; t++)
        vf_store(acc + t * LANES, sum_lanes(v + 8 * t));
}

/* Bytes become pairs. */
static inline void octet_widen(struct octet *o)
{
    vi v[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = o->q[i];
    bytes_to_pairs(v, o->q);
}

/* Few rows of a format whose unpacking is `name`_inline: pairs, or planes; or (OCTET_ONE) one byte.
 */
#define OCTET_FEW_ROWS(name, few, shape, bytes)                                                    \
    static __attribute__((noinline)) vf few##_last(const struct lanes *l, int32_t r,               \
                                                   const uint8_t *x, vf sum)                       \
    {                                                                                              \
        struct octet o;                                                                            \
        struct octet_tail tail;                                                                    \
        const struct octet_join join = octet_join();                                               \
        const struct octet_at at = octet_place_tail(l, bytes, r, l->blocks / 8, &tail);            \
        name##_inline(l->tile->weight, &at, &o);                                                   \
        return octet_dot(&o, shape, x, &join, sum);                                                \
    }                                                                                              \
    static __attribute__((noinline)) void few(const struct lanes *l, const uint8_t *const *rows,   \
                                              int32_t n, float *acc)                               \
    {                                                                                              \
        if (n == 1)                                                                                \
            octet_lines(l, name##_inline, few##_last, shape, bytes, rows, 1, acc);                 \
        else if (n == 2)                                                                           \
            octet_lines(l, name##_inline, few##_last, shape, bytes, rows, 2, acc);                 \
        else if (octet_depth(shape) && n == 3)                                                     \
            octet_lines(l, name##_inline, few##_last, shape, bytes, rows, 3, acc);                 \
        else if (octet_depth(shape) && n == OCTET_FEW)                                             \
            octet_lines(l, name##_inline, few##_last, shape, bytes, rows, OCTET_FEW, acc);         \
    }

/* Each format: its unpacking for several rows, and few rows with it inlined; */
#define OCTET_FORMAT(name, call, shape, bytes)                                                     \
    static inline __attribute__((always_inline)) void name##_inline(                               \
        const struct weight *w, const struct octet_at *at, struct octet *o)                        \
    {                                                                                              \
        (void)w;                                                                                   \
        call;                                                                                      \
    }                                                                                              \
    static __attribute__((noinline)) void name##_unpack(                                           \
        const struct weight *w, const struct octet_at *at, struct octet *o)                        \
    {                                                                                              \
        name##_inline(w, at, o);                                                                   \
        if (octet_depth(shape))                                                                    \
            octet_widen(o);                                                                        \
    }                                                                                              \
    OCTET_FEW_ROWS(name, name##_few, shape, bytes)

/* and of a format that has bytes, both for activations of one. */
#define OCTET_BYTE_FORMAT(name, call, shape, bytes)                                                \
    OCTET_FORMAT(name, call, shape, bytes)                                                         \
    OCTET_FEW_ROWS(name, name##_few_byte, (shape) | OCTET_ONE, bytes)

OCTET_FORMAT(octet_q8_0, octet_q8_0(at, o), OCTET_PLAIN, 272)
OCTET_BYTE_FORMAT(octet_q4_0, octet_q4_0(at, o), OCTET_BYTES(8) | OCTET_LESS(8), 144)
OCTET_BYTE_FORMAT(octet_q4_1, octet_q4_1(at, o), OCTET_BYTES(8) | OCTET_MIN, 160)
OCTET_FORMAT(octet_iq4_nl, octet_iq4_nl(at, o), OCTET_LESS(127), 144)
OCTET_BYTE_FORMAT(octet_mxfp4_block, octet_mxfp4_block(at, o), OCTET_BYTES(4) | OCTET_LESS(12), 136)
OCTET_BYTE_FORMAT(octet_mxfp4, octet_mxfp4(at, o), OCTET_BYTES(4) | OCTET_LESS(12), 128)
OCTET_BYTE_FORMAT(octet_affine_4, octet_affine(w, 4, at, o), OCTET_BYTES(8) | OCTET_MIN, 128)
OCTET_FORMAT(octet_affine_5, octet_affine(w, 5, at, o), OCTET_MIN, 160)
OCTET_FORMAT(octet_affine_6, octet_affine(w, 6, at, o), OCTET_MIN, 192)
OCTET_FORMAT(octet_affine_8, octet_affine(w, 8, at, o), OCTET_MIN, 256)
OCTET_FORMAT(octet_q4_k, octet_k4(false, at, o), OCTET_K, 144)
OCTET_FORMAT(octet_q5_k, octet_k4(true, at, o), OCTET_K, 176)
OCTET_FORMAT(octet_q6_k, octet_q6_k(at, o), OCTET_Q6_K, 210)
OCTET_FORMAT(octet_iq4_xs, octet_iq4_xs(at, o), OCTET_LESS(127), 136)
#undef OCTET_BYTE_FORMAT
#undef OCTET_FORMAT
#undef OCTET_FEW_ROWS

/* NULL: the format has no form of this kind. */
static const struct octet_format *octet_format(const struct weight *w)
{
#define OCTET_ENTRY(name, rows, form, size)                                                        \
    {                                                                                              \
        .unpack = name##_unpack, .run = octet_rows_##rows, .bytes = (size),                        \
        .kind = PANEL_##form##_OCTETS, .few = name##_few                                           \
    }
#define OCTET_BYTE_ENTRY(name, rows, form, size)                                                   \
    {                                                                                              \
        .unpack = name##_unpack, .run = octet_rows_##rows, .bytes = (size),                        \
        .kind = PANEL_##form##_OCTETS, .few = name##_few, .planes = true,                          \
        .few_byte = name##_few_byte                                                                \
    }
#define OCTET_SUPER_ENTRY(name, rows, size, more)                                                  \
    {                                                                                              \
        .unpack = octet_##name##_unpack, .run = octet_rows_##rows, .bytes = (size),                \
        .kind = PANEL_K_OCTETS, .few = octet_##name##_few, .planes = true,                         \
        .few_byte = super_few_##name, .beyond = (more)                                             \
    }
    static const struct octet_format affine[9] = {
        [4] = OCTET_BYTE_ENTRY(octet_affine_4, min, NIBBLE, 128),
        [5] = OCTET_ENTRY(octet_affine_5, min, BYTE, 160),
        [6] = OCTET_ENTRY(octet_affine_6, min, BYTE, 192),
        [8] = OCTET_ENTRY(octet_affine_8, min, BYTE, 256)};
    static const struct octet_format others[WEIGHT__N] = {
        [WEIGHT_MXFP4] = OCTET_BYTE_ENTRY(octet_mxfp4, less_12, NIBBLE, 128),
        [WEIGHT_Q8_0] = {.unpack = octet_q8_0_unpack,
                         .run = octet_rows_plain,
                         .bytes = EIGHT_OCTET,
                         .kind = PANEL_BYTE_OCTETS,
                         .few = octet_q8_0_few,
                         .few_byte = eight_few,
                         .beyond = OCTET_BEYOND},
        [WEIGHT_Q4_0] = OCTET_BYTE_ENTRY(octet_q4_0, less_8, PLANE, 144),
        [WEIGHT_Q4_1] = OCTET_BYTE_ENTRY(octet_q4_1, min, PLANE, 160),
        [WEIGHT_Q4_K] = OCTET_SUPER_ENTRY(q4_k, k, 144, 0),
        [WEIGHT_Q5_K] = OCTET_SUPER_ENTRY(q5_k, k, 176, 0),
        [WEIGHT_Q6_K] = OCTET_SUPER_ENTRY(q6_k, q6_k, 210, OCTET_BEYOND),
        [WEIGHT_IQ4_NL] = OCTET_ENTRY(octet_iq4_nl, less_127, BYTE, 144),
        [WEIGHT_IQ4_XS] = OCTET_ENTRY(octet_iq4_xs, less_127, BYTE, 136),
        [WEIGHT_MXFP4_BLOCK] = OCTET_BYTE_ENTRY(octet_mxfp4_block, less_12, PLANE, 136),
    };
#undef OCTET_SUPER_ENTRY
#undef OCTET_BYTE_ENTRY
#undef OCTET_ENTRY
    const struct octet_format *f = w->type == WEIGHT_AFFINE ? &affine[w->bits] : &others[w->type];
    return f->unpack ? f : NULL;
}

/* The form that octet_tile() reads for this weight; 0: it has none. */
static inline unsigned octet_kinds(const struct weight *w)
{
    const struct octet_format *f = octet_format(w);
    return f ? f->kind | (f->planes ? PANEL_OCTET_PLANES : 0u) : 0u;
}

/* Whether the format has a way for activations of one byte, and these are such. */
static inline bool octet_one(const struct tile *t, const struct octet_format *f)
{
    return f->few_byte && t->panel->kinds & PANEL_ONE_BYTE;
}

/* Rows of activations that a weight row at once is read for. */
static inline int32_t octet_most(const struct tile *t, const struct octet_format *f)
{
    if (octet_one(t, f))
        return OCTET_FEW + f->beyond;
    return f->planes ? OCTET_FEW : OCTET_FEW_PAIRS;
}

/* Two rows of weights, octet g, unpacked. */
static void octet_pair(const struct lanes *l, const struct octet_format *f, int32_t r, int32_t g,
                       struct octet o[2])
{
    for (int i = 0; i < 2; i++) {
        struct octet_tail tail;
        const struct octet_at at = g * 8 + 8 <= l->blocks
                                       ? octet_place(l, f->bytes, r + i, g)
                                       : octet_place_tail(l, f->bytes, r + i, g, &tail);
        f->unpack(l->tile->weight, &at, &o[i]);
    }
}

/* Some rows of activations, at most OCTET_PART. */
static void octet_part(const struct lanes *l, const struct octet_format *f,
                       const struct octet_rows *x, float *acc)
{
    float sums[LANES / 2][OCTET_PART][2][LANES];
    struct octet o[2];
    const int32_t octets = (l->blocks + 7) / 8;
    for (int32_t pair = 0; pair < LANES / 2; pair++)
        memset(sums[pair], 0, (size_t)x->n * sizeof sums[pair][0]);
    if (x->n <= OCTET_FEW) {
        for (int32_t pair = 0; pair < LANES / 2; pair++)
            for (int32_t g = 0; g < octets; g++) {
                const size_t row = l->tile->weight->row_bytes;
                const uint8_t *next = l->data[2 * pair] + 2 * row + (size_t)g * (size_t)f->bytes;
                fetch_lines(next, (size_t)f->bytes);
                fetch_lines(next + row, (size_t)f->bytes);
                octet_pair(l, f, 2 * pair, g, o);
                f->run(o, x, (size_t)g * PANEL_OCTET_BYTES, sums[pair]);
            }
    } else {
        for (int32_t g = 0; g < octets; g++) {
            for (int32_t b = g * 8; b < g * 8 + 8 && b < l->blocks; b++)
                fetch_ahead(l, b);
            for (int32_t pair = 0; pair < LANES / 2; pair++) {
                octet_pair(l, f, 2 * pair, g, o);
                f->run(o, x, (size_t)g * PANEL_OCTET_BYTES, sums[pair]);
            }
        }
    }
    for (int32_t i = 0; i < x->n; i++) {
        vf v[8];
        UNROLL
        for (int r = 0; r < 8; r++)
            v[r] = vf_load(sums[r / 2][i][r % 2]);
        vf_store(acc + i * LANES, sum_lanes(v));
    }
}

static const uint8_t *octet_panel(const struct panel *p, const struct octet_format *f)
{
    return f->kind == PANEL_K_OCTETS        ? p->k_octets
           : f->kind == PANEL_NIBBLE_OCTETS ? p->nibble_octets
           : f->kind == PANEL_PLANE_OCTETS  ? p->plane_octets
                                            : p->byte_octets;
}

static void octet_tile(const struct lanes *l, float *acc)
{
    const struct tile *t = l->tile;
    const struct panel *p = t->panel;
    const struct octet_format *f = octet_format(t->weight);
    const uint8_t *from = octet_panel(p, f);
    const bool one = octet_one(t, f), few = one || !f->planes || p->kinds & PANEL_OCTET_PLANES;
    const int32_t most = octet_most(t, f),
                  part = one || (f->planes && few) ? OCTET_FEW : OCTET_PART;
    struct octet_rows x;
    for (int32_t first = 0; first < t->n; first += x.n) {
        x.n = t->n - first < part ? t->n - first : part;
        for (int32_t i = 0; i < x.n; i++)
            x.row[i] = from + (size_t)l->index[first + i] * panel_octet_row(p->blocks);
        if (few && x.n <= most)
            (one ? f->few_byte : f->few)(l, x.row, x.n, acc + first * LANES);
        else
            octet_part(l, f, &x, acc + first * LANES);
    }
}

/* Two tiles, one below the other, times many rows; false: not so. */
static bool octet_wide(struct lanes l[2], float *acc)
{
    const struct tile *t = l->tile;
    const struct octet_format *f = octet_format(t->weight);
    const struct wide_format *wide = wide_format(t->weight);
    if (!f || !wide || t->n <= octet_most(t, f))
        return false;
    wide_fetch_next(l);
    const bool one = octet_one(t, f);
    if (!one && f->planes && t->panel->kinds & PANEL_OCTET_PLANES)
        return false;
    const uint8_t *from = octet_panel(t->panel, f);
    struct octet_rows x; /* not cleared: that takes as long as some products */
    x.n = t->n;
    for (int32_t i = 0; i < t->n; i++)
        x.row[i] = from + (size_t)l->index[i] * panel_octet_row(t->panel->blocks);
    if (one && super_format(t->weight))
        super_tile(l, super_format(t->weight), &x, acc);
    else
        wide_tile(l, wide, !one || !wide->bytes, &x, acc);
    return true;
}

/* Whole tiles times few rows: placing a tile's rows anew takes as long as some of its products.
 * Returns how many of the tiles are done. */
static int32_t octet_few_tiles(const struct tile *t, float *acc)
{
    const struct octet_format *f = octet_format(t->weight);
    const int32_t count = wide_whole(t);
    if (!f || t->n > octet_most(t, f) || count <= 1)
        return 0;
    struct lanes l[WIDE_HALVES];
    float part[(OCTET_FEW + OCTET_BEYOND) * LANES];
    wide_init(t, l, part);
    for (int32_t i = 0; i < count; i++, acc += t->n * WIDE_HALVES * LANES)
        for (int h = 0; h < WIDE_HALVES; h++) {
            octet_tile(&l[h], part);
            wide_step(&l[h]);
            for (int32_t row = 0; row < t->n; row++)
                vf_store(acc + (row * WIDE_HALVES + h) * LANES, vf_load(part + row * LANES));
        }
    return count;
}
