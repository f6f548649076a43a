/* The drafter that looks up what followed when the text last stood like this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "engine/draft/drafter.h"

static int32_t tokens[20000];
static void *lookup;

static int open_lookup(void **state)
{
    struct err e = {0};
    lookup = lookup_drafter.create(NULL, &e);
    return lookup ? 0 : -1;
}

static int close_lookup(void **state)
{
    lookup_drafter.destroy(lookup);
    return 0;
}

static struct draft draft_of(const struct draft_text *t, int32_t most)
{
    struct draft_ask ask = {.state = lookup, .text = *t, .most = most};
    lookup_drafter.draft(NULL, &ask, 1);
    assert_false(ask.failed);
    assert_true(ask.out.n <= most);
    return ask.out;
}

static struct draft draft_after(const int32_t *text, int32_t n, int32_t most)
{
    return draft_of(&(struct draft_text){.tokens = text, .n_tokens = n, .n_prompt = 1}, most);
}

static void test_the_longest_match_is_continued(void **state)
{
    const int32_t text[] = {1, 2, 3, 4, 50, 51, 9, 2, 3, 4, 60, 61, 7, 1, 2, 3, 4};
    struct draft d = draft_after(text, 17, 3);
    assert_int_equal(d.n, 3);
    assert_int_equal(d.ids[0], 50); /* four equal tokens, not the later three */
    assert_int_equal(d.ids[1], 51);
    assert_int_equal(d.ground[0], DRAFT_MATCH_4);
    assert_false(d.predicted);
}

static void test_of_equal_matches_the_latest_counts(void **state)
{
    const int32_t text[] = {2, 3, 4, 50, 9, 2, 3, 4, 60, 8, 2, 3, 4};
    assert_int_equal(draft_after(text, 13, 1).ids[0], 60);
}

static void test_two_tokens_are_enough_and_one_is_not(void **state)
{
    const int32_t two[] = {5, 6, 7, 1, 2, 5, 6}, one[] = {5, 6, 7, 1, 2, 9, 6};
    struct draft d = draft_after(two, 7, 2);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.ids[0], 7);
    assert_int_equal(d.ground[0], DRAFT_MATCH_2);
    close_lookup(state);
    open_lookup(state);
    assert_int_equal(draft_after(one, 7, 2).n, 0);
}

static void test_a_period_goes_on_past_the_end(void **state)
{
    const int32_t text[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    struct draft d = draft_after(text, 9, 16);
    assert_int_equal(d.n, 16);
    for (int32_t i = 0; i < 16; i++)
        assert_int_equal(d.ids[i], 1 + i % 3);
}

static void test_the_prediction_is_text_that_stood_before(void **state)
{
    const int32_t prediction[] = {30, 31, 32, 33, 34, 35}, text[] = {1, 2, 30, 31, 32};
    struct draft_text t = {
        .tokens = text, .n_tokens = 3, .n_prompt = 2, .prediction = prediction, .n_prediction = 6};
    struct draft d = draft_of(&t, 16);
    assert_int_equal(d.n, 5); /* the answer began as it does, and it ends where it ends */
    assert_memory_equal(d.ids, prediction + 1, 5 * sizeof *d.ids);
    assert_int_equal(d.ground[0], DRAFT_FORESEEN);
    assert_true(d.predicted);
    t.n_tokens = 5;
    d = draft_of(&t, 2);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.ids[0], 33);
    assert_true(d.predicted);
}

static void test_long_texts_grow_step_by_step(void **state)
{
    unsigned seed = 1;
    for (int32_t i = 0; i < 20000; i++) {
        seed = seed * 1103515245u + 12345;
        tokens[i] = i < 10000 ? (int32_t)(seed >> 16) % 1000 : tokens[i - 10000];
    }
    int32_t right = 0;
    for (int32_t n = 10010; n < 19990; n++) {
        struct draft d = draft_after(tokens, n, 4);
        right += d.n == 4 && !memcmp(d.ids, tokens + n, 4 * sizeof *d.ids);
    }
    assert_int_equal(right, 19990 - 10010);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_longest_match_is_continued, open_lookup,
                                        close_lookup),
        cmocka_unit_test_setup_teardown(test_of_equal_matches_the_latest_counts, open_lookup,
                                        close_lookup),
        cmocka_unit_test_setup_teardown(test_two_tokens_are_enough_and_one_is_not, open_lookup,
                                        close_lookup),
        cmocka_unit_test_setup_teardown(test_a_period_goes_on_past_the_end, open_lookup,
                                        close_lookup),
        cmocka_unit_test_setup_teardown(test_the_prediction_is_text_that_stood_before, open_lookup,
                                        close_lookup),
        cmocka_unit_test_setup_teardown(test_long_texts_grow_step_by_step, open_lookup,
                                        close_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
