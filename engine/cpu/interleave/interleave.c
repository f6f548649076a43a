/* See interleave.h. */
#include "engine/cpu/interleave/interleave.h"

#include <string.h>

const struct interleave_form *interleave_form(enum weight_type type)
{
    static const struct interleave_form forms[WEIGHT__N] = {
        [WEIGHT_Q8_0] = {32, 34, 2, 32, 0, 2},        [WEIGHT_Q4_0] = {32, 18, 2, 16, 0, 2},
        [WEIGHT_MXFP4_BLOCK] = {32, 17, 1, 16, 0, 1}, [WEIGHT_Q4_K] = {256, 144, 0, 144, 0, 0},
        [WEIGHT_Q5_K] = {256, 176, 0, 176, 0, 0},     [WEIGHT_Q6_K] = {256, 210, 0, 208, 208, 2},
    };
    const struct interleave_form *f = &forms[type];
    return f->bytes ? f : NULL;
}

bool interleave_fits(const struct weight *w)
{
    return interleave_form(w->type) && w->rows % INTERLEAVE_ROWS == 0 && w->cols % 256 == 0;
}

/* One block of sixteen rows. */
static void interleave_block(const struct interleave_form *f, const uint8_t *from, size_t stride,
                             uint8_t *to)
{
    for (int r = 0; r < INTERLEAVE_ROWS; r++, from += stride) {
        for (int d = 0; d < f->code_bytes / 4; d++)
            memcpy(to + 4 * (INTERLEAVE_ROWS * d + r), from + f->codes + 4 * d, 4);
        memcpy(to + INTERLEAVE_ROWS * f->code_bytes + r * f->scale_bytes, from + f->scale,
               (size_t)f->scale_bytes);
    }
}

void interleave_rows(const struct weight *w, int32_t matrix, int32_t row, uint8_t *to)
{
    const struct interleave_form *f = interleave_form(w->type);
    const uint8_t *from =
        (const uint8_t *)weight_planes(w, matrix).data + (size_t)row * w->row_bytes;
    for (int32_t c = 0; c < w->cols; c += f->columns) {
        interleave_block(f, from, w->row_bytes, to);
        from += f->bytes;
        to += INTERLEAVE_ROWS * f->bytes;
    }
}
