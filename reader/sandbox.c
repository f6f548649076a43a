/* Confines the process by Landlock (files), seccomp (system calls) and resource limits, before the
 * file is read. */
#include "reader/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/confine/landlock.h"
#include "reader/reader.h"

#if defined(__SANITIZE_ADDRESS__)
#define BOUND_MEMORY false /* its shadow is terabytes */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* looks for leaks from a second process */
}
#else
#define BOUND_MEMORY true
#endif

#define MAX_FILES 64

static bool limit(int what, rlim_t value)
{
    const struct rlimit l = {.rlim_cur = value, .rlim_max = value};
    return setrlimit(what, &l) == 0;
}

static bool set_limits(const struct sandbox_limits *l)
{
    return limit(RLIMIT_CPU, (rlim_t)l->cpu_s) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_CORE, 0) &&
           limit(RLIMIT_NOFILE, MAX_FILES) && limit(RLIMIT_NPROC, 0) &&
           (!BOUND_MEMORY || limit(RLIMIT_AS, (rlim_t)l->memory_bytes));
}

/* What programs, their libraries, fonts, character sets and file types are read from. No home, no
 * state, no /proc. */
static bool hide_files(void)
{
    static const char *const readable[] = {
        "/usr", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", READER_FILES, NULL};
    const int rules = landlock_begin(false, true);
    if (rules < 0)
        return false;
    landlock_allow_all(rules, readable, LANDLOCK_RUN);
    return landlock_end(rules);
}

/* ---- seccomp ---- */

/* What a program that reads standard input and libraries, and writes to standard output, asks of
 * the kernel. */
static const char *const allowed[] = {
    "read",         "readv",         "pread64",         "preadv",
    "write",        "writev",        "lseek",           "_llseek",
    "close",        "close_range",   "fstat",           "fstat64",
    "fstatfs",      "fstatfs64",     "getcwd",          "getdents64",
    "munmap",       "mremap",        "madvise",         "brk",
    "futex",        "futex_time64",  "set_robust_list", "set_tid_address",
    "rseq",         "arch_prctl",    "set_tls",         "getrandom",
    "uname",        "sysinfo",       "getpid",          "gettid",
    "getppid",      "getuid",        "geteuid",         "getgid",
    "getegid",      "getuid32",      "geteuid32",       "getgid32",
    "getegid32",    "getrlimit",     "ugetrlimit",      "sched_getaffinity",
    "sched_yield",  "clock_gettime", "clock_gettime64", "clock_getres",
    "gettimeofday", "time",          "nanosleep",       "clock_nanosleep",
    "poll",         "ppoll",         "rt_sigaction",    "rt_sigprocmask",
    "rt_sigreturn", "sigreturn",     "sigaltstack",     "restart_syscall",
    "fadvise64",    "fadvise64_64",  "execve",          "seccomp",
    "prctl",        "exit",          "exit_group",
};

static bool allow(scmp_filter_ctx c, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return true; /* not on this architecture */
    int rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, number, 0);
    return rc == 0 || rc == -EDOM || rc == -EOPNOTSUPP;
}

/* Only what neither writes nor makes a file. */
static bool allow_opening(scmp_filter_ctx c)
{
    const unsigned changing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
    int rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, changing, 0));
    int older = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, changing, 0));
    return rc == 0 && (older == 0 || older == -EDOM);
}

/* What a descriptor is of. Older C libraries ask by newfstatat, whose path a filter cannot read: it
 * stays for the loader of libraries, and sandbox_forbid_files ends it. */
static bool allow_fstat(scmp_filter_ctx c)
{
    int rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1,
                              SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH));
    return rc == 0 || rc == -EDOM || rc == -EOPNOTSUPP;
}

/* Pages that are data, and code as the loader maps it: from a file, never to be written. Standard
 * input, where the hostile file is, is no code. */
static bool allow_memory(scmp_filter_ctx c)
{
    static const int maps[] = {SCMP_SYS(mmap), SCMP_SYS(mmap2)};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        int data = seccomp_rule_add(c, SCMP_ACT_ALLOW, maps[i], 1,
                                    SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
        int code = seccomp_rule_add(
            c, SCMP_ACT_ALLOW, maps[i], 3, SCMP_A2(SCMP_CMP_EQ, PROT_READ | PROT_EXEC),
            SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0), SCMP_A4(SCMP_CMP_GT, STDERR_FILENO));
        if ((data != 0 && data != -EDOM) || (code != 0 && code != -EDOM))
            return false;
    }
    return seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
}

static bool allow_own(scmp_filter_ctx c)
{
    const scmp_datum_t me = (scmp_datum_t)getpid();
    /* reads its own limits (and can't raise them); duplicates descriptors; aborts itself */
    return seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                            SCMP_A2(SCMP_CMP_EQ, 0)) == 0 &&
           seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                            SCMP_A1(SCMP_CMP_NE, F_SETOWN)) == 0 &&
           seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, me)) == 0;
}

static bool filter_calls(void)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool ok = c != NULL;
    for (size_t i = 0; ok && i < sizeof allowed / sizeof allowed[0]; i++)
        ok = allow(c, allowed[i]);
    ok = ok && allow_opening(c) && allow_fstat(c) && allow_memory(c) && allow_own(c) &&
         seccomp_load(c) == 0;
    if (c)
        seccomp_release(c);
    return ok;
}

bool sandbox_enter(const struct sandbox_limits *l, bool *files_hidden, const char **why)
{
    *why = "the limits";
    if (!set_limits(l) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return false;
    *files_hidden = hide_files();
    *why = "Landlock";
    if (!*files_hidden && !l->without_landlock)
        return false;
    *why = "seccomp";
    return filter_calls();
}

static bool forbid(const char *const *names, size_t n, bool code)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    bool ok = c != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        int rc =
            number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), number, 0);
        ok = rc == 0 || rc == -EDOM || rc == -EOPNOTSUPP;
    }
    if (ok && code)
        ok = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)) == 0;
    ok = ok && seccomp_load(c) == 0;
    if (c)
        seccomp_release(c);
    return ok;
}

bool sandbox_forbid_exec(void)
{
    static const char *const names[] = {"execve", "execveat"};
    return forbid(names, sizeof names / sizeof names[0], false);
}

bool sandbox_forbid_files(void)
{
    static const char *const names[] = {"open", "openat", "newfstatat", "getdents64"};
    return sandbox_forbid_exec() && forbid(names, sizeof names / sizeof names[0], true);
}
