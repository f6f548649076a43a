/* run_as.h: looks up users, and changes to them by the system's calls in the one right order. */
#include "fcgi/cli/up/run_as.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "fcgi/process/state.h"

static bool find_number(const char *text, struct run_as *out)
{
    char *end;
    errno = 0;
    const unsigned long uid = strtoul(text, &end, 10);
    if (errno || end == text || *end != ':' || uid >= UINT32_MAX)
        return false;
    const char *group = end + 1;
    const unsigned long gid = strtoul(group, &end, 10);
    if (errno || end == group || *end || gid >= UINT32_MAX)
        return false;
    out->uid = (uid_t)uid;
    out->gid = (gid_t)gid;
    return true;
}

bool run_as_find(const char *text, const char *option, struct run_as *out, struct err *e)
{
    *out = (struct run_as){0};
    if (!text)
        return true;
    const struct passwd *pw = NULL;
    if (!find_number(text, out)) {
        if (!(pw = getpwnam(text)))
            return err_field(e, ERR_INPUT, option,
                             "there is no user '%s' on this system; UID:GID is for one without a "
                             "name",
                             text);
        out->uid = pw->pw_uid;
        out->gid = pw->pw_gid;
        snprintf(out->name, sizeof out->name, "%s", text);
    }
    if (!out->uid)
        return err_field(e, ERR_INPUT, option, "root is who it is to be kept from");
    out->given = true;
    return true;
}

static bool is_theirs(const struct run_as *who, const char *path, const char *folder, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT || err_errno(e, "%s", path);
    if (st.st_uid == who->uid)
        return true;
    return err_set(e, ERR_FORBIDDEN,
                   "%s belongs to uid %u, not to %u; to hand all of it over: chown -R %u:%u %s",
                   path, (unsigned)st.st_uid, (unsigned)who->uid, (unsigned)who->uid,
                   (unsigned)who->gid, folder);
}

bool run_as_own_folder(const struct run_as *who, const char *folder, struct err *e)
{
    char database[4096];
    if (mkdir(folder, 0700) == 0)
        return chown(folder, who->uid, who->gid) == 0 || err_errno(e, "%s", folder);
    if (errno != EEXIST)
        return err_errno(e, "%s can't be made", folder);
    return is_theirs(who, folder, folder, e) &&
           file_join(database, sizeof database, folder, STATE_DATABASE, e) &&
           is_theirs(who, database, folder, e);
}

bool run_as_take(const struct run_as *who)
{
    return (who->name[0] ? initgroups(who->name, who->gid) : setgroups(0, NULL)) == 0 &&
           setresgid(who->gid, who->gid, who->gid) == 0 &&
           setresuid(who->uid, who->uid, who->uid) == 0;
}

/* Of root's rights those that start and stop programs of others; what is run loses them too. */
static bool keep_rights(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const uint32_t mask = 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_KILL;
    const struct __user_cap_data_struct rights[2] = {{.effective = mask, .permitted = mask}};
    return syscall(SYS_capset, &head, rights) == 0;
}

bool run_as_become(const struct run_as *who, bool starts_others, struct err *e)
{
    if (geteuid() != 0)
        return (geteuid() == who->uid && !starts_others) ||
               err_field(e, ERR_FORBIDDEN, starts_others ? "engine-user" : "user",
                         "only root can start programs as another user");
    if (prctl(PR_SET_KEEPCAPS, starts_others, 0, 0, 0) != 0 || !run_as_take(who) ||
        (starts_others && !keep_rights()))
        return err_errno(e, "uid %u can't be taken", (unsigned)who->uid);
    return true;
}
