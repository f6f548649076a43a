/* fcgi/process/shared_limit.c: a key's minute and its jobs, exact between processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fcgi/process/shared.h"

#define SECOND ((int64_t)1000000)
#define NOW (1000 * SECOND)

static char path[64];

static struct shared *open_fresh(void)
{
    struct err e = {0};
    unlink(path);
    struct shared *s = shared_open(path, &e);
    assert_non_null(s);
    s->pool[POOL_STREAM].n_rows = 12;
    return s;
}

static bool take(_Atomic int64_t *full, int64_t per_minute, int64_t n, int64_t now_us,
                 struct shared_minute *m)
{
    return shared_minute_take(full, &(struct shared_minute_units){.per_minute = per_minute, .n = n},
                              now_us, m);
}

static void force(_Atomic int64_t *full, int64_t per_minute, int64_t n, struct shared_minute *m)
{
    shared_minute_take(
        full, &(struct shared_minute_units){.per_minute = per_minute, .n = n, .force = true}, NOW,
        m);
}

/* Of a key that may have two jobs. */
static bool enter(struct shared *s, struct shared_child *mine, int64_t key_id, int jobs)
{
    return shared_jobs_enter(
        s, mine,
        &(struct shared_jobs_claim){.key_id = key_id, .user_id = 1, .jobs = jobs, .key_max = 2});
}

/* A title claims no job of those that its user may have, but there are not many at once. */
static void test_a_user_has_one_aside(void **state)
{
    struct shared *s = open_fresh();
    struct shared_child *c = s->pool[POOL_STREAM].child;
    const struct shared_jobs_claim aside = {.user_id = 1}, other = {.user_id = 2};
    for (int i = 0; i < 4; i++)
        c[i].state = CHILD_BUSY;
    assert_true(enter(s, &c[0], 7, 2));
    assert_true(shared_jobs_enter(s, &c[1], &aside));
    assert_false(shared_jobs_enter(s, &c[2], &aside));
    assert_true(shared_jobs_enter(s, &c[3], &other));
    shared_jobs_leave(&c[1]);
    assert_true(shared_jobs_enter(s, &c[2], &aside));
    assert_int_equal(shared_jobs_of_user(s, &c[2]), 2);
    shared_close(&s);
}

static void test_a_minute_fills_evenly(void **state)
{
    _Atomic int64_t full = 0;
    struct shared_minute m;
    for (int i = 0; i < 60; i++) {
        assert_true(take(&full, 60, 1, NOW, &m));
        assert_int_equal(m.remaining, 59 - i);
    }
    assert_false(take(&full, 60, 1, NOW, &m));
    assert_int_equal(m.wait_us, SECOND);
    assert_int_equal(m.reset_us, 60 * SECOND);
    assert_false(take(&full, 60, 1, NOW + SECOND - 1, &m));
    assert_true(take(&full, 60, 1, NOW + SECOND, &m));
    assert_false(take(&full, 60, 1, NOW + SECOND, &m));
    assert_true(take(&full, 60, 60, NOW + 61 * SECOND, &m));
    assert_int_equal(m.remaining, 0);
}

static void test_debt_waits_and_is_bounded(void **state)
{
    _Atomic int64_t full = 0;
    struct shared_minute m;
    /* more than a minute holds: once, when nothing was used */
    assert_true(take(&full, 100, 250, NOW, &m));
    assert_int_equal(m.remaining, 0);
    assert_false(take(&full, 100, 1, NOW + 60 * SECOND, &m));
    assert_true(m.wait_us > 29 * SECOND && m.wait_us < 31 * SECOND + SECOND);
    assert_false(take(&full, 100, 250, NOW + 149 * SECOND, &m));
    assert_true(m.wait_us <= SECOND);
    force(&full, 1, 1000000, &m);
    assert_true(m.reset_us <= 3600 * SECOND);
    /* given back */
    full = 0;
    assert_true(take(&full, 100, 80, NOW, &m));
    force(&full, 100, -80, &m);
    assert_int_equal(m.remaining, 100);
    /* a clock that was set back does not lock a key out for longer than the bound */
    full = NOW * 1000;
    force(&full, 100, 0, &m);
    assert_true(m.reset_us <= 3600 * SECOND);
}

static void test_processes_share_one_limit(void **state)
{
    struct shared *s = open_fresh();
    for (int p = 0; p < 4; p++)
        if (fork() == 0) {
            struct err e = {0};
            struct shared *mine = shared_open(path, &e);
            struct shared_minute m;
            int got = 0;
            for (int i = 0; mine && i < 500; i++)
                got += take(&shared_limit_row(mine, 7)->requests_full_us, 1000, 1, NOW, &m);
            mine->pool[POOL_SHORT].child[p].requests = (uint64_t)got;
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    uint64_t sum = 0;
    for (int p = 0; p < 4; p++)
        sum += s->pool[POOL_SHORT].child[p].requests;
    assert_int_equal(sum, 1000);
    shared_close(&s);
}

static void test_rows_are_apart(void **state)
{
    struct shared *s = open_fresh();
    for (int64_t key = 1; key <= 100; key++)
        shared_limit_row(s, key)->requests_full_us = key;
    for (int64_t key = 1; key <= 100; key++)
        assert_int_equal(shared_limit_row(s, key)->requests_full_us, key);
    for (int64_t key = 1; key <= 5000;
         key++) /* more than there are rows: still one each, the stalest goes */
        assert_int_equal(shared_limit_row(s, key)->key_id, key);
    shared_close(&s);
}

static void test_jobs_never_pass_the_limit(void **state)
{
    struct shared *s = open_fresh();
    struct shared_child *c = s->pool[POOL_STREAM].child;
    for (int i = 0; i < 4; i++)
        c[i].state = CHILD_BUSY;
    assert_true(enter(s, &c[0], 7, 1));
    assert_true(enter(s, &c[1], 7, 1));
    assert_false(enter(s, &c[2], 7, 1));
    assert_true(enter(s, &c[3], 8, 2)); /* another key */
    assert_false(enter(s, &c[2], 9, 3));
    shared_jobs_leave(&c[0]);
    assert_true(enter(s, &c[2], 7, 1));
    c[1].state = CHILD_NONE; /* killed: holds nothing */
    assert_true(enter(s, &c[0], 7, 1));
    shared_close(&s);
}

static void test_racing_jobs_never_pass_the_limit(void **state)
{
    struct shared *s = open_fresh();
    struct shared_child *c = s->pool[POOL_STREAM].child;
    for (int p = 0; p < 4; p++)
        c[p].state = CHILD_BUSY;
    for (int p = 0; p < 4; p++)
        if (fork() == 0) {
            struct err e = {0};
            struct shared *mine = shared_open(path, &e);
            struct shared_child *own = &mine->pool[POOL_STREAM].child[p];
            for (int i = 0; i < 20000; i++)
                if (enter(mine, own, 7, 1)) {
                    /* `requests` of slot 10: how many are inside; of slot 11: the most ever */
                    uint64_t in =
                        atomic_fetch_add(&mine->pool[POOL_STREAM].child[10].requests, 1) + 1;
                    uint64_t most = mine->pool[POOL_STREAM].child[11].requests;
                    while (in > most && !atomic_compare_exchange_weak(
                                            &mine->pool[POOL_STREAM].child[11].requests, &most, in))
                        ;
                    atomic_fetch_sub(&mine->pool[POOL_STREAM].child[10].requests, 1);
                    shared_jobs_leave(own);
                }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    assert_in_range(c[11].requests, 1, 2);
    shared_close(&s);
}

int main(void)
{
    snprintf(path, sizeof path, "test_limits.%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_minute_fills_evenly),
        cmocka_unit_test(test_a_user_has_one_aside),
        cmocka_unit_test(test_debt_waits_and_is_bounded),
        cmocka_unit_test(test_processes_share_one_limit),
        cmocka_unit_test(test_rows_are_apart),
        cmocka_unit_test(test_jobs_never_pass_the_limit),
        cmocka_unit_test(test_racing_jobs_never_pass_the_limit),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
