/* The GGUF reader: values of every type, and refusal of whatever a lying or damaged file may hold.
 */
#include "engine/format/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/format/gguf_tensors.h"
#include "engine/model/model.h"
#include "engine/tokenizer/gguf_vocab.h"
#include "engine/tokenizer/vocab_source.h"

static void put(struct buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_putc(b, (char)(v >> (8 * i)));
}

static void put_string(struct buf *b, const char *s)
{
    put(b, strlen(s), 8);
    buf_puts(b, s);
}

static void head(struct buf *b, uint64_t n_tensors, uint64_t n_values)
{
    buf_puts(b, "GGUF");
    put(b, 3, 4);
    put(b, n_tensors, 8);
    put(b, n_values, 8);
}

static void put_number(struct buf *b, const char *key, enum gguf_type type, uint64_t bits,
                       int bytes)
{
    put_string(b, key);
    put(b, type, 4);
    put(b, bits, bytes);
}

static void put_tensor(struct buf *b, const char *name, uint64_t cols, uint64_t rows, uint32_t type,
                       uint64_t offset)
{
    put_string(b, name);
    put(b, 2, 4);
    put(b, cols, 8);
    put(b, rows, 8);
    put(b, type, 4);
    put(b, offset, 8);
}

static void pad(struct buf *b, size_t data)
{
    while (b->len % 32)
        buf_putc(b, 0);
    for (size_t i = 0; i < data; i++)
        buf_putc(b, 0);
}

/* Reads the bytes from memory of exactly their size. */
static bool read_exact(const struct buf *b, size_t n, struct gguf *g, uint8_t **copy, struct err *e)
{
    *copy = malloc(n ? n : 1);
    memcpy(*copy, b->data, n);
    return gguf_read(g, *copy, n, e);
}

static bool add_tensors(const struct gguf *g, struct err *e)
{
    struct arena *arena = arena_create(0);
    struct tensor_table t;
    tensor_table_init(&t, arena);
    bool ok = gguf_add_tensors(g, 0, &t, e);
    tensor_table_fini(&t);
    arena_destroy(&arena);
    return ok;
}

static struct buf sample(void)
{
    struct buf b = {0};
    head(&b, 1, 6);
    put_number(&b, "u8", GGUF_U8, 200, 1);
    put_number(&b, "i16", GGUF_I16, 0xfffe, 2);
    put_number(&b, "f32", GGUF_F32, 0x3fc00000, 4);
    put_number(&b, "yes", GGUF_BOOL, 1, 1);
    put_string(&b, "text");
    put(&b, GGUF_STRING, 4);
    put_string(&b, "hello");
    put_string(&b, "list");
    put(&b, GGUF_ARRAY, 4);
    put(&b, GGUF_STRING, 4);
    put(&b, 2, 8);
    put_string(&b, "a");
    put_string(&b, "bc");
    put_tensor(&b, "w", 32, 2, 8 /* Q8_0 */, 0);
    pad(&b, 68);
    return b;
}

static void test_values_of_all_kinds_are_read(void **state)
{
    struct buf b = sample();
    struct gguf g;
    uint8_t *copy;
    struct err e = {0};
    double v;
    struct gguf_string s;
    const uint8_t *at = NULL;
    assert_true(read_exact(&b, b.len, &g, &copy, &e));
    assert_true(gguf_number(&g, "u8", &v) && v == 200);
    assert_true(gguf_number(&g, "i16", &v) && v == -2);
    assert_true(gguf_number(&g, "f32", &v) && v == 1.5);
    assert_true(gguf_number(&g, "yes", &v) && v == 1);
    assert_false(gguf_number(&g, "text", &v));
    assert_false(gguf_number(&g, "none", &v));
    assert_true(gguf_get_string(&g, "text", &s) && s.len == 5 && !memcmp(s.at, "hello", 5));
    const struct gguf_value *list = gguf_find(&g, "list");
    assert_true(list && list->n == 2);
    assert_true(gguf_next_string(list, &at).len == 1 && gguf_next_string(list, &at).len == 2);
    assert_true(add_tensors(&g, &e));
    gguf_fini(&g);
    free(copy);
    buf_fini(&b);
}

static void test_every_truncation_is_refused(void **state)
{
    struct buf b = sample();
    for (size_t n = 0; n < b.len; n++) {
        struct gguf g;
        uint8_t *copy;
        struct err e = {0};
        bool ok = read_exact(&b, n, &g, &copy, &e) && add_tensors(&g, &e);
        assert_false(ok);
        assert_int_equal(e.code, ERR_FORMAT);
        gguf_fini(&g);
        free(copy);
    }
    buf_fini(&b);
}

static void expect_refusal(struct buf *b, enum err_code code, const char *says)
{
    struct gguf g;
    uint8_t *copy;
    struct err e = {0};
    bool ok = read_exact(b, b->len, &g, &copy, &e) && add_tensors(&g, &e);
    assert_false(ok);
    if (e.code != code || !strstr(e.text, says))
        fail_msg("'%s' (%s), want '%s'", e.text, err_code_name(e.code), says);
    gguf_fini(&g);
    free(copy);
    buf_fini(b);
}

static void test_lying_counts_are_refused(void **state)
{
    struct buf b = {0};
    head(&b, UINT64_MAX, 0);
    expect_refusal(&b, ERR_FORMAT, "tensors");
    head(&b, 0, UINT64_C(1) << 60);
    expect_refusal(&b, ERR_FORMAT, "keys");
    head(&b, 0, 1);
    put(&b, UINT64_MAX, 8); /* a key's length that would wrap */
    put(&b, 0, 8);
    expect_refusal(&b, ERR_FORMAT, "ends inside");
    head(&b, 0, 1);
    put_string(&b, "k");
    put(&b, GGUF_ARRAY, 4);
    put(&b, GGUF_U64, 4);
    put(&b, UINT64_C(1) << 61, 8); /* times eight is 0 in 64 bits */
    expect_refusal(&b, ERR_FORMAT, "ends inside");
    head(&b, 0, 1);
    put_string(&b, "k");
    put(&b, 77, 4);
    put(&b, 0, 8);
    expect_refusal(&b, ERR_FORMAT, "unknown type 77");
}

static void test_other_files_are_refused(void **state)
{
    struct buf b = {0};
    buf_puts(&b, "GGUF");
    put(&b, 1, 4);
    put(&b, 0, 8);
    put(&b, 0, 8);
    expect_refusal(&b, ERR_UNSUPPORTED, "version 1");
    buf_puts(&b, "GGML");
    put(&b, 3, 4);
    put(&b, 0, 8);
    put(&b, 0, 8);
    expect_refusal(&b, ERR_FORMAT, "not a GGUF file");
}

static void test_tensors_are_checked(void **state)
{
    struct buf b = {0};
    head(&b, 2, 0);
    put_tensor(&b, "a", 32, 2, 8, 0);
    put_tensor(&b, "b", 32, 2, 8, 64);
    pad(&b, 256);
    expect_refusal(&b, ERR_FORMAT, "tensors a and b overlap");
    head(&b, 1, 0);
    put_tensor(&b, "a", 32, 2, 8, 8);
    pad(&b, 256);
    expect_refusal(&b, ERR_FORMAT, "no multiple of 32");
    head(&b, 1, 0);
    put_tensor(&b, "a", 33, 2, 8, 0);
    pad(&b, 256);
    expect_refusal(&b, ERR_FORMAT, "no blocks of 32");
    head(&b, 1, 0);
    put_tensor(&b, "a", UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0);
    pad(&b, 256);
    expect_refusal(&b, ERR_FORMAT, "larger than any file");
    head(&b, 1, 0);
    put_tensor(&b, "a", 32, 2, 8, UINT64_MAX - 31);
    pad(&b, 256);
    expect_refusal(&b, ERR_FORMAT, "cut short");
    head(&b, 2, 0);
    put_tensor(&b, "a", 32, 1, 8, 0);
    put_tensor(&b, "a", 32, 1, 8, 64);
    pad(&b, 256);
    expect_refusal(&b, ERR_FORMAT, "is there twice");
    head(&b, 0, 1);
    put_number(&b, "general.alignment", GGUF_U32, 48, 4);
    expect_refusal(&b, ERR_FORMAT, "general.alignment is 48");
}

static void put_list(struct buf *b, const char *key, const char *const *strings, int n)
{
    put_string(b, key);
    put(b, GGUF_ARRAY, 4);
    put(b, GGUF_STRING, 4);
    put(b, (uint64_t)n, 8);
    for (int i = 0; i < n; i++)
        put_string(b, strings[i]);
}

static void test_tokenizers_become_sources(void **state)
{
    static const char *const tokens[] = {"a", "b", "ab", "<|end|>", "[PAD4]"}, *const merges[] = {
                                                                                   "a b"};
    static const uint32_t types[] = {1, 1, 1, 3, 5};
    struct buf b = {0};
    head(&b, 0, 4);
    put_string(&b, "tokenizer.ggml.model");
    put(&b, GGUF_STRING, 4);
    put_string(&b, "gpt2");
    put_list(&b, "tokenizer.ggml.tokens", tokens, 5);
    put_list(&b, "tokenizer.ggml.merges", merges, 1);
    put_string(&b, "tokenizer.ggml.token_type");
    put(&b, GGUF_ARRAY, 4);
    put(&b, GGUF_U32, 4);
    put(&b, 5, 8);
    for (int i = 0; i < 5; i++)
        put(&b, types[i], 4);
    struct gguf g;
    uint8_t *copy;
    struct err e = {0};
    struct vocab_source s;
    assert_true(read_exact(&b, b.len, &g, &copy, &e));
    assert_true(gguf_vocab_source(&g, &s, &e));
    assert_int_equal(s.n_tokens, 5);
    assert_true(s.tokens[2].len == 2 && !s.tokens[3].at && !s.tokens[4].at);
    assert_true(s.n_added == 1 && s.added[0].id == 3 && s.added[0].flags == VOCAB_ADDED_SPECIAL);
    assert_true(s.n_merges == 1 && s.merges[0].left.len == 1 && *s.merges[0].right.at == 'b');
    free(s.tokens);
    free(s.added);
    free(s.merges);
    gguf_fini(&g);
    free(copy);
    buf_fini(&b);
}

static void test_golden_file_opens(void **state)
{
    char path[4096];
    const char *root = getenv("srcdir");
    struct err e = {0};
    snprintf(path, sizeof path, "%s/tests/data/golden/qwen3moe-k/gguf", root ? root : ".");
    struct model *m = model_open(path, &e); /* a folder that holds one GGUF model */
    if (!m)
        fail_msg("%s", e.text);
    assert_string_equal(model_plan(m)->family, "qwen3_moe");
    assert_int_equal(model_plan(m)->layers[1].moe.down.type, WEIGHT_Q6_K);
    assert_int_equal(model_stats(m)->n_unused_tensors, 0);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_all_kinds_are_read),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_lying_counts_are_refused),
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_tensors_are_checked),
        cmocka_unit_test(test_tokenizers_become_sources),
        cmocka_unit_test(test_golden_file_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
