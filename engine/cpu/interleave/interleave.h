/* Weights of GGUF block formats laid out anew: sixteen rows side by side, as kernels with a weight
 * row in each lane read them. They then unpack whole vectors by a mask and a shift, turn nothing,
 * and read one run of memory.
 *
 * Of sixteen rows, 256 columns after 256 columns, of one super-block or eight blocks: each four
 * bytes of the codes (and of what K-quants have beside them), of all rows, block after block; then
 * the scales of two bytes or one, of all rows, block after block. So sixteen rows take as many
 * bytes as before, and row 16 n begins where it did; rows in between have no place of their own. */
#pragma once
#include <stdbool.h>

#include "engine/format/weight.h"

#define INTERLEAVE_ROWS 16
#define INTERLEAVE_COLUMNS 256

struct interleave_form { /* of one block of one row, in bytes */
    int columns, bytes;
    int codes, code_bytes;  /* where they begin, and how many: a multiple of sixteen */
    int scale, scale_bytes; /* bytes 0: among the codes */
};

/* NULL: the type has none. */
const struct interleave_form *interleave_form(enum weight_type type);
/* Whether a weight of this form can be laid out so: whole sixteens of rows, of whole 256
 * columns. */
bool interleave_fits(const struct weight *w);
/* Rows `row` to row + 15 of one matrix to `to`, INTERLEAVE_ROWS * weight_row_size(w) bytes. The
 * weight is not interleaved yet. */
void interleave_rows(const struct weight *w, int32_t matrix, int32_t row, uint8_t *to);
