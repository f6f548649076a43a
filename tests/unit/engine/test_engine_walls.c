/* engine/confine: what an engine that a model file or a driver has taken over reaches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/confine/confine.h"
#include "engine/confine/engine_walls.h"
#include "engine/confine/landlock.h"
#include "tests/unit/support/confined.h"

/* A state folder as `sluice up` has it: the cache and the model inside, secrets beside them. */
static char state[64], model[96], cache[96], elsewhere[64];

static void put(const char *folder, const char *name)
{
    char path[4096];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(file_write_atomic(path, "x", 1, 0600, &e));
}

static int make_state(void **unused)
{
    char link[128], blob[128];
    struct err e = {0};
    strcpy(state, "/tmp/sluice-walls-XXXXXX");
    strcpy(elsewhere, "/tmp/sluice-blobs-XXXXXX");
    if (!mkdtemp(state) || !mkdtemp(elsewhere))
        return 1;
    snprintf(model, sizeof model, "%s/models/m", state);
    snprintf(cache, sizeof cache, "%s/cache", state);
    if (!file_mkdirs(model, 0700, &e) || !file_mkdirs(cache, 0700, &e))
        return 1;
    put(state, "sluice.db");
    put(state, "factor.key");
    put(model, "config.json");
    put(elsewhere, "blob");
    put(elsewhere, "secret");
    snprintf(blob, sizeof blob, "%s/blob", elsewhere);
    snprintf(link, sizeof link, "%s/weights.safetensors", model);
    return symlink(blob, link);
}

static int remove_state(void **unused)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", state, elsewhere);
    return system(command) != 0;
}

static void enter(const struct engine_walls *with)
{
    struct engine_walls w = {.model = model, .cache_dir = cache};
    struct err e = {0};
    if (with)
        w = *with;
    CONFINED_EXPECT(engine_walls_enter(&w, &e));
}

/* ---- files ---- */

static void reach_files(void *unused)
{
    enter(NULL);
    CONFINED_EXPECT(confined_open(model, "config.json", O_RDONLY) >= 0);
    CONFINED_EXPECT(confined_open(model, "weights.safetensors", O_RDONLY) >= 0); /* a link */
    CONFINED_EXPECT(opendir(model));
    CONFINED_REFUSED(confined_open(model, "config.json", O_RDWR), EACCES);
    CONFINED_REFUSED(confined_open(elsewhere, "secret", O_RDONLY), EACCES);
    CONFINED_EXPECT(confined_open(cache, "new", O_CREAT | O_RDWR) >= 0);
    CONFINED_REFUSED(confined_open(state, "sluice.db", O_RDONLY), EACCES);
    CONFINED_REFUSED(confined_open(state, "factor.key", O_RDONLY), EACCES);
    CONFINED_REFUSED(confined_open(state, "new", O_CREAT | O_RDWR), EACCES);
    CONFINED_REFUSED(confined_open(state, ".", O_RDONLY | O_DIRECTORY), EACCES);
    char path[128], to[128];
    snprintf(path, sizeof path, "%s/sluice.db", state);
    snprintf(to, sizeof to, "%s/db", cache);
    CONFINED_REFUSED(unlink(path), EACCES);
    CONFINED_REFUSED(truncate(path, 0), EACCES);
    CONFINED_EXPECT(link(path, to) != 0 && rename(path, to) != 0);
    CONFINED_REFUSED(open("/etc/passwd", O_RDONLY), EACCES);
    CONFINED_REFUSED(open("/var/log", O_RDONLY), EACCES);
    CONFINED_REFUSED(open("/usr/lib/os-release", O_RDWR), EACCES);
    CONFINED_EXPECT(open("/usr/lib/os-release", O_RDONLY) >= 0); /* as a library is found */
    CONFINED_EXPECT(open("/proc/self/status", O_RDONLY) >= 0);
    CONFINED_EXPECT(open("/proc/meminfo", O_RDONLY) >= 0);
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)gettid());
    CONFINED_EXPECT(open(path, O_WRONLY | O_TRUNC) >= 0); /* drivers name their threads */
    CONFINED_REFUSED(open("/proc/self/oom_score_adj", O_WRONLY), EACCES);
    CONFINED_EXPECT(open("/dev/urandom", O_RDONLY) >= 0);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)getppid());
    CONFINED_REFUSED(open(path, O_RDONLY), EACCES);
}

static void test_the_engine_sees_its_model_and_nothing_of_the_state_folder(void **unused)
{
    if (!landlock_version())
        skip();
    assert_int_equal(confined_run(reach_files, NULL), 0);
}

/* A file among others: its parts and its packed experts, not the rest. */
static void reach_beside(void *folder)
{
    char file[256];
    snprintf(file, sizeof file, "%s/m-00001-of-00002.gguf", (char *)folder);
    enter(&(struct engine_walls){.model = file});
    CONFINED_EXPECT(confined_open(folder, "m-00001-of-00002.gguf", O_RDONLY) >= 0);
    CONFINED_EXPECT(confined_open(folder, "m-00002-of-00002.gguf", O_RDONLY) >= 0);
    CONFINED_EXPECT(confined_open(folder, "m-00001-of-00002.gguf.experts", O_RDONLY) >= 0);
    CONFINED_REFUSED(confined_open(folder, "sluice.db", O_RDONLY), EACCES);
    CONFINED_REFUSED(confined_open(folder, "x.gguf", O_CREAT | O_RDWR), EACCES);
}

static void test_of_a_file_what_belongs_to_it_is_seen(void **unused)
{
    if (!landlock_version())
        skip();
    put(state, "m-00001-of-00002.gguf");
    put(state, "m-00002-of-00002.gguf");
    put(state, "m-00001-of-00002.gguf.experts");
    assert_int_equal(confined_run(reach_beside, state), 0);
}

/* ---- calls ---- */

static void *idle(void *unused)
{
    return unused;
}

static void try_calls(void *unused)
{
    char *const args[] = {"/bin/true", NULL};
    pthread_t thread;
    int pair[2];
    struct rlimit files = {.rlim_cur = 100, .rlim_max = 100};
    enter(NULL);
    CONFINED_REFUSED(execv("/bin/true", args), EPERM);
    CONFINED_REFUSED(fork(), EPERM);
    CONFINED_REFUSED(syscall(SYS_clone3, NULL, 0), ENOSYS);
    CONFINED_EXPECT(pthread_create(&thread, NULL, idle, NULL) == 0);
    CONFINED_EXPECT(pthread_join(thread, NULL) == 0);
    CONFINED_REFUSED(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
    CONFINED_REFUSED(socket(AF_INET6, SOCK_DGRAM, 0), EAFNOSUPPORT);
    CONFINED_REFUSED(socket(AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT);
    CONFINED_REFUSED(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
    CONFINED_REFUSED(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT);
    CONFINED_EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CONFINED_EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CONFINED_REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
    CONFINED_REFUSED(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0), EPERM);
    CONFINED_REFUSED(kill(getppid(), 0), EPERM);
    CONFINED_REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0), EPERM);
    CONFINED_EXPECT(raise(0) == 0);
    CONFINED_REFUSED(prlimit(getppid(), RLIMIT_NOFILE, &files, NULL), EPERM);
    CONFINED_EXPECT(getrlimit(RLIMIT_NOFILE, &files) == 0);
    CONFINED_REFUSED(unshare(CLONE_NEWUSER), EPERM);
    CONFINED_REFUSED(syscall(SYS_keyctl, 0, 0, 0, 0, 0), EPERM);
    CONFINED_REFUSED(syscall(SYS_bpf, 0, NULL, 0), EPERM);
    CONFINED_REFUSED(syscall(SYS_mount, "a", "b", "c", 0, NULL), EPERM);
    CONFINED_REFUSED(syscall(SYS_userfaultfd, 0), EPERM);
    CONFINED_REFUSED(setuid(getuid()), EPERM);
    CONFINED_EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CONFINED_EXPECT(prctl(PR_GET_DUMPABLE) == 0);
    /* rings are for loading: EFAULT is the kernel's own answer */
    CONFINED_REFUSED(syscall(SYS_io_uring_setup, 1, NULL), EFAULT);
    engine_walls_loaded(false);
    CONFINED_REFUSED(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
}

static void test_the_engine_runs_nothing_and_connects_to_nothing(void **unused)
{
    if (!CONFINED_CALLS)
        skip();
    assert_int_equal(confined_run(try_calls, NULL), 0);
}

/* ---- told otherwise ---- */

static void enter_openly(void *unused)
{
    struct engine_walls w = {
        .model = model, .cache_dir = cache, .without_landlock = true, .without_seccomp = true};
    enter(&w);
    CONFINED_EXPECT(confined_open(state, "sluice.db", O_RDONLY) >= 0);
    CONFINED_EXPECT(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    engine_walls_loaded(true);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CONFINED_EXPECT(pid > 0 && waitpid(pid, NULL, 0) == pid);
}

static void test_options_leave_the_walls_out(void **unused)
{
    assert_int_equal(confined_run(enter_openly, NULL), 0);
}

/* ---- a pool that connects ---- */

static void connect_out(void *unused)
{
    const struct confine c = {
        .who = "test", .leave = CALL_FILTER_NETWORK, .without_landlock = true};
    struct err e = {0};
    CONFINED_EXPECT(confine_enter(&c, -1, &e));
    CONFINED_EXPECT(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    CONFINED_EXPECT(socket(AF_INET6, SOCK_STREAM, 0) >= 0 || errno == EAFNOSUPPORT);
    CONFINED_EXPECT(socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
    CONFINED_REFUSED(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
    CONFINED_REFUSED(fork(), EPERM);
    /* and of unix sockets only what can't be connected to a path */
    int pair[2];
    CONFINED_REFUSED(socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    CONFINED_REFUSED(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), EAFNOSUPPORT);
    CONFINED_REFUSED(socketpair(AF_UNIX, SOCK_RAW, 0, pair), EAFNOSUPPORT);
    CONFINED_EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CONFINED_EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
}

static void test_the_network_is_a_switch(void **unused)
{
    if (!CONFINED_CALLS)
        skip();
    assert_int_equal(confined_run(connect_out, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_the_engine_sees_its_model_and_nothing_of_the_state_folder, make_state,
            remove_state),
        cmocka_unit_test_setup_teardown(test_of_a_file_what_belongs_to_it_is_seen, make_state,
                                        remove_state),
        cmocka_unit_test_setup_teardown(test_the_engine_runs_nothing_and_connects_to_nothing,
                                        make_state, remove_state),
        cmocka_unit_test_setup_teardown(test_options_leave_the_walls_out, make_state, remove_state),
        cmocka_unit_test(test_the_network_is_a_switch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
