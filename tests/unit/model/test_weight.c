/* Every weight format's plain dequantisation against values from mlx and the gguf package: equal to
 * the bit (the sign of zero left aside). */
#include "engine/format/weight.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/format/tensor_file.h"
#include "engine/format/weight_bits.h"
#include "engine/format/weight_block.h"
#include "tests/unit/support/packed_file.h"

#define MAX_COLS 512

static struct tensor_file quant, ggml;

static bool open_packed(struct tensor_file *f, const char *name)
{
    char path[4096], at[4096];
    const char *root = getenv("srcdir"); /* set by automake's test driver */
    struct err e = {0};
    snprintf(path, sizeof path, "%s/tests/data/golden/quant/%s", root ? root : ".", name);
    const bool temporary = packed_file_place(path, at, sizeof at), ok = tensor_file_open(f, at, &e);
    if (temporary)
        unlink(at);
    if (!ok)
        fprintf(stderr, "%s\n", e.text);
    return ok;
}

static int open_files(void **state)
{
    return open_packed(&quant, "quant.safetensors") && open_packed(&ggml, "ggml.safetensors") ? 0
                                                                                              : -1;
}

static int close_files(void **state)
{
    tensor_file_close(&quant);
    tensor_file_close(&ggml);
    return 0;
}

static const struct tensor *get(const struct tensor_file *f, const char *stem, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", stem, part);
    const struct tensor *t = tensor_table_find(&f->tensors, name);
    if (!t)
        fail_msg("no tensor %s", name);
    return t;
}

static void expect_values(const struct weight *w, const struct tensor *want)
{
    float row[MAX_COLS];
    assert_true(w->cols <= MAX_COLS);
    for (int32_t r = 0; r < w->rows; r++) {
        weight_row_f32(w, 0, r, row);
        for (int32_t c = 0; c < w->cols; c++) {
            float v =
                f32_from_bits(load_u32(want->data + 4 * ((size_t)r * (size_t)w->cols + (size_t)c)));
            if (row[c] != v)
                fail_msg("%s row %d col %d: %.9g, want %.9g", want->name, r, c, (double)row[c],
                         (double)v);
        }
    }
}

static struct weight shaped(const struct tensor *want, enum weight_type type)
{
    return (struct weight){.type = type,
                           .n_matrix = 1,
                           .rows = (int32_t)want->dims[0],
                           .cols = (int32_t)want->dims[1],
                           .name = want->name};
}

static void check_affine(const char *stem, int bits, int group, enum scale_type scale_type)
{
    const struct tensor *want = get(&quant, stem, "f32");
    struct weight w = shaped(want, WEIGHT_AFFINE);
    w.bits = bits;
    w.group = group;
    w.scale_type = scale_type;
    const struct tensor *data = get(&quant, stem, "weight");
    w.data = data->data;
    w.scales = get(&quant, stem, "scales")->data;
    w.biases = get(&quant, stem, "biases")->data;
    w.row_bytes = weight_row_size(&w);
    w.scale_row_bytes = weight_scale_row_size(&w);
    assert_int_equal(w.row_bytes * (size_t)w.rows, data->bytes);
    assert_int_equal(weight_matrix_bytes(&w), data->bytes + 2 * get(&quant, stem, "scales")->bytes);
    expect_values(&w, want);
}

static void test_affine_equals_mlx(void **state)
{
    static const int bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    char stem[64];
    for (int b = 0; b < 6; b++)
        for (int g = 0; g < 3; g++) {
            snprintf(stem, sizeof stem, "mlx.affine.b%d.g%d", bits[b], groups[g]);
            check_affine(stem, bits[b], groups[g], SCALE_BF16);
        }
    check_affine("mlx.affine.b3.g32.f16", 3, 32, SCALE_F16);
    check_affine("mlx.affine.b3.g32.f32", 3, 32, SCALE_F32);
    check_affine("mlx.affine.b4.g64.f16", 4, 64, SCALE_F16);
    check_affine("mlx.affine.b4.g64.f32", 4, 64, SCALE_F32);
}

static void check_mxfp4(const struct tensor *data, const struct tensor *scales,
                        const struct tensor *want)
{
    struct weight w = shaped(want, WEIGHT_MXFP4);
    w.group = 32;
    w.scale_type = SCALE_E8M0;
    w.data = data->data;
    w.scales = scales->data;
    w.row_bytes = weight_row_size(&w);
    w.scale_row_bytes = weight_scale_row_size(&w);
    assert_int_equal(weight_matrix_bytes(&w), data->bytes + scales->bytes);
    expect_values(&w, want);
}

static void test_mxfp4_equals_mlx(void **state)
{
    check_mxfp4(get(&quant, "mlx.mxfp4.g32", "weight"), get(&quant, "mlx.mxfp4.g32", "scales"),
                get(&quant, "mlx.mxfp4.g32", "f32"));
}

static void test_mxfp4_takes_extreme_exponents(void **state)
{
    check_mxfp4(get(&quant, "mxfp4.codes", "hf_blocks"), get(&quant, "mxfp4.codes", "hf_scales"),
                get(&quant, "mxfp4.codes", "hf_f32"));
    assert_true(isnan(e8m0_to_f32(255)));
}

static void check_block(const struct tensor_file *f, const char *name, enum weight_type type)
{
    char stem[32];
    snprintf(stem, sizeof stem, "gguf.%s", name);
    const struct tensor *want = get(f, stem, "f32"), *data = get(f, stem, "bytes");
    struct weight w = shaped(want, type);
    w.data = data->data;
    w.row_bytes = weight_row_size(&w);
    assert_int_equal(weight_matrix_bytes(&w), data->bytes);
    expect_values(&w, want);
}

static void test_block_formats_equal_gguf(void **state)
{
    check_block(&quant, "Q8_0", WEIGHT_Q8_0);
    check_block(&quant, "Q4_0", WEIGHT_Q4_0);
    check_block(&quant, "Q4_K", WEIGHT_Q4_K);
    check_block(&quant, "Q5_K", WEIGHT_Q5_K);
    check_block(&quant, "Q6_K", WEIGHT_Q6_K);
    check_block(&quant, "MXFP4", WEIGHT_MXFP4_BLOCK);
    check_block(&quant, "BF16", WEIGHT_BF16);
    check_block(&quant, "F16", WEIGHT_F16);
    check_block(&ggml, "Q4_1", WEIGHT_Q4_1);
    check_block(&ggml, "Q5_0", WEIGHT_Q5_0);
    check_block(&ggml, "Q5_1", WEIGHT_Q5_1);
    check_block(&ggml, "Q2_K", WEIGHT_Q2_K);
    check_block(&ggml, "Q3_K", WEIGHT_Q3_K);
    check_block(&ggml, "IQ4_NL", WEIGHT_IQ4_NL);
    check_block(&ggml, "IQ4_XS", WEIGHT_IQ4_XS);
}

static void test_planes_step_by_strides_or_table(void **state)
{
    static const uint8_t bytes[64], scales[16];
    struct weight w = {.type = WEIGHT_MXFP4,
                       .group = 32,
                       .n_matrix = 2,
                       .rows = 2,
                       .cols = 32,
                       .data = bytes,
                       .scales = scales,
                       .row_bytes = 16,
                       .matrix_bytes = 32,
                       .scale_row_bytes = 1,
                       .scale_matrix_bytes = 2};
    struct weight_planes p = weight_planes(&w, 1);
    assert_ptr_equal(p.data, bytes + 32);
    assert_ptr_equal(p.scales, scales + 2);
    assert_null(p.biases);
    struct weight_planes table[2] = {{bytes + 7, scales, NULL}, {bytes + 3, scales + 9, NULL}};
    w.table = table;
    assert_ptr_equal(weight_planes(&w, 1).data, bytes + 3);
    assert_ptr_equal(weight_planes(&w, 1).scales, scales + 9);
}

static void test_f16_converts_every_value(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        int exponent = (int)(h >> 10 & 31);
        double mantissa = h & 1023,
               v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        float got = f16_to_f32((uint16_t)h);
        if (exponent == 31)
            assert_true(h & 1023 ? isnan(got) : isinf(got));
        else
            assert_true((double)got == (h & 0x8000 ? -v : v));
    }
}

static void test_type_text_says_bits_and_group(void **state)
{
    char buf[32];
    struct weight w = {.type = WEIGHT_AFFINE, .bits = 5, .group = 128};
    assert_string_equal(weight_type_text(&w, buf, sizeof buf), "affine 5-bit g128");
    w.type = WEIGHT_IQ4_XS;
    assert_string_equal(weight_type_text(&w, buf, sizeof buf), "iq4_xs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affine_equals_mlx),
        cmocka_unit_test(test_mxfp4_equals_mlx),
        cmocka_unit_test(test_mxfp4_takes_extreme_exponents),
        cmocka_unit_test(test_block_formats_equal_gguf),
        cmocka_unit_test(test_planes_step_by_strides_or_table),
        cmocka_unit_test(test_f16_converts_every_value),
        cmocka_unit_test(test_type_text_says_bits_and_group),
    };
    return cmocka_run_group_tests(tests, open_files, close_files);
}
