/* The block formats of GGUF, as llama.cpp's ggml-common.h lays them out: sizes and plain
 * dequantisation. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/format/weight.h"

/* Values per block (32 or 256; 1 for types without blocks) and bytes per block. */
int weight_block_cols(enum weight_type t);
size_t weight_block_size(enum weight_type t);
/* cols must be a multiple of the block's values. */
void weight_block_row_f32(enum weight_type t, const uint8_t *row, int32_t cols, float *out);

/* FP4 E2M1: sign, two bits of exponent, one of mantissa. */
extern const float weight_fp4[16];
/* IQ4_NL's and IQ4_XS's levels. */
extern const int8_t weight_iq4_levels[16];
