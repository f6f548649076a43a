/* fcgi/process/shared.c: counters that many processes add to, and the waiting after failed logins.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/clock.h"
#include "fcgi/process/shared.h"

static char path[64];

static struct shared *open_fresh(void)
{
    struct err e = {0};
    unlink(path);
    struct shared *s = shared_open(path, &e);
    assert_non_null(s);
    return s;
}

static void test_counts_of_all_processes_add_up(void **state)
{
    struct shared *s = open_fresh();
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            struct err e = {0};
            struct shared *mine = shared_open(path, &e);
            for (int k = 0; mine && k < 1000; k++) {
                shared_count_request(mine, 3, 200);
                shared_observe(&mine->overhead, 1500000);
            }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    int column = 0;
    while (shared_status_at(column) != 200)
        column++;
    assert_int_equal(s->requests[3][column], 4000);
    uint64_t sum = 0;
    for (int i = 0; i < SHARED_BUCKETS; i++)
        sum += s->overhead.count[i];
    assert_int_equal(sum, 4000);
    assert_int_equal(s->overhead.sum_ns, 4000ull * 1500000);
    assert_int_equal(s->overhead.count[4], 4000); /* over 1 ms, at most 2.5 */
    shared_count_request(s, -1, 200);
    shared_count_request(s, 5000, 777);
    assert_int_equal(s->requests[SHARED_ROUTES - 1][column], 1);
    assert_int_equal(s->requests[SHARED_ROUTES - 1][SHARED_STATUSES - 1], 1);
    shared_close(&s);
    assert_null(s);
}

static void test_a_file_of_another_layout_is_replaced(void **state)
{
    struct err e = {0};
    FILE *f = fopen(path, "w");
    fputs("something else", f);
    fclose(f);
    struct shared *s = shared_open(path, &e);
    assert_non_null(s);
    assert_int_equal(s->head.size, sizeof *s);
    s->client_gone = 7;
    struct shared *again = shared_open(path, &e);
    assert_int_equal(again->client_gone, 7);
    shared_close(&again);
    shared_close(&s);
    assert_null(shared_open("/nonexistent/x", &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

/* Subject `key` with `n` free attempts. */
#define SUBJECT(k, n) (&(struct shared_throttle_subject){.key = (k), .free_failures = (n)})

static void test_failures_wait_longer_each_time(void **state)
{
    struct shared *s = open_fresh();
    const struct shared_throttle_subject *t = SUBJECT(42, 5);
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(shared_throttle_wait(s, t), 0);
        assert_true(shared_throttle_fail(s, t));
    }
    for (int i = 0; i < 5; i++) {
        int64_t wait = shared_throttle_wait(s, t);
        assert_true(wait > last);
        last = wait;
        assert_true(shared_throttle_fail(s, t));
    }
    for (int i = 0; i < 50; i++)
        assert_true(shared_throttle_fail(s, t));
    assert_in_range(shared_throttle_wait(s, t), 50000, 60000);
    assert_int_equal(shared_throttle_wait(s, SUBJECT(43, 5)), 0);
    shared_throttle_clear(s, t);
    assert_int_equal(shared_throttle_wait(s, t), 0);
    for (int i = 0; i < 6; i++)
        assert_true(shared_throttle_fail(s, t));
    shared_throttle_undo(s, t);
    assert_true(shared_throttle_wait(s, t) > 0);
    shared_throttle_undo(s, t);
    assert_int_equal(shared_throttle_wait(s, t), 0);
    for (int i = 0; i < 9; i++)
        shared_throttle_undo(s, t); /* never below none */
    assert_true(shared_throttle_fail(s, t));
    assert_int_equal(shared_throttle_wait(s, SUBJECT(42, 2)), 0);
    shared_close(&s);
}

static void test_old_failures_are_forgotten(void **state)
{
    struct shared *s = open_fresh();
    for (int i = 0; i < 20; i++)
        assert_true(shared_throttle_fail(s, SUBJECT(9, 5)));
    for (int i = 0; i < SHARED_THROTTLES; i++)
        if (s->throttle[0][i].key == 9)
            s->throttle[0][i].last_ms = clock_wall_ms() - 16 * 60 * 1000;
    assert_int_equal(shared_throttle_wait(s, SUBJECT(9, 5)), 0);
    assert_true(shared_throttle_fail(s, SUBJECT(9, 5)));
    assert_int_equal(shared_throttle_wait(s, SUBJECT(9, 5)), 0);
    shared_close(&s);
}

static void test_a_flood_of_keys_pushes_out_the_stalest(void **state)
{
    struct shared *s = open_fresh();
    const struct shared_throttle_subject *last = SUBJECT((uint64_t)100000 * 2654435761u, 5);
    for (uint64_t k = 1; k <= 100000; k++)
        assert_true(shared_throttle_fail(s, SUBJECT(k * 2654435761u, 5)));
    for (int i = 0; i < 5; i++)
        assert_true(shared_throttle_fail(s, last));
    assert_true(shared_throttle_wait(s, last) > 0);
    shared_close(&s);
}

static void test_who_must_wait_is_never_pushed_out(void **state)
{
    struct shared *s = open_fresh();
    const struct shared_throttle_subject *guesser = SUBJECT(77, 1), *late;
    int taken = 0;
    assert_true(shared_throttle_fail(s, guesser) && shared_throttle_fail(s, guesser));
    for (uint64_t k = 1; k <= 100; k++) /* all at the same place */
        taken += shared_throttle_fail(s, SUBJECT(77 + k * SHARED_THROTTLES, 1));
    assert_in_range(taken, 1, 50);
    assert_true(shared_throttle_wait(s, guesser) > 0);
    late = SUBJECT(77 + (uint64_t)1000 * SHARED_THROTTLES, 1);
    assert_false(shared_throttle_fail(s, late));
    shared_throttle_undo(s, late);
    shared_throttle_clear(s, late); /* touches nobody else's */
    assert_true(shared_throttle_wait(s, guesser) > 0);
    struct shared_throttle_subject elsewhere = *late;
    elsewhere.table = 1;
    assert_true(shared_throttle_fail(s, &elsewhere));
    shared_close(&s);
}

static void test_hashes_of_names_differ_from_server_to_server(void **state)
{
    struct shared *s = open_fresh();
    const uint64_t one = shared_throttle_hash(s, "ada", 3);
    struct err e = {0};
    struct shared *again = shared_open(path, &e);
    assert_true(one == shared_throttle_hash(again, "ada", 3));
    assert_true(one != shared_throttle_hash(s, "adb", 3));
    shared_close(&again);
    shared_close(&s);
    s = open_fresh();
    assert_true(one != shared_throttle_hash(s, "ada", 3));
    shared_close(&s);
}

/* A master was killed: what its children still write is theirs, until they are gone. */
static void test_a_living_orphan_keeps_its_row(void **state)
{
    struct shared *s = open_fresh();
    struct shared_pool *board = &s->pool[POOL_STREAM];
    const pid_t living = fork();
    if (living == 0) {
        alarm(600); /* a test that fails leaves nothing behind */
        for (;;)
            pause();
    }
    const pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    waitpid(dead, NULL, 0);
    s->next_ticket = 10;
    board->child[0] =
        (struct shared_child){.state = CHILD_BUSY, .jobs = 2, .jobs_user = 5, .ticket = 2};
    assert_true(shared_row_claim(&board->child[0], living));
    board->child[1] = (struct shared_child){
        .pid = dead, .born = 1, .state = CHILD_BUSY, .jobs = 3, .jobs_user = 5, .ticket = 3};
    /* its number is another process's by now */
    board->child[2] = (struct shared_child){
        .pid = getpid(), .born = 1, .state = CHILD_BUSY, .jobs = 4, .jobs_user = 5, .ticket = 4};
    board->n_rows = 4;
    shared_rows_inherit(board);
    assert_false(shared_row_vacant(&board->child[0]));
    assert_true(shared_row_vacant(&board->child[1]));
    assert_true(shared_row_vacant(&board->child[2]));
    struct shared_child *mine = &board->child[3];
    assert_true(shared_jobs_enter(s, mine, &(struct shared_jobs_claim){.user_id = 5, .jobs = 1}));
    assert_int_equal(shared_jobs_of_user(s, mine),
                     2);        /* its jobs count, those of the dead do not */
    shared_rows_inherit(board); /* the next master was killed too */
    assert_false(shared_row_vacant(&board->child[0]));
    kill(living, SIGKILL);
    waitpid(living, NULL, 0);
    shared_rows_settle(board);
    assert_true(shared_row_vacant(&board->child[0]));
    assert_int_equal(shared_jobs_of_user(s, mine), 0);
    shared_close(&s);
}

static void test_a_row_has_one_owner(void **state)
{
    struct shared_child c = {.state = CHILD_STARTING};
    assert_true(shared_row_claim(&c, 100));
    assert_true(shared_row_claim(&c, 100)); /* its master was faster */
    assert_false(shared_row_claim(&c, 101));
    assert_int_equal(c.pid, 100);
}

static void test_what_answers_used_is_held_by_living_processes_alone(void **state)
{
    struct shared *s = open_fresh();
    struct shared_usage *u = &s->pool[POOL_STREAM].child[7].usage[1];
    const int64_t born = shared_process_born(getpid());
    const pid_t other = fork();
    if (other == 0) {
        const bool held = shared_usage_take(&u->holder, getpid(), shared_process_born(getpid()));
        pause();
        _exit(!held);
    }
    while (!u->holder)
        clock_sleep_us(1000);
    assert_false(shared_usage_take(&u->holder, getpid(), born));
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    assert_true(shared_usage_take(&u->holder, getpid(), born));
    assert_false(
        shared_usage_take(&u->holder, getpid(), born)); /* another thread of it waits as well */
    shared_usage_give(&u->holder);
    assert_true(shared_usage_take(&u->holder, getpid(), born));
    shared_close(&s);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/test_shared.%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_of_all_processes_add_up),
        cmocka_unit_test(test_a_file_of_another_layout_is_replaced),
        cmocka_unit_test(test_failures_wait_longer_each_time),
        cmocka_unit_test(test_old_failures_are_forgotten),
        cmocka_unit_test(test_a_flood_of_keys_pushes_out_the_stalest),
        cmocka_unit_test(test_who_must_wait_is_never_pushed_out),
        cmocka_unit_test(test_hashes_of_names_differ_from_server_to_server),
        cmocka_unit_test(test_a_living_orphan_keeps_its_row),
        cmocka_unit_test(test_a_row_has_one_owner),
        cmocka_unit_test(test_what_answers_used_is_held_by_living_processes_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
