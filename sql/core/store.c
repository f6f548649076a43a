/* Opens, closes and checks a connection, with every precaution that SQLite needs against damage. */
#include "sql/core/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sql/core/access_cache.h"
#include "sql/core/factor_key.h"
#include "sql/core/migrate.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"

#define BUSY_MS 5000
#define MAX_VALUE_BYTES (128 << 20) /* of one row or text */

static bool configure(struct store *s, struct err *e)
{
    static const struct {
        int what, value;
    } flags[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_DQS_DML, 0}, /* "text" is a name, never a string */
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (sqlite3_db_config(s->db, flags[i].what, flags[i].value, NULL))
            return store_failed(s, e);
    /* Closing the last connection checks the WAL in as well: not here, unless we are the one that
     * may. */
    if (sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, s->checkpointer ? 0 : 1, NULL))
        return store_failed(s, e);
    sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
    sqlite3_limit(s->db, SQLITE_LIMIT_ATTACHED, 1); /* VACUUM INTO needs one */
    return true;
}

/* Two processes that make the file at once meet in an exclusive lock for which SQLite does not
 * always call its busy handler. */
static bool set_wal(struct store *s, int busy_ms, struct err *e)
{
    for (int waited = 0;; waited += 20) {
        if (sqlite3_exec(s->db, query_text[QUERY_WAL], NULL, NULL, NULL) == SQLITE_OK)
            return true;
        int rc = sqlite3_errcode(s->db) & 0xff;
        if ((rc != SQLITE_BUSY && rc != SQLITE_LOCKED) || waited >= busy_ms)
            return store_failed(s, e);
        usleep(20 * 1000);
    }
}

struct store *store_open(const struct store_params *p, struct err *e)
{
    const int busy_ms = p->busy_ms ? p->busy_ms : BUSY_MS;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                      (p->create ? SQLITE_OPEN_CREATE : 0);
    struct stat st;
    const bool fresh = stat(p->path, &st) != 0;
    if (fresh && errno != ENOENT) { /* it may well be there */
        err_errno(e, "the database cannot be reached: %s", p->path);
        return NULL;
    }
    if (fresh && !p->create) {
        err_set(e, ERR_NOTFOUND, "there is no database yet: %s", p->path);
        return NULL;
    }
    struct store *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "memory ran out");
        return NULL;
    }
    s->pid = getpid();
    s->checkpointer = p->checkpointer;
    if (sqlite3_open_v2(p->path, &s->db, flags, NULL)) {
        if (s->db)
            store_failed(s, e);
        else
            err_set(e, ERR_NOMEM, "memory ran out");
        goto fail;
    }
    /* By name, since closing a descriptor of ours would drop SQLite's locks; -wal and -shm take the
     * mode over. */
    if (fresh && chmod(p->path, 0600)) {
        err_errno(e, "%s", p->path);
        goto fail;
    }
    s->busy_ms = busy_ms;
    sqlite3_busy_handler(s->db, store_wait, s);
    if (!configure(s, e) || !search_functions(s, e) || !factor_functions(s, e) ||
        !set_wal(s, busy_ms, e) || !store_exec(s, connection_sql, e) ||
        !migrate(s, schema_sql, migration_table, e) || (p->create && !factor_key_make(s, e)))
        goto fail;
    return s;
fail:
    store_close(&s);
    return NULL;
}

void store_close(struct store **ps)
{
    struct store *s = *ps;
    if (!s)
        return;
    *ps = NULL;
    /* After fork() the child may not even close it: that would drop the parent's locks. */
    if (s->pid == getpid()) {
        access_cache_fini(s);
        for (int i = 0; i < QUERY__N; i++)
            sqlite3_finalize(s->statements[i]);
        sqlite3_close(s->db);
    }
    free(s);
}

bool store_quick_check(struct store *s, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_QUICK_CHECK, e);
    if (!q)
        return false;
    bool whole = false;
    int rc = statement_step(s, q, e);
    if (rc == 1) {
        const char *finding = statement_column_text(q, 0);
        whole = !strcmp(finding, "ok");
        if (!whole)
            err_set(e, ERR_FORMAT, "database is damaged: %s", finding);
    }
    statement_end(q);
    return whole;
}

/* By name only: opening and closing the file would drop SQLite's locks. */
int64_t store_wal_bytes(struct store *s)
{
    const char *path = sqlite3_filename_wal(sqlite3_db_filename(s->db, "main"));
    struct stat st;
    return path && stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

bool store_facts(struct store *s, struct store_facts *f, struct err *e)
{
    memset(f, 0, sizeof *f);
    sqlite3_stmt *q = statement_begin(s, QUERY_FACTS, e);
    if (!q || !statement_row(s, q, e))
        return false;
    int64_t *const fields[] = {&f->schema_version, &f->database_bytes, &f->free_bytes, &f->users,
                               &f->conversations,  &f->messages,       &f->running};
    for (int i = 0; i < (int)(sizeof fields / sizeof *fields); i++)
        *fields[i] = sqlite3_column_int64(q, i);
    statement_end(q);
    f->wal_bytes = store_wal_bytes(s);
    f->sqlite_version = store_sqlite_version();
    f->sqlite_warning = store_sqlite_warning();
    return true;
}

const char *store_sqlite_version(void)
{
    return sqlite3_libversion();
}

enum store_sqlite_fault store_sqlite_fault(void)
{
    const int v = sqlite3_libversion_number();
    return v >= 3007000 && v < 3051003   ? STORE_SQLITE_WAL_RESET
           : v >= 3052000 && v < 3053000 ? STORE_SQLITE_WITHDRAWN
                                         : STORE_SQLITE_FINE;
}

const char *store_sqlite_warning(void)
{
    static const char *const words[] = {
        [STORE_SQLITE_FINE] = NULL,
        [STORE_SQLITE_WAL_RESET] =
            "this SQLite has the WAL-reset bug (3.7.0 to 3.51.2), which can damage a database "
            "that several connections checkpoint; Sluice lets a single process do it",
        [STORE_SQLITE_WITHDRAWN] = "SQLite 3.52.0 was withdrawn by its authors"};
    return words[store_sqlite_fault()];
}
