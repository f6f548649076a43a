/* Stop strings: never partly shown, and the same result however the text is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "engine/sched/sampling/stop.h"

/* Pushes the text in pieces of `size` bytes; returns the stop that was met, *shown is what was
 * shown. */
static int32_t run(const char *const *stops, int32_t n, const char *text, size_t size,
                   struct buf *shown)
{
    struct err e = {0};
    struct stop_matcher *m = stop_matcher_create(stops, n, &e);
    int32_t met = -1;
    assert_non_null(m);
    buf_clear(shown);
    buf_puts(shown, "");
    for (size_t at = 0; text[at] && met < 0; at += size) {
        size_t left = strlen(text + at);
        met = stop_matcher_push(m, text + at, left < size ? left : size, shown);
        if (left <= size)
            break;
    }
    if (met < 0)
        stop_matcher_flush(m, shown);
    stop_matcher_destroy(&m);
    return met;
}

static void test_result_does_not_depend_on_the_cut(void **state)
{
    static const struct {
        const char *stops[4];
        const char *text, *shown;
        int32_t met;
    } cases[] = {
        {{"END"}, "one END two", "one ", 0},
        {{"END"}, "EENDX", "E", 0},
        {{"END"}, "EN EN E", "EN EN E", -1},
        {{"aab"}, "aaaab", "aa", 0},
        {{"abab", "zz"}, "abaab zz", "abaab ", 1},
        {{"abcd", "bc"}, "xabcd", "xa", 1}, /* complete first */
        {{"bc", "abc"}, "xabc", "x", 1},    /* complete together: the longest */
        {{"\n\nUser:", "\n\n"}, "a\n\nUser:", "a", 1},
        {{"\xc3\xa9"}, "caf\xc3\xa8 caf\xc3\xa9!", "caf\xc3\xa8 caf", 0},
        {{"x"}, "x", "", 0},
        {{"abcabcabd"}, "abcabcabcabd", "abc", 0},
        {{NULL}, "anything", "anything", -1},
    };
    struct buf shown = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t n = 0;
        while (n < 4 && cases[i].stops[n])
            n++;
        for (size_t size = 1; size <= 12; size++) {
            assert_int_equal(run(cases[i].stops, n, cases[i].text, size, &shown), cases[i].met);
            assert_string_equal(shown.data, cases[i].shown);
        }
    }
    buf_fini(&shown);
}

static void test_partial_match_is_held_back_and_no_more(void **state)
{
    static const char *const stops[] = {"\nUser", "###"};
    struct err e = {0};
    struct buf out = {0};
    struct stop_matcher *m = stop_matcher_create(stops, 2, &e);
    stop_matcher_push(m, "Hello\nUs", 8, &out);
    assert_string_equal(out.data, "Hello");
    stop_matcher_push(m, "ual", 3, &out); /* it was not one */
    assert_string_equal(out.data, "Hello\nUsual");
    stop_matcher_push(m, "##", 2, &out);
    assert_string_equal(out.data, "Hello\nUsual");
    stop_matcher_flush(m, &out);
    assert_string_equal(out.data, "Hello\nUsual##");
    stop_matcher_destroy(&m);
    buf_fini(&out);
}

static void test_empty_stop_is_refused(void **state)
{
    static const char *const stops[] = {"ok", ""};
    struct err e = {0};
    assert_null(stop_matcher_create(stops, 2, &e));
    assert_int_equal(e.code, ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result_does_not_depend_on_the_cut),
        cmocka_unit_test(test_partial_match_is_held_back_and_no_more),
        cmocka_unit_test(test_empty_stop_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
