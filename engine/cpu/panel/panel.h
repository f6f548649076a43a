/* Activations as the matrix kernels read them: blocks of 32 columns, block-major, so that one block
 * of all rows is one contiguous run. A panel holds one or more forms of the same rows; `kinds` says
 * which.
 *
 * The 16-bit form keeps, per row and block, a scale = max|x| / PANEL_TOP and the rounded quotients:
 * 2^-16 of the block's largest value is lost, far below what bf16 would lose, and products with
 * packed weights stay exact in 32-bit integers. Its columns are permuted within a block to the
 * order in which unpacking a 4-bit or an 8-bit weight yields pairs.
 *
 * PANEL_ONE_BYTE: the same forms, of quotients up to PANEL_TOP_BYTE; PANEL_K_OCTETS then
 * have one scale for 256 columns (super_formats.h, vnni_super.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PANEL_BLOCK 32                                   /* columns */
#define PANEL_SPAN 4                                     /* blocks */
#define PANEL_SPAN_HALVES (PANEL_SPAN * PANEL_BLOCK * 2) /* bytes of one row's span in halves */
#define PANEL_TOP                                                                                  \
    32639 /* 127 * 257: the largest quotient, so that both its bytes are signed ones */
#define PANEL_TOP_BYTE 127 /* the largest of PANEL_ONE_BYTE: high bytes are zeros */

enum panel_kind {
    PANEL_F32 = 1,    /* values as they are */
    PANEL_NIBBLE = 2, /* int16, pairs (i, i + 4) of each 8 columns */
    PANEL_BYTE = 4,   /* int16, pairs (i, i + 2) of each 4 columns */
    /* Beside an int16 form: its bytes, for products with few rows. */
    PANEL_NIBBLE_HALVES = 8,
    PANEL_BYTE_HALVES = 512,
    /* Of eight blocks (an octet) at a time, a block in each lane. */
    PANEL_BYTE_OCTETS = 16,   /* int16 alone, in the pairs of PANEL_PLANE_OCTETS */
    PANEL_PLANE_OCTETS = 32,  /* columns in order */
    PANEL_NIBBLE_OCTETS = 64, /* even and odd columns of each eight apart */
    PANEL_K_OCTETS = 128,     /* as Q4_K, Q5_K and Q6_K have their columns */
    PANEL_OCTET_PLANES = 256, /* octets hold two planes of bytes, which few rows at a time are
                                 faster with, instead of int16 */
    PANEL_ONE_BYTE = 1024,    /* quotients of 8 bits, in whatever form */
};

/* Forms that only products with few rows read. */
#define PANEL_FEW_FORMS (PANEL_NIBBLE_HALVES | PANEL_BYTE_HALVES | PANEL_OCTET_PLANES)

/* An octet of one row, in one of two forms of the same quotients, 256 high + low, both signed
 * bytes. Planes: eight vectors of high bytes, of four columns in each lane, then eight of low ones.
 * int16: sixteen vectors, 2i and 2i + 1 with the pairs of first and third and of second and fourth
 * column in the lanes of vector i of a plane. Then follows what is said of each block below.
 * Missing blocks are zeros.
 *
 * PANEL_K_OCTETS: lane c of a plane's vector i has columns 4i to 4i + 3 of block 2c (c < 4) or
 * columns 16 + 4i to 19 + 4i of block 2 (c - 4); the blocks after those are in vector 4 + i; and
 * even blocks' scales and sums come first. */
#define PANEL_OCTET_LOW 256 /* the low bytes */
#define PANEL_OCTET_SCALE 512
#define PANEL_OCTET_SUM 544 /* scale times the sum of the quotients; K: its negative */
#define PANEL_OCTET_LESS_127                                                                       \
    576 /* int32, of PANEL_BYTE_OCTETS: the sum of the quotients times -127; */
#define PANEL_OCTET_LESS_128 0  /* of planes of one byte, in place of the high ones: times -128 */
#define PANEL_OCTET_LESS_8 576  /* of the others: times -8, */
#define PANEL_OCTET_LESS_12 608 /* and times -12 */
#define PANEL_OCTET_LESS_32 576 /* K: of half blocks times -32, in two vectors as the lanes are */
/* Super-blocks (PANEL_K_OCTETS of one byte) have these instead, and one scale: */
#define PANEL_SUPER_HALF_SUMS 0 /* int16 [16]: of half blocks, in order */
#define PANEL_SUPER_LESS 64 /* int32: of half blocks times -32, in two vectors as the lanes are */
#define PANEL_SUPER_SCALES 128 /* of this super-block and the next three, in every fourth one */
#define PANEL_SUPER_FOUR 4     /* so many */
#define PANEL_SUPER_SUMS 528   /* int16 [8]: of blocks, in order */
/* -32 times what each int16 of half a block's products with Q6_K adds up, in two vectors as the
 * planes' lanes are: those sums begin with it. Then they fit all the way: each of the eight
 * products counts as one with -32, and once it is added, as one with at most 31. */
#define PANEL_SUPER_LESS_32 544
#define PANEL_OCTET_BYTES 640
/* Behind a row's octets the same bytes again, in the order of the columns: so many of each octet.
 * PANEL_BYTE_OCTETS and PANEL_PLANE_OCTETS of one byte have them; the others leave the room empty.
 */
#define PANEL_OCTET_COLUMNS 256

struct panel {
    int32_t rows; /* stride between blocks, in rows */
    int32_t cols;
    int32_t blocks;  /* cols / 32, rounded up; missing columns are zeros */
    unsigned kinds;  /* forms that pack writes */
    float *f32;      /* [blocks, rows, 32] */
    int16_t *nibble; /* [blocks, rows, 32] */
    int16_t *byte;   /* [blocks, rows, 32] */
    float *scale;    /* [blocks, rows] of the forms above and of halves */
    float *sum; /* [blocks, rows, 2]: scale times the sum of the quotients of each half block */
    /* The quotients as two signed bytes, 256 high + low, by spans of PANEL_SPAN blocks. The last
     * span's missing blocks hold anything. Written by the kernels that read them. */
    int8_t *nibble_halves; /* [spans, rows, low and high, even and odd columns, PANEL_SPAN, 16] */
    int8_t *byte_halves;   /* [spans, rows, low and high, PANEL_SPAN, 32] */
    uint8_t *byte_octets, *plane_octets, *nibble_octets, *k_octets; /* [rows, panel_octet_row()] */
    int32_t *total; /* [spans, rows, 2, PANEL_SPAN] sums of quotients: of blocks, of first halves */
};

static inline int32_t panel_blocks(int32_t cols)
{
    return (cols + PANEL_BLOCK - 1) / PANEL_BLOCK;
}

/* Bytes of one row's octets. An odd number of cache lines: so the same octet of many rows does not
 * come to lie in a few sets of the first cache. */
static inline size_t panel_octet_row(int32_t blocks)
{
    return (size_t)((blocks + 7) / 8) * (PANEL_OCTET_BYTES + PANEL_OCTET_COLUMNS) + 64;
}

/* Where the bytes in order begin after a row's first octet. */
static inline size_t panel_octet_columns(int32_t blocks)
{
    return (size_t)((blocks + 7) / 8) * PANEL_OCTET_BYTES;
}

/* Bytes for `rows` rows of `cols` columns in the given forms, 64 per part rounded up. */
size_t panel_bytes(int32_t rows, int32_t cols, unsigned kinds);
/* Points the parts into `memory` (64-byte aligned, panel_bytes long). */
void panel_place(struct panel *p, int32_t rows, int32_t cols, unsigned kinds, void *memory);
