/* A weight matrix as it lies in the mapped file, still packed. One view serves every format:
 * kernels get pointers, strides and a type; nothing is expanded, and copied only where
 * model_stats.copied_bytes says so, or where `interleaved` does.
 *
 * y = W x with W [rows, cols]; a stack of experts is [n_matrix, rows, cols]. Kernels take the
 * address of a matrix from weight_planes() and step by row_bytes and scale_row_bytes: neither
 * matrices nor rows need be adjacent (fused gate_up halves, gpt-oss's interleaved gate and up, one
 * tensor per expert), and no address need be aligned, not even to 2 bytes (mlx pads nothing): load
 * by memcpy or unaligned vector loads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weight_type {
    WEIGHT_NONE, /* absent */
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    /* MLX affine: q unsigned, `bits` wide, packed LSB first in 32-bit words along a row (a row is
     * one bit stream); w = scale[g] * q + bias[g] per group of `group` columns. */
    WEIGHT_AFFINE,
    /* MXFP4 (OCP microscaling), split planes: data = codes, low nibble first, 16 bytes per 32
     * columns; scales = one E8M0 byte per 32 columns; w = FP4(code) * 2^(scale - 127). MLX mxfp4
     * and gpt-oss. */
    WEIGHT_MXFP4,
    /* GGUF block formats: data = blocks as llama.cpp's ggml-common.h lays them out; no planes. */
    WEIGHT_Q8_0,
    WEIGHT_Q4_0,
    WEIGHT_Q4_1,
    WEIGHT_Q5_0,
    WEIGHT_Q5_1,
    WEIGHT_Q2_K,
    WEIGHT_Q3_K,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    WEIGHT_IQ4_NL,
    WEIGHT_IQ4_XS,
    WEIGHT_MXFP4_BLOCK, /* GGUF MXFP4: scale byte, then 16 bytes: byte b holds values b and b+16 */
    WEIGHT__N
};

enum scale_type { SCALE_BF16, SCALE_F16, SCALE_F32, SCALE_E8M0 };

struct weight_planes { /* one matrix's addresses; scales and biases NULL where the format has none
                        */
    const uint8_t *data, *scales, *biases;
};

struct weight {
    enum weight_type type;
    int bits, group;            /* AFFINE */
    enum scale_type scale_type; /* AFFINE, MXFP4: type of scales (and biases) */
    int32_t n_matrix;           /* experts in the stack; 1 for a plain matrix */
    int32_t rows, cols;
    const void *data;                           /* packed values of matrix 0 */
    const void *scales;                         /* AFFINE, MXFP4 */
    const void *biases;                         /* AFFINE: the group biases */
    size_t row_bytes, matrix_bytes;             /* strides in data: at least the packed size */
    size_t scale_row_bytes, scale_matrix_bytes; /* strides in scales and biases */
    const struct weight_planes *table; /* [n_matrix] where each matrix lies elsewhere (one tensor
                                          per expert); else NULL; owned by the model */
    bool interleaved; /* rows lie sixteen side by side (engine/cpu/interleave/interleave.h), which
                         nothing but the kernels that ask for it reads: no row has an address */
    const char *name; /* the tensor's name in the file, for messages; owned by the model */
};

/* Where one matrix lies. */
static inline struct weight_planes weight_planes(const struct weight *w, int32_t matrix)
{
    if (w->table)
        return w->table[matrix];
    size_t at = (size_t)matrix * w->matrix_bytes, scale_at = (size_t)matrix * w->scale_matrix_bytes;
    return (struct weight_planes){
        .data = (const uint8_t *)w->data + at,
        .scales = w->scales ? (const uint8_t *)w->scales + scale_at : NULL,
        .biases = w->biases ? (const uint8_t *)w->biases + scale_at : NULL};
}

/* Packed bytes of one row in data, and in scales (or biases) alone: without the gaps that strides
 * may leave. */
size_t weight_row_size(const struct weight *w);
size_t weight_scale_row_size(const struct weight *w);
/* Bytes of one matrix, all planes: what a step must read to use it (no gaps counted). */
size_t weight_matrix_bytes(const struct weight *w);
/* "mxfp4", "affine 8-bit g64", "q4_k": for people. Static or in buf. */
const char *weight_type_text(const struct weight *w, char *buf, size_t size);
/* The specification of each format: one row of one matrix to f32 [cols]. Slow and plain; used by
 * tests, by reference kernels and for small things such as norms. */
void weight_row_f32(const struct weight *w, int32_t matrix, int32_t row, float *out);
