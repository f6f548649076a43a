/* Copies the database while it is in use: VACUUM INTO a temporary file, which is checked and synced
 * before it gets its name. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "sql/backup/store_copy.h"
#include "sql/core/statement.h"
#include "sql/core/store.h"

static bool sync_path(const char *path, int flags, struct err *e)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "%s", path);
    bool ok = fsync(fd) == 0 || err_errno(e, "%s", path);
    close(fd);
    return ok;
}

static bool sync_folder(const char *path, struct err *e)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return sync_path(".", O_RDONLY | O_DIRECTORY, e);
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return sync_path(folder, O_RDONLY | O_DIRECTORY, e);
}

bool store_backup(struct store *s, const char *path, struct err *e)
{
    char copy[PATH_MAX];
    if (snprintf(copy, sizeof copy, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof copy)
        return err_set(e, ERR_LIMIT, "the path is too long");
    /* VACUUM INTO takes an empty file over, with its mode. */
    int fd = open(copy, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, "%s", copy);
    close(fd);
    sqlite3_stmt *q = statement_begin(s, QUERY_VACUUM_INTO, e);
    bool ok = q != NULL;
    if (ok) {
        statement_bind_text(q, ":path", copy);
        ok = statement_run(s, q, NULL, e);
    }
    ok = ok && store_copy_check(copy, e) && sync_path(copy, O_RDONLY, e);
    if (ok && rename(copy, path))
        ok = err_errno(e, "%s", path);
    if (!ok) {
        unlink(copy);
        return false;
    }
    if (!sync_folder(path, e))
        return false;
    char now[24];
    struct err ignored; /* the copy is there, whether or not its time could be written down */
    snprintf(now, sizeof now, "%lld", (long long)clock_wall_ms());
    store_setting_set(s, STORE_BACKUP_SETTING, now, &ignored);
    return true;
}
