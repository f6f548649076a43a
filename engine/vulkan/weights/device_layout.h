/* How a packed matrix lies on the device: up to three planes of whole rows, made from the mapped
 * file at upload. The same bytes as in the file (never expanded), in an order that lets one thread
 * load 32 columns with 16-byte loads:
 *
 * f32, f16, bf16: the values.
 *
 * mxfp4: 16 bytes of codes per 32 columns, as enum mxfp4_codes says; one byte of scales for them.
 *
 * affine: `bits` words per 32 columns; scale and bias side by side per group.
 *
 * GGUF's blocks: codes' low bits, records of scales, codes' high bits: device_block.h. Its MXFP4
 * becomes mxfp4.
 *
 * Rows of n_matrix stacked matrices, and of several matrices laid one below the other, follow each
 * other without gaps. Columns are padded with zeros to a multiple of 32. Pure functions; any
 * thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/format/weight.h"

#define DEVICE_PLANES 3

struct device_layout {
    const char *kernel;                             /* suffix of the shaders: "mxfp4" */
    uint32_t bits, group_chunks, scale_type, block; /* constants 16, 17, 18, 19 */
    uint32_t n_chunk;                               /* of 32 columns, in a row */
    uint32_t row_bytes[DEVICE_PLANES];              /* 0: no such plane */
};

/* ERR_UNSUPPORTED when no kernel reads the format. */
bool device_layout_of(const struct weight *w, struct device_layout *l, struct err *e);
/* For weights that the processor reads too, in the layout of weight.h: MXFP4_IN_ORDER. */
void device_layout_keep_codes(struct device_layout *l);
/* Tells whether both have the same planes, so that their rows may be stacked. */
bool device_layout_equal(const struct device_layout *a, const struct device_layout *b);
struct device_rows { /* rows [first, first + n) of one plane of a stack, which has n_matrix * rows
                        of them */
    int plane;
    int64_t first, n;
};

/* Writes these rows to out. */
void device_layout_rows(const struct weight *w, const struct device_layout *l,
                        const struct device_rows *r, uint8_t *out);
