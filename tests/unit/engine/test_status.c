/* The status page: whole for every reader, and truthful about a writer that is gone or silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/wire/status.h"

static char path[64];

static int setup(void **state)
{
    snprintf(path, sizeof path, "/tmp/test-status-%d", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return 0;
}

static void test_no_file_is_an_error(void **state)
{
    struct status_page p;
    struct err e = {0};
    assert_false(status_read(path, &p, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

static void test_page_is_read_as_published(void **state)
{
    struct status_page p;
    struct err e = {0};
    struct stat st;
    struct status_writer *w = status_create(path, &e);
    assert_non_null(w);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.state, ENGINE_LOADING);
    struct status_page *page = status_begin(w);
    page->state = ENGINE_READY;
    page->jobs_running = 7;
    /* nobody sees it before the end, and nobody waits for it */
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.jobs_running, 0);
    status_end(w);
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.state, ENGINE_READY);
    assert_int_equal(p.jobs_running, 7);
    assert_int_equal(p.pid, getpid());
    status_close(&w);
    assert_null(w);
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.state, ENGINE_DOWN);
    assert_string_equal(p.error, "the engine was stopped");
}

static void test_killed_writer_reads_as_down(void **state)
{
    struct status_page p;
    struct err e = {0};
    int pipes[2];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        struct status_writer *w = status_create(path, &e);
        struct status_page *page = status_begin(w);
        page->state = ENGINE_READY;
        status_end(w);
        if (write(pipes[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.state, ENGINE_READY);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.state, ENGINE_DOWN);
    assert_string_equal(p.error, "the engine process is gone");
    close(pipes[0]);
    close(pipes[1]);
}

static void test_page_of_a_living_writer_is_not_replaced(void **state)
{
    struct err e = {0};
    struct status_page p;
    struct status_writer *w = status_create(path, &e);
    assert_non_null(w);
    assert_null(status_create(path, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_true(status_read(path, &p, &e));
    assert_int_equal(p.state, ENGINE_LOADING);
    status_close(&w);
    w = status_create(path, &e);
    assert_non_null(w);
    status_close(&w);
}

static void test_the_lock_ends_with_the_writer_whoever_holds_its_memory(void **state)
{
    struct err e = {0};
    int pipes[2];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    struct status_writer *w = status_create(path, &e);
    assert_non_null(w);
    pid_t holder = fork();
    if (holder == 0) {
        close_range(STDERR_FILENO + 1, ~0U, 0);
        pause();
        _exit(0);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 0); /* it has closed all it had, and has the page */
    close(pipes[0]);
    status_close(&w);
    w = status_create(path, &e);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_non_null(w);
    status_close(&w);
}

static void test_file_of_another_version_is_refused(void **state)
{
    struct status_page p;
    struct err e = {0};
    FILE *f = fopen(path, "w");
    fputs("short", f);
    fclose(f);
    assert_false(status_read(path, &p, &e));
    assert_int_equal(e.code, ERR_FORMAT);
}

struct torn {
    atomic_bool stop;
    struct status_writer *w;
};

static void *write_often(void *context)
{
    struct torn *t = context;
    for (uint64_t i = 1; !atomic_load(&t->stop); i++) {
        struct status_page *p = status_begin(t->w);
        p->steps = p->rows = p->jobs_accepted = p->time_to_first_token.total = i;
        p->jobs[STATUS_JOBS - 1].id = i;
        status_end(t->w);
    }
    return NULL;
}

static void test_reader_never_sees_a_torn_page(void **state)
{
    struct torn t = {0};
    struct err e = {0};
    struct status_page p;
    pthread_t thread;
    t.w = status_create(path, &e);
    assert_non_null(t.w);
    assert_int_equal(pthread_create(&thread, NULL, write_often, &t), 0);
    while (!status_read(path, &p, &e) || !p.steps) /* until it writes */
        assert_int_not_equal(e.code, ERR_FORMAT);
    for (int i = 0; i < 300; i++) {
        if (!status_read(path, &p, &e)) {
            assert_int_equal(e.code, ERR_BUSY);
            continue;
        }
        assert_int_equal(p.steps, p.rows);
        assert_int_equal(p.steps, p.time_to_first_token.total);
        assert_int_equal(p.steps, p.jobs[STATUS_JOBS - 1].id);
    }
    atomic_store(&t.stop, true);
    pthread_join(thread, NULL);
    status_close(&t.w);
}

static void test_histogram_counts_each_value_once(void **state)
{
    struct status_histogram h;
    status_histogram_init(&h, 0.001, 2);
    status_histogram_add(&h, 0.0005);
    status_histogram_add(&h, 0.001);
    status_histogram_add(&h, 0.0011);
    status_histogram_add(&h, 1e9);
    assert_int_equal(h.count[0], 2);
    assert_int_equal(h.count[1], 1);
    assert_int_equal(h.count[STATUS_BUCKETS - 1], 1);
    assert_int_equal(h.total, 4);
    assert_true(isinf(h.bound[STATUS_BUCKETS - 1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_file_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_page_is_read_as_published, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_writer_reads_as_down, setup, teardown),
        cmocka_unit_test_setup_teardown(test_page_of_a_living_writer_is_not_replaced, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_lock_ends_with_the_writer_whoever_holds_its_memory,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_of_another_version_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reader_never_sees_a_torn_page, setup, teardown),
        cmocka_unit_test(test_histogram_counts_each_value_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
