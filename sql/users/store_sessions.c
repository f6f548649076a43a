/* Finds the user behind a session's cookie, by the hash of the token that the client holds. */
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define SESSION_TOUCH_MS ((int64_t)5 * 60 * 1000) /* how often a use is written down */
#define ADDRESS_BYTES 64
#define AGENT_BYTES 200

/* Cuts at a whole UTF-8 character. */
static size_t cut(const char *s, size_t max)
{
    size_t n = strnlen(s, max + 1);
    if (n <= max)
        return n;
    n = max;
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static bool insert_session(struct store *s, const struct store_session *n, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_ADD, e);
    if (!q)
        return false;
    const char *address = n->address ? n->address : "", *agent = n->agent ? n->agent : "";
    statement_bind_blob(q, ":token_hash", n->token_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":user_id", n->user_id);
    statement_bind_int(q, ":created_at", n->created_at);
    statement_bind_int(q, ":expires_at", n->expires_at);
    statement_bind_bytes(q, ":address", address, cut(address, ADDRESS_BYTES));
    statement_bind_bytes(q, ":agent", agent, cut(agent, AGENT_BYTES));
    return statement_run(s, q, NULL, e);
}

bool store_session_add(struct store *s, const struct store_session *n, struct err *e)
{
    struct store_session row = *n;
    if (!row.created_at)
        row.created_at = clock_wall_ms();
    if (!row.expires_at)
        row.expires_at = row.created_at + STORE_SESSION_MS;
    return store_write_begin(s, e) && store_write_end(s, insert_session(s, &row, e), e);
}

/* Writes the time of use, unless another writer is at it: no request waits for that, and the next
 * use tries again. */
static bool touch_session(struct store *s, const unsigned char *hash, int64_t now,
                          int64_t *expires_at)
{
    int64_t until = 0;
    if (!store_write_try(s))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_USED, NULL);
    if (q) {
        statement_bind_blob(q, ":token_hash", hash, SECRET_HASH_BYTES);
        statement_bind_int(q, ":now", now);
        statement_bind_int(q, ":expires_at", now + STORE_SESSION_MS);
    }
    if (!store_write_end(s, q && statement_int(s, q, &until, NULL), NULL))
        return false;
    *expires_at = until;
    return true;
}

bool store_session_find(struct store *s, struct arena *a, const unsigned char *token_hash,
                        struct store_user *out, struct err *e)
{
    struct store_session_found found;
    if (!store_session_use(s, a, token_hash, &found, e))
        return false;
    *out = found.user;
    return true;
}

bool store_session_use(struct store *s, struct arena *a, const unsigned char *token_hash,
                       struct store_session_found *out, struct err *e)
{
    const int64_t now = clock_wall_ms();
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_FIND, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":token_hash", token_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", now);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 && users_copy(q, a, &out->user, e);
    int64_t used_at = rc == 1 ? sqlite3_column_int64(q, 7) : now;
    out->expires_at = rc == 1 ? sqlite3_column_int64(q, 8) : 0;
    out->renewed = false;
    statement_end(q);
    if (rc == 0)
        return err_set(e, ERR_AUTH, "the session is over; log in again");
    if (ok && now - used_at > SESSION_TOUCH_MS)
        out->renewed = touch_session(s, token_hash, now, &out->expires_at);
    return ok;
}

bool store_session_confirm(struct store *s, const unsigned char *token_hash, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_CONFIRM, e);
    if (q) {
        statement_bind_blob(q, ":token_hash", token_hash, SECRET_HASH_BYTES);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

static void bind_confirmation(sqlite3_stmt *q, const struct store_confirmation *c)
{
    statement_bind_blob(q, ":token_hash", c->token_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":since", c->since_ms);
    statement_bind_int(q, ":now", clock_wall_ms());
}

static bool use_confirmation(struct store *s, const struct store_confirmation *c, int *changed,
                             struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_USE_CONFIRMATION, e);
    if (!q)
        return false;
    bind_confirmation(q, c);
    return statement_run(s, q, changed, e);
}

bool store_session_confirmed(struct store *s, const struct store_confirmation *c, bool *yes,
                             struct err *e)
{
    int changed = 0;
    *yes = false;
    if (c->use_up) {
        if (!store_write_begin(s, e) || !store_write_end(s, use_confirmation(s, c, &changed, e), e))
            return false;
        *yes = changed == 1;
        return true;
    }
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_IS_CONFIRMED, e);
    if (!q)
        return false;
    bind_confirmation(q, c);
    const int rc = statement_step(s, q, e);
    statement_end(q);
    *yes = rc == 1;
    return rc >= 0;
}

bool store_session_remove(struct store *s, const unsigned char *token_hash, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_REMOVE, e);
    if (q)
        statement_bind_blob(q, ":token_hash", token_hash, SECRET_HASH_BYTES);
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

bool store_session_list(struct store *s, const struct store_session_viewer *v, store_session_fn fn,
                        void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", v->user_id);
    statement_bind_blob(q, ":current", v->current, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_session_seen n = {.id = statement_column_text(q, 0),
                                             .created_at = sqlite3_column_int64(q, 1),
                                             .used_at = sqlite3_column_int64(q, 2),
                                             .expires_at = sqlite3_column_int64(q, 3),
                                             .address = statement_column_text(q, 4),
                                             .agent = statement_column_text(q, 5),
                                             .current = sqlite3_column_int(q, 6)};
        if (!fn(context, &n))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_session_end(struct store *s, int64_t user_id, const char *id, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_REMOVE_ONE, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_text(q, ":id", id);
    }
    bool ok = q && statement_run(s, q, &changed, e) &&
              (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such session"));
    return store_write_end(s, ok, e);
}

bool store_session_end_all(struct store *s, int64_t user_id, const unsigned char *keep, int *n,
                           struct err *e)
{
    return store_write_begin(s, e) &&
           store_write_end(s, users_end_sessions(s, user_id, keep, n, e), e);
}
