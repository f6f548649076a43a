/* A copy is opened bare and read-only, so that neither checking nor restoring it changes a byte of
 * it. */
#include "sql/backup/store_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sql/core/migrate.h"
#include "sql/core/statement.h"

#define APPLICATION_ID 1397511491 /* "SLUC" */

static sqlite3 *open_bare(const char *path, int flags, struct err *e)
{
    sqlite3 *db = NULL;
    if (!access(path, F_OK) &&
        sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
        return db;
    if (db)
        err_set(e, ERR_IO, "%s can't be read: %s", path, sqlite3_errmsg(db));
    else
        err_errno(e, "%s", path);
    sqlite3_close(db);
    return NULL;
}

/* The first column of the first row, as a text; false: *e. */
static bool ask(sqlite3 *db, enum query which, char *out, size_t size, struct err *e)
{
    sqlite3_stmt *q = NULL;
    bool ok = sqlite3_prepare_v2(db, query_text[which], -1, &q, NULL) == SQLITE_OK &&
              sqlite3_step(q) == SQLITE_ROW;
    if (ok)
        snprintf(out, size, "%s", statement_column_text(q, 0));
    else
        err_set(e, (sqlite3_errcode(db) & 0xff) == SQLITE_BUSY ? ERR_CONFLICT : ERR_FORMAT, "%s",
                sqlite3_errmsg(db));
    sqlite3_finalize(q);
    return ok;
}

static int newest_version(void)
{
    int v = 0;
    for (const struct migration *m = migration_table; m->version; m++)
        v = m->version;
    return v;
}

static bool check(sqlite3 *db, const char *path, struct err *e)
{
    char found[256] = "", id[32] = "", version[32] = "";
    if (!ask(db, QUERY_APPLICATION_ID, id, sizeof id, e) ||
        !ask(db, QUERY_USER_VERSION, version, sizeof version, e) ||
        !ask(db, QUERY_QUICK_CHECK, found, sizeof found, e))
        return err_prefix(e, "%s", path);
    char ours[16], known[16];
    snprintf(ours, sizeof ours, "%d", APPLICATION_ID);
    snprintf(known, sizeof known, "%d", newest_version());
    if (strcmp(id, ours) != 0)
        return err_set(e, ERR_FORMAT, "%s is not a database of Sluice", path);
    if (strlen(version) > strlen(known) ||
        (strlen(version) == strlen(known) && strcmp(version, known) > 0))
        return err_set(e, ERR_FORMAT,
                       "%s: version %s was made by a newer Sluice (this one knows %s)", path,
                       version, known);
    return !strcmp(found, "ok") || err_set(e, ERR_FORMAT, "%s is damaged: %s", path, found);
}

bool store_copy_check(const char *path, struct err *e)
{
    sqlite3 *db = open_bare(path, SQLITE_OPEN_READONLY, e);
    bool ok = db && check(db, path, e);
    sqlite3_close(db);
    return ok;
}

bool store_copy_files(const char *path, store_copy_file_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = NULL;
    char found[16] = "";
    sqlite3 *db = open_bare(path, SQLITE_OPEN_READONLY, e);
    bool ok = db && ask(db, QUERY_HAS_ATTACHMENTS, found, sizeof found, e);
    if (ok && found[0] == '1') { /* else from before there were any */
        int rc = SQLITE_ERROR;
        if (sqlite3_prepare_v2(db, query_text[QUERY_COPY_FILES], -1, &q, NULL) == SQLITE_OK)
            while ((rc = sqlite3_step(q)) == SQLITE_ROW)
                if (!fn(context, statement_column_text(q, 0), sqlite3_column_int64(q, 1)))
                    break;
        ok = rc == SQLITE_DONE || rc == SQLITE_ROW ||
             err_set(e, ERR_FORMAT, "%s: %s", path, sqlite3_errmsg(db));
        sqlite3_finalize(q);
    }
    sqlite3_close(db);
    return ok;
}

bool store_copy_file_path(const char *path, const char *sha256, char out[STORE_PATH_SIZE],
                          struct err *e)
{
    const char *slash = strrchr(path, '/');
    int n = snprintf(out, STORE_PATH_SIZE, "%.*sattachments/%.2s/%s",
                     slash ? (int)(slash - path) + 1 : 0, path, sha256, sha256);
    return (n > 0 && n < STORE_PATH_SIZE) ||
           err_set(e, ERR_LIMIT, "the path of the attachments is too long");
}

/* The WAL goes into the database, and away: that needs to be alone with it. A database that is too
 * damaged for it keeps its WAL. */
static bool settle(const char *path, struct err *e)
{
    char mode[16] = "";
    struct err why = {0};
    sqlite3 *db = open_bare(path, SQLITE_OPEN_READWRITE, &why);
    bool ok = db && ask(db, QUERY_JOURNAL_DELETE, mode, sizeof mode, &why);
    sqlite3_close(db);
    if (ok ? strcmp(mode, "delete") != 0 : why.code == ERR_CONFLICT)
        return err_set(e, ERR_CONFLICT, "%s is in use: stop the server first", path);
    return true;
}

static bool copy_bytes(int from, int to, struct err *e)
{
    static char piece[1 << 16];
    ssize_t n;
    while ((n = read(from, piece, sizeof piece)) > 0)
        for (ssize_t done = 0, w; done < n; done += w)
            if ((w = write(to, piece + done, (size_t)(n - done))) < 0)
                return err_errno(e, "writing the copy");
    return (n == 0 && fsync(to) == 0) || err_errno(e, "the copy");
}

static bool copy_file(const char *from, const char *to, struct err *e)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return err_errno(e, "%s", from);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = out >= 0 ? copy_bytes(in, out, e) : err_errno(e, "%s", to);
    close(in);
    if (out >= 0 && close(out) && ok)
        ok = err_errno(e, "%s", to);
    return ok;
}

static bool sync_folder_of(const char *path, struct err *e)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (!ok)
        err_errno(e, "%s", folder);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* The WAL first: left beside the restored database it would be taken for its own. */
static bool move_aside(const char *path, const char *aside, struct err *e)
{
    static const char *const suffixes[] = {"-wal", "-shm", ""};
    char from[PATH_MAX], to[PATH_MAX];
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (snprintf(from, sizeof from, "%s%s", path, suffixes[i]) >= (int)sizeof from ||
            snprintf(to, sizeof to, "%s%s", aside, suffixes[i]) >= (int)sizeof to)
            return err_set(e, ERR_LIMIT, "the path is too long");
        if (rename(from, to) && errno != ENOENT)
            return err_errno(e, "%s", from);
    }
    return sync_folder_of(path, e);
}

bool store_copy_restore(const char *copy, const char *path, const char *aside, struct err *e)
{
    char fresh[PATH_MAX];
    if (snprintf(fresh, sizeof fresh, "%s.restored", path) >= (int)sizeof fresh)
        return err_set(e, ERR_LIMIT, "the path is too long");
    if (!access(aside, F_OK))
        return err_set(e, ERR_CONFLICT, "%s is there already", aside);
    if (!store_copy_check(copy, e) || (!access(path, F_OK) && !settle(path, e)) ||
        !copy_file(copy, fresh, e))
        return false;
    bool ok = store_copy_check(fresh, e) && move_aside(path, aside, e) &&
              (rename(fresh, path) == 0 || err_errno(e, "%s", path)) && sync_folder_of(path, e);
    if (!ok)
        unlink(fresh);
    return ok;
}
