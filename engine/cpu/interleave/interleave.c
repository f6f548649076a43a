/* See interleave.h. Sixteen bytes of four rows at a time are turned as a matrix of four by four,
 * since the copy of a whole model must keep pace with the memory. */
#include "engine/cpu/interleave/interleave.h"

#include <string.h>

#define DWORDS (4 * INTERLEAVE_ROWS) /* bytes of four of each row */

const struct interleave_form *interleave_form(enum weight_type type)
{
    static const struct interleave_form forms[WEIGHT__N] = {
        [WEIGHT_Q8_0] = {32, 34, 2, 32, 0, 2},        [WEIGHT_Q4_0] = {32, 18, 2, 16, 0, 2},
        [WEIGHT_MXFP4_BLOCK] = {32, 17, 1, 16, 0, 1}, [WEIGHT_Q4_K] = {256, 144, 0, 144, 0, 0},
        [WEIGHT_Q5_K] = {256, 176, 0, 176, 0, 0},
    };
    const struct interleave_form *f = &forms[type];
    return f->bytes ? f : NULL;
}

bool interleave_fits(const struct weight *w)
{
    return interleave_form(w->type) && w->rows % INTERLEAVE_ROWS == 0 &&
           w->cols % INTERLEAVE_COLUMNS == 0;
}

typedef uint32_t words __attribute__((vector_size(16)));

static words load(const uint8_t *from)
{
    words w;
    memcpy(&w, from, sizeof w);
    return w;
}

static void store(uint8_t *to, words w)
{
    memcpy(to, &w, sizeof w);
}

/* Sixteen bytes of four rows: four bytes of each row, one row after the other, and so on. */
static void turn(const uint8_t *from, size_t stride, uint8_t *to)
{
    const words p = load(from), q = load(from + stride), r = load(from + 2 * stride),
                s = load(from + 3 * stride);
    const words a = __builtin_shufflevector(p, q, 0, 4, 1, 5),
                b = __builtin_shufflevector(r, s, 0, 4, 1, 5),
                c = __builtin_shufflevector(p, q, 2, 6, 3, 7),
                d = __builtin_shufflevector(r, s, 2, 6, 3, 7);
    store(to, __builtin_shufflevector(a, b, 0, 1, 4, 5));
    store(to + DWORDS, __builtin_shufflevector(a, b, 2, 3, 6, 7));
    store(to + 2 * DWORDS, __builtin_shufflevector(c, d, 0, 1, 4, 5));
    store(to + 3 * DWORDS, __builtin_shufflevector(c, d, 2, 3, 6, 7));
}

static void interleave_scales(const struct interleave_form *f, const uint8_t *from, size_t stride,
                              uint8_t *to)
{
    for (int r = 0; r < INTERLEAVE_ROWS; r++)
        if (f->scale_bytes == 2)
            memcpy(to + 2 * r, from + (size_t)r * stride, 2);
        else
            to[r] = from[(size_t)r * stride];
}

/* 256 columns of sixteen rows. ahead: as many bytes that come later, fetched meanwhile; rows are
 * too short for the processor to see by itself what is read next. */
static void interleave_columns(const struct interleave_form *f, const uint8_t *from, size_t stride,
                               const uint8_t *ahead, uint8_t *to)
{
    const int blocks = INTERLEAVE_COLUMNS / f->columns;
    uint8_t *scales = to + INTERLEAVE_ROWS * f->code_bytes * blocks;
    for (int b = 0; b < blocks; b++, from += f->bytes) {
        for (int at = 0; at < f->code_bytes; at += 16, to += 4 * DWORDS, ahead += 4 * DWORDS)
            for (int r = 0; r < INTERLEAVE_ROWS; r += 4) {
                __builtin_prefetch(ahead + r * 16);
                turn(from + f->codes + at + (size_t)r * stride, stride, to + r * 4);
            }
        if (f->scale_bytes)
            interleave_scales(f, from + f->scale, stride,
                              scales + b * INTERLEAVE_ROWS * f->scale_bytes);
    }
}

void interleave_rows(const struct weight *w, int32_t matrix, int32_t row, uint8_t *to)
{
    const struct interleave_form *f = interleave_form(w->type);
    const size_t bytes = (size_t)(INTERLEAVE_COLUMNS / f->columns * f->bytes);
    const uint8_t *from = weight_planes(w, matrix).data + (size_t)row * w->row_bytes,
                  *ahead = from + INTERLEAVE_ROWS * w->row_bytes;
    for (int32_t c = 0; c < w->cols; c += INTERLEAVE_COLUMNS) {
        interleave_columns(f, from, w->row_bytes, ahead, to);
        from += bytes;
        ahead += INTERLEAVE_ROWS * bytes;
        to += INTERLEAVE_ROWS * bytes;
    }
}
