/* Shaders for matrix units in KHR's form: each of ours, and modules that have none; no device is
 * needed. The compiled modules as they are say what must come out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/vulkan/device/khr_matrices.h"
#include "engine/vulkan/shaders/interface.h"

enum {
    HEAD_WORDS = 5,
    BOUND_AT = 3,
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT = 43,
    OP_SPEC_CONSTANT = 50,
    OP_SPEC_CONSTANT_OP = 52,
    OP_DECORATE = 71,
    NV_TYPE = 5358,
    NV_LENGTH = 5362,
    KHR_TYPE = 4456,
    KHR_LOAD = 4457,
    KHR_STORE = 4458,
    KHR_MUL_ADD = 4459,
    NV_TO_KHR = 5358 - 4456,
};

struct module {
    const uint32_t *at, *end;
};

static struct module module_of(const struct shader *s)
{
    return (struct module){s->code + HEAD_WORDS, s->code + s->bytes / sizeof *s->code};
}

static uint32_t opcode(const uint32_t *at)
{
    return *at & 0xffff;
}

/* Value of constant `id`, -1: it is none. */
static int64_t constant(const uint32_t *code, const uint32_t *end, uint32_t id)
{
    for (const uint32_t *at = code + HEAD_WORDS; at < end; at += *at >> 16)
        if (opcode(at) == OP_CONSTANT && at[2] == id)
            return at[3];
    return -1;
}

static bool is_true(const struct shader *s, uint32_t id)
{
    const struct module m = module_of(s);
    for (const uint32_t *at = m.at; at < m.end; at += *at >> 16)
        if (opcode(at) == OP_CONSTANT_TRUE && at[2] == id)
            return true;
    return false;
}

/* An instruction that is KHR's, beside what it came from. */
static void check_matrix_op(const struct shader *s, const uint32_t *was, const uint32_t *is,
                            const struct module *khr)
{
    const uint32_t *code = khr->at - HEAD_WORDS;
    const uint32_t stride = opcode(is) == KHR_LOAD ? 4 : 3; /* where it was */
    assert_int_equal(opcode(is), opcode(was) - NV_TO_KHR);
    switch (opcode(is)) {
    case KHR_TYPE:
        assert_int_equal(*is >> 16, (*was >> 16) + 1);
        assert_memory_equal(is + 1, was + 1, 5 * sizeof *is);
        assert_in_range(constant(code, khr->end, is[6]), 0, 2);
        return;
    case KHR_LOAD:
    case KHR_STORE:
        assert_int_equal(*is >> 16, *was >> 16);
        assert_int_equal(is[stride + 1], was[stride]);
        assert_int_equal(constant(code, khr->end, is[stride]), is_true(s, was[stride + 1]));
        assert_memory_equal(is + stride + 2, was + stride + 2,
                            ((*is >> 16) - stride - 2) * sizeof *is);
        return;
    case KHR_MUL_ADD:
        assert_memory_equal(is + 1, was + 1, ((*is >> 16) - 1) * sizeof *is);
        return;
    default:
        fail_msg("%s: instruction %u", s->name, opcode(is));
    }
}

/* Walks both modules at once; gives the number of matrix instructions. */
static int compare(const struct shader *s, const struct buf *khr)
{
    struct module m = module_of(s);
    const uint32_t *is = (const uint32_t *)(void *)khr->data + HEAD_WORDS;
    const struct module k = {is, (const uint32_t *)(void *)(khr->data + khr->len)};
    int n = 0, added = 0;
    for (const uint32_t *was = m.at; was < m.end; was += *was >> 16, is += *is >> 16) {
        while (opcode(is) == OP_CONSTANT && is[2] >= s->code[BOUND_AT]) {
            assert_int_equal(is[3], added++);
            is += *is >> 16;
        }
        assert_true(is < k.end);
        if (opcode(was) >= NV_TYPE && opcode(was) <= NV_LENGTH) {
            check_matrix_op(s, was, is, &k);
            n++;
        } else if (opcode(was) != OP_CAPABILITY && opcode(was) != OP_EXTENSION) {
            assert_int_equal(*is, *was);
            assert_memory_equal(is, was, (*was >> 16) * sizeof *is);
        }
    }
    assert_ptr_equal(is, k.end);
    assert_int_equal(added, 3);
    return n;
}

static bool holds(const struct buf *b, const char *text)
{
    return memmem(b->data, b->len, text, strlen(text)) != NULL;
}

static void test_our_shaders(void **state)
{
    (void)state;
    int with = 0;
    for (int i = 0; i < shader_table_n; i++) {
        const struct shader *s = &shader_table[i];
        struct buf khr = {0};
        struct err e = {0};
        if (!khr_matrices_used(s))
            continue;
        with++;
        if (!khr_matrices_of(s, &khr, &e))
            fail_msg("%s: %s", s->name, e.text);
        assert_int_equal(((const uint32_t *)(void *)khr.data)[BOUND_AT], s->code[BOUND_AT] + 3);
        assert_true(holds(&khr, "SPV_KHR_cooperative_matrix"));
        assert_false(holds(&khr, "SPV_NV_cooperative_matrix"));
        assert_true(compare(s, &khr) >= 5); /* three types, and what uses them */
        buf_fini(&khr);
    }
    /* two of attention, four forms of products of six formats, the head's, two of experts of single
     * rows, three of few rows in one dispatch, and the places */
    assert_int_equal(with, 33);
}

/* Words of a module: a 32-bit word, a half, two dimensions told by SpecIds a and b, a matrix of
 * them, and one instruction more. */
static struct shader made(uint32_t *w, uint32_t a, uint32_t b, const uint32_t *more, size_t n)
{
    const uint32_t words[] = {0x07230203,
                              0x10500,
                              0,
                              20,
                              0,
                              4 << 16 | OP_DECORATE,
                              3,
                              1,
                              a,
                              4 << 16 | OP_DECORATE,
                              4,
                              1,
                              b,
                              4 << 16 | OP_TYPE_INT,
                              1,
                              32,
                              0,
                              3 << 16 | OP_TYPE_FLOAT,
                              2,
                              16,
                              4 << 16 | OP_SPEC_CONSTANT,
                              1,
                              3,
                              16,
                              4 << 16 | OP_SPEC_CONSTANT,
                              1,
                              4,
                              16,
                              6 << 16 | NV_TYPE,
                              5,
                              2,
                              3,
                              3,
                              4};
    memcpy(w, words, sizeof words);
    memcpy(w + sizeof words / sizeof *words, more, n * sizeof *more);
    return (struct shader){"made", w, sizeof words + n * sizeof *more};
}

static void check_use(uint32_t a, uint32_t b, int use)
{
    uint32_t w[64];
    struct buf khr = {0};
    struct err e = {0};
    const struct shader s = made(w, a, b, NULL, 0);
    assert_int_equal(khr_matrices_of(&s, &khr, &e), use >= 0);
    if (use >= 0) {
        const uint32_t *last =
            (const uint32_t *)(void *)(khr.data + khr.len - 7 * sizeof(uint32_t));
        assert_int_equal(*last, 7 << 16 | KHR_TYPE);
        assert_int_equal(last[6], 20 + use);
    } else {
        assert_string_equal(e.text, "a shader for matrix units has a matrix of unknown use");
    }
    buf_fini(&khr);
}

static void test_use_is_told_by_the_sides(void **state)
{
    (void)state;
    check_use(SPEC_MATRIX_M, SPEC_MATRIX_K, 0);
    check_use(SPEC_MATRIX_K, SPEC_MATRIX_N, 1);
    check_use(SPEC_MATRIX_M, SPEC_MATRIX_N, 2);
    check_use(SPEC_MATRIX_N, SPEC_MATRIX_K, -1);
    check_use(SPEC_MATRIX_M, 1, -1);
}

static void check_refused(const uint32_t *more, size_t n, const char *why)
{
    uint32_t w[64];
    struct buf khr = {0};
    struct err e = {0};
    const struct shader s = made(w, SPEC_MATRIX_M, SPEC_MATRIX_N, more, n);
    assert_false(khr_matrices_of(&s, &khr, &e));
    assert_string_equal(e.text, why);
    buf_fini(&khr);
}

static void test_what_has_no_form(void **state)
{
    (void)state;
    const char *length = "a shader for matrix units has the length of a matrix";
    check_refused((const uint32_t[]){4 << 16 | NV_LENGTH, 1, 6, 5}, 4, length);
    check_refused((const uint32_t[]){5 << 16 | OP_SPEC_CONSTANT_OP, 1, 6, NV_LENGTH, 5}, 5, length);
    check_refused((const uint32_t[]){6 << 16 | (NV_TYPE + 1), 5, 6, 7, 8, 9}, 6,
                  "a shader for matrix units has a layout that is not known");
    check_refused((const uint32_t[]){9 << 16 | OP_CONSTANT, 1, 6}, 3,
                  "a shader for matrix units has a broken end");
    check_refused((const uint32_t[]){0}, 1, "a shader for matrix units has a broken end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_our_shaders),
        cmocka_unit_test(test_use_is_told_by_the_sides),
        cmocka_unit_test(test_what_has_no_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
