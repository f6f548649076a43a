/* confine.h: puts the two walls up in order, and says so in the log. */
#define LOG_MODULE "confine"
#include "engine/confine/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/confine/landlock.h"

const char *const confine_system_files[] = {
    "/usr",           "/lib",  "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache",
    "/etc/localtime", "/proc", /* of others only what everyone may see */
    "/sys",           NULL};
const char *const confine_null_devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                            "/dev/random", "/dev/urandom", NULL};

/* What root may do as well, which a user of its own never could: only files, limits and locked
 * memory are left, also to the programs that it runs. */
static void drop_capabilities(void)
{
    static const int kept[] = {CAP_CHOWN,    CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
                               CAP_FOWNER,   CAP_FSETID,       CAP_KILL,
                               CAP_IPC_LOCK, CAP_SYS_NICE,     CAP_SYS_RESOURCE};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2] = {0};
    uint64_t mask = 0;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        mask |= UINT64_C(1) << kept[i];
    if (syscall(SYS_capget, &head, has) != 0 || !(has[0].permitted | has[1].permitted))
        return;
    for (int c = 0; c < 64; c++)
        if (!(mask & UINT64_C(1) << c))
            prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        const uint32_t part = (uint32_t)(mask >> (32 * i));
        has[i].effective &= part;
        has[i].permitted &= part;
        has[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, has) != 0)
        log_warn("capabilities can't be given up: %s", strerror(errno));
}

static bool stand_alone(struct err *e)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return err_errno(e, "the kernel can't keep programs from gaining rights");
    drop_capabilities();
#if !defined(__SANITIZE_ADDRESS__) /* looks for leaks by tracing itself */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
    return true;
}

static void report(const struct confine *c)
{
    const int version = c->without_landlock ? 0 : landlock_version();
    if (!version)
        log_warn("%s reaches every file that its user does: %s", c->who,
                 c->without_landlock ? "--without-landlock" : "the kernel has no Landlock");
    if (c->without_seccomp)
        log_warn("%s may make every system call: --without-seccomp", c->who);
    log_info("confined %s landlock=%d seccomp=%s", c->who, version,
             c->without_seccomp || !call_filter_exists() ? "no" : "yes");
}

bool confine_enter(const struct confine *c, int rules, struct err *e)
{
    if (!stand_alone(e))
        return false;
    if (rules >= 0 && c->without_landlock)
        close(rules);
    else if (rules >= 0 && !landlock_end(rules))
        return err_errno(e, "the kernel refuses to hide files (Landlock)");
    if (!c->without_seccomp && !call_filter_enter(c->leave, false))
        return err_set(e, ERR_UNSUPPORTED,
                       "the kernel takes no filter of system calls (%s); --without-seccomp goes "
                       "on without one",
                       strerror(errno));
    report(c);
    return true;
}

void confine_further(unsigned leave, bool without_seccomp)
{
    if (!without_seccomp && !call_filter_enter(leave, true))
        log_warn("the filter of system calls can't be tightened: %s", strerror(errno));
}
