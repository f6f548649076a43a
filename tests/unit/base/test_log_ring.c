/* engine/base/log_ring.c: lines of several processes come out whole and in order; the oldest make
 * room. */
#include <fcntl.h>
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

#define LOG_MODULE "test"
#include "engine/base/log_ring.h"

static char path[64];
static struct log_ring_line lines[LOG_RING_LINES];

/* A process that joins and writes n lines whose text is one letter many times. */
static pid_t writer(char letter, int n)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    struct err e = {0};
    char text[300];
    char program[] = {letter, '\0'};
    if (!freopen("/dev/null", "w", stderr) || !log_ring_attach(path, program, &e))
        _exit(1);
    memset(text, letter, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; n < 0 || i < n; i++)
        log_info("%s", text);
    _exit(0);
}

static void check_whole(int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(strlen(lines[i].text), 299);
        assert_int_equal(strspn(lines[i].text, lines[i].program),
                         299); /* of one writer, all of it */
        assert_string_equal(lines[i].module, "test");
        assert_true(i == 0 || lines[i].sequence > lines[i - 1].sequence);
    }
}

static void test_lines_of_many_processes_are_whole(void **state)
{
    uint64_t next;
    unlink(path);
    for (char c = 'a'; c < 'e'; c++)
        writer(c, 400);
    while (wait(NULL) > 0)
        ;
    int n =
        log_ring_read(&(struct log_ring_query){path, 0, LOG_INFO, LOG_RING_LINES}, lines, &next);
    assert_int_equal(n, 1600);
    assert_int_equal(next, 1600);
    check_whole(n);
    assert_int_equal(
        log_ring_read(&(struct log_ring_query){path, next, LOG_INFO, LOG_RING_LINES}, lines, &next),
        0);
    assert_int_equal(log_ring_read(&(struct log_ring_query){path, 1590, LOG_INFO, 4}, lines, &next),
                     4);
    assert_int_equal(next, 1594);
    assert_int_equal(
        log_ring_read(&(struct log_ring_query){path, 0, LOG_WARN, LOG_RING_LINES}, lines, &next),
        0); /* none as grave */
}

/* What a writer leaves that wakes up in the middle of its copy, a whole ring late. */
static void test_a_line_that_is_half_another_is_not_shown(void **state)
{
    uint64_t next;
    char was;
    unlink(path);
    writer('a', 3);
    while (wait(NULL) > 0)
        ;
    assert_int_equal(
        log_ring_read(&(struct log_ring_query){path, 0, LOG_INFO, LOG_RING_LINES}, lines, &next),
        3);
    int fd = open(path, O_RDWR);
    off_t at = 0;
    do
        assert_int_equal(pread(fd, &was, 1, at++), 1);
    while (was != 'a' || at % 8); /* within the first line's text, of 299 letters */
    assert_int_equal(pwrite(fd, "b", 1, at - 1), 1);
    close(fd);
    assert_int_equal(
        log_ring_read(&(struct log_ring_query){path, 0, LOG_INFO, LOG_RING_LINES}, lines, &next),
        2);
    assert_int_equal(next, 3);
    check_whole(2);
}

static void test_the_oldest_make_room_and_a_killed_writer_spoils_nothing(void **state)
{
    uint64_t next = 0;
    unlink(path);
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        pids[i] = writer((char)('x' + i), -1);
    for (int i = 0; i < 50 || (next <= LOG_RING_LINES && i < 120000); i++) {
        check_whole(log_ring_read(&(struct log_ring_query){path, 0, LOG_DEBUG, LOG_RING_LINES},
                                  lines, &next));
        usleep(1000);
    }
    for (int i = 0; i < 3; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    int n =
        log_ring_read(&(struct log_ring_query){path, 0, LOG_DEBUG, LOG_RING_LINES}, lines, &next);
    assert_true(next > LOG_RING_LINES);
    /* at most one half line of each, and one that each spoiled when it woke up a whole ring late */
    assert_in_range(n, LOG_RING_LINES - 6, LOG_RING_LINES);
    check_whole(n);
    assert_int_equal(
        log_ring_read(&(struct log_ring_query){"/nonexistent", 7, LOG_DEBUG, 10}, lines, &next), 0);
    assert_int_equal(next, 7);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/sluice-log-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_many_processes_are_whole),
        cmocka_unit_test(test_a_line_that_is_half_another_is_not_shown),
        cmocka_unit_test(test_the_oldest_make_room_and_a_killed_writer_spoils_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
