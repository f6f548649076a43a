/* The safetensors reader refuses whatever a lying or damaged file may hold, and names the tensor.
 */
#include "engine/format/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/format/tensor_file.h"

struct file { /* header and data put together as the format wants */
    uint8_t *bytes;
    size_t size;
    struct arena *arena;
    struct tensor_table table;
    struct err e;
};

static bool read_bytes(struct file *f, const char *header, uint64_t claimed, size_t data)
{
    size_t n = strlen(header);
    *f = (struct file){.size = 8 + n + data, .arena = arena_create(0)};
    f->bytes = calloc(1, f->size); /* exactly sized: the sanitizer sees any read past it */
    for (int i = 0; i < 8; i++)
        f->bytes[i] = (uint8_t)(claimed >> (8 * i));
    memcpy(f->bytes + 8, header, n);
    tensor_table_init(&f->table, f->arena);
    return safetensors_read(&(struct safetensors_source){.data = f->bytes, .size = f->size},
                            &f->table, &f->e);
}

static bool read_header(struct file *f, const char *header, size_t data)
{
    return read_bytes(f, header, strlen(header), data);
}

static void done(struct file *f)
{
    tensor_table_fini(&f->table);
    arena_destroy(&f->arena);
    free(f->bytes);
}

static void expect_refusal(const char *header, size_t data, const char *says)
{
    struct file f;
    assert_false(read_header(&f, header, data));
    if (f.e.code != ERR_FORMAT || !strstr(f.e.text, says))
        fail_msg("%s: '%s' (%s), want '%s'", header, f.e.text, err_code_name(f.e.code), says);
    done(&f);
}

static void test_tensors_are_found_by_name(void **state)
{
    struct file f;
    assert_true(read_header(&f,
                            "{\"__metadata__\":{\"format\":\"mlx\"},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ",
                            16));
    assert_int_equal(f.table.n, 2);
    const struct tensor *b = tensor_table_find(&f.table, "b");
    assert_non_null(b);
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[1], 3);
    assert_int_equal(b->bytes, 12);
    assert_ptr_equal(b->data, f.bytes + f.size - 12);
    assert_null(tensor_table_find(&f.table, "__metadata__"));
    done(&f);
}

static void test_empty_tensors_are_allowed(void **state)
{
    struct file f;
    assert_true(
        read_header(&f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}}", 0));
    done(&f);
}

static void test_short_files_are_refused(void **state)
{
    struct file f;
    struct tensor_table none = {0};
    struct err e = {0};
    const struct safetensors_source seven = {.data = (const uint8_t *)"1234567", .size = 7};
    assert_false(safetensors_read(&seven, &none, &e));
    assert_int_equal(e.code, ERR_FORMAT);
    assert_false(read_bytes(&f, "{}", 3, 0));
    assert_non_null(strstr(f.e.text, "cut short"));
    done(&f);
    assert_false(read_bytes(&f, "{}", UINT64_MAX, 0)); /* 8 + length must not wrap */
    assert_int_equal(f.e.code, ERR_FORMAT);
    done(&f);
    assert_false(read_bytes(&f, "{}", UINT64_C(1) << 63, 0));
    done(&f);
}

static void test_damaged_headers_are_refused(void **state)
{
    expect_refusal("{\"a\":", 0, "header");
    expect_refusal("[]", 0, "not an object");
    expect_refusal("{} x", 0, "header");
    expect_refusal("{\"a\":7}", 0, "not a tensor");
    expect_refusal("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype");
    expect_refusal("{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                   "unknown dtype");
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape");
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
                   "whole number");
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4,
                   "whole number");
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
                   "data_offsets");
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
                   "data_offsets");
    expect_refusal(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
        "dimensions");
}

static void test_sizes_must_agree(void **state)
{
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8,
                   "shape and type want 8");
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
                   "cut short");
    expect_refusal(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 8,
        "larger than any file");
    expect_refusal(
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[9007199254740992,1024],\"data_offsets\":[0,0]}}", 8,
        "larger than any file");
}

static void test_overlaps_are_refused(void **state)
{
    expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                   "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                   8, "overlap");
}

static void test_duplicate_names_are_refused(void **state)
{
    expect_refusal("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                   2, "");
}

static void test_every_truncation_is_refused(void **state)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}";
    size_t whole = 8 + sizeof header - 1 + 12;
    for (size_t n = 0; n < whole; n++) {
        uint8_t *bytes = malloc(n ? n : 1), full[128] = {0};
        struct arena *arena = arena_create(0);
        struct tensor_table t;
        struct err e = {0};
        full[0] = sizeof header - 1;
        memcpy(full + 8, header, sizeof header - 1);
        memcpy(bytes, full, n);
        tensor_table_init(&t, arena);
        assert_false(
            safetensors_read(&(struct safetensors_source){.data = bytes, .size = n}, &t, &e));
        assert_int_equal(e.code, ERR_FORMAT);
        tensor_table_fini(&t);
        arena_destroy(&arena);
        free(bytes);
    }
}

static void test_what_is_written_is_read_back(void **state)
{
    char dir[] = "/tmp/sluice-test-XXXXXX", path[64];
    struct err e = {0};
    struct tensor_writer w;
    struct tensor_file f;
    float values[6] = {1, 2, 3, 4, 5, 6};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    struct tensor_entry entries[2] = {{"one \"quoted\"", "F32", 2, {2, 3}}, {"two", "U8", 1, {3}}};
    struct tensor_list list = {.entries = entries, .n = 2, .about = "a test"};
    assert_true(tensor_writer_begin(&w, path, &list, &e));
    assert_int_equal(access(path, F_OK), -1); /* no name before it is whole */
    assert_true(tensor_writer_put(&w, values, sizeof values, &e));
    assert_true(tensor_writer_put(&w, "abc", 3, &e));
    assert_true(tensor_writer_end(&w, &e));
    assert_true(tensor_file_open(&f, path, &e));
    const struct tensor *t = tensor_file_get(&f, "one \"quoted\"", "F32", &e);
    assert_non_null(t);
    assert_memory_equal(t->data, values, sizeof values);
    assert_null(tensor_file_get(&f, "two", "F32", &e));
    assert_memory_equal(tensor_file_get(&f, "two", "U8", &e)->data, "abc", 3);
    tensor_file_close(&f);
    list.about = NULL;
    assert_true(tensor_writer_begin(&w, path, &list, &e));
    assert_false(tensor_writer_end(&w, &e));     /* promised more than was put */
    assert_true(tensor_file_open(&f, path, &e)); /* and the old file is still there */
    tensor_file_close(&f);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_found_by_name),
        cmocka_unit_test(test_empty_tensors_are_allowed),
        cmocka_unit_test(test_short_files_are_refused),
        cmocka_unit_test(test_damaged_headers_are_refused),
        cmocka_unit_test(test_sizes_must_agree),
        cmocka_unit_test(test_overlaps_are_refused),
        cmocka_unit_test(test_duplicate_names_are_refused),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_what_is_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
