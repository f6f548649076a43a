/* Sizes, names and the plain dequantisation of every weight format: the specification that fast
 * kernels are tested against. The block formats of GGUF are in weight_block.c. */
#include "engine/format/weight.h"

#include <assert.h>
#include <stdio.h>

#include "engine/format/weight_bits.h"
#include "engine/format/weight_block.h"

static size_t scale_size(enum scale_type t)
{
    return t == SCALE_F32 ? 4 : t == SCALE_E8M0 ? 1 : 2;
}

size_t weight_row_size(const struct weight *w)
{
    size_t cols = (size_t)w->cols;
    switch (w->type) {
    case WEIGHT_NONE:
        return 0;
    case WEIGHT_F32:
        return cols * 4;
    case WEIGHT_F16:
    case WEIGHT_BF16:
        return cols * 2;
    case WEIGHT_AFFINE:
        return cols * (size_t)w->bits / 8;
    case WEIGHT_MXFP4:
        return cols / 2;
    default:
        return cols / (size_t)weight_block_cols(w->type) * weight_block_size(w->type);
    }
}

size_t weight_scale_row_size(const struct weight *w)
{
    if (w->type != WEIGHT_AFFINE && w->type != WEIGHT_MXFP4)
        return 0;
    return (size_t)(w->cols / w->group) * scale_size(w->scale_type);
}

size_t weight_matrix_bytes(const struct weight *w)
{
    size_t planes = w->type == WEIGHT_AFFINE ? 2 : 1;
    return (size_t)w->rows * (weight_row_size(w) + planes * weight_scale_row_size(w));
}

const char *weight_type_text(const struct weight *w, char *buf, size_t size)
{
    static const char *const names[WEIGHT__N] = {
        "none", "f32",  "f16",  "bf16", "affine", "mxfp4", "q8_0",   "q4_0",   "q4_1", "q5_0",
        "q5_1", "q2_k", "q3_k", "q4_k", "q5_k",   "q6_k",  "iq4_nl", "iq4_xs", "mxfp4"};
    if (w->type != WEIGHT_AFFINE)
        return names[w->type];
    snprintf(buf, size, "affine %d-bit g%d", w->bits, w->group);
    return buf;
}

static float scale_at(const uint8_t *p, enum scale_type type, int32_t i)
{
    switch (type) {
    case SCALE_F32:
        return f32_from_bits(load_u32(p + 4 * (size_t)i));
    case SCALE_F16:
        return f16_to_f32(load_u16(p + 2 * (size_t)i));
    case SCALE_BF16:
        return bf16_to_f32(load_u16(p + 2 * (size_t)i));
    case SCALE_E8M0:
        return e8m0_to_f32(p[i]);
    }
    return 0;
}

/* Value i of a row that is one stream of `bits`-wide numbers, least significant bit first. It
 * touches only the bytes that hold it, so the last value of a mapped file is safe. */
static unsigned code_at(const uint8_t *row, int bits, int32_t i)
{
    size_t bit = (size_t)i * (size_t)bits, byte = bit / 8;
    unsigned shift = (unsigned)(bit % 8), v = row[byte];
    if (shift + (unsigned)bits > 8)
        v |= (unsigned)row[byte + 1] << 8;
    return v >> shift & ((1u << bits) - 1);
}

static void row_affine(const struct weight *w, const uint8_t *row, const uint8_t *scales,
                       const uint8_t *biases, float *out)
{
    for (int32_t i = 0; i < w->cols; i++) {
        int32_t g = i / w->group;
        float product = scale_at(scales, w->scale_type, g) * (float)code_at(row, w->bits, i);
        out[i] = product + scale_at(biases, w->scale_type, g);
    }
}

void weight_row_f32(const struct weight *w, int32_t matrix, int32_t row, float *out)
{
    assert(matrix >= 0 && matrix < w->n_matrix && row >= 0 && row < w->rows);
    struct weight_planes p = weight_planes(w, matrix);
    const uint8_t *data = p.data + (size_t)row * w->row_bytes;
    size_t scale_row = (size_t)row * w->scale_row_bytes;
    switch (w->type) {
    case WEIGHT_NONE:
        break;
    case WEIGHT_F32:
        memcpy(out, data, (size_t)w->cols * 4);
        break;
    case WEIGHT_F16:
        for (int32_t i = 0; i < w->cols; i++)
            out[i] = f16_to_f32(load_u16(data + 2 * (size_t)i));
        break;
    case WEIGHT_BF16:
        for (int32_t i = 0; i < w->cols; i++)
            out[i] = bf16_to_f32(load_u16(data + 2 * (size_t)i));
        break;
    case WEIGHT_AFFINE:
        row_affine(w, data, p.scales + scale_row, p.biases + scale_row, out);
        break;
    case WEIGHT_MXFP4:
        for (int32_t i = 0; i < w->cols; i++)
            out[i] =
                weight_fp4[code_at(data, 4, i)] * e8m0_to_f32(p.scales[scale_row + (size_t)i / 32]);
        break;
    default:
        weight_block_row_f32(w->type, data, w->cols, out);
    }
}
