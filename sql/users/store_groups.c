/* store_groups.h: rows of groups and their members. */
#include "sql/users/store_groups.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/server_internal.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define FIRST_LIMIT 8 /* column of @group_columns */

static bool no_group(struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such group");
}

struct store_user_limits users_read_group_limits(sqlite3_stmt *q, int at)
{
    struct store_user_limits out;
    for (int i = 0; i < STORE_LIMITS; i++)
        *store_limit_at(&out, i) = sqlite3_column_type(q, at + i) == SQLITE_NULL
                                       ? STORE_LIMIT_UNSAID
                                       : sqlite3_column_int64(q, at + i);
    return out;
}

static struct store_group borrow(sqlite3_stmt *q)
{
    return (struct store_group){.id = sqlite3_column_int64(q, 0),
                                .name = statement_column_text(q, 1),
                                .description = statement_column_text(q, 2),
                                .claim = statement_column_text(q, 3),
                                .created_at = sqlite3_column_int64(q, 4),
                                .n_members = sqlite3_column_int64(q, 5),
                                .models = statement_column_text(q, 6),
                                .tool_servers = statement_column_text(q, 7),
                                .limits = users_read_group_limits(q, FIRST_LIMIT)};
}

static bool walk(struct store *s, sqlite3_stmt *q, store_group_fn fn, void *context, struct err *e)
{
    int rc = -1;
    while (q && (rc = statement_step(s, q, e)) == 1) {
        const struct store_group g = borrow(q);
        if (!fn(context, &g))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_group_list(struct store *s, store_group_fn fn, void *context, struct err *e)
{
    return walk(s, statement_begin(s, QUERY_GROUP_LIST, e), fn, context, e);
}

bool store_groups_of_user(struct store *s, int64_t user_id, store_group_fn fn, void *context,
                          struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUPS_OF_USER, e);
    if (q)
        statement_bind_int(q, ":user_id", user_id);
    return walk(s, q, fn, context, e);
}

bool store_group_get(struct store *s, struct arena *a, int64_t id, struct store_group *out,
                     struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    const int rc = statement_step(s, q, e);
    bool ok = rc == 1 || (rc == 0 && no_group(e));
    if (ok) {
        *out = borrow(q);
        ok = statement_column_copy(q, 1, a, &out->name, e) &&
             statement_column_copy(q, 2, a, &out->description, e) &&
             statement_column_copy(q, 3, a, &out->claim, e) &&
             statement_column_copy(q, 6, a, &out->models, e) &&
             statement_column_copy(q, 7, a, &out->tool_servers, e);
    }
    statement_end(q);
    return ok;
}

bool store_group_by_name(struct store *s, const char *name, int64_t *id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_BY_NAME, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    if (statement_int(s, q, id, &why))
        return true;
    return why.code == ERR_NOTFOUND ? no_group(e) : err_set(e, why.code, "%s", why.text);
}

static bool check_text(const char *text, const char *field, size_t least, size_t most,
                       struct err *e)
{
    size_t n = 0;
    for (const char *p = text ? text : ""; *p; p++) {
        n += ((unsigned char)*p & 0xc0) != 0x80;
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_field(e, ERR_INPUT, field, "holds a control character");
    }
    const bool blank = least && text && (*text == ' ' || (n && text[strlen(text) - 1] == ' '));
    return !text || (n >= least && n <= most && !blank) ||
           err_field(e, ERR_INPUT, field, "must have %zu to %zu characters, no blanks at the ends",
                     least, most);
}

static bool check(const struct store_group_change *c, struct err *e)
{
    return check_text(c->name, "name", 1, STORE_GROUP_NAME, e) &&
           check_text(c->description, "description", 0, STORE_GROUP_DESCRIPTION, e) &&
           check_text(c->claim, "claim", 0, STORE_GROUP_DESCRIPTION, e);
}

static bool run_id(struct store *s, enum query which, int64_t id, int *changed, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, changed, e);
}

/* What one group carries of one kind. */
struct carried {
    enum query clear, add;
    const char *parameter, *field;
    const struct store_ids *ids;
};

static bool set_carried(struct store *s, int64_t id, const struct carried *c, struct err *e)
{
    if (!c->ids)
        return true;
    if (!run_id(s, c->clear, id, NULL, e))
        return false;
    for (int i = 0; i < c->ids->n; i++) {
        int changed = 0;
        sqlite3_stmt *q = statement_begin(s, c->add, e);
        if (!q)
            return false;
        statement_bind_int(q, ":group_id", id);
        statement_bind_int(q, c->parameter, c->ids->at[i]);
        if (!statement_run(s, q, &changed, e))
            return sqlite3_errcode(s->db) == SQLITE_CONSTRAINT
                       ? err_field(e, ERR_INPUT, c->field, "names one twice")
                       : false;
        if (!changed)
            return err_field(e, ERR_INPUT, c->field, "there is no %lld", (long long)c->ids->at[i]);
    }
    return true;
}

static bool taken(struct store *s, const struct err *why, struct err *e)
{
    if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE)
        return err_field(e, ERR_CONFLICT, "name", "a group is called that already") ||
               err_reason(e, "group_exists");
    return err_set(e, why->code, "%s", why->text);
}

static bool change(struct store *s, int64_t id, const struct store_group_change *c, struct err *e)
{
    static const char *const names[STORE_LIMITS] = {":requests_per_minute", ":tokens_per_minute",
                                                    ":max_jobs", ":tokens_per_day",
                                                    ":storage_bytes"};
    struct err why = {0};
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_CHANGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_text(q, ":name", c->name);
    statement_bind_text(q, ":description", c->description);
    statement_bind_text(q, ":claim", c->claim);
    statement_bind_int(q, ":limits", c->limits != NULL);
    for (int i = 0; i < STORE_LIMITS; i++) {
        struct store_user_limits l = c->limits ? *c->limits : (struct store_user_limits){0};
        statement_bind_int(q, names[i], *store_limit_at(&l, i));
    }
    if (!statement_run(s, q, &changed, &why))
        return taken(s, &why, e);
    if (!changed)
        return no_group(e);
    const struct carried models = {QUERY_MODEL_GROUP_CLEAR_OF, QUERY_MODEL_GROUP_ADD, ":model_id",
                                   "models", c->models};
    const struct carried servers = {QUERY_TOOL_GROUP_CLEAR_OF, QUERY_TOOL_GROUP_ADD, ":server_id",
                                    "tool_servers", c->tool_servers};
    return set_carried(s, id, &models, e) && set_carried(s, id, &servers, e) &&
           (!c->tool_servers || server_forget_unseen(s, e));
}

static bool add(struct store *s, const struct store_group_change *c, int64_t *id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_ADD, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", c->name);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_int(q, ":most", STORE_GROUPS_MAX);
    if (!statement_int(s, q, id, &why))
        return why.code == ERR_NOTFOUND
                   ? err_set(e, ERR_LIMIT, "at most %d groups are kept", STORE_GROUPS_MAX)
                   : taken(s, &why, e);
    return change(s, *id, c, e);
}

bool store_group_add(struct store *s, const struct store_group_change *c, int64_t *id,
                     struct err *e)
{
    if (!c->name)
        return err_field(e, ERR_INPUT, "name", "is needed");
    return check(c, e) && store_write_begin(s, e) && store_write_end(s, add(s, c, id, e), e);
}

bool store_group_change(struct store *s, int64_t id, const struct store_group_change *c,
                        struct err *e)
{
    return check(c, e) && store_write_begin(s, e) && store_write_end(s, change(s, id, c, e), e);
}

bool store_group_remove(struct store *s, int64_t id, struct err *e)
{
    int changed = 0;
    return store_write_begin(s, e) &&
           store_write_end(s,
                           run_id(s, QUERY_GROUP_REMOVE, id, &changed, e) &&
                               (changed || no_group(e)) && server_forget_unseen(s, e),
                           e);
}

bool store_group_members(struct store *s, const struct store_group_page *page,
                         store_group_member_fn fn, void *context, struct err *e)
{
    int rc = -1;
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_MEMBERS, e);
    if (q) {
        statement_bind_int(q, ":id", page->group_id);
        statement_bind_int(q, ":after", page->after);
        statement_bind_int(q, ":limit", page->limit);
    }
    while (q && (rc = statement_step(s, q, e)) == 1) {
        const struct store_group_member m = {.user_id = sqlite3_column_int64(q, 0),
                                             .name = statement_column_text(q, 1),
                                             .provider = sqlite3_column_int(q, 2)};
        if (!fn(context, &m))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

static sqlite3_stmt *begin_member(struct store *s, enum query which, int64_t group_id,
                                  int64_t user_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":id", group_id);
        statement_bind_int(q, ":user_id", user_id);
    }
    return q;
}

static bool is_user(struct store *s, int64_t id, struct err *e)
{
    struct err why = {0};
    int64_t one;
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_USER_THERE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", id);
    return statement_int(s, q, &one, &why) ||
           (why.code == ERR_NOTFOUND
                ? err_field(e, ERR_INPUT, "add", "%lld is no user", (long long)id)
                : err_set(e, why.code, "%s", why.text));
}

struct move { /* one change that was made */
    int64_t id;
    bool added;
};
struct moves {
    struct move *at;
    int n;
};

/* Ids that changed, to be told when the transaction is done. */
static bool move_all(struct store *s, const struct store_group_moves *m, struct moves *out,
                     struct err *e)
{
    for (int i = 0; i < m->add.n + m->remove.n; i++) {
        const bool adds = i < m->add.n;
        const int64_t user = adds ? m->add.at[i] : m->remove.at[i - m->add.n];
        int changed = 0;
        if (adds && !is_user(s, user, e))
            return false;
        sqlite3_stmt *q = begin_member(s, adds ? QUERY_GROUP_MEMBER_ADD : QUERY_GROUP_MEMBER_REMOVE,
                                       m->group_id, user, e);
        if (!q || !statement_run(s, q, &changed, e))
            return false;
        if (changed)
            out->at[out->n++] = (struct move){user, adds};
    }
    return true;
}

static bool is_there(struct store *s, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    const int rc = statement_step(s, q, e);
    statement_end(q);
    return rc == 1 || (rc == 0 && no_group(e));
}

bool store_group_move(struct store *s, const struct store_group_moves *m, struct err *e)
{
    struct moves made = {.at = calloc((size_t)(m->add.n + m->remove.n) + 1, sizeof *made.at)};
    bool ok = made.at || err_set(e, ERR_NOMEM, "memory ran out");
    ok = ok && store_write_begin(s, e) &&
         store_write_end(s,
                         is_there(s, m->group_id, e) && move_all(s, m, &made, e) &&
                             (!m->remove.n || server_forget_unseen(s, e)),
                         e);
    for (int i = 0; ok && m->moved && i < made.n; i++)
        m->moved(m->context, made.at[i].id, made.at[i].added);
    free(made.at);
    return ok;
}

/* The rows that a statement changed, by its RETURNING. */
static bool claim_step(struct store *s, enum query which, const struct store_group_claim *c,
                       struct moves *out, struct err *e)
{
    int rc = 0;
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_text(q, ":names", c->names);
    while (out->n < 2 * STORE_GROUPS_MAX && (rc = statement_step(s, q, e)) == 1)
        out->at[out->n++] =
            (struct move){sqlite3_column_int64(q, 0), which == QUERY_GROUP_CLAIM_ADD};
    statement_end(q);
    return rc >= 0;
}

bool store_group_claimed(struct store *s, const struct store_group_claim *c, struct err *e)
{
    struct moves made = {.at = calloc(2 * STORE_GROUPS_MAX, sizeof *made.at)};
    bool ok = made.at || err_set(e, ERR_NOMEM, "memory ran out");
    ok = ok && store_write_begin(s, e) &&
         store_write_end(s,
                         claim_step(s, QUERY_GROUP_CLAIM_DROP, c, &made, e) &&
                             claim_step(s, QUERY_GROUP_CLAIM_ADD, c, &made, e) &&
                             server_forget_unseen(s, e),
                         e);
    for (int i = 0; ok && c->moved && i < made.n; i++)
        c->moved(c->context, made.at[i].id, made.at[i].added);
    free(made.at);
    return ok;
}

bool users_leave_claimed(struct store *s, int64_t user_id, int64_t *groups, int *n, struct err *e)
{
    int rc = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_CLAIM_DROP, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_text(q, ":names", "[]");
    for (*n = 0; *n < STORE_GROUPS_MAX && (rc = statement_step(s, q, e)) == 1;)
        groups[(*n)++] = sqlite3_column_int64(q, 0);
    statement_end(q);
    return rc >= 0 && server_forget_unseen(s, e);
}
