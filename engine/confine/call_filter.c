/* The filter of system calls, made by libseccomp. Two are loaded, because only the calls that no
 * program of ours makes are worth a line in the kernel's log. */
#include "engine/confine/call_filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define FAMILIES 46 /* linux/socket.h: all there are; what comes later is refused by number */

/* Of systemd's groups @debug, @mount, @keyring, @module, @reboot, @swap, @raw-io, @clock,
 * @privileged and @obsolete, and of @process and @file-system what leads out of a namespace. */
static const char *const never[] = {
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie", "fanotify_init",
    /* mounts and namespaces */
    "mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "open_tree_attr",
    "fsopen", "fsconfig", "fsmount", "fspick", "pivot_root", "chroot", "setns", "unshare",
    "open_by_handle_at", "name_to_handle_at", "quotactl", "quotactl_fd", "mknod", "mknodat",
    /* keys, modules, the machine */
    "add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module",
    "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "iopl", "ioperm", "acct",
    "syslog", "vhangup", "sethostname", "setdomainname", "settimeofday", "stime", "adjtimex",
    "clock_adjtime", "clock_settime", "personality", "modify_ldt", "move_pages", "migrate_pages",
    /* who it is */
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups", "capset",
    /* no longer used */
    "uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "vm86", "vm86old", "create_module",
    "get_kernel_syms", "query_module", "afs_syscall", "getpmsg", "putpmsg", "tuxcall", "vserver"};

static bool added(int rc)
{
    return rc == 0 || rc == -EDOM || rc == -EOPNOTSUPP || rc == -EEXIST;
}

static bool refuse(scmp_filter_ctx c, const char *name)
{
    const int number = seccomp_syscall_resolve_name(name);
    return number == __NR_SCMP_ERROR || /* not on this architecture */
           added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), number, 0));
}

static bool refuse_all(scmp_filter_ctx c, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!refuse(c, names[i]))
            return false;
    return true;
}

/* A namespace of its own would give a process rights to break the kernel with. */
static bool refuse_namespaces(scmp_filter_ctx c)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (!added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]))))
            return false;
    return true;
}

/* Typing into the terminal that `sluice up` runs in. */
static bool refuse_typing(scmp_filter_ctx c)
{
    static const uint64_t requests[] = {TIOCSTI, TIOCLINUX};
    for (size_t i = 0; i < 2; i++)
        if (!added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                                    SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, requests[i]))))
            return false;
    return true;
}

static bool is_left(int family, bool pair, unsigned leave)
{
    if (family == AF_UNIX)
        return pair || leave & CALL_FILTER_UNIX;
    return leave & CALL_FILTER_NETWORK &&
           (family == AF_INET || family == AF_INET6 || family == AF_NETLINK);
}

/* One half of a pair of datagrams can be connected anew, to any path; one of a stream can't. */
static bool refuse_datagram_pairs(scmp_filter_ctx c)
{
    static const scmp_datum_t types[] = {SOCK_DGRAM, SOCK_RAW}; /* the kernel takes them for one */
    for (size_t i = 0; i < 2; i++)
        if (!added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socketpair), 2,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, AF_UNIX),
                                    SCMP_A1(SCMP_CMP_MASKED_EQ, 15, types[i]))))
            return false;
    return true;
}

static bool refuse_sockets(scmp_filter_ctx c, unsigned leave)
{
    static const int calls[] = {SCMP_SYS(socket), SCMP_SYS(socketpair)};
    for (size_t i = 0; i < 2; i++) {
        const uint32_t no = SCMP_ACT_ERRNO(EAFNOSUPPORT);
        for (int f = 0; f < FAMILIES; f++)
            if (!is_left(f, i == 1, leave) &&
                !added(seccomp_rule_add(c, no, calls[i], 1,
                                        SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, (scmp_datum_t)f))))
                return false;
        if (!added(seccomp_rule_add(c, no, calls[i], 1, SCMP_A0(SCMP_CMP_GE, FAMILIES))))
            return false;
    }
    return leave & CALL_FILTER_UNIX || refuse_datagram_pairs(c);
}

/* Signals to itself stay (abort), and its own limits. */
static bool refuse_others(scmp_filter_ctx c)
{
    static const char *const names[] = {"kill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal",
                                        "process_mrelease"};
    const scmp_datum_t me = (scmp_datum_t)getpid();
    return refuse_all(c, names, sizeof names / sizeof names[0]) &&
           added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1,
                                  SCMP_A0(SCMP_CMP_NE, me))) &&
           added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(rt_tgsigqueueinfo), 1,
                                  SCMP_A0(SCMP_CMP_NE, me))) &&
           added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 1,
                                  SCMP_A0(SCMP_CMP_NE, 0)));
}

/* clone3 has its flags in memory, where no filter reads: as if the kernel had none, so that the C
 * library takes clone. */
static bool refuse_processes(scmp_filter_ctx c, bool fork)
{
    static const char *const names[] = {"fork", "vfork"};
    const int number = seccomp_syscall_resolve_name("clone3");
    if (number != __NR_SCMP_ERROR && !added(seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), number, 0)))
        return false;
    return fork || (refuse_all(c, names, 2) &&
                    added(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                           SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0))));
}

static bool fill_logged(scmp_filter_ctx c, unsigned leave)
{
    static const char *const run[] = {"execve", "execveat"}, *const rings[] = {"io_uring_setup",
                                                                               "io_uring_register"};
    return refuse_all(c, never, sizeof never / sizeof never[0]) && refuse_namespaces(c) &&
           refuse_typing(c) && (leave & CALL_FILTER_RUN || refuse_all(c, run, 2)) &&
           (leave & CALL_FILTER_RINGS || refuse_all(c, rings, 2));
}

static bool fill_quiet(scmp_filter_ctx c, unsigned leave)
{
    return refuse_processes(c, leave & CALL_FILTER_FORK) && refuse_sockets(c, leave) &&
           (leave & CALL_FILTER_SIGNAL || refuse_others(c));
}

static bool load(bool (*fill)(scmp_filter_ctx c, unsigned leave), unsigned leave, bool logged,
                 bool every_thread)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    bool ok = c && fill(c, leave) && seccomp_attr_set(c, SCMP_FLTATR_CTL_TSYNC, every_thread) == 0;
    if (ok && logged)
        seccomp_attr_set(c, SCMP_FLTATR_CTL_LOG, 1); /* Linux 4.14; without it there is no log */
    const int rc = ok ? seccomp_load(c) : -ENOMEM;
    if (c)
        seccomp_release(c);
    errno = -rc;
    return rc == 0;
}

bool call_filter_enter(unsigned leave, bool every_thread)
{
    if (SANITIZED)
        return true;
    return load(fill_logged, leave, true, every_thread) &&
           load(fill_quiet, leave, false, every_thread);
}

bool call_filter_exists(void)
{
    return !SANITIZED;
}
