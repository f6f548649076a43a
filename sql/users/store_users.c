/* Users as they log in and as an admin changes them, and the first admin. */
#include "sql/users/store_users.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/server_internal.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define DAY_S 86400

bool users_check_name(const char *name, const char *field, struct err *e)
{
    size_t n = strlen(name), characters = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f)
            return err_field(e, ERR_INPUT, field, "control characters are not allowed") ||
                   err_reason(e, "name_invalid");
        characters += (c & 0xc0) != 0x80;
    }
    if (!n || characters > STORE_NAME_MAX || n > STORE_NAME_MAX * 4)
        return err_field(e, ERR_INPUT, field, "must have 1 to %d characters", STORE_NAME_MAX) ||
               err_reason(e, "name_invalid");
    if (name[0] == ' ' || name[n - 1] == ' ' || name[0] == '#')
        return err_field(e, ERR_INPUT, field,
                         "must not begin with '#' or a blank, nor end with one") ||
               err_reason(e, "name_invalid");
    return true;
}

void users_borrow(sqlite3_stmt *q, struct store_user *u)
{
    *u = (struct store_user){
        .id = sqlite3_column_int64(q, 0),
        .name = statement_column_text(q, 1),
        .admin = !strcmp(statement_column_text(q, 2), "admin"),
        .disabled = sqlite3_column_int(q, 3),
        .password_hash = statement_column_text(q, 4),
        .settings = statement_column_text(q, 5),
        .created_at = sqlite3_column_int64(q, 6),
    };
}

bool users_copy(sqlite3_stmt *q, struct arena *a, struct store_user *u, struct err *e)
{
    users_borrow(q, u);
    return statement_column_copy(q, 1, a, &u->name, e) &&
           statement_column_copy(q, 4, a, &u->password_hash, e) &&
           statement_column_copy(q, 5, a, &u->settings, e);
}

static bool one_user(struct store *s, sqlite3_stmt *q, struct arena *a, struct store_user *out,
                     struct err *e)
{
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 ? users_copy(q, a, out, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such user");
    statement_end(q);
    return ok;
}

bool users_insert(struct store *s, const struct store_user *u, int64_t *id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_ADD, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", u->name);
    statement_bind_text(q, ":role", u->admin ? "admin" : "user");
    statement_bind_text(q, ":password", u->password_hash);
    statement_bind_int(q, ":now", clock_wall_ms());
    struct err why = {0};
    if (statement_int(s, q, id, &why))
        return true;
    if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE)
        return err_field(e, ERR_CONFLICT, "name", "the name is taken") ||
               err_reason(e, "name_taken");
    if (e)
        *e = why;
    return false;
}

bool store_user_add(struct store *s, const struct store_user *u, int64_t *id, struct err *e)
{
    if (!users_check_name(u->name, "name", e) || !store_write_begin(s, e))
        return false;
    return store_write_end(s, users_insert(s, u, id, e), e);
}

bool store_user_by_name(struct store *s, struct arena *a, const char *name, struct store_user *out,
                        struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_BY_NAME, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    return one_user(s, q, a, out, e);
}

bool store_user_by_id(struct store *s, struct arena *a, int64_t id, struct store_user *out,
                      struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_BY_ID, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return one_user(s, q, a, out, e);
}

bool store_user_list(struct store *s, store_user_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_LIST, e);
    if (!q)
        return false;
    int rc;
    struct store_user u;
    while ((rc = statement_step(s, q, e)) == 1) {
        users_borrow(q, &u);
        if (!fn(context, &u))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

/* Runs a statement that changes one row, told by :id or another binding made before. */
static bool change_one(struct store *s, sqlite3_stmt *q, struct err *e)
{
    int changed;
    return statement_run(s, q, &changed, e) &&
           (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such user"));
}

bool users_end_sessions(struct store *s, int64_t user_id, const unsigned char *keep, int *n,
                        struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SESSION_REMOVE_OTHERS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_blob(q, ":keep", keep, SECRET_HASH_BYTES);
    return statement_run(s, q, n, e);
}

static bool remove_keys(struct store *s, int64_t user_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_REMOVE_ALL, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return statement_run(s, q, NULL, e);
}

static bool set_password(struct store *s, int64_t id, const struct store_new_password *p,
                         struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_SET_PASSWORD, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_text(q, ":password", p->hash);
    return change_one(s, q, e) && users_end_sessions(s, id, p->keep_session, NULL, e) &&
           (!p->revoke_keys || remove_keys(s, id, e)) &&
           (!p->revoke_passkeys || users_remove_passkeys(s, id, e));
}

bool store_user_set_password(struct store *s, int64_t id, const struct store_new_password *p,
                             struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, set_password(s, id, p, e), e);
}

/* Without an admin nobody could administer the server any more. */
bool users_check_other_admin(struct store *s, int64_t id, struct err *e)
{
    struct err why = {0};
    int64_t others = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_BY_ID, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    int rc = statement_step(s, q, e);
    bool admin = rc == 1 && !strcmp(statement_column_text(q, 2), "admin");
    statement_end(q);
    if (rc < 0)
        return false;
    if (rc == 0)
        return err_set(e, ERR_NOTFOUND, "there is no such user");
    if (!admin)
        return true;
    q = statement_begin(s, QUERY_USER_OTHER_ADMINS, &why);
    if (q)
        statement_bind_int(q, ":id", id);
    if (!q || !statement_int(s, q, &others, &why)) {
        if (e)
            *e = why;
        return false;
    }
    return others > 0 || err_set(e, ERR_CONFLICT, "this is the last admin") ||
           err_reason(e, "last_admin");
}

bool users_set_disabled(struct store *s, int64_t id, bool disabled, struct err *e)
{
    if (disabled &&
        (!users_check_other_admin(s, id, e) || !users_end_sessions(s, id, NULL, NULL, e) ||
         !users_revoke_admin_invites(s, id, e)))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_SET_DISABLED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":disabled", disabled);
    return change_one(s, q, e);
}

bool store_user_set_disabled(struct store *s, int64_t id, bool disabled, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, users_set_disabled(s, id, disabled, e), e);
}

struct user_json { /* a member of a user's row */
    enum query get;
    int64_t id;
};

static bool get_json(struct store *s, struct arena *a, struct user_json which, const char **json,
                     struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which.get, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", which.id);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 ? statement_column_copy(q, 0, a, json, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such user");
    statement_end(q);
    return ok;
}

static bool set_json(struct store *s, enum query which, int64_t id, const char *json, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", id);
        statement_bind_text(q, ":settings", json);
    }
    return store_write_end(s, q && change_one(s, q, e), e);
}

bool store_user_defaults(struct store *s, struct arena *a, int64_t id, const char **json,
                         struct err *e)
{
    return get_json(s, a, (struct user_json){QUERY_USER_DEFAULTS_GET, id}, json, e);
}

bool store_user_set_defaults(struct store *s, int64_t id, const char *json, struct err *e)
{
    return set_json(s, QUERY_USER_DEFAULTS_SET, id, json, e);
}

bool store_user_preferences(struct store *s, struct arena *a, int64_t id, const char **json,
                            struct err *e)
{
    return get_json(s, a, (struct user_json){QUERY_USER_PREFERENCES_GET, id}, json, e);
}

bool store_user_set_preferences(struct store *s, int64_t id, const char *json, struct err *e)
{
    return set_json(s, QUERY_USER_PREFERENCES_SET, id, json, e);
}

bool store_user_overview_list(struct store *s, const struct store_user_page *page,
                              store_user_overview_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_OVERVIEW, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_int(q, ":day", clock_wall_s() / DAY_S);
    statement_bind_int(q, ":after", page->after);
    statement_bind_int(q, ":only", page->only);
    statement_bind_int(q, ":limit", page->limit);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        struct store_user_overview u = {.second_factor = sqlite3_column_int(q, 7),
                                        .sessions = sqlite3_column_int64(q, 8),
                                        .keys = sqlite3_column_int64(q, 9),
                                        .last_seen = sqlite3_column_int64(q, 10),
                                        .tokens_today = sqlite3_column_int64(q, 11),
                                        .stored_bytes = sqlite3_column_int64(q, 12),
                                        .own_limits = sqlite3_column_type(q, 13) != SQLITE_NULL,
                                        .limits = users_read_limits(q, 13)};
        users_borrow(q, &u.user);
        if (!fn(context, &u))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

static bool set_role(struct store *s, int64_t id, bool admin, struct err *e)
{
    int changed = 0;
    if (!admin && (!users_check_other_admin(s, id, e) || !users_revoke_admin_invites(s, id, e)))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_SET_ROLE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_text(q, ":role", admin ? "admin" : "user");
    return statement_run(s, q, &changed, e) &&
           (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such user")) &&
           (admin || server_forget_unseen(s, e));
}

bool store_user_change(struct store *s, int64_t id, const struct store_user_change *c,
                       struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    bool ok = (!c->password.hash || set_password(s, id, &c->password, e)) &&
              (!c->has_role || set_role(s, id, c->admin, e)) &&
              (!c->has_disabled || users_set_disabled(s, id, c->disabled, e)) &&
              (!c->drop_factor || users_remove_factor(s, id, e)) &&
              (!c->has_limits || users_set_limits(s, id, c->limits, e));
    return store_write_end(s, ok, e);
}

static bool leave_groups(struct store *s, int64_t id, struct err *e)
{
    static const enum query all[] = {QUERY_USER_LEAVE_GROUPS, QUERY_USER_LEAVE_SHARES};
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *q = statement_begin(s, all[i], e);
        if (!q)
            return false;
        statement_bind_int(q, ":user_id", id);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

static bool remove_user(struct store *s, int64_t id, struct err *e)
{
    if (!users_check_other_admin(s, id, e) || !users_end_sessions(s, id, NULL, NULL, e) ||
        !users_remove_factor(s, id, e) || !users_remove_passkeys(s, id, e) ||
        !users_revoke_admin_invites(s, id, e))
        return false;
    if (!remove_keys(s, id, e) || !users_unlink_oidc(s, id, e) || !leave_groups(s, id, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_REMOVE_TOOL_SIGN_INS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    if (!statement_run(s, q, NULL, e) || !(q = statement_begin(s, QUERY_USER_END_SHARES, e)))
        return false;
    statement_bind_int(q, ":id", id);
    if (!statement_run(s, q, NULL, e) ||
        !(q = statement_begin(s, QUERY_USER_REMOVE_CONVERSATIONS, e)))
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!statement_run(s, q, NULL, e) || !(q = statement_begin(s, QUERY_USER_REMOVE, e)))
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":now", clock_wall_ms());
    return change_one(s, q, e);
}

/* One transaction, so that a user is there or gone. What may be long follows by the recorder's
 * steps: that others' chats leave the user's projects, which nobody can reach any more. */
bool store_user_remove(struct store *s, int64_t id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_user(s, id, e), e);
}

struct first_admin {
    const struct store_first_admin *given; /* what the caller learns */
    const char *password_hash, *key_prefix;
};

/* Inside a transaction: *made says whether there was nobody yet. */
static bool make_admin(struct store *s, const struct first_admin *a, bool *made, struct err *e)
{
    int64_t count = 0, id = 0, key_id = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_COUNT, e);
    if (!q || !statement_int(s, q, &count, e))
        return false;
    *made = count == 0;
    if (!*made)
        return true;
    unsigned char hash[SECRET_HASH_BYTES];
    secret_hash(a->given->key, hash);
    const struct store_user user = {
        .name = a->given->name, .password_hash = a->password_hash, .admin = true};
    if (!users_insert(s, &user, &id, e))
        return false;
    const struct store_key key = {.user_id = id, .name = "first key", .prefix = a->key_prefix};
    return users_insert_key(s, &key, hash, &key_id, e);
}

bool store_first_admin(struct store *s, const char *name, struct store_first_admin *out, bool *made,
                       struct err *e)
{
    struct store_first_admin a = {0};
    char hash[SECRET_PASSWORD_HASH_SIZE], prefix[SECRET_PREFIX_SIZE];
    int64_t count = 0;
    *made = false;
    if (!users_check_name(name, "name", e) || !secret_init(e))
        return false;
    /* The usual start: somebody is there, and no argon2id need be paid for. */
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_COUNT, e);
    if (!q || !statement_int(s, q, &count, e))
        return false;
    if (count)
        return true;
    snprintf(a.name, sizeof a.name, "%s", name);
    secret_password(a.password);
    secret_api_key(a.key, prefix);
    const struct first_admin admin = {&a, hash, prefix};
    bool ok = secret_password_hash(a.password, hash, e) && store_write_begin(s, e) &&
              store_write_end(s, make_admin(s, &admin, made, e), e);
    if (ok && *made)
        *out = a;
    *made = *made && ok;
    secret_wipe(&a, sizeof a);
    return ok;
}
