/* store_people.h */
#include "sql/users/store_people.h"

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define DAY_S 86400

bool store_person_list(struct store *s, int64_t after, int limit, int64_t only, store_person_fn fn, void *context,
                       struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_OVERVIEW, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_int(q, ":day", clock_wall_s() / DAY_S);
    statement_bind_int(q, ":after", after);
    statement_bind_int(q, ":only", only);
    statement_bind_int(q, ":limit", limit);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        struct store_person p = {.second_factor = sqlite3_column_int(q, 7),
                                 .sessions = sqlite3_column_int64(q, 8),
                                 .keys = sqlite3_column_int64(q, 9),
                                 .last_seen = sqlite3_column_int64(q, 10),
                                 .tokens_today = sqlite3_column_int64(q, 11),
                                 .stored_bytes = sqlite3_column_int64(q, 12),
                                 .own_limits = sqlite3_column_type(q, 13) != SQLITE_NULL,
                                 .limits = users_read_limits(q, 13)};
        users_borrow(q, &p.user);
        if (!fn(context, &p))
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
    return statement_run(s, q, &changed, e) && (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such user"));
}

bool store_user_change(struct store *s, int64_t id, const struct store_user_change *c, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    bool ok = (!c->password_hash || users_set_password(s, id, c->password_hash, NULL, e)) &&
              (!c->has_role || set_role(s, id, c->admin, e)) && (!c->has_disabled || users_set_disabled(s, id, c->disabled, e)) &&
              (!c->drop_factor || users_remove_factor(s, id, e)) && (!c->has_limits || users_set_limits(s, id, c->limits, e));
    return store_write_end(s, ok, e);
}

bool store_audit_search(struct store *s, const struct store_audit_filter *f, int limit, store_audit_fn fn, void *context,
                        struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_AUDIT_PAGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":before", f->before > 0 ? f->before : INT64_MAX);
    statement_bind_int(q, ":since", f->since);
    statement_bind_int(q, ":until", f->until > 0 ? f->until : INT64_MAX);
    statement_bind_text(q, ":user", f->user ? f->user : "");
    statement_bind_text(q, ":action", f->action ? f->action : "");
    statement_bind_int(q, ":limit", limit);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_audit a = {.id = sqlite3_column_int64(q, 0),
                                      .at = sqlite3_column_int64(q, 1),
                                      .user_id = sqlite3_column_int64(q, 2),
                                      .user = statement_column_text(q, 3),
                                      .action = statement_column_text(q, 4),
                                      .target = statement_column_text(q, 5),
                                      .address = statement_column_text(q, 6)};
        if (!fn(context, &a))
            break;
    }
    statement_end(q);
    return rc >= 0;
}
