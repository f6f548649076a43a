/* An invitation is used up and its account made in one transaction: a taken name leaves the link
 * good. */
#include "sql/users/store_invites.h"

#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/store_groups.h"
#include "sql/users/store_users.h"
#include "sql/users/users_internal.h"

static bool check_note(const char *note, struct err *e)
{
    size_t characters = 0;
    for (const unsigned char *c = (const unsigned char *)note; *c; c++) {
        if (*c < 0x20 || *c == 0x7f)
            return err_field(e, ERR_INPUT, "note", "control characters are not allowed");
        characters += (*c & 0xc0) != 0x80;
    }
    return characters <= STORE_NOTE_MAX ||
           err_field(e, ERR_INPUT, "note", "must have at most %d characters", STORE_NOTE_MAX);
}

static bool add_groups(struct store *s, int64_t id, const struct store_ids *groups, struct err *e)
{
    for (int i = 0; groups && i < groups->n; i++) {
        int changed = 0;
        sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_GROUP_ADD, e);
        if (!q)
            return false;
        statement_bind_int(q, ":id", id);
        statement_bind_int(q, ":group_id", groups->at[i]);
        if (!statement_run(s, q, &changed, e))
            return sqlite3_errcode(s->db) == SQLITE_CONSTRAINT
                       ? err_field(e, ERR_INPUT, "groups", "names one twice")
                       : false;
        if (!changed)
            return err_field(e, ERR_INPUT, "groups", "%lld is no group", (long long)groups->at[i]);
    }
    return true;
}

static bool insert(struct store *s, const struct store_invite *n, const unsigned char *hash,
                   int64_t *id, struct err *e)
{
    const int64_t now = clock_wall_ms();
    int64_t open = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_COUNT_OPEN, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", now);
    if (!statement_int(s, q, &open, e))
        return false;
    if (open >= STORE_INVITES_MAX)
        return err_set(e, ERR_LIMIT, "%d invitations are open; revoke some first",
                       STORE_INVITES_MAX);
    if (!(q = statement_begin(s, QUERY_INVITE_ADD, e)))
        return false;
    statement_bind_blob(q, ":token_hash", hash, SECRET_HASH_BYTES);
    statement_bind_text(q, ":role", n->admin ? "admin" : "user");
    statement_bind_text(q, ":note", n->note ? n->note : "");
    statement_bind_int(q, ":made_by", n->made_by);
    statement_bind_int(q, ":now", now);
    statement_bind_int(q, ":expires_at", n->expires_at);
    return statement_int(s, q, id, e) && add_groups(s, *id, n->groups, e);
}

bool store_invite_add(struct store *s, const struct store_invite *n,
                      const unsigned char hash[SECRET_HASH_BYTES], int64_t *id, struct err *e)
{
    if (!check_note(n->note ? n->note : "", e) || !store_write_begin(s, e))
        return false;
    return store_write_end(s, insert(s, n, hash, id, e), e);
}

static bool not_open(struct err *e)
{
    return err_set(e, ERR_NOTFOUND,
                   "this invitation is not valid: it was used or revoked, or has expired") ||
           err_reason(e, "invitation_over");
}

bool store_invite_open(struct store *s, const unsigned char hash[SECRET_HASH_BYTES],
                       struct store_invite *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_OPEN, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":token_hash", hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    int rc = statement_step(s, q, e);
    if (rc == 1)
        *out = (struct store_invite){.admin = !strcmp(statement_column_text(q, 0), "admin"),
                                     .expires_at = sqlite3_column_int64(q, 1),
                                     .made_by = sqlite3_column_int64(q, 2)};
    statement_end(q);
    return rc == 0 ? not_open(e) : rc == 1;
}

bool store_invite_list(struct store *s, const struct store_invite_page *page, store_invite_fn fn,
                       void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":before", page->before > 0 ? page->before : INT64_MAX);
    statement_bind_int(q, ":limit", page->limit);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_invite n = {
            .id = sqlite3_column_int64(q, 0),
            .admin = !strcmp(statement_column_text(q, 1), "admin"),
            .note = statement_column_text(q, 2),
            .created_at = sqlite3_column_int64(q, 3),
            .expires_at = sqlite3_column_int64(q, 4),
            .used_at = sqlite3_column_int64(q, 5),
            .revoked_at = sqlite3_column_int64(q, 6),
            .made_by_name = statement_column_text(q, 7),
            .used_by_name = statement_column_text(q, 8),
            .group_names = statement_column_text(q, 9),
        };
        if (!fn(context, &n))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_invite_revoke(struct store *s, int64_t id, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_REVOKE, e);
    if (q) {
        statement_bind_int(q, ":id", id);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    bool ok = q && statement_run(s, q, &changed, e) &&
              (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such open invitation"));
    return store_write_end(s, ok, e);
}

bool users_revoke_admin_invites(struct store *s, int64_t user_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_REVOKE_ADMINS_OF, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, NULL, e);
}

static bool accept(struct store *s, const unsigned char *hash, struct store_user *u, struct err *e)
{
    int64_t role = 0;
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_INVITE_USE, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":token_hash", hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!statement_int(s, q, &role, &why)) {
        if (why.code == ERR_NOTFOUND)
            return not_open(e);
        if (e)
            *e = why;
        return false;
    }
    u->admin = role != 0;
    if (!users_insert(s, u, &u->id, e) || !(q = statement_begin(s, QUERY_INVITE_USED_BY, e)))
        return false;
    statement_bind_blob(q, ":token_hash", hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":user_id", u->id);
    if (!statement_run(s, q, NULL, e) || !(q = statement_begin(s, QUERY_INVITE_GROUPS_USE, e)))
        return false;
    statement_bind_blob(q, ":token_hash", hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":user_id", u->id);
    return statement_run(s, q, NULL, e);
}

bool store_invite_accept(struct store *s, const unsigned char hash[SECRET_HASH_BYTES],
                         struct store_user *u, struct err *e)
{
    if (!users_check_name(u->name, "name", e) || !store_write_begin(s, e))
        return false;
    return store_write_end(s, accept(s, hash, u, e), e);
}
