/* Landlock's system calls, for which the C library has no names. Constants of its later versions
 * are written out, as the system's headers may be older than the kernel. */
#include "engine/confine/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h: ACCESS_FS of version 2, 3 and 5, ACCESS_NET of 4, SCOPE of 6 */
#define REFER (UINT64_C(1) << 13)
#define TRUNCATE (UINT64_C(1) << 14)
#define IOCTL_DEVICE (UINT64_C(1) << 15)
#define ALL_OF_NETWORK UINT64_C(3)
#define SCOPE_ABSTRACT_SOCKETS UINT64_C(1)
#define SCOPE_SIGNALS UINT64_C(2)

#define ALL_OF_VERSION_1 ((UINT64_C(1) << 13) - 1)
#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define OF_FILES                                                                                   \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     TRUNCATE | IOCTL_DEVICE)

struct ruleset { /* struct landlock_ruleset_attr as of version 6; older kernels take its beginning
                  */
    uint64_t files, network, scoped;
};

int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return version > 0 ? (int)version : 0;
}

/* What this kernel can take away of files. */
static uint64_t known_rights(int version)
{
    return ALL_OF_VERSION_1 | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0) |
           (version >= 5 ? IOCTL_DEVICE : 0);
}

int landlock_begin(bool network, bool own_signals)
{
    const int version = landlock_version();
    if (!version)
        return -1;
    const struct ruleset all = {.files = known_rights(version),
                                .network = network || version < 4 ? 0 : ALL_OF_NETWORK,
                                .scoped = version < 6 ? 0
                                                      : (network ? 0 : SCOPE_ABSTRACT_SOCKETS) |
                                                            (own_signals ? SCOPE_SIGNALS : 0)};
    const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    return (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
}

void landlock_allow(int rules, const char *path, unsigned rights)
{
    struct stat st;
    uint64_t access = 0;
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return; /* not on this system */
    if (rights & (LANDLOCK_READ | LANDLOCK_WRITE))
        access |= READING;
    if (rights & LANDLOCK_WRITE) /* no devices are made, and none is asked by ioctl */
        access |= (ALL_OF_VERSION_1 | REFER | TRUNCATE) &
                  ~(uint64_t)(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                              LANDLOCK_ACCESS_FS_MAKE_BLOCK);
    if (rights & LANDLOCK_DEVICE)
        access |= READING | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE | IOCTL_DEVICE;
    if (rights & LANDLOCK_RUN)
        access |= READING | LANDLOCK_ACCESS_FS_EXECUTE;
    if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
        access &= OF_FILES;
    const struct landlock_path_beneath_attr rule = {
        .allowed_access = access & known_rights(landlock_version()), .parent_fd = fd};
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(fd);
}

void landlock_allow_all(int rules, const char *const *paths, unsigned rights)
{
    for (; *paths; paths++)
        landlock_allow(rules, *paths, rights);
}

bool landlock_end(int rules)
{
    const bool ok = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    close(rules);
    return ok;
}
