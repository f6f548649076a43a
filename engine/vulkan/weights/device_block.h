/* GGUF blocks as shaders/include/quant_block.glsl reads them: the blocks' own bits and no others,
 * taken apart into planes of aligned words, since 18- or 210-byte blocks cannot be loaded 16 bytes
 * at a time. Per 32 columns ("chunk"):
 *
 *   plane 0  the low 8, 4 or 2 bits of the codes: 32, 16 or 8 bytes
 *   plane 1  a record per block: its halves as below, 2 to 20 bytes
 *   plane 2  the codes' high 1 or 2 bits: 4 or 8 bytes, or none
 *
 * Words hold groups of 4 neighbouring columns c, c + 1, c + 2, c + 3, one in each byte; group g of
 * a chunk has its low bits at word g / (8 / bits) (8 bits: word g), shift (g % (8 / bits)) * bits,
 * its high bits alike.
 *
 *   q8_0 q4_0 q5_0 iq4_nl  d
 *   q4_1 q5_1              d, m
 *   q2_k                   d, dmin, 16 bytes of scale and minimum
 *   q3_k                   d, 8 bytes and 8 nibbles: of each chunk low 8 and high 4 bits of two
 * 6-bit scales q4_k q5_k              d, dmin, 8 bytes and 8 nibbles: the same of its scale and its
 * minimum q6_k                   d, 16 signed bytes iq4_xs                 d, 8 times 2 high bits,
 * 8 nibbles: 6-bit scales
 *
 * Pure functions; any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/format/weight.h"

/* The formats' numbers in the shaders (SPEC_BLOCK). */
enum device_block {
    BLOCK_Q8_0,
    BLOCK_Q4_0,
    BLOCK_Q4_1,
    BLOCK_Q5_0,
    BLOCK_Q5_1,
    BLOCK_IQ4_NL,
    BLOCK_Q2_K,
    BLOCK_Q3_K,
    BLOCK_Q4_K,
    BLOCK_Q5_K,
    BLOCK_Q6_K,
    BLOCK_IQ4_XS,
    BLOCK__N
};

#define BLOCK_PLANES 3

struct device_block_format {
    enum device_block block;
    uint32_t cols; /* of a block: 32 or 256 */
    uint32_t
        bytes[BLOCK_PLANES]; /* of one block in each plane; together the block's size in the file */
};

/* False for every type that is none of these (GGUF's MXFP4 as well: device_layout.c makes it plain
 * mxfp4). */
bool device_block_format_of(enum weight_type t, struct device_block_format *f);
/* Writes one plane of a row of n blocks. */
void device_block_row(const struct device_block_format *f, int plane, const uint8_t *row,
                      uint32_t n, uint8_t *out);
/* Where a word of MXFP4 has the codes of its eight columns (SPEC_CODES). */
enum mxfp4_codes {
    /* For the fewest instructions: each half of a word has, from the top, of columns k (low half)
     * and k + 4 (high half) the sign of 3, of 0, of 2, of 1, the magnitudes of 3, 1, 2, 0. So one
     * mask takes both parts of 3, and of 1, to where a half-precision number has them. */
    MXFP4_BY_MASKS,
    MXFP4_IN_ORDER, /* as in files: low nibble first */
};

/* n chunks, 16 bytes each, from column order to the first. */
void device_mxfp4_codes(const uint8_t *codes, uint32_t n, uint8_t *out);
/* The same from a row of GGUF's MXFP4. */
void device_block_mxfp4_codes(const uint8_t *row, uint32_t n, uint8_t *out);
/* A row of GGUF's MXFP4 in column order: plane 0: 16 bytes of codes per block in column order; 1:
 * the scales. */
void device_block_mxfp4_row(int plane, const uint8_t *row, uint32_t n, uint8_t *out);
