/* fcgi/process/pool_master.c and fcgi/process/child.c where descriptors run out: neither forking
 * nor accepting becomes a busy loop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "fcgi/http/dialect.h"
#include "fcgi/http/serve.h"
#include "fcgi/process/child.h"
#include "fcgi/process/listen.h"
#include "fcgi/process/pool_master.h"
#include "fcgi/process/shared.h"
#include "tests/unit/support/process_cpu.h"
#include "tests/unit/support/patience.h"

static const struct child_service service = {
    .open = serve_open, .serve = serve_request, .close = serve_close};

static char dir[64], database[96];
static struct worker worker;

static int set_up(void **state)
{
    struct err e = {0};
    char path[96];
    strcpy(dir, "/tmp/test-pool-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(database, sizeof database, "%s/none/db",
             dir); /* can't be opened, which serving outlives */
    snprintf(path, sizeof path, "%s/shared", dir);
    worker =
        (struct worker){.pool = POOL_STREAM, .db_path = database, .shared = shared_open(path, &e)};
    return worker.shared ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[96];
    shared_close(&worker.shared);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void end(pid_t pid, int expected)
{
    int status = 0;
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

/* A master whose children can't serve; gives its process when it has forked two. */
static pid_t start_master(int n_threads)
{
    struct shared_pool *board = &worker.shared->pool[POOL_STREAM];
    struct pool_master_params p = {.worker = &worker,
                                   .service = &service,
                                   .stream_abort = dialect_stream_abort,
                                   .n_threads = n_threads,
                                   .min_idle = 2,
                                   .max_children = 4,
                                   .grace_ms = 1000};
    const uint64_t before = board->started;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err e = {0};
        p.listen_fd =
            open("/dev/null", O_RDWR | O_CLOEXEC); /* epoll refuses it: no child comes to serve */
        _exit(pool_master_run(&p, &e) ? 0 : 1);
    }
    for (double until = clock_ms() + PATIENCE_MS;
         board->started < before + 2 && clock_ms() < until;)
        poll(NULL, 0, 5);
    return pid;
}

static void run_for(int ms, int n_threads, uint64_t *started, uint64_t *crashed)
{
    struct shared_pool *board = &worker.shared->pool[POOL_STREAM];
    pid_t pid = start_master(n_threads);
    poll(NULL, 0, ms);
    end(pid, 0);
    assert_in_range(board->n_rows, 2, 4); /* as many as there were at once */
    *started = board->started;
    *crashed = board->crashed;
}

static void test_a_master_that_ends_late_leaves_its_successors_number(void **state)
{
    _Atomic int32_t *number = &worker.shared->pool[POOL_STREAM].master_pid;
    pid_t pid = start_master(1);
    assert_int_equal(*number, pid);
    end(pid, 0);
    assert_int_equal(*number, 0);
    pid = start_master(1);
    *number = getpid(); /* as the next one does, once the supervisor of this one was killed */
    end(pid, 0);
    assert_int_equal(*number, getpid());
}

static void test_children_that_cannot_start_are_forked_ever_more_seldom(void **state)
{
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        uint64_t before = worker.shared->pool[POOL_STREAM].started, started, crashed;
        run_for(1000, n_threads, &started, &crashed);
        assert_true(started - before >= 2); /* pairs after 0, 100, 300, 700 ms */
        assert_true(started - before <= 12);
        assert_int_equal(crashed, started);
    }
}

static int connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Who accepts a connection that says nothing closes it. */
static bool is_closed_within(int fd, int ms)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1 && read(fd, &byte, 1) <= 0;
}

static pid_t start_child(const char *path)
{
    struct err e = {0};
    int listen_fd = listen_unix(path, NULL, &e);
    assert_true(listen_fd >= 0);
    worker.shared->pool[POOL_STREAM].master_pid = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        struct child_params p = {.worker = &worker,
                                 .service = &service,
                                 .slot = &worker.shared->pool[POOL_STREAM].child[0],
                                 .stream_abort_fd = -1,
                                 .listen_fd = listen_fd,
                                 .wake_fd = eventfd(0, EFD_NONBLOCK),
                                 .n_threads = 1};
        _exit(child_signals() ? child_run(&p) : 1);
    }
    close(listen_fd);
    return pid;
}

static void test_without_descriptors_a_child_waits_and_recovers(void **state)
{
    char path[96];
    struct rlimit old;
    snprintf(path, sizeof path, "%s/socket", dir);
    pid_t pid = start_child(path);
    int first = connect_to(path);
    shutdown(first, SHUT_WR);
    assert_true(is_closed_within(first, PATIENCE_MS));
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &old), 0);
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE,
                             &(struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max}, NULL),
                     0);
    int second = connect_to(path);
    shutdown(second, SHUT_WR);
    double before = process_cpu_seconds(pid);
    assert_false(is_closed_within(second, 1000));
    assert_true(process_cpu_seconds(pid) - before <= 0.1);
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &old, NULL), 0);
    assert_true(is_closed_within(second, PATIENCE_MS));
    end(pid, 0);
    close(first);
    close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_children_that_cannot_start_are_forked_ever_more_seldom,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_master_that_ends_late_leaves_its_successors_number,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_descriptors_a_child_waits_and_recovers, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
