/* Rates are over work, not over the clock, and only over the last ten seconds of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "engine/sched/stats.h"

static void test_rates_count_only_steps_with_such_rows(void **state)
{
    struct stats t;
    stats_init(&t);
    assert_true(stats_prefill_rate(&t) == 0 && stats_decode_rate(&t) == 0);
    stats_step(&t, 0.5, 100, 0);
    stats_step(&t, 0.1, 0, 4);
    stats_step(&t, 0.1, 0, 4);
    assert_true(fabs(stats_prefill_rate(&t) - 200) < 1e-9);
    assert_true(fabs(stats_decode_rate(&t) - 40) < 1e-9);
    assert_int_equal(t.prefill_tokens, 100);
    assert_true(fabs(t.step_seconds - 0.7) < 1e-9);
}

static void test_work_older_than_ten_seconds_is_forgotten(void **state)
{
    struct stats t;
    stats_init(&t);
    for (int i = 0; i < 100; i++)
        stats_step(&t, 0.1, 0, 100); /* 10 s at 1000 tokens/s */
    for (int i = 0; i < 150; i++)
        stats_step(&t, 0.1, 0, 1); /* 15 s at 10 */
    assert_true(fabs(stats_decode_rate(&t) - 10) < 1e-9);
}

static void test_page_gets_what_was_counted(void **state)
{
    static struct status_page page;
    struct stats t;
    stats_init(&t);
    t.jobs_done[OUTCOME_LENGTH] = 3;
    t.prefix_queries = 100;
    t.prefix_hits = 64;
    status_histogram_add(&t.queue_time, 0.5);
    stats_publish(&t, &page);
    assert_int_equal(page.jobs_done[OUTCOME_LENGTH], 3);
    assert_int_equal(page.prefix_hits, 64);
    assert_int_equal(page.queue_time.total, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_count_only_steps_with_such_rows),
        cmocka_unit_test(test_work_older_than_ten_seconds_is_forgotten),
        cmocka_unit_test(test_page_gets_what_was_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
