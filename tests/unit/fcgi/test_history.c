/* fcgi/status/history.c: what was counted is in the rings once, whoever restarts; gaps are gaps; a
 * row is never read half written. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fcgi/status/history.h"

#define NOON 1800000000ll /* Unix s; a multiple of both steps */

static char path[64];
static struct history_view view;

/* cmocka has none for doubles before 1.1.7 */
#define assert_near(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))

static struct history *open_it(void)
{
    struct err e = {0};
    struct history *h = history_open(path, &e);
    if (!h)
        fail_msg("%s", e.text);
    return h;
}

static struct history_sample sample_at(int64_t s, uint64_t tokens)
{
    struct history_sample x = {.at_ms = s * 1000, .engine_started = 7, .engine_known = true};
    x.counters[HISTORY_COMPLETION_TOKENS] = tokens;
    x.counters[HISTORY_REQUESTS] = 2 * tokens;
    x.gauges[HISTORY_UP] = 1;
    x.gauges[HISTORY_RUNNING] = 3;
    return x;
}

static uint64_t sum_of(int64_t now, int64_t seconds, enum history_sum which)
{
    struct err e = {0};
    uint64_t sum = 0;
    assert_true(history_read(path, now, seconds, &view, &e));
    for (int i = 0; i < view.n; i++)
        sum += view.rows[i].sums[which];
    return sum;
}

static void test_every_range_has_the_same_sum(void **state)
{
    unlink(path);
    struct history *h = open_it();
    for (int i = 0; i <= 1000; i++) {
        struct history_sample s = sample_at(NOON + i, 100 + 5 * (uint64_t)i);
        history_add(h, &s);
    }
    static const int64_t ranges[] = {1100, 3600, 21600, 86400, 604800, 2592000};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        assert_int_equal(sum_of(NOON + 1000, ranges[i], HISTORY_COMPLETION_TOKENS),
                         5000); /* what was there before belongs to no row */
        assert_int_equal(sum_of(NOON + 1000, ranges[i], HISTORY_REQUESTS), 10000);
        assert_in_range(view.n, 1, HISTORY_MAX_POINTS);
        double covered = 0;
        for (int k = 0; k < view.n; k++)
            if (view.rows[k].at) {
                covered += view.rows[k].covered_s;
                assert_near(view.rows[k].areas[HISTORY_RUNNING] / view.rows[k].covered_s, 3, 1e-9);
                assert_near(view.rows[k].highest[HISTORY_RUNNING], 3, 0);
            }
        assert_near(covered, 1000, 1e-6);
    }
    history_close(&h);
    assert_null(h);
}

static void test_restarts_lose_and_double_nothing(void **state)
{
    unlink(path);
    struct history *h = open_it();
    struct history_sample s = sample_at(NOON, 0);
    history_add(h, &s);
    s = sample_at(NOON + 1, 10);
    history_add(h, &s);
    history_close(&h); /* the recorder is killed, the engine goes on */
    h = open_it();
    s = sample_at(NOON + 120, 30);
    history_add(h, &s);
    assert_int_equal(sum_of(NOON + 130, 600, HISTORY_COMPLETION_TOKENS), 30);
    int gaps = 0;
    for (int i = 0; i < view.n && view.from + i * view.step_s < NOON + 120; i++)
        gaps += view.from + i * view.step_s > NOON && !view.rows[i].at;
    assert_int_equal(gaps, 11);   /* of ten seconds each, between the two */
    s = sample_at(NOON + 121, 4); /* another engine, which counts from 0 */
    s.engine_started = 8;
    history_add(h, &s);
    s = (struct history_sample){.at_ms = (NOON + 122) *
                                         1000}; /* its page is away: it is being replaced */
    s.counters[HISTORY_REQUESTS] = 60;
    history_add(h, &s);
    s = sample_at(NOON + 123, 9);
    s.engine_started = 8;
    s.counters[HISTORY_CPU_MS] = HISTORY_UNKNOWN;
    history_add(h, &s);
    assert_int_equal(sum_of(NOON + 130, 600, HISTORY_COMPLETION_TOKENS), 39);
    assert_int_equal(sum_of(NOON + 130, 600, HISTORY_CPU_MS), 0);
    history_close(&h);
}

static void test_old_rows_are_gone(void **state)
{
    unlink(path);
    struct history *h = open_it();
    struct history_sample s = sample_at(NOON, 0);
    history_add(h, &s);
    s = sample_at(NOON + 1, 10);
    history_add(h, &s);
    s = sample_at(NOON + 3 * HISTORY_FINE_S * HISTORY_FINE_ROWS,
                  11); /* the fine ring has gone round */
    history_add(h, &s);
    int64_t now = s.at_ms / 1000;
    assert_int_equal(sum_of(now, 21600, HISTORY_COMPLETION_TOKENS), 1);
    assert_int_equal(sum_of(now, 86400, HISTORY_COMPLETION_TOKENS), 11);
    assert_int_equal(sum_of(now + 40ll * 86400, 2592000, HISTORY_COMPLETION_TOKENS), 0);
    history_close(&h);
    unlink(path);
    assert_int_equal(sum_of(now, 3600, HISTORY_COMPLETION_TOKENS), 0); /* no file: all gaps */
    assert_int_equal(view.rows[0].at, 0);
}

static void test_quantiles_lie_in_their_bucket(void **state)
{
    unlink(path);
    struct history *h = open_it();
    struct history_sample s = sample_at(NOON, 0);
    for (int i = 0; i < HISTORY_BUCKETS; i++)
        s.bounds[HISTORY_FIRST_TOKEN][i] = i == HISTORY_BUCKETS - 1 ? INFINITY : (i + 1) * 0.1;
    history_add(h, &s);
    s.at_ms += 1000;
    s.buckets[HISTORY_FIRST_TOKEN][2] = 90; /* 0.2 .. 0.3 */
    s.buckets[HISTORY_FIRST_TOKEN][HISTORY_BUCKETS - 1] = 10;
    history_add(h, &s);
    sum_of(NOON + 1, 10, HISTORY_REQUESTS);
    const struct history_row *row = &view.rows[view.n - 1];
    assert_near(history_quantile(&view, row, HISTORY_FIRST_TOKEN, 0.5), 0.2 + 0.1 * 50 / 90, 1e-9);
    assert_near(history_quantile(&view, row, HISTORY_FIRST_TOKEN, 0.99), 1.9,
                1e-9); /* no end: its beginning */
    assert_true(history_quantile(&view, row, HISTORY_PER_TOKEN, 0.5) < 0);
    history_close(&h);
}

static void test_a_row_is_never_read_half_written(void **state)
{
    struct err e = {0};
    unlink(path);
    struct history *h = open_it();
    pid_t writer = fork();
    if (writer == 0)
        for (uint64_t i = 0;; i++) {
            struct history_sample s = sample_at(NOON + (int64_t)(i % 2), i);
            s.at_ms += (int64_t)(i % 1000);
            history_add(h, &s);
        }
    for (int i = 0; i < 300; i++) {
        if (!history_read(path, NOON + 1, 30, &view, &e))
            continue; /* busy, and says so */
        for (int k = 0; k < view.n; k++)
            assert_int_equal(view.rows[k].sums[HISTORY_REQUESTS],
                             2 * view.rows[k].sums[HISTORY_COMPLETION_TOKENS]);
    }
    kill(writer, SIGKILL); /* at any point of a row */
    waitpid(writer, NULL, 0);
    history_close(&h);
    h = open_it();
    assert_true(history_read(path, NOON + 1, 30, &view, &e));
    history_close(&h);
}

static void test_a_file_of_another_layout_is_replaced(void **state)
{
    FILE *f = fopen(path, "w");
    fputs("something else", f);
    fclose(f);
    struct history *h = open_it();
    struct history_sample s = sample_at(NOON, 1);
    history_add(h, &s);
    s = sample_at(NOON + 1, 2);
    history_add(h, &s);
    assert_int_equal(sum_of(NOON + 1, 60, HISTORY_COMPLETION_TOKENS), 1);
    history_close(&h);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/sluice-history-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_range_has_the_same_sum),
        cmocka_unit_test(test_restarts_lose_and_double_nothing),
        cmocka_unit_test(test_old_rows_are_gone),
        cmocka_unit_test(test_quantiles_lie_in_their_bucket),
        cmocka_unit_test(test_a_row_is_never_read_half_written),
        cmocka_unit_test(test_a_file_of_another_layout_is_replaced),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
