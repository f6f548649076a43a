/* Prepares statements, runs transactions and turns SQLite's errors into ours. */
#include "sql/core/statement.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/search_internal.h"
#include "sql/core/store.h"
#include "sql/core/write_watch.h"

#define GIVE_WAY_US 3000 /* longer than store_wait sleeps */

static enum err_code code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    case SQLITE_NOMEM:
        return ERR_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return ERR_FORMAT;
    case SQLITE_FULL:
        return ERR_FULL;
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return ERR_IO;
    case SQLITE_CONSTRAINT:
        return ERR_CONFLICT;
    case SQLITE_TOOBIG:
        return ERR_LIMIT;
    default:
        return ERR_INTERNAL;
    }
}

/* A file that was writable when it was opened: SQLite tells that a write failed, and by then errno
 * is another one's. */
static bool is_read_only(struct store *s, int rc)
{
    const char *path = (rc & 0xff) == SQLITE_IOERR ? sqlite3_db_filename(s->db, "main") : NULL;
    return (rc & 0xff) == SQLITE_READONLY || (path && access(path, W_OK) != 0 && errno != ENOENT);
}

bool store_failed(struct store *s, struct err *e)
{
    int rc = sqlite3_extended_errcode(s->db);
    if (is_read_only(s, rc))
        return err_set(e, ERR_READ_ONLY,
                       "the server's disk takes no writes now: nothing was written");
    if (code_of(rc) == ERR_FULL)
        return err_set(e, ERR_FULL, "the server's disk is full: nothing was written");
    return err_set(e, code_of(rc), "database: %s (%d)", sqlite3_errmsg(s->db), rc);
}

bool store_usable(struct store *s, struct err *e)
{
    if (s->pid != getpid())
        return err_set(e, ERR_INTERNAL, "database: this connection belongs to another process");
    return true;
}

sqlite3_stmt *statement_begin(struct store *s, enum query which, struct err *e)
{
    if (!store_usable(s, e))
        return NULL;
    sqlite3_stmt *q = s->statements[which];
    if (!q) {
        if (sqlite3_prepare_v3(s->db, query_text[which], -1, SQLITE_PREPARE_PERSISTENT, &q, NULL)) {
            store_failed(s, e);
            return NULL;
        }
        s->statements[which] = q;
    }
    if (sqlite3_stmt_busy(q)) {
        err_set(e, ERR_INTERNAL, "database: statement %d is in use", (int)which);
        return NULL;
    }
    sqlite3_clear_bindings(q);
    return q;
}

static int parameter(sqlite3_stmt *q, const char *name)
{
    int i = sqlite3_bind_parameter_index(q, name);
    assert(i > 0);
    return i;
}

void statement_bind_int(sqlite3_stmt *q, const char *name, int64_t v)
{
    sqlite3_bind_int64(q, parameter(q, name), v);
}

void statement_bind_id(sqlite3_stmt *q, const char *name, int64_t v)
{
    if (v)
        statement_bind_int(q, name, v);
    else
        sqlite3_bind_null(q, parameter(q, name));
}

void statement_bind_number(sqlite3_stmt *q, const char *name, double v)
{
    sqlite3_bind_double(q, parameter(q, name), v);
}

void statement_bind_text(sqlite3_stmt *q, const char *name, const char *v)
{
    sqlite3_bind_text(q, parameter(q, name), v, -1, SQLITE_TRANSIENT);
}

void statement_bind_bytes(sqlite3_stmt *q, const char *name, const char *v, size_t len)
{
    sqlite3_bind_text64(q, parameter(q, name), v ? v : "", len, SQLITE_TRANSIENT, SQLITE_UTF8);
}

void statement_bind_blob(sqlite3_stmt *q, const char *name, const void *v, size_t len)
{
    sqlite3_bind_blob64(q, parameter(q, name), v, len, SQLITE_TRANSIENT);
}

int statement_step(struct store *s, sqlite3_stmt *q, struct err *e)
{
    const double from = s->watch.begun ? clock_ms() : 0;
    const int rc = sqlite3_step(q);
    if (from)
        write_watch_step(s, q, from);
    switch (rc) {
    case SQLITE_ROW:
        return 1;
    case SQLITE_DONE:
        return 0;
    default:
        store_failed(s, e);
        sqlite3_reset(q);
        return -1;
    }
}

void statement_end(sqlite3_stmt *q)
{
    if (!q)
        return;
    sqlite3_reset(q);
    /* A bound value may be a password's hash or a message, so it is not kept until the next use. */
    sqlite3_clear_bindings(q);
}

bool statement_run(struct store *s, sqlite3_stmt *q, int *changed, struct err *e)
{
    int rc;
    while ((rc = statement_step(s, q, e)) == 1)
        ;
    if (changed)
        *changed = rc == 0 ? sqlite3_changes(s->db) : 0;
    statement_end(q);
    return rc == 0;
}

bool statement_row(struct store *s, sqlite3_stmt *q, struct err *e)
{
    int rc = statement_step(s, q, e);
    if (rc == 0) {
        statement_end(q);
        err_set(e, ERR_NOTFOUND, "no such row");
    }
    return rc == 1;
}

bool statement_int(struct store *s, sqlite3_stmt *q, int64_t *out, struct err *e)
{
    int rc = statement_step(s, q, e);
    bool found = rc == 1;
    if (found)
        *out = sqlite3_column_int64(q, 0);
    /* An INSERT ... RETURNING is done only when stepped to its end. */
    while (rc == 1)
        rc = statement_step(s, q, e);
    statement_end(q);
    return rc == 0 && (found || err_set(e, ERR_NOTFOUND, "no such row"));
}

const char *statement_column_text(sqlite3_stmt *q, int i)
{
    const char *t = statement_column_optional(q, i);
    return t ? t : "";
}

const char *statement_column_optional(sqlite3_stmt *q, int i)
{
    return (const char *)sqlite3_column_text(q, i);
}

bool statement_column_copy(sqlite3_stmt *q, int i, struct arena *a, const char **out, struct err *e)
{
    const char *t = statement_column_optional(q, i);
    *out = NULL;
    if (!t)
        return true;
    *out = arena_copy(a, t, (size_t)sqlite3_column_bytes(q, i));
    return *out || err_set(e, ERR_LIMIT, "the row is larger than a request may hold");
}

/* SQLite's own handler sleeps ever longer, up to 100 ms, and so starves for seconds behind writers
 * that come one after the other. There is no queue here either, but short sleeps of random length
 * make starvation unlikely. */
int store_wait(void *context, int count)
{
    struct store *s = context;
    const double now = clock_ms();
    if (count == 0)
        s->busy_since = now;
    if (now - s->busy_since >= s->busy_ms)
        return 0;
    unsigned char r;
    sqlite3_randomness(1, &r);
    usleep(300 + r * 8u);
    return 1;
}

void store_give_way(void)
{
    usleep(GIVE_WAY_US);
}

void store_snapshot_hold(struct store *s, sqlite3_stmt *q)
{
    store_snapshot_end(s);
    s->snapshot = q;
}

void store_snapshot_end(struct store *s)
{
    statement_end(s->snapshot);
    s->snapshot = NULL;
}

static bool begin(struct store *s, bool synced, struct err *e)
{
    store_access_leave(s); /* it may change what is kept, */
    store_snapshot_end(
        s); /* and what is written must not rest on what was read before others wrote */
    s->sync = synced;
    search_transaction(s);
    sqlite3_stmt *q = statement_begin(s, QUERY_BEGIN, e);
    write_watch_ask(s);
    const bool got = q && statement_run(s, q, NULL, e);
    write_watch_begin(s, got);
    return got;
}

bool store_write_begin(struct store *s, struct err *e)
{
    return begin(s, true, e);
}

bool store_write_begin_unsynced(struct store *s, struct err *e)
{
    return begin(s, false, e);
}

bool store_write_try(struct store *s)
{
    if (!store_usable(s, NULL))
        return false;
    const int busy_ms = s->busy_ms;
    s->busy_ms = 0;
    bool begun = begin(s, false, NULL);
    s->busy_ms = busy_ms;
    return begun;
}

static void roll_back(struct store *s)
{
    sqlite3_stmt *q = NULL;
    /* Some failures (disk full, I/O) have rolled back already. */
    if (!sqlite3_get_autocommit(s->db) && (q = statement_begin(s, QUERY_ROLLBACK, NULL)))
        statement_run(s, q, NULL, NULL);
}

/* What is committed waits for the disk here and not inside COMMIT (synchronous=FULL), which would
 * keep the write lock meanwhile: a disk that is busy takes seconds. Whoever writes next may come
 * first; that commit stands behind ours in the WAL, and no sync takes a later one without the
 * earlier. A checkpoint syncs the WAL before it moves anything out of it. */
static bool sync_wal(struct store *s, struct err *e)
{
    sqlite3_file *wal = NULL;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (wal && wal->pMethods && wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) == SQLITE_OK)
        return true;
    return err_set(e, ERR_IO, "the server's disk did not confirm what was written");
}

bool store_write_end(struct store *s, bool ok, struct err *e)
{
    if (ok) {
        sqlite3_stmt *q = statement_begin(s, QUERY_COMMIT, e);
        ok = q && statement_run(s, q, NULL, e);
        s->own_commits |= ok;
    }
    if (!ok)
        roll_back(s);
    write_watch_end(s);
    return ok && (!s->sync || sync_wal(s, e));
}

bool store_clear_expired(struct store *s, const struct statement_expiry *x, bool *any,
                         struct err *e)
{
    const int64_t now = clock_wall_ms();
    sqlite3_stmt *q = statement_begin(s, x->find, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", now);
    int rc = statement_step(s, q, e);
    statement_end(q);
    *any = rc == 1;
    if (rc != 1)
        return rc == 0;
    if (!store_write_begin(s, e))
        return false;
    if ((q = statement_begin(s, x->remove, e))) {
        statement_bind_int(q, ":now", now);
        if (sqlite3_bind_parameter_index(q, ":limit"))
            statement_bind_int(q, ":limit", x->limit);
    }
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

bool store_exec(struct store *s, const char *sql, struct err *e)
{
    if (!store_usable(s, e))
        return false;
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK || store_failed(s, e);
}
