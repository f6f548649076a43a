/* One block of 32 columns of any packed format as small integers: w = scale * q + min, with one
 * scale and minimum per half block. Plain C; the way for formats that have no vector unpacking of
 * their own, and for the generic kernels. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/format/weight.h"

struct block {
    int16_t q[32];          /* columns in order */
    float scale[2], min[2]; /* of columns 0..15 and 16..31 */
};

/* False for F32, F16, BF16: use block_f32. */
bool block_is_packed(const struct weight *w);
/* Packed formats only. `row` of the matrix whose planes are `p`. */
void block_decode(const struct weight *w, const struct weight_planes *p, int32_t row, int32_t block,
                  struct block *out);
/* Any format: 32 values; columns past the last are zeros. */
void block_f32(const struct weight *w, const struct weight_planes *p, int32_t row, int32_t block,
               float *out);
