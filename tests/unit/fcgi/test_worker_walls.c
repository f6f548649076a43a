/* fcgi/process/worker_walls.h: what a worker that was taken over reaches, and runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/confine/landlock.h"
#include "fcgi/process/reader_program.h"
#include "fcgi/process/worker_walls.h"
#include "tests/unit/support/confined.h"

static char state[64], elsewhere[64];

static void put(const char *folder, const char *name, const char *text)
{
    char path[4096];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(file_write_atomic(path, text, strlen(text), 0600, &e));
}

static int make_folders(void **unused)
{
    char models[128];
    strcpy(state, "/tmp/sluice-walls-XXXXXX");
    strcpy(elsewhere, "/tmp/sluice-models-XXXXXX");
    if (!mkdtemp(state) || !mkdtemp(elsewhere))
        return 1;
    snprintf(models, sizeof models, "{\"folders\":[\"%s\",3]}", elsewhere);
    put(state, "models.json", models);
    put(state, "sluice.db", "x");
    put(elsewhere, "model.gguf", "x");
    return 0;
}

static int remove_folders(void **unused)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", state, elsewhere);
    return system(command) != 0;
}

static void lock_in(enum worker_pool pool, bool network)
{
    const struct worker w = {.pool = pool,
                             .state_dir = state,
                             .run_dir = state,
                             .engine_run = state,
                             .log_path = state,
                             .cache_dir = state,
                             .network = network};
    struct err e = {0};
    CONFINED_EXPECT(worker_walls_master(&w, &e));
    CONFINED_EXPECT(worker_walls_child(&w, &e));
}

/* 0: it ran and ended well; else why it did not. */
static int run(const char *program, char *argument)
{
    char *const args[] = {(char *)program, argument, NULL};
    pid_t pid;
    int status, rc;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawn(&pid, program, &quiet, NULL, args, NULL);
    return rc                                                     ? rc
           : waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                  : -1;
}

static void be_stream(void *unused)
{
    char reader[4096];
    reader_program_find(reader);
    lock_in(POOL_STREAM, false);
    CONFINED_EXPECT(confined_open(state, "sluice.db", O_RDWR) >= 0);
    CONFINED_EXPECT(confined_open(state, "new", O_RDWR | O_CREAT) >= 0);
    CONFINED_REFUSED(confined_open(elsewhere, "model.gguf", O_RDONLY), EACCES);
    CONFINED_REFUSED(open("/etc/passwd", O_RDONLY), EACCES);
    CONFINED_REFUSED(confined_open("/tmp", "new", O_RDWR | O_CREAT), EACCES);
    CONFINED_EXPECT(run("/bin/true", NULL) == EACCES && run("/bin/sh", NULL) == EACCES);
    CONFINED_EXPECT(access(reader, X_OK) != 0 || run(reader, "--version") == 0);
    if (!CONFINED_CALLS)
        return;
    CONFINED_REFUSED(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
    CONFINED_EXPECT(kill(getppid(), 0) != 0 || landlock_version() < 6);
}

static void test_a_stream_worker_reaches_its_folders_and_runs_the_reader(void **unused)
{
    if (!landlock_version())
        skip();
    assert_int_equal(confined_run(be_stream, NULL), 0);
}

static void be_short(void *unused)
{
    lock_in(POOL_SHORT, true);
    CONFINED_EXPECT(confined_open(elsewhere, "model.gguf", O_RDONLY) >= 0); /* the page lists it */
    CONFINED_REFUSED(confined_open(elsewhere, "model.gguf", O_RDWR), EACCES);
    CONFINED_EXPECT(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    CONFINED_EXPECT(access("/etc/hosts", R_OK) != 0 || open("/etc/hosts", O_RDONLY) >= 0);
    CONFINED_REFUSED(open("/etc/passwd", O_RDONLY), EACCES);
}

static void test_a_pool_that_connects_finds_its_way(void **unused)
{
    if (!landlock_version())
        skip();
    assert_int_equal(confined_run(be_short, NULL), 0);
}

static void be_recorder(void *unused)
{
    char reader[4096], *args[] = {reader, NULL};
    reader_program_find(reader);
    lock_in(POOL_RECORD, false);
    CONFINED_EXPECT(confined_open(state, "sluice.db", O_RDWR) >= 0);
    CONFINED_REFUSED(execv(reader, args), EPERM);
    CONFINED_REFUSED(fork(), EPERM);
    CONFINED_REFUSED(kill(getppid(), 0), EPERM);
    CONFINED_REFUSED(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
    CONFINED_EXPECT(socket(AF_UNIX, SOCK_DGRAM, 0) >= 0);
}

static void test_the_recorder_runs_nothing(void **unused)
{
    if (!landlock_version() || !CONFINED_CALLS)
        skip();
    assert_int_equal(confined_run(be_recorder, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_worker_reaches_its_folders_and_runs_the_reader),
        cmocka_unit_test(test_a_pool_that_connects_finds_its_way),
        cmocka_unit_test(test_the_recorder_runs_nothing),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
