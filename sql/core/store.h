/* The store: sluice.db behind one door. fcgi/ and the operator's commands come in through store*.h;
 * nobody else sees SQLite.
 *
 * A struct store is one connection and belongs to one thread; open one per thread, never carry one
 * across fork() (a call from another process than the opener's fails with ERR_INTERNAL). Any number
 * of processes may have the file open. Every write is one BEGIN IMMEDIATE transaction and is short;
 * what a function reports as done is on the disk (the WAL is synced after each commit) unless its
 * comment says otherwise.
 *
 * Never open sluice.db with open(2) or copy it while it is in use: closing that descriptor drops
 * SQLite's locks. store_backup makes copies.
 *
 * Errors everywhere: ERR_NOTFOUND (no such row, or another user's: the two look alike),
 * ERR_CONFLICT, ERR_INPUT (names the field), ERR_BUSY (the database stayed locked for busy_ms),
 * ERR_FULL (disk full), ERR_READ_ONLY, ERR_IO (unreadable), ERR_FORMAT (damaged, or made by a newer
 * program), ERR_NOMEM. Times are Unix milliseconds; ids are positive, 0 means none, and an id is
 * never given out twice. Strings handed to a row callback live until it returns; those put in an
 * arena live as long as it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define STORE_PATH_SIZE 4096 /* of a path beside the database */

struct arena;
struct store;

/* Names a row and the user who must own it: for everybody else the row does not exist
 * (ERR_NOTFOUND). */
struct store_ref {
    int64_t user_id, id;
};
/* The same for rows whose ids are texts. */
struct store_text_ref {
    int64_t user_id;
    const char *id;
};

struct store_params {
    const char *path; /* STATE/sluice.db */
    bool create; /* make the file (0600), and the key beside it (factor_key.h), when missing; else
                    ERR_NOTFOUND. What is out of reach (permissions) is not missing */
    bool checkpointer; /* the recorder only: the one connection that moves the WAL into the
                          database. SQLite 3.7.0 to 3.51.2 can damage a database whose WAL two
                          connections check in at once */
    int busy_ms;       /* wait for another writer; 0: 5000 */
};

/* Opens, and brings an older database up to this program's schema in one transaction. */
struct store *store_open(const struct store_params *p, struct err *e);
/* Accepts a NULL pointer in *s, and nulls it. */
void store_close(struct store **s);
/* What was held for several reads (store_forgets_snapshot) is let go; if nothing was, nothing is.
 */
void store_snapshot_end(struct store *s);
/* Another request begins: what store_forgets_snapshot let the one before find without reading is
 * read anew, until that is called again. */
void store_access_leave(struct store *s);

/* Checks that the database is whole; ERR_FORMAT with the first finding. Reads the whole file: at
 * start, not per request. */
bool store_quick_check(struct store *s, struct err *e);

/* A consistent copy while others write: temporary file beside `path`, quick_check, fsync, rename;
 * mode 0600. An existing `path` is replaced. */
bool store_backup(struct store *s, const char *path, struct err *e);

struct store_facts { /* for the admin page and doctor */
    int64_t schema_version;
    int64_t database_bytes, wal_bytes, free_bytes; /* free: pages inside the file without rows */
    int64_t users, conversations, messages, running;
    const char *sqlite_version; /* of the library in use */
    const char *sqlite_warning; /* NULL, or what is known to be wrong with that version, and what we
                                   do about it */
};
bool store_facts(struct store *s, struct store_facts *f, struct err *e);
enum store_sqlite_fault { STORE_SQLITE_FINE, STORE_SQLITE_WAL_RESET, STORE_SQLITE_WITHDRAWN };
/* The last two fields only, and what the warning is about; no connection needed. */
const char *store_sqlite_version(void);
const char *store_sqlite_warning(void);
enum store_sqlite_fault store_sqlite_fault(void);

/* The server's own settings: one JSON text by name. Get: ERR_NOTFOUND when it was never set. */
bool store_setting_get(struct store *s, struct arena *a, const char *name, const char **json,
                       struct err *e);
bool store_setting_set(struct store *s, const char *name, const char *json, struct err *e);
/* All that were set, in no order. */
typedef bool (*store_setting_fn)(void *context, const char *name,
                                 const char *json); /* false: enough */
bool store_setting_list(struct store *s, store_setting_fn fn, void *context, struct err *e);
struct store_setting {
    const char *name, *json; /* json NULL: as if it was never set */
};
/* All of them or none. Where oidc_issuer or oidc_groups_claim changes, *ended memberships that were
 * the former provider's word end with it. */
bool store_settings_change(struct store *s, const struct store_setting *list, int n, int *ended,
                           struct err *e);
/* A setting that is a secret: it lies in its row sealed by the key beside the database, under the
 * setting's name, so that no row opens as another. A copy of the database does not open it. */
#define STORE_SEALED_EXTRA 40 /* bytes that sealing adds */
struct store_sealed {
    const unsigned char *bytes;
    size_t len;
};
/* out: strlen(secret) + STORE_SEALED_EXTRA bytes. */
bool store_setting_seal(struct store *s, const char *name, const char *secret, unsigned char *out,
                        struct err *e);
/* secret: room for sealed->len bytes; NUL-terminated. 1: opened; 0: not the key, or not the name,
 * that it was sealed with; -1: *e. */
int store_setting_unseal(struct store *s, const char *name, const struct store_sealed *sealed,
                         char *secret, struct err *e);
#define STORE_BACKUP_SETTING "backup_at" /* Unix ms: when store_backup last ended well */
#define STORE_CHECKPOINT_SETTING                                                                   \
    "checkpoint_at" /* Unix ms: when the recorder last emptied the WAL, or began to */

/* Counters per user, key (0: the page) and day. Not synced: a power cut may lose the last ones. */
struct store_usage {
    int64_t user_id, key_id;
    int64_t day; /* Unix days, UTC; 0 in store_usage_add: today */
    int64_t requests, prompt_tokens, cached_tokens, completion_tokens;
};
bool store_usage_add(struct store *s, const struct store_usage *u, struct err *e);
struct store_usage_batch {
    const char *name; /* no two have the same one */
    const struct store_usage *rows;
    int n;
};
/* All of them or none. */
bool store_usage_add_batch(struct store *s, const struct store_usage_batch *b, struct err *e);
/* Was the batch of this name the last that was added? */
bool store_usage_last_batch(struct store *s, const char *name, bool *is_last, struct err *e);
struct store_usage_filter {
    int64_t user_id;   /* 0: all users (admin) */
    int64_t first_day; /* Unix days, UTC */
};
/* Oldest first. */
typedef bool (*store_usage_fn)(void *context, const struct store_usage *u); /* false: enough */
bool store_usage_list(struct store *s, const struct store_usage_filter *f, store_usage_fn fn,
                      void *context, struct err *e);
/* A user's keys put together, user by user and then by day; key_id is 0. */
bool store_usage_days(struct store *s, const struct store_usage_filter *f, store_usage_fn fn,
                      void *context, struct err *e);

/* The audit log, who did what: rows can only be added, and removed when they are old; the schema
 * refuses to change any and to delete one of the last day. Never secrets. */
struct store_audit {
    int64_t id, at;
    int64_t user_id;     /* who; 0: the operator's command */
    const char *user;    /* the name they had then */
    const char *action;  /* "user.add", "login.fail", ... */
    const char *target;  /* "user:3", or "" */
    const char *address; /* of the client, or "" */
};
bool store_audit_add(struct store *s, const struct store_audit *a,
                     struct err *e); /* id, at: filled in by it */

struct store_audit_filter {
    int64_t before;       /* id; 0: from the newest */
    int64_t since, until; /* Unix ms, since <= at < until; until 0: no end */
    const char *user;     /* who; NULL: anyone */
    const char *action;   /* "login" also finds "login.fail"; NULL: any */
    int limit;
};
/* Newest first. */
typedef bool (*store_audit_fn)(void *context, const struct store_audit *a); /* false: enough */
bool store_audit_search(struct store *s, const struct store_audit_filter *f, store_audit_fn fn,
                        void *context, struct err *e);

/* Oldest first: those with a higher id. */
struct store_audit_from {
    int64_t after; /* id */
    int limit;
};
bool store_audit_after(struct store *s, const struct store_audit_from *from, store_audit_fn fn,
                       void *context, struct err *e);
#define STORE_AUDIT_CURSOR_SETTING "audit_shipped" /* recorder/audit_ship.h */

#define STORE_AUDIT_STEP 500 /* rows that one transaction removes at most */
/* One short step: removes the oldest of the rows that are older than that many days, at least 1.
 * *any: there was one, so another step may find more. */
bool store_audit_expire(struct store *s, int64_t days, bool *any, struct err *e);
