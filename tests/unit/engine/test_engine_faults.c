/* The engine against clients that misbehave: that leave, sleep, send garbage, or take all
 * descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/wire/message.h"
#include "tests/unit/engine/engine_process.h"
#include "tests/unit/engine/engine_rig.h"
#include "tests/unit/support/process_cpu.h"
#include "tests/unit/support/patience.h"

static int raw_connection(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, engine.socket);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Of those who gave up waiting for an engine that hung: a cancel is heard when it goes on, a job is
 * not begun. */
static void test_who_left_is_heard_and_not_served(void **state)
{
    struct err e = {0};
    struct answer_text a;
    struct status_page before, after;
    struct buf out = {0};
    assert_true(engine_process_wait_idle(&engine, &before));
    struct engine_job_params p = long_params();
    p.detached = true;
    strcpy(p.key, "left-cancel");
    struct engine_job *j = submit(&p);
    kill(engine.pid, SIGSTOP);
    assert_int_equal(waitpid(engine.pid, NULL, WUNTRACED), engine.pid);
    assert_true(engine_cancel_async(engine.socket, p.key, &e));
    strcpy(p.key, "left-job");
    message_put_hello(&out, "test");
    assert_true(message_put_submit(&out, &p, &e));
    int fd = raw_connection();
    assert_int_equal(send(fd, out.data, out.len, MSG_NOSIGNAL), out.len);
    close(fd);
    buf_fini(&out);
    kill(engine.pid, SIGCONT);
    assert_true(answer_read(j, &a));
    assert_int_equal(a.last.finish, ENGINE_CANCELLED);
    engine_close(&j);
    assert_true(engine_process_wait_idle(&engine, &after));
    assert_int_equal(after.jobs_accepted, before.jobs_accepted + 1);
    assert_null(engine_attach(engine.socket, "left-job", &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

static void test_garbage_ends_its_own_connection_only(void **state)
{
    struct answer_text a;
    unsigned seed = 1;
    for (int i = 0; i < 50; i++) {
        char bytes[256];
        int fd = raw_connection();
        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 1103515245u + 12345;
            bytes[k] = (char)(seed >> 16);
        }
        if (i % 2)
            memcpy(bytes, "\x08\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
                   20); /* a right HELLO first */
        send(fd, bytes, i % 3 ? sizeof bytes : (size_t)i, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
            ;
        close(fd);
    }
    struct engine_job_params p = hello_params(5);
    struct engine_job *j = submit(&p);
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    engine_close(&j);
}

static void test_reader_that_sleeps_does_not_stop_others(void **state)
{
    struct answer_text a;
    struct engine_job_params p = long_params();
    p.top_logprobs = 20;
    struct engine_job *sleeper = submit(&p); /* some 90 KiB of events that nobody reads now */
    struct engine_job_params other = hello_params(20);
    struct engine_job *j = submit(&other);
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    engine_close(&j);
    assert_true(answer_read(sleeper, &a)); /* it finds everything later */
    assert_true(a.done);
    assert_int_equal(a.n_tokens, 490);
    engine_close(&sleeper);
}

static void test_random_disconnects_leave_nothing_behind(void **state)
{
    enum { N = 150 };
    struct engine_job *jobs[8] = {0};
    struct status_page page;
    struct engine_event ev;
    struct err e = {0};
    unsigned seed = 3;
    for (int i = 0; i < N; i++) {
        seed = seed * 1103515245u + 12345;
        unsigned dice = seed >> 16, at = dice % 8;
        if (jobs[at]) {
            if (dice & 8)
                engine_cancel(jobs[at], &e);
            if (dice & 16)
                engine_next(jobs[at], &ev, (int)(dice % 20), &e);
            engine_close(&jobs[at]);
        } else {
            struct engine_job_params p =
                dice & 32 ? long_params() : hello_params((int32_t)(dice % 10));
            p.user = dice % 30;
            p.detached = dice % 5 == 0;
            snprintf(p.key, sizeof p.key, "hammer-%d", i);
            jobs[at] = submit(&p);
            if (p.detached && dice & 64)
                assert_true(engine_cancel_key(engine.socket, p.key, &e));
        }
    }
    for (int i = 0; i < 8; i++)
        engine_close(&jobs[i]);
    for (int i = 0; i < N; i++) {
        char key[ENGINE_KEY_SIZE];
        snprintf(key, sizeof key, "hammer-%d", i);
        engine_cancel_key(engine.socket, key, &e);
    }
    assert_true(engine_process_wait_idle(&engine, &page));
    assert_int_equal(status_jobs_succeeded(page.jobs_done) + page.jobs_done[OUTCOME_FAILED],
                     page.jobs_accepted);
    assert_int_equal(page.n_jobs, 0);
}

static void test_without_descriptors_connections_wait_and_nothing_spins(void **state)
{
    struct rlimit old;
    struct answer_text a;
    struct engine_job_params p = hello_params(50);
    struct status_page page;
    assert_true(engine_process_wait_idle(&engine, &page));
    assert_int_equal(prlimit(engine.pid, RLIMIT_NOFILE, NULL, &old), 0);
    assert_int_equal(prlimit(engine.pid, RLIMIT_NOFILE,
                             &(struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max}, NULL),
                     0);
    int waiting = raw_connection();
    struct pollfd greeted = {.fd = waiting, .events = POLLIN};
    double before = process_cpu_seconds(engine.pid);
    assert_int_equal(poll(&greeted, 1, 1000), 0);
    assert_true(process_cpu_seconds(engine.pid) - before <= 0.1);
    assert_int_equal(prlimit(engine.pid, RLIMIT_NOFILE, &old, NULL), 0);
    assert_int_equal(poll(&greeted, 1, PATIENCE_MS), 1); /* HELLO */
    close(waiting);
    struct engine_job *j = submit(&p);
    assert_true(answer_read(j, &a) && a.done);
    engine_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_left_is_heard_and_not_served),
        cmocka_unit_test(test_garbage_ends_its_own_connection_only),
        cmocka_unit_test(test_reader_that_sleeps_does_not_stop_others),
        cmocka_unit_test(test_random_disconnects_leave_nothing_behind),
        cmocka_unit_test(test_without_descriptors_connections_wait_and_nothing_spins),
    };
    return cmocka_run_group_tests(tests, start_engine, stop_engine);
}
