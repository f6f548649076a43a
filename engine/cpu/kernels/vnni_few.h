/* Few rows of one-byte activations (AVX512-VNNI): eight successive blocks of one weight row stand
 * in the lanes, so that a row of weights is one run of memory and no sum crosses lanes before the
 * row's end. Included after octet_tile.h's parts. */
#pragma once
#include "engine/cpu/kernels/octet_tile.h"

#define VNNI_FEW 8   /* rows up to which weights are read row after row */
#define VNNI_NEAR 32 /* octets of rows of activations that eight weight rows meet at a time, */
/* where an octet of weights is as large; smaller ones leave room for twice as many before that is
 * faster */
#define VNNI_NEAR_BYTES 256
#define VNNI_ROW 48 /* octets of one row that the first cache has room for beside the weights */

/* Some octets of eight weight rows. */
struct vnni_part {
    int32_t first, end;
    bool last;     /* the rows end here */
    size_t ahead;  /* bytes from a weight to the one that is fetched meanwhile */
    size_t scales; /* of an octet, where they lie apart */
};

/* Eight blocks of Q8_0 times one row of activations, whose bytes lie in order: adding up a block's
 * products, which lie side by side, takes less time than bringing the blocks into the lanes. */
static inline __attribute__((always_inline)) vf vnni_dot_columns(const uint8_t *data,
                                                                 const uint8_t *x,
                                                                 const uint8_t *columns, vf sum)
{
    const vi sign = octet_hold(vi_set1((int32_t)0x80808080));
    struct octet o = {.scale[0] = _mm256_cvtph_ps(words_apart(data, 34))};
    vi v[8];
    UNROLL
    for (int b = 0; b < 8; b++)
        v[b] = _mm256_dpbusd_epi32(vi_zero(), _mm256_xor_si256(vi_load(data + 34 * b + 2), sign),
                                   vi_load(columns + 32 * b));
    return octet_scale_sums(add_lanes(v), vi_load(x + PANEL_OCTET_LESS_128), &o, OCTET_PLAIN, x,
                            sum);
}

/* Octets of a weight row from the one that `at` names, times those of `count` rows of activations
 * from x to end. */
static inline __attribute__((always_inline)) void
vnni_octets(const struct lanes *l, struct octet_at at, octet_unpack unpack, int shape,
            int32_t bytes, const struct vnni_part *p, const uint8_t *const *rows, size_t x,
            size_t end, int count, vf *sum)
{
    const uint8_t *columns =
        rows[0] + panel_octet_columns(l->blocks) + x / PANEL_OCTET_BYTES * PANEL_OCTET_COLUMNS;
    const size_t scales = p->scales;
    for (; x < end; x += PANEL_OCTET_BYTES) {
        fetch_lines(at.data + p->ahead, (size_t)bytes);
        if (count == 1 && shape == OCTET_LESS(128)) {
            sum[0] = vnni_dot_columns(at.data, rows[0] + x, columns, sum[0]);
            columns += PANEL_OCTET_COLUMNS;
        } else {
            struct octet o;
            unpack(l->tile->weight, &at, &o);
            UNROLL
            for (int t = 0; t < count; t++)
                sum[t] = octet_dot_vnni(&o, shape, rows[t] + x, sum[t]);
        }
        at.data += bytes;
        at.scales += scales;
        at.biases += scales;
        __asm__("" : "+r"(x)); /* one number, not a pointer for each row of activations */
    }
}

/* A part of a row of weights times `count` rows of activations: adds to the lanes' sums, eight
 * apart in `out`. `last` adds what is left after the whole octets; the loop has no call, so that
 * sums stay in registers. */
static inline __attribute__((always_inline)) void
vnni_line(const struct lanes *l, octet_unpack unpack, octet_last last, int shape, int32_t bytes,
          int32_t r, const struct vnni_part *p, const uint8_t *const *rows, int count, vf *out)
{
    vf sum[VNNI_FEW];
    UNROLL
    for (int t = 0; t < count; t++)
        sum[t] = p->first ? out[8 * t] : vf_zero();
    const bool copied = p->last && octet_copied(l, bytes, r);
    const size_t end = (size_t)(p->end - (copied ? 1 : 0)) * PANEL_OCTET_BYTES;
    vnni_octets(l, octet_place(l, bytes, r, p->first), unpack, shape, bytes, p, rows,
                (size_t)p->first * PANEL_OCTET_BYTES, end, count, sum);
    UNROLL
    for (int t = 0; t < count; t++)
        out[8 * t] = copied ? last(l, r, rows[t] + end, sum[t]) : sum[t];
}

/* Whole octets of eight weight rows and one of activations: where a row is short, what vnni_line()
 * finds out for each takes a tenth of its products' time. */
static inline __attribute__((always_inline)) void
vnni_whole(const struct lanes *l, octet_unpack unpack, int shape, int32_t bytes,
           const struct vnni_part *p, const uint8_t *const *rows, vf *out)
{
    const size_t end = (size_t)p->end * PANEL_OCTET_BYTES;
    for (int r = 0; r < 8; r++) {
        vf sum = vf_zero();
        vnni_octets(l, (struct octet_at){l->data[r], l->scales[r], l->biases[r]}, unpack, shape,
                    bytes, p, rows, 0, end, 1, &sum);
        out[r] = sum;
    }
}

/* Of many columns, eight weight rows meet as many as lie in the first cache together: a weight row
 * at a time, all activations would come from the second cache for each. */
static inline __attribute__((always_inline)) void
vnni_lines(const struct lanes *l, octet_unpack unpack, octet_last last, int shape, int32_t bytes,
           const uint8_t *const *rows, int count, float *acc)
{
    vf v[8 * VNNI_FEW];
    const int32_t octets = (l->blocks + 7) / 8,
                  most = (bytes < VNNI_NEAR_BYTES ? 2 : 1) * VNNI_NEAR / count,
                  near = octets > most || octets > VNNI_ROW ? VNNI_NEAR / count : octets;
    struct vnni_part p = {.ahead = SUPER_AHEAD, .scales = octet_scales(l->tile->weight)};
    if (near < octets) { /* the processor itself would fetch whole rows */
        p.ahead = 8 * l->tile->weight->row_bytes;
    } else if (count == 1 && l->blocks % 8 == 0) {
        p.first = p.end = octets;
        vnni_whole(l, unpack, shape, bytes, &p, rows, v);
    }
    for (; p.first < octets; p.first = p.end) {
        p.last = octets - p.first <= near;
        p.end = p.last ? octets : p.first + near;
        for (int32_t r = 0; r < 8; r++)
            vnni_line(l, unpack, last, shape, bytes, r, &p, rows, count, v + r);
    }
    UNROLL
    for (int t = 0; t < count; t++)
        vf_store(acc + t * WIDE_HALVES * LANES, sum_lanes(v + 8 * t));
}

static inline __attribute__((always_inline)) void octet_q8_0_bytes(const struct octet_at *at,
                                                                   struct octet *o)
{
    BLOCKS_APART(rows, at->data, 34);
    load_rows16(rows, 2, o->q);
    load_rows16(rows, 18, o->q + 4);
    UNROLL
    for (int j = 0; j < 8; j++)
        o->q[j] = _mm256_xor_si256(o->q[j], vi_set1((int32_t)0x80808080));
    o->scale[0] = _mm256_cvtph_ps(words_apart(at->data, 34));
}

static inline __attribute__((always_inline)) void
octet_affine_bytes(const struct weight *w, const struct octet_at *at, struct octet *o)
{
    BLOCKS_APART(rows, at->data, 32);
    load_rows16(rows, 0, o->q);
    load_rows16(rows, 16, o->q + 4);
    o->scale[0] = octet_groups(at->scales, w->scale_type, w->group / 32);
    o->min = octet_groups(at->biases, w->scale_type, w->group / 32);
}

#define VNNI_FORMAT(name, call, shape, bytes)                                                      \
    static inline __attribute__((always_inline)) void vnni_unpack_##name(                          \
        const struct weight *w, const struct octet_at *at, struct octet *o)                        \
    {                                                                                              \
        (void)w;                                                                                   \
        call;                                                                                      \
    }                                                                                              \
    static __attribute__((noinline)) vf vnni_last_##name(const struct lanes *l, int32_t r,         \
                                                         const uint8_t *x, vf sum)                 \
    {                                                                                              \
        struct octet o;                                                                            \
        struct octet_tail tail;                                                                    \
        const struct octet_at at = octet_place_tail(l, bytes, r, l->blocks / 8, &tail);            \
        vnni_unpack_##name(l->tile->weight, &at, &o);                                              \
        return octet_dot_vnni(&o, shape, x, sum);                                                  \
    }                                                                                              \
    static __attribute__((noinline)) void vnni_few_##name(                                         \
        const struct lanes *l, const uint8_t *const *rows, int32_t n, float *acc)                  \
    {                                                                                              \
        switch (n) {                                                                               \
            VNNI_CASE(name, shape, bytes, 1);                                                      \
            VNNI_CASE(name, shape, bytes, 2);                                                      \
            VNNI_CASE(name, shape, bytes, 3);                                                      \
            VNNI_CASE(name, shape, bytes, 4);                                                      \
            VNNI_CASE(name, shape, bytes, 5);                                                      \
            VNNI_CASE(name, shape, bytes, 6);                                                      \
            VNNI_CASE(name, shape, bytes, 7);                                                      \
            VNNI_CASE(name, shape, bytes, 8);                                                      \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }
#define VNNI_CASE(name, shape, bytes, n)                                                           \
    case n:                                                                                        \
        vnni_lines(l, vnni_unpack_##name, vnni_last_##name, shape, bytes, rows, n, acc);           \
        break
VNNI_FORMAT(q8_0_bytes, octet_q8_0_bytes(at, o), OCTET_LESS(128), 272)
VNNI_FORMAT(q4_0, octet_q4_0(at, o), OCTET_LESS(8), 144)
VNNI_FORMAT(q4_1, octet_q4_1(at, o), OCTET_MIN, 160)
VNNI_FORMAT(mxfp4_block, octet_mxfp4_block(at, o), OCTET_LESS(12), 136)
VNNI_FORMAT(mxfp4, octet_mxfp4(at, o), OCTET_LESS(12), 128)
VNNI_FORMAT(affine_4, octet_affine(w, 4, at, o), OCTET_MIN, 128)
VNNI_FORMAT(affine_8, octet_affine_bytes(w, at, o), OCTET_MIN, 256)
#undef VNNI_CASE
#undef VNNI_FORMAT
