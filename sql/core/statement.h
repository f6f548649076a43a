/* Statements of one connection: prepared once, bound by name, stepped. Inside sql/ only: here
 * SQLite is seen.
 *
 *   sqlite3_stmt *q = statement_begin(s, QUERY_KEY_LIST, e);
 *   statement_bind_int(q, ":user_id", user_id);
 *   while ((rc = statement_step(s, q, e)) == 1) ...
 *   statement_end(q);
 *
 * A statement that is still being stepped can't be taken a second time: ERR_INTERNAL (a callback
 * that calls the function it is called from). */
#pragma once
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "sql/core/embedded.h"
#include "sql/core/fold.h"

struct arena;

struct store {
    sqlite3 *db;
    pid_t pid; /* who opened it: a connection must not cross fork() */
    bool checkpointer;
    bool sync;                   /* the transaction that is under way ends on the disk */
    int busy_ms;                 /* how long to wait for another writer */
    double busy_since;           /* clock_ms, of the wait that is under way */
    sqlite3_stmt *snapshot;      /* stepped and not reset: it holds what others read; NULL: none */
    struct access_cache *access; /* access_cache.h; NULL: never used */
    struct write_watch {         /* of the write transaction that is under way; write_watch.h */
        double asked, waited;    /* for the lock: clock_ms, ms */
        double begun;            /* clock_ms; 0: none is under way */
        double computed;         /* of the processor, when it was begun; ms */
        double longest_ms;       /* of a step */
        const sqlite3_stmt *longest;
        double warned; /* clock_ms, when last; 0: never */
    } watch;
    /* of the checkpointer, see store_record.c */
    int64_t checked_version;       /* PRAGMA data_version before the last checkpoint; 0: none yet */
    bool own_commits;              /* since then */
    struct {                       /* see store_search.c */
        struct fold_needle needle; /* what is searched */
        int64_t bytes_left;        /* that may still be read */
        bool stop_at_cut, cut;
        int64_t bytes_at_once; /* that this transaction may still put into an index itself */
        int64_t last_user;     /* whose parts were indexed last */
    } search;
    sqlite3_stmt *statements[QUERY__N];
};

/* NULL: *e. The statement is reset and its parameters are NULL. */
sqlite3_stmt *statement_begin(struct store *s, enum query which, struct err *e);
/* A name that the statement doesn't have is our bug: asserted. Texts and blobs are copied. */
void statement_bind_int(sqlite3_stmt *q, const char *name, int64_t v);
void statement_bind_id(sqlite3_stmt *q, const char *name, int64_t v); /* 0 becomes NULL */
void statement_bind_number(sqlite3_stmt *q, const char *name, double v);
void statement_bind_text(sqlite3_stmt *q, const char *name, const char *v); /* NULL becomes NULL */
void statement_bind_bytes(sqlite3_stmt *q, const char *name, const char *v,
                          size_t len); /* as text */
void statement_bind_blob(sqlite3_stmt *q, const char *name, const void *v,
                         size_t len); /* v NULL becomes NULL */
/* 1: a row; 0: no more; -1: *e, and the statement is reset. */
int statement_step(struct store *s, sqlite3_stmt *q, struct err *e);
/* The first row, which the caller reads before statement_end. False: *e (ERR_NOTFOUND: no row), and
 * the statement is reset. */
bool statement_row(struct store *s, sqlite3_stmt *q, struct err *e);
void statement_end(sqlite3_stmt *q); /* accepts NULL */
/* Steps to the end, throws rows away; *changed (may be NULL): rows that it changed. */
bool statement_run(struct store *s, sqlite3_stmt *q, int *changed, struct err *e);
/* The first column of the first row; ERR_NOTFOUND when there is no row. */
bool statement_int(struct store *s, sqlite3_stmt *q, int64_t *out, struct err *e);

/* Columns. Texts are never NULL here ("" instead) or, in statement_column_optional, may be. Valid
 * until the next step. */
const char *statement_column_text(sqlite3_stmt *q, int i);
const char *statement_column_optional(sqlite3_stmt *q, int i);
/* The same, copied. False: ERR_NOMEM or ERR_LIMIT of the arena. NULL stays NULL. */
bool statement_column_copy(sqlite3_stmt *q, int i, struct arena *a, const char **out,
                           struct err *e);

/* Write transactions. store_write_end commits when ok, else rolls back; says whether the whole
 * thing is done. When the commit itself fails it is rolled back. */
bool store_write_begin(struct store *s, struct err *e);
/* The same without fsync at the commit: a power cut may undo it, nothing else. */
bool store_write_begin_unsynced(struct store *s, struct err *e);
/* For what may be left undone: no fsync, and false at once when another writer is at it. */
bool store_write_try(struct store *s);
/* Takes a statement that has a row and is not ended: as long as it stands there, others of this
 * connection read the same state of the database, in the same read transaction. */
void store_snapshot_hold(struct store *s, sqlite3_stmt *q);
bool store_write_end(struct store *s, bool ok, struct err *e);
/* Between two transactions of one task: long enough for who waits for the lock to get it. */
void store_give_way(void);
struct statement_expiry { /* of rows that have an end */
    enum query find;      /* :now; gives a row while any has expired */
    enum query remove;    /* :now, and :limit where it has one; deletes the expired ones */
    int limit;
};
/* Deletes what has expired in a transaction of its own. *any: there were such rows. */
bool store_clear_expired(struct store *s, const struct statement_expiry *x, bool *any,
                         struct err *e);
/* For sqlite3_busy_handler; context: the store. */
int store_wait(void *context, int count);
/* PRAGMAs and DDL; several statements. */
bool store_exec(struct store *s, const char *sql, struct err *e);
/* The connection's last error in our words. Returns false. */
bool store_failed(struct store *s, struct err *e);
int64_t store_wal_bytes(struct store *s); /* of the file beside the database */
/* ERR_INTERNAL: the connection belongs to another process. */
bool store_usable(struct store *s, struct err *e);
