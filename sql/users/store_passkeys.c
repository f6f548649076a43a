/* store_passkeys.h: rows of passkeys, each statement bound to its user, and challenges that are
 * taken by deleting them, so that of two who come with one only one gets it. */
#include "sql/users/store_passkeys.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

static bool insert(struct store *s, const struct store_passkey *p, int64_t *id, struct err *e)
{
    int64_t count = 0;
    struct err why = {0};
    if (!store_passkey_count(s, p->user_id, &count, e))
        return false;
    if (count >= STORE_PASSKEYS_MAX)
        return err_set(e, ERR_LIMIT, "a user can have %d passkeys; remove one first",
                       STORE_PASSKEYS_MAX);
    sqlite3_stmt *q = statement_begin(s, QUERY_PASSKEY_ADD, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", p->user_id);
    statement_bind_blob(q, ":credential_id", p->credential_id, p->credential_id_len);
    statement_bind_int(q, ":algorithm", p->algorithm);
    statement_bind_blob(q, ":public_key", p->public_key, p->public_key_len);
    statement_bind_int(q, ":counter", p->counter);
    statement_bind_text(q, ":transports", p->transports ? p->transports : "");
    statement_bind_text(q, ":name", p->name);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (statement_int(s, q, id, &why))
        return true;
    if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE)
        return err_set(e, ERR_CONFLICT, "this passkey is registered already");
    if (e)
        *e = why;
    return false;
}

bool store_passkey_add(struct store *s, const struct store_passkey *p, int64_t *id, struct err *e)
{
    if (!users_check_name(p->name, "name", e) || !store_write_begin(s, e))
        return false;
    return store_write_end(s, insert(s, p, id, e), e);
}

/* Texts and bytes are SQLite's, until the next step. */
static struct store_passkey borrow(sqlite3_stmt *q)
{
    return (struct store_passkey){
        .id = sqlite3_column_int64(q, 0),
        .user_id = sqlite3_column_int64(q, 1),
        .credential_id = sqlite3_column_blob(q, 2),
        .credential_id_len = (size_t)sqlite3_column_bytes(q, 2),
        .algorithm = sqlite3_column_int64(q, 3),
        .public_key = sqlite3_column_blob(q, 4),
        .public_key_len = (size_t)sqlite3_column_bytes(q, 4),
        .counter = sqlite3_column_int64(q, 5),
        .transports = statement_column_text(q, 6),
        .name = statement_column_text(q, 7),
        .created_at = sqlite3_column_int64(q, 8),
        .used_at = sqlite3_column_int64(q, 9),
    };
}

bool store_passkey_list(struct store *s, int64_t user_id, store_passkey_fn fn, void *context,
                        struct err *e)
{
    int rc;
    sqlite3_stmt *q = statement_begin(s, QUERY_PASSKEY_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_passkey p = borrow(q);
        if (!fn(context, &p))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_passkey_count(struct store *s, int64_t user_id, int64_t *n, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PASSKEY_COUNT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return statement_int(s, q, n, e);
}

static bool keep(struct arena *a, struct store_passkey *p, struct err *e)
{
    const char *id = (const char *)p->credential_id, *key = (const char *)p->public_key;
    p->credential_id = (const unsigned char *)arena_copy(a, id, p->credential_id_len);
    p->public_key = (const unsigned char *)arena_copy(a, key, p->public_key_len);
    p->transports = arena_strdup(a, p->transports);
    p->name = arena_strdup(a, p->name);
    return (p->credential_id && p->public_key && p->transports && p->name) ||
           err_set(e, ERR_NOMEM, "no memory for a passkey");
}

bool store_passkey_find(struct store *s, struct arena *a, const unsigned char *credential_id,
                        size_t len, struct store_passkey *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PASSKEY_FIND, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":credential_id", credential_id, len);
    const int rc = statement_step(s, q, e);
    bool ok = rc == 1;
    if (ok) {
        *out = borrow(q);
        ok = keep(a, out, e);
    } else if (rc == 0) {
        err_set(e, ERR_NOTFOUND, "there is no such passkey");
    }
    statement_end(q);
    return ok;
}

/* Runs a change of one user's one passkey; *changed: it is there, and let itself be changed. */
static bool change(struct store *s, enum query which, const struct store_passkey *p, int *changed,
                   struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":id", p->id);
        statement_bind_int(q, ":user_id", p->user_id);
    }
    if (q && which == QUERY_PASSKEY_USE) {
        statement_bind_int(q, ":counter", p->counter);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    if (q && which == QUERY_PASSKEY_RENAME)
        statement_bind_text(q, ":name", p->name);
    return store_write_end(s, q && statement_run(s, q, changed, e), e);
}

bool store_passkey_use(struct store *s, const struct store_passkey *p, bool *ahead, struct err *e)
{
    int changed = 0;
    if (!change(s, QUERY_PASSKEY_USE, p, &changed, e))
        return false;
    *ahead = changed == 1;
    return true;
}

bool store_passkey_rename(struct store *s, const struct store_passkey *p, struct err *e)
{
    int changed = 0;
    return users_check_name(p->name, "name", e) &&
           change(s, QUERY_PASSKEY_RENAME, p, &changed, e) &&
           (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such passkey"));
}

bool store_passkey_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    int changed = 0;
    const struct store_passkey p = {.id = id, .user_id = user_id};
    return change(s, QUERY_PASSKEY_REMOVE, &p, &changed, e) &&
           (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such passkey"));
}

bool users_remove_passkeys(struct store *s, int64_t user_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PASSKEY_REMOVE_ALL, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return statement_run(s, q, NULL, e);
}

/* ---- challenges ---- */

static void bind_challenge(sqlite3_stmt *q, const struct store_challenge *c)
{
    unsigned char hash[SECRET_HASH_BYTES];
    secret_hash(c->challenge, hash);
    statement_bind_blob(q, ":challenge_hash", hash, sizeof hash);
    statement_bind_text(q, ":purpose", c->purpose);
    statement_bind_blob(q, ":asked_by", c->asked_by, sizeof c->asked_by);
}

static bool add_challenge(struct store *s, const struct store_challenge *c, struct err *e)
{
    const int64_t now = clock_wall_ms();
    sqlite3_stmt *q = statement_begin(s, QUERY_CHALLENGE_CLEAR, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", now);
    if (!statement_run(s, q, NULL, e) || !(q = statement_begin(s, QUERY_CHALLENGE_ADD, e)))
        return false;
    bind_challenge(q, c);
    statement_bind_int(q, ":expires_at", now + STORE_CHALLENGE_MS);
    return statement_run(s, q, NULL, e);
}

/* A power cut may take it: then it is asked for once more. */
bool store_challenge_add(struct store *s, const struct store_challenge *c, struct err *e)
{
    return store_write_begin_unsynced(s, e) && store_write_end(s, add_challenge(s, c, e), e);
}

static bool take_challenge(struct store *s, const struct store_challenge *c, int *changed,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CHALLENGE_TAKE, e);
    if (!q)
        return false;
    bind_challenge(q, c);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, changed, e);
}

/* Synced: one that was used must not come back by a power cut. */
bool store_challenge_take(struct store *s, const struct store_challenge *c, bool *good,
                          struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e) || !store_write_end(s, take_challenge(s, c, &changed, e), e))
        return false;
    *good = changed == 1;
    return true;
}
