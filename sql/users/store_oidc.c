/* A sign-in that is under way is a row of hashes: what proves it is in the browser's cookie only.
 */
#include "sql/users/store_oidc.h"

#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/store_groups.h"
#include "sql/users/users_internal.h"

static sqlite3_stmt *begin_of(struct store *s, enum query which,
                              const struct store_oidc_identity *i, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_text(q, ":issuer", i->issuer);
        statement_bind_text(q, ":subject", i->subject);
    }
    return q;
}

bool store_oidc_find(struct store *s, struct arena *a, const struct store_oidc_identity *who,
                     struct store_user *out, struct err *e)
{
    sqlite3_stmt *q = begin_of(s, QUERY_OIDC_FIND, who, e);
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 ? users_copy(q, a, out, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "the account is linked to nobody");
    statement_end(q);
    return ok;
}

bool store_oidc_used(struct store *s, const struct store_oidc_identity *who, struct err *e)
{
    if (!store_write_begin_unsynced(s, e))
        return false;
    sqlite3_stmt *q = begin_of(s, QUERY_OIDC_USED, who, e);
    if (q)
        statement_bind_int(q, ":now", clock_wall_ms());
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

/* Bytes of the label that are whole characters. */
static size_t label_bytes(const char *label)
{
    size_t n = strnlen(label, STORE_OIDC_LABEL_MAX + 1);
    if (n > STORE_OIDC_LABEL_MAX)
        for (n = STORE_OIDC_LABEL_MAX; n && ((unsigned char)label[n] & 0xc0) == 0x80;)
            n--;
    return n;
}

static bool link_account(struct store *s, const struct store_oidc_identity *i, struct err *e)
{
    struct err why = {0};
    int changed = 0;
    const char *label = i->label ? i->label : "";
    sqlite3_stmt *q = begin_of(s, QUERY_OIDC_LINK, i, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", i->user_id);
    statement_bind_bytes(q, ":label", label, label_bytes(label));
    statement_bind_int(q, ":now", clock_wall_ms());
    if (statement_run(s, q, &changed, &why))
        return changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such user");
    const int code = sqlite3_extended_errcode(s->db);
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
        return err_set(e, ERR_CONFLICT, "the account is linked already");
    if (e)
        *e = why;
    return false;
}

bool store_oidc_link(struct store *s, const struct store_oidc_identity *i, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, link_account(s, i, e), e);
}

static bool create(struct store *s, const struct store_user *u, const struct store_oidc_identity *i,
                   int64_t *id, struct err *e)
{
    struct store_oidc_identity own = *i;
    if (!users_insert(s, u, id, e))
        return false;
    own.user_id = *id;
    return link_account(s, &own, e);
}

bool store_oidc_create(struct store *s, const struct store_user *u,
                       const struct store_oidc_identity *i, int64_t *id, struct err *e)
{
    return users_check_name(u->name, "name", e) && store_write_begin(s, e) &&
           store_write_end(s, create(s, u, i, id, e), e);
}

bool store_oidc_list(struct store *s, int64_t user_id, store_oidc_fn fn, void *context,
                     struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_OIDC_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_oidc_identity i = {.user_id = user_id,
                                              .issuer = statement_column_text(q, 0),
                                              .label = statement_column_text(q, 1),
                                              .created_at = sqlite3_column_int64(q, 2),
                                              .used_at = sqlite3_column_int64(q, 3)};
        if (!fn(context, &i))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

static bool unlink_account(struct store *s, const struct store_oidc_end *end, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_OIDC_UNLINK, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", end->user_id);
    statement_bind_text(q, ":issuer", end->issuer);
    return statement_run(s, q, &changed, e) &&
           (changed == 1 || err_set(e, ERR_NOTFOUND, "no account of that issuer is linked"));
}

bool store_oidc_unlink(struct store *s, const struct store_oidc_end *end, struct err *e)
{
    int64_t left[STORE_GROUPS_MAX];
    int n = 0;
    const bool ok =
        store_write_begin(s, e) &&
        store_write_end(
            s, unlink_account(s, end, e) && users_leave_claimed(s, end->user_id, left, &n, e), e);
    for (int i = 0; ok && end->moved && i < n; i++)
        end->moved(end->context, left[i], false);
    return ok;
}

bool users_unlink_oidc(struct store *s, int64_t user_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_OIDC_UNLINK_ALL, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return statement_run(s, q, NULL, e);
}

static bool add_flow(struct store *s, const struct store_oidc_flow *f, struct err *e)
{
    const int64_t now = clock_wall_ms();
    int64_t n = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_OIDC_FLOW_EXPIRE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", now);
    if (!statement_run(s, q, NULL, e) || !(q = statement_begin(s, QUERY_OIDC_FLOW_COUNT, e)))
        return false;
    statement_bind_int(q, ":now", now);
    if (!statement_int(s, q, &n, e))
        return false;
    if (n >= STORE_OIDC_FLOWS_MAX)
        return err_set(e, ERR_BUSY, "too many sign-ins are under way; try again in some minutes");
    if (!(q = statement_begin(s, QUERY_OIDC_FLOW_ADD, e)))
        return false;
    statement_bind_blob(q, ":state_hash", f->state_hash, SECRET_HASH_BYTES);
    statement_bind_blob(q, ":browser_hash", f->browser_hash, SECRET_HASH_BYTES);
    statement_bind_blob(q, ":session_hash", f->links ? f->session_hash : NULL, SECRET_HASH_BYTES);
    statement_bind_int(q, ":expires_at", now + STORE_OIDC_FLOW_MS);
    return statement_run(s, q, NULL, e);
}

bool store_oidc_flow_add(struct store *s, const struct store_oidc_flow *f, struct err *e)
{
    return store_write_begin_unsynced(s, e) && store_write_end(s, add_flow(s, f, e), e);
}

static bool take_flow(struct store *s, struct store_oidc_flow *f, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_OIDC_FLOW_TAKE, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":state_hash", f->state_hash, SECRET_HASH_BYTES);
    statement_bind_blob(q, ":browser_hash", f->browser_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    const int rc = statement_step(s, q, e);
    const void *session = rc == 1 ? sqlite3_column_blob(q, 0) : NULL;
    f->links = session != NULL;
    if (session)
        memcpy(f->session_hash, session, SECRET_HASH_BYTES);
    statement_end(q);
    return rc == 1 || (rc == 0 && err_set(e, ERR_NOTFOUND, "no such sign-in is under way"));
}

bool store_oidc_flow_take(struct store *s, struct store_oidc_flow *f, struct err *e)
{
    return store_write_begin_unsynced(s, e) && store_write_end(s, take_flow(s, f, e), e);
}
