/* store_people.h */
#include "sql/users/store_people.h"

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_row.h"

#define DAY_S 86400

bool store_person_list(struct store *s, int64_t after, int limit, int64_t only, store_person_fn fn, void *context,
                       struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_USER_OVERVIEW, e);
    if (!q)
        return false;
    bind_int(q, ":now", clock_wall_ms());
    bind_int(q, ":day", clock_wall_s() / DAY_S);
    bind_int(q, ":after", after);
    bind_int(q, ":only", only);
    bind_int(q, ":limit", limit);
    int rc;
    while ((rc = query_step(s, q, e)) == 1) {
        struct store_person p = {.second_factor = sqlite3_column_int(q, 7),
                                 .sessions = sqlite3_column_int64(q, 8),
                                 .keys = sqlite3_column_int64(q, 9),
                                 .last_seen = sqlite3_column_int64(q, 10),
                                 .tokens_today = sqlite3_column_int64(q, 11),
                                 .stored_bytes = sqlite3_column_int64(q, 12),
                                 .own_limits = sqlite3_column_type(q, 13) != SQLITE_NULL,
                                 .limits = read_limits(q, 13)};
        borrow_user(q, &p.user);
        if (!fn(context, &p))
            break;
    }
    query_end(q);
    return rc >= 0;
}

static bool set_role(struct store *s, int64_t id, bool admin, struct err *e)
{
    int changed = 0;
    if (!admin && (!another_admin(s, id, e) || !revoke_admin_invites(s, id, e)))
        return false;
    sqlite3_stmt *q = query(s, QUERY_USER_SET_ROLE, e);
    if (!q)
        return false;
    bind_int(q, ":id", id);
    bind_text(q, ":role", admin ? "admin" : "user");
    return query_run(s, q, &changed, e) && (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such user"));
}

bool store_user_change(struct store *s, int64_t id, const struct store_user_change *c, struct err *e)
{
    if (!write_begin(s, e))
        return false;
    bool ok = (!c->password_hash || set_password(s, id, c->password_hash, NULL, e)) &&
              (!c->has_role || set_role(s, id, c->admin, e)) && (!c->has_disabled || set_disabled(s, id, c->disabled, e)) &&
              (!c->drop_factor || remove_factor(s, id, e)) && (!c->has_limits || set_limits(s, id, c->limits, e));
    return write_end(s, ok, e);
}

bool store_audit_search(struct store *s, const struct store_audit_filter *f, int limit, store_audit_fn fn, void *context,
                        struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_AUDIT_PAGE, e);
    if (!q)
        return false;
    bind_int(q, ":before", f->before > 0 ? f->before : INT64_MAX);
    bind_int(q, ":since", f->since);
    bind_int(q, ":until", f->until > 0 ? f->until : INT64_MAX);
    bind_text(q, ":user", f->user ? f->user : "");
    bind_text(q, ":action", f->action ? f->action : "");
    bind_int(q, ":limit", limit);
    int rc;
    while ((rc = query_step(s, q, e)) == 1) {
        const struct store_audit a = {.id = sqlite3_column_int64(q, 0),
                                      .at = sqlite3_column_int64(q, 1),
                                      .user_id = sqlite3_column_int64(q, 2),
                                      .user = column_text(q, 3),
                                      .action = column_text(q, 4),
                                      .target = column_text(q, 5),
                                      .address = column_text(q, 6)};
        if (!fn(context, &a))
            break;
    }
    query_end(q);
    return rc >= 0;
}
