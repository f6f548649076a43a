/* program_walls.h: limits, Landlock, seccomp; all of it also holds for what the program starts. */
#include "toolhost/program_walls.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "engine/confine/confine.h"
#include "engine/confine/landlock.h"

#define MAX_FILES 256
#define MAX_FILE_BYTES ((rlim_t)1 << 30)

static bool limit(int what, rlim_t value)
{
    const struct rlimit l = {.rlim_cur = value, .rlim_max = value};
    return setrlimit(what, &l) == 0;
}

/* Data and not the address space: runtimes reserve far more of that than they use. */
static bool set_limits(const struct program *p)
{
    return limit(RLIMIT_CPU, (rlim_t)p->cpu_s) && limit(RLIMIT_DATA, (rlim_t)p->memory_bytes) &&
           limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, MAX_FILES) &&
           limit(RLIMIT_FSIZE, MAX_FILE_BYTES);
}

static int rules_for(const struct program *p)
{
    static const char *const run[] = {"/usr",       "/bin",       "/lib", "/lib32", "/lib64",
                                      "/nix/store", "/gnu/store", "/opt", NULL};
    static const char *const network[] = {
        "/etc/resolv.conf", "/etc/hosts",           "/etc/nsswitch.conf",   "/etc/ssl",
        "/etc/pki",         "/etc/ca-certificates", "/run/systemd/resolve", NULL};
    /* without which programs that link OpenSSL end at once */
    static const char *const configuration[] = {"/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf",
                                                NULL};
    const int rules = landlock_begin(p->network, true);
    if (rules < 0)
        return -1;
    landlock_allow_all(rules, configuration, LANDLOCK_READ);
    landlock_allow_all(rules, confine_system_files, LANDLOCK_READ);
    landlock_allow_all(rules, confine_null_devices, LANDLOCK_DEVICE);
    landlock_allow_all(rules, run, LANDLOCK_RUN);
    landlock_allow(rules, p->argv[0], LANDLOCK_RUN);
    landlock_allow_all(rules, p->read, LANDLOCK_READ | LANDLOCK_RUN);
    landlock_allow_all(rules, p->write, LANDLOCK_WRITE);
    if (p->network)
        landlock_allow_all(rules, network, LANDLOCK_READ);
    return rules;
}

bool program_walls_enter(const struct program *p, bool without_landlock, bool without_seccomp)
{
    struct err e;
    const struct confine c = {.who = p->name,
                              .leave = CALL_FILTER_RUN | CALL_FILTER_FORK | CALL_FILTER_SIGNAL |
                                       (p->network ? CALL_FILTER_NETWORK : 0),
                              .without_landlock = without_landlock,
                              .without_seccomp = without_seccomp};
    const int rules = without_landlock ? -1 : rules_for(p);
    if (rules < 0 && !without_landlock) {
        errno = ENOSYS; /* it would see every file */
        return false;
    }
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && set_limits(p) && confine_enter(&c, rules, &e);
}
