/* fcgi/auth/usage_ledger.c: each answer is counted once, whoever is killed and wherever. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/inference/usage.h"
#include "fcgi/process/shared.h"
#include "tests/unit/store/store_fixture.h"

#define TOKENS 7 /* of each answer */
#define KILLS 60
#define SQL_SUM(column) "SELECT coalesce(sum(" column "), 0) FROM usage"

static struct shared *open_fresh(const struct fixture *f)
{
    char path[300];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/shared", f->folder);
    unlink(path);
    struct shared *s = shared_open(path, &e);
    assert_non_null(s);
    s->pool[POOL_STREAM].n_rows = 10;
    return s;
}

/* What a worker does for an answer. */
static bool end_answer(struct shared_child *c, struct store *store, int64_t user)
{
    struct err e = {0};
    const struct store_usage row = {
        .user_id = user, .requests = 1, .prompt_tokens = TOKENS, .completion_tokens = TOKENS};
    c->answer++;
    c->user_id = user;
    const bool added = usage_ledger_add(c, store, &row, &e);
    c->user_id = 0;
    return added;
}

static pid_t begin_answering(struct shared_child *c, int64_t user)
{
    const uint64_t before = c->answer;
    const pid_t pid = fork();
    if (pid == 0) {
        c->born = shared_process_born(getpid());
        for (;;)
            end_answer(c, NULL, user);
    }
    while (c->answer == before)
        clock_sleep_us(20);
    return pid;
}

static void test_a_process_that_is_killed_leaves_no_answer_half_or_twice(void **state)
{
    struct fixture *f = *state;
    struct shared *s = open_fresh(f);
    struct shared_child *c = &s->pool[POOL_STREAM].child[3];
    struct err e = {0};
    int64_t counted = 0;
    for (int i = 0; i < KILLS; i++) {
        const pid_t pid = begin_answering(c, f->user);
        clock_sleep_us(rand() % 200);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        ASSERT_OK(usage_ledger_count(s, f->store, &e));
        const int64_t sum = fixture_number(f->path, SQL_SUM("requests"));
        assert_int_equal(fixture_number(f->path, SQL_SUM("prompt_tokens")), TOKENS * sum);
        assert_int_equal(fixture_number(f->path, SQL_SUM("completion_tokens")), TOKENS * sum);
        assert_true(sum >= counted);
        if (c->user_id)
            assert_int_equal(sum + !usage_ledger_has(c), c->answer);
        c->answer = (uint64_t)(counted = sum); /* the last one, where it is not in, is the slot's */
        c->user_id = 0;
    }
    assert_true(counted > KILLS);
    shared_close(&s);
}

static pid_t begin_counting(struct shared *s, const struct fixture *f)
{
    const uint64_t before = s->usage_moves;
    const pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        struct store *store = store_open(&(struct store_params){.path = f->path}, &e);
        while (store)
            usage_ledger_count(s, store, &e);
        _exit(1);
    }
    while (s->usage_moves / 2 == before / 2)
        clock_sleep_us(20);
    return pid;
}

static void test_who_is_killed_while_counting_has_nothing_counted_twice(void **state)
{
    struct fixture *f = *state;
    struct shared *s = open_fresh(f);
    struct shared_child *c = &s->pool[POOL_STREAM].child[9];
    struct err e = {0};
    int64_t answers = 0;
    c->born = shared_process_born(getpid());
    for (int i = 0; i < KILLS / 2; i++) {
        assert_true(end_answer(c, f->store, f->user));
        const pid_t pid = begin_counting(s, f);
        for (const double until = clock_ms() + rand() % 8; clock_ms() < until; answers++)
            assert_true(end_answer(c, f->store, f->user));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        answers++;
        assert_true(end_answer(c, f->store, f->user)); /* not into what was being counted */
        answers++;
        ASSERT_OK(usage_ledger_count(s, f->store, &e));
        assert_int_equal(fixture_number(f->path, SQL_SUM("requests")), answers);
        assert_int_equal(fixture_number(f->path, SQL_SUM("prompt_tokens")), answers * TOKENS);
        assert_int_equal(s->usage_moves % 2, 0);
    }
    shared_close(&s);
}

/* As it is between the database's having a row and the row's clearing. */
static void test_a_batch_that_arrived_is_cleared_alone(void **state)
{
    struct fixture *f = *state;
    struct shared *s = open_fresh(f);
    struct shared_child *c = &s->pool[POOL_STREAM].child[0];
    struct shared_used kept[SHARED_USED];
    struct err e = {0};
    c->born = shared_process_born(getpid());
    assert_true(end_answer(c, f->store, f->user));
    memcpy(kept, c->usage[0].used, sizeof kept);
    ASSERT_OK(usage_ledger_count(s, f->store, &e));
    memcpy(c->usage[0].used, kept, sizeof kept);
    c->usage[0].any = 1;
    c->usage[0].batch = --s->usage_moves;
    assert_true(end_answer(c, f->store, f->user));
    assert_int_equal(c->usage[1].any, 1);
    ASSERT_OK(usage_ledger_count(s, f->store, &e));
    assert_int_equal(fixture_number(f->path, SQL_SUM("requests")), 2);
    assert_int_equal(c->usage[0].batch | c->usage[0].any | s->usage_moves % 2, 0);
    shared_close(&s);
}

static void test_an_answer_finds_room_while_the_database_is_written(void **state)
{
    struct fixture *f = *state;
    struct shared *s = open_fresh(f);
    struct shared_child *c = &s->pool[POOL_STREAM].child[0];
    struct err e = {0};
    c->born = shared_process_born(getpid());
    assert_true(end_answer(c, NULL, f->user));
    const pid_t other = fork(); /* who counts, and waits for the disk */
    if (other == 0) {
        const bool held =
            shared_usage_take(&s->usage_counter, getpid(), shared_process_born(getpid()));
        s->usage_moves = 1;
        shared_usage_take(&c->usage[0].holder, getpid(), shared_process_born(getpid()));
        pause();
        _exit(!held);
    }
    while (!c->usage[0].holder)
        clock_sleep_us(100);
    assert_true(end_answer(c, NULL, f->user));
    ASSERT_OK(usage_ledger_count(s, f->store, &e)); /* takes not the other row meanwhile */
    assert_int_equal(fixture_number(f->path, SQL_SUM("requests")), 0);
    assert_true(end_answer(c, NULL, f->user));
    int64_t used = 0;
    const struct usage_of of = {f->user, clock_wall_s() / 86400};
    ASSERT_OK(usage_ledger_used(s, f->store, &of, &used, &e));
    assert_int_equal(used, 3 * 2 * TOKENS);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    ASSERT_OK(usage_ledger_count(s, f->store, &e));
    assert_int_equal(fixture_number(f->path, SQL_SUM("requests")), 3);
    assert_int_equal(s->usage_moves % 2, 0);
    ASSERT_OK(usage_ledger_used(s, f->store, &of, &used, &e));
    assert_int_equal(used, 3 * 2 * TOKENS);
    shared_close(&s);
}

/* As usage_track does. */
static void begin_answer(struct shared_child *c, int64_t user)
{
    c->answer++;
    c->prompt_tokens = TOKENS;
    c->usage_pid = getpid();
    c->usage_born = shared_process_born(getpid());
    c->user_id = user;
}

/* Nor is it lost with who finds it while the database can't be written. */
static void test_what_a_dead_process_left_is_kept_until_it_can_be_counted(void **state)
{
    struct fixture *f = *state;
    struct shared *s = open_fresh(f);
    struct shared_child *c = &s->pool[POOL_STREAM].child[5];
    struct err e = {0};
    const pid_t dead = fork();
    if (dead == 0) {
        begin_answer(c, f->user);
        _exit(0);
    }
    waitpid(dead, NULL, 0);
    fixture_number(f->path, "ALTER TABLE usage RENAME TO away");
    for (int i = 0; i < 2; i++)
        usage_sweep(s, f->store);
    assert_int_equal(c->user_id, 0);
    fixture_number(f->path, "ALTER TABLE away RENAME TO usage");
    ASSERT_OK(usage_ledger_count(s, f->store, &e));
    usage_sweep(s, f->store);
    assert_int_equal(fixture_number(f->path, SQL_SUM("requests")), 1);
    assert_int_equal(fixture_number(f->path, SQL_SUM("prompt_tokens")), TOKENS);
    shared_close(&s);
}

/* Who waits for the row meanwhile finds the next process's answer there. */
static void test_the_answer_of_the_next_process_is_not_taken_for_the_dead_ones(void **state)
{
    struct fixture *f = *state;
    struct shared *s = open_fresh(f);
    struct shared_child *c = &s->pool[POOL_STREAM].child[5];
    const struct store_usage row = {.user_id = f->user, .requests = 1, .prompt_tokens = TOKENS};
    const struct usage_of of = {f->user, clock_wall_s() / 86400};
    const pid_t dead = fork();
    if (dead == 0) {
        begin_answer(c, f->user);
        _exit(0);
    }
    waitpid(dead, NULL, 0);
    const uint64_t left = c->answer;
    assert_true(usage_ledger_is_left(c, left));
    begin_answer(c, f->user);
    assert_true(usage_ledger_adopt(c, left, &row));
    assert_int_equal(c->user_id, f->user);
    assert_int_equal(usage_ledger_due(s, &of), 0);
    shared_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_a_process_that_is_killed_leaves_no_answer_half_or_twice, fixture_up, fixture_down),
        cmocka_unit_test_setup_teardown(test_who_is_killed_while_counting_has_nothing_counted_twice,
                                        fixture_up, fixture_down),
        cmocka_unit_test_setup_teardown(test_a_batch_that_arrived_is_cleared_alone, fixture_up,
                                        fixture_down),
        cmocka_unit_test_setup_teardown(test_an_answer_finds_room_while_the_database_is_written,
                                        fixture_up, fixture_down),
        cmocka_unit_test_setup_teardown(
            test_what_a_dead_process_left_is_kept_until_it_can_be_counted, fixture_up,
            fixture_down),
        cmocka_unit_test_setup_teardown(
            test_the_answer_of_the_next_process_is_not_taken_for_the_dead_ones, fixture_up,
            fixture_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
