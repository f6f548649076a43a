/* cpu_weights.h: random weights of every format for the cpu tests. */
#include "cpu_weights.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/format/weight_bits.h"
#include "engine/format/weight_block.h"
#include "tests/unit/support/guarded.h"

const struct weight_form weight_forms[] = {
    {"f32", WEIGHT_F32, 0, 0, 0, 1},
    {"f16", WEIGHT_F16, 0, 0, 0, 1},
    {"bf16", WEIGHT_BF16, 0, 0, 0, 1},
    {"mxfp4", WEIGHT_MXFP4, 0, 32, SCALE_E8M0, 32},
    {"affine2 g32", WEIGHT_AFFINE, 2, 32, SCALE_BF16, 32},
    {"affine3 g32 f32", WEIGHT_AFFINE, 3, 32, SCALE_F32, 32},
    {"affine4 g32", WEIGHT_AFFINE, 4, 32, SCALE_BF16, 32},
    {"affine4 g64 f16", WEIGHT_AFFINE, 4, 64, SCALE_F16, 64},
    {"affine4 g128 f32", WEIGHT_AFFINE, 4, 128, SCALE_F32, 128},
    {"affine5 g64", WEIGHT_AFFINE, 5, 64, SCALE_BF16, 64},
    {"affine6 g64", WEIGHT_AFFINE, 6, 64, SCALE_BF16, 64},
    {"affine8 g32", WEIGHT_AFFINE, 8, 32, SCALE_F16, 32},
    {"affine8 g64", WEIGHT_AFFINE, 8, 64, SCALE_BF16, 64},
    {"affine8 g128 f32", WEIGHT_AFFINE, 8, 128, SCALE_F32, 128},
    {"q8_0", WEIGHT_Q8_0, 0, 0, 0, 32},
    {"q4_0", WEIGHT_Q4_0, 0, 0, 0, 32},
    {"q4_1", WEIGHT_Q4_1, 0, 0, 0, 32},
    {"q5_0", WEIGHT_Q5_0, 0, 0, 0, 32},
    {"q5_1", WEIGHT_Q5_1, 0, 0, 0, 32},
    {"iq4_nl", WEIGHT_IQ4_NL, 0, 0, 0, 32},
    {"mxfp4 block", WEIGHT_MXFP4_BLOCK, 0, 0, 0, 32},
    {"q2_k", WEIGHT_Q2_K, 0, 0, 0, 256},
    {"q3_k", WEIGHT_Q3_K, 0, 0, 0, 256},
    {"q4_k", WEIGHT_Q4_K, 0, 0, 0, 256},
    {"q5_k", WEIGHT_Q5_K, 0, 0, 0, 256},
    {"q6_k", WEIGHT_Q6_K, 0, 0, 0, 256},
    {"iq4_xs", WEIGHT_IQ4_XS, 0, 0, 0, 256},
};
const int n_weight_forms = sizeof weight_forms / sizeof *weight_forms;

const struct weight_form *weight_form_of(const char *name)
{
    for (int i = 0; i < n_weight_forms; i++)
        if (!strcmp(weight_forms[i].name, name))
            return &weight_forms[i];
    abort();
}

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

float random_unit(unsigned *state)
{
    return (float)next(state) / (float)(1 << 23) - 1;
}

static void put_scale(unsigned char *at, enum scale_type type, float v, unsigned *state)
{
    uint16_t half = (uint16_t)(0x2000 + next(state) % 0x1000); /* f16 in 2^-7 .. 2^-3 */
    uint16_t bf16 = f32_to_bf16(v);
    switch (type) {
    case SCALE_F32:
        memcpy(at, &v, 4);
        break;
    case SCALE_F16:
        memcpy(at, &half, 2);
        break;
    case SCALE_BF16:
        memcpy(at, &bf16, 2);
        break;
    case SCALE_E8M0:
        *at = (unsigned char)(120 + next(state) % 10);
        break;
    }
}

static void fill_scales(unsigned char *at, const struct weight *w, unsigned *state)
{
    size_t size = w->scale_type == SCALE_F32 ? 4 : w->scale_type == SCALE_E8M0 ? 1 : 2;
    for (size_t i = 0; i + size <= w->scale_matrix_bytes * (size_t)w->n_matrix; i += size)
        put_scale(at + i, w->scale_type, random_unit(state) / 16, state);
}

static void put_half(unsigned char *at, unsigned *state)
{
    put_scale(at, SCALE_F16, 0, state);
}

/* Random bytes are good codes; the scales among them must be numbers of a sane size. */
static void repair_blocks(const struct weight *w, unsigned char *row, unsigned *state)
{
    size_t size = weight_block_size(w->type);
    int n = w->cols / weight_block_cols(w->type);
    for (int i = 0; i < n; i++) {
        unsigned char *b = row + (size_t)i * size;
        switch (w->type) {
        case WEIGHT_MXFP4_BLOCK:
            b[0] = (unsigned char)(120 + next(state) % 10);
            break;
        case WEIGHT_Q2_K:
            put_half(b + 80, state);
            put_half(b + 82, state);
            break;
        case WEIGHT_Q3_K:
            put_half(b + 108, state);
            break;
        case WEIGHT_Q6_K:
            put_half(b + 208, state);
            break;
        case WEIGHT_Q4_1:
        case WEIGHT_Q5_1:
        case WEIGHT_Q4_K:
        case WEIGHT_Q5_K:
            put_half(b + 2, state); /* and: */ /* fall through */
        default:
            put_half(b, state);
        }
    }
}

static void fill_floats(const struct weight *w, unsigned char *row, unsigned *state)
{
    for (int i = 0; i < w->cols; i++) {
        float v = random_unit(state);
        if (w->type == WEIGHT_F32)
            memcpy(row + 4 * i, &v, 4);
        else
            put_scale(row + 2 * i, w->type == WEIGHT_F16 ? SCALE_F16 : SCALE_BF16, v, state);
    }
}

static unsigned char *place(size_t bytes, unsigned seed)
{
    return guarded_alloc(bytes + (seed % 2 && bytes % 2 == 0), 1);
}

void random_weight_init(struct random_weight *r, const struct weight_form *f, int n_matrix,
                        int rows, int cols, int gap, unsigned seed)
{
    struct weight *w = &r->w;
    unsigned state = seed * 7919 + 1;
    *w = (struct weight){.type = f->type,
                         .bits = f->bits,
                         .group = f->group,
                         .scale_type = f->scale,
                         .n_matrix = n_matrix,
                         .rows = rows,
                         .cols = cols,
                         .name = f->name};
    w->row_bytes = weight_row_size(w) + (size_t)gap;
    w->matrix_bytes = w->row_bytes * (size_t)rows;
    w->scale_row_bytes = weight_scale_row_size(w);
    w->scale_matrix_bytes = w->scale_row_bytes * (size_t)rows;
    /* A byte read past the end is a fault. With an odd seed they start at odd addresses, as they
     * may in a file, and end at the page or one byte before it. */
    size_t bytes = w->matrix_bytes * (size_t)n_matrix,
           scale_bytes = w->scale_matrix_bytes * (size_t)n_matrix;
    r->data = place(bytes, seed);
    r->scales = place(scale_bytes, seed);
    r->biases = place(scale_bytes, seed);
    for (size_t i = 0; i < bytes; i++)
        r->data[i] = (unsigned char)next(&state);
    for (int i = 0; i < rows * n_matrix; i++) {
        unsigned char *row = r->data + (size_t)i * w->row_bytes;
        if (f->type <= WEIGHT_BF16)
            fill_floats(w, row, &state);
        else if (f->type >= WEIGHT_Q8_0)
            repair_blocks(w, row, &state);
    }
    fill_scales(r->scales, w, &state);
    fill_scales(r->biases, w, &state);
    w->data = r->data;
    w->scales = f->group ? r->scales : NULL;
    w->biases = f->type == WEIGHT_AFFINE ? r->biases : NULL;
}

void random_weight_fini(struct random_weight *r)
{
    guarded_free(r->data);
    guarded_free(r->scales);
    guarded_free(r->biases);
    memset(r, 0, sizeof *r);
}

static double steps(const float *row, const float *v, int cols, int together)
{
    double sum = 0;
    for (int b = 0; b < cols; b += together) {
        double top = 0, weights = 0;
        for (int c = b; c < cols && c < b + together; c++) {
            weights += fabs((double)row[c]);
            top = fmax(top, fabs((double)v[c]));
        }
        sum += weights * top;
    }
    return sum;
}

struct plain_product plain_product(const float *row, const float *v, int cols)
{
    struct plain_product p = {.steps = {steps(row, v, cols, 32), steps(row, v, cols, 256)}};
    for (int c = 0; c < cols; c++) {
        p.value += (double)row[c] * (double)v[c];
        p.sum += fabs((double)row[c] * (double)v[c]);
    }
    return p;
}
