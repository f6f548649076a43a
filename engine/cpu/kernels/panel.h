/* Activations as the matrix kernels read them: blocks of 32 columns, block-major, so that one block
 * of all rows is one contiguous run. A panel holds one or more forms of the same rows; `kinds` says
 * which.
 *
 * The 16-bit form keeps, per row and block, a scale = max|x| / PANEL_TOP and the rounded quotients:
 * 2^-16 of the block's largest value is lost, far below what bf16 would lose, and products with
 * packed weights stay exact in 32-bit integers. Its columns are permuted within a block to the
 * order in which unpacking a 4-bit or an 8-bit weight yields pairs. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PANEL_BLOCK 32                                   /* columns */
#define PANEL_SPAN 4                                     /* blocks */
#define PANEL_SPAN_HALVES (PANEL_SPAN * PANEL_BLOCK * 2) /* bytes of one row's span in halves */
#define PANEL_TOP                                                                                  \
    32639 /* 127 * 257: the largest quotient, so that both its bytes are signed ones */

enum panel_kind {
    PANEL_F32 = 1,    /* values as they are */
    PANEL_NIBBLE = 2, /* int16, pairs (i, i + 4) of each 8 columns */
    PANEL_BYTE = 4,   /* int16, pairs (i, i + 2) of each 4 columns */
    PANEL_HALVES = 8, /* beside an int16 form: its bytes, for products with one row */
    /* int16 in the same pairs, of eight blocks (an octet) at a time, a block in each lane */
    PANEL_NIBBLE_OCTETS = 16,
    PANEL_BYTE_OCTETS = 32,
    PANEL_K_OCTETS = 64, /* pairs of the byte order, laid out for Q4_K and Q5_K */
};

/* An octet of one row: sixteen vectors of pairs, pair i of each block in vector i; then of each
 * block the scale, scale times the sum of the quotients, and the sum itself as int32. Missing
 * blocks are zeros. PANEL_K_OCTETS: lane c of vector i has pair i of block 2c (c < 4) or pair 8 + i
 * of block 2 (c - 4); the blocks after those are in vector 8 + i; and even blocks' scales and sums
 * come first. */
#define PANEL_OCTET_SCALE 512
#define PANEL_OCTET_SUM 544
#define PANEL_OCTET_TOTAL 576
#define PANEL_OCTET_BYTES 640

struct panel {
    int32_t rows; /* stride between blocks, in rows */
    int32_t cols;
    int32_t blocks;  /* cols / 32, rounded up; missing columns are zeros */
    unsigned kinds;  /* forms that pack writes */
    float *f32;      /* [blocks, rows, 32] */
    int16_t *nibble; /* [blocks, rows, 32] */
    int16_t *byte;   /* [blocks, rows, 32] */
    float *scale;    /* [blocks, rows] of the int16 forms */
    float *sum; /* [blocks, rows, 2]: scale times the sum of the quotients of each half block */
    /* The quotients as two signed bytes, 256 high + low, by spans of PANEL_SPAN blocks; NULL where
     * there are none. The last span's missing blocks hold anything. Written by the kernels that
     * read them. */
    int8_t *nibble_halves; /* [spans, rows, low and high, even and odd columns, PANEL_SPAN, 16] */
    int8_t *byte_halves;   /* [spans, rows, low and high, PANEL_SPAN, 32] */
    uint8_t *nibble_octets, *byte_octets, *k_octets; /* [rows, panel_octet_row()] */
    int32_t *total; /* [spans, rows, PANEL_SPAN] sum of a block's quotients */
};

static inline int32_t panel_blocks(int32_t cols)
{
    return (cols + PANEL_BLOCK - 1) / PANEL_BLOCK;
}

/* Bytes of one row's octets. An odd number of cache lines: so the same octet of many rows does not
 * come to lie in a few sets of the first cache. */
static inline size_t panel_octet_row(int32_t blocks)
{
    return (size_t)((blocks + 7) / 8) * PANEL_OCTET_BYTES + 64;
}

/* Bytes for `rows` rows of `cols` columns in the given forms, 64 per part rounded up. */
size_t panel_bytes(int32_t rows, int32_t cols, unsigned kinds);
/* Points the parts into `memory` (64-byte aligned, panel_bytes long). */
void panel_place(struct panel *p, int32_t rows, int32_t cols, unsigned kinds, void *memory);
