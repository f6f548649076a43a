/* store_project_shares.h: the rows that the view project_access is made of. */
#include "sql/projects/store_project_shares.h"

#include "engine/base/clock.h"
#include "sql/core/statement.h"

static bool none(struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such project");
}

static sqlite3_stmt *begin(struct store *s, enum query which, const struct store_ref *ref,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", ref->user_id);
        statement_bind_int(q, ":id", ref->id);
    }
    return q;
}

bool store_project_share_list(struct store *s, const struct store_ref *project,
                              store_project_share_fn fn, void *context, struct err *e)
{
    int rc = -1;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_SHARE_LIST, project, e);
    while (q && (rc = statement_step(s, q, e)) == 1) {
        const struct store_project_share x = {.id = sqlite3_column_int64(q, 0),
                                              .user_id = sqlite3_column_int64(q, 1),
                                              .group_id = sqlite3_column_int64(q, 2),
                                              .name = statement_column_text(q, 3),
                                              .editor = sqlite3_column_int(q, 4),
                                              .n_members = sqlite3_column_int64(q, 5),
                                              .created_at = sqlite3_column_int64(q, 6)};
        if (!fn(context, &x))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

/* Is it the user's own? ERR_NOTFOUND: it can't be read. */
static bool read_access(struct store *s, const struct store_ref *project, int64_t *access,
                        struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_ACCESS_OF, project, e);
    if (!q)
        return false;
    return statement_int(s, q, access, &why) ||
           (why.code == ERR_NOTFOUND ? none(e) : err_set(e, why.code, "%s", why.text));
}

static bool check_owner(struct store *s, const struct store_ref *project, struct err *e)
{
    int64_t access = 0;
    return read_access(s, project, &access, e) &&
           (access == STORE_PROJECT_OWNER ||
            err_set(e, ERR_FORBIDDEN, "only a project's owner says who may use it") ||
            err_reason(e, "project_not_yours"));
}

static bool run_with(struct store *s, enum query which, const struct store_ref *project,
                     int64_t with, int *changed, struct err *e)
{
    sqlite3_stmt *q = begin(s, which, project, e);
    if (!q)
        return false;
    statement_bind_int(q, ":with", with);
    return statement_run(s, q, changed, e);
}

static bool add(struct store *s, const struct store_ref *project,
                const struct store_project_share *x, struct err *e)
{
    int changed = 0;
    int64_t n = 0;
    if (!check_owner(s, project, e))
        return false;
    if (x->user_id == project->user_id)
        return err_field(e, ERR_INPUT, "user", "is the owner") || err_reason(e, "share_with_self");
    sqlite3_stmt *q =
        begin(s, x->user_id ? QUERY_PROJECT_SHARE_USER : QUERY_PROJECT_SHARE_GROUP, project, e);
    if (!q)
        return false;
    statement_bind_int(q, ":with", x->user_id ? x->user_id : x->group_id);
    statement_bind_int(q, ":editor", x->editor);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!statement_run(s, q, &changed, e))
        return false;
    if (!changed)
        return err_field(e, ERR_INPUT, x->user_id ? "user" : "group_id", "there is none such") ||
               err_reason(e, "share_nobody");
    q = begin(s, QUERY_PROJECT_SHARE_COUNT, project, e);
    if (!q || !statement_int(s, q, &n, e))
        return false;
    if (n > STORE_PROJECT_SHARES)
        return err_set(e, ERR_LIMIT, "a project is shared with at most %d users and groups",
                       STORE_PROJECT_SHARES);
    return !x->user_id || run_with(s, QUERY_PROJECT_COME_BACK, project, x->user_id, &changed, e);
}

bool store_project_share_add(struct store *s, const struct store_ref *project,
                             const struct store_project_share *x, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add(s, project, x, e), e);
}

static bool remove_share(struct store *s, const struct store_ref *project, int64_t share,
                         struct err *e)
{
    int changed = 0;
    if (!check_owner(s, project, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_SHARE_REMOVE, project, e);
    if (!q)
        return false;
    statement_bind_int(q, ":share", share);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "the project is not shared so"));
}

bool store_project_share_remove(struct store *s, const struct store_ref *project, int64_t share,
                                struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_share(s, project, share, e), e);
}

/* The own share goes; a row says so where a group still shares it. */
static bool leave(struct store *s, const struct store_ref *project, struct err *e)
{
    int64_t access = 0;
    sqlite3_stmt *q;
    if (!read_access(s, project, &access, e))
        return false;
    if (access == STORE_PROJECT_OWNER)
        return err_set(e, ERR_CONFLICT, "nobody leaves a project of their own: delete it") ||
               err_reason(e, "project_own");
    return (q = begin(s, QUERY_PROJECT_LEAVE_SHARE, project, e)) && statement_run(s, q, NULL, e) &&
           (q = begin(s, QUERY_PROJECT_LEAVE, project, e)) && statement_run(s, q, NULL, e);
}

bool store_project_leave(struct store *s, const struct store_ref *project, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, leave(s, project, e), e);
}

bool store_attachment_owner(struct store *s, const struct store_ref *attachment, int64_t *owner,
                            struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = begin(s, QUERY_ATTACHMENT_OWNER, attachment, e);
    if (!q)
        return false;
    return statement_int(s, q, owner, &why) ||
           (why.code == ERR_NOTFOUND ? err_set(e, ERR_NOTFOUND, "there is no such attachment")
                                     : err_set(e, why.code, "%s", why.text));
}
