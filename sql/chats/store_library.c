/* store_library.h */
#include "sql/chats/store_library.h"

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/statement.h"

static const char *const kinds[] = {"preset", "prompt"};

static bool no_entry(enum store_kind kind, struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such %s", kinds[kind]);
}

static sqlite3_stmt *entry_query(struct store *s, enum query which, int64_t user_id, enum store_kind kind, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_text(q, ":kind", kinds[kind]);
    }
    return q;
}

static void borrow(sqlite3_stmt *q, struct store_entry *out)
{
    *out = (struct store_entry){.id = sqlite3_column_int64(q, 0),
                                .name = statement_column_text(q, 1),
                                .body = statement_column_text(q, 2),
                                .created_at = sqlite3_column_int64(q, 3),
                                .updated_at = sqlite3_column_int64(q, 4)};
}

bool store_library_list(struct store *s, int64_t user_id, enum store_kind kind, store_entry_fn fn, void *context, struct err *e)
{
    struct store_entry entry;
    sqlite3_stmt *q = entry_query(s, QUERY_LIBRARY_LIST, user_id, kind, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        borrow(q, &entry);
        if (!fn(context, &entry))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_library_get(struct store *s, struct arena *a, int64_t user_id, enum store_kind kind, int64_t id,
                       struct store_entry *out, struct err *e)
{
    sqlite3_stmt *q = entry_query(s, QUERY_LIBRARY_GET, user_id, kind, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    int rc = statement_step(s, q, e);
    bool ok = false;
    if (rc == 1) {
        borrow(q, out);
        ok = statement_column_copy(q, 1, a, &out->name, e) && statement_column_copy(q, 2, a, &out->body, e);
    } else if (rc == 0) {
        no_entry(kind, e);
    }
    statement_end(q);
    return ok;
}

/* Has another entry than `id` this name? */
static bool name_free(struct store *s, int64_t user_id, enum store_kind kind, const char *name, int64_t id, struct err *e)
{
    sqlite3_stmt *q = entry_query(s, QUERY_LIBRARY_NAMED, user_id, kind, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    int rc = statement_step(s, q, e);
    bool taken = rc == 1 && sqlite3_column_int64(q, 0) != id;
    statement_end(q);
    if (taken)
        return err_field(e, ERR_CONFLICT, "name", "another %s has this name", kinds[kind]);
    return rc >= 0;
}

static bool add(struct store *s, int64_t user_id, enum store_kind kind, const char *name, const char *body, int64_t *id,
                struct err *e)
{
    struct err why = {0};
    if (!name_free(s, user_id, kind, name, 0, e))
        return false;
    sqlite3_stmt *q = entry_query(s, QUERY_LIBRARY_ADD, user_id, kind, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    statement_bind_text(q, ":body", body);
    statement_bind_int(q, ":most", STORE_LIBRARY_MAX);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (statement_int(s, q, id, &why))
        return true;
    return why.code == ERR_NOTFOUND ? err_set(e, ERR_LIMIT, "at most %d %ss are kept", STORE_LIBRARY_MAX, kinds[kind])
                                    : err_set(e, why.code, "%s", why.text);
}

bool store_library_add(struct store *s, int64_t user_id, enum store_kind kind, const char *name, const char *body,
                       int64_t *id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add(s, user_id, kind, name, body, id, e), e);
}

static bool change(struct store *s, int64_t user_id, enum store_kind kind, int64_t id, const char *name, const char *body,
                   struct err *e)
{
    int changed = 0;
    if (name && !name_free(s, user_id, kind, name, id, e))
        return false;
    sqlite3_stmt *q = entry_query(s, QUERY_LIBRARY_CHANGE, user_id, kind, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_text(q, ":name", name);
    statement_bind_text(q, ":body", body);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, &changed, e) && (changed || no_entry(kind, e));
}

bool store_library_change(struct store *s, int64_t user_id, enum store_kind kind, int64_t id, const char *name,
                          const char *body, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, change(s, user_id, kind, id, name, body, e), e);
}

static bool remove_entry(struct store *s, int64_t user_id, enum store_kind kind, int64_t id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = entry_query(s, QUERY_LIBRARY_REMOVE, user_id, kind, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, &changed, e) && (changed || no_entry(kind, e));
}

bool store_library_remove(struct store *s, int64_t user_id, enum store_kind kind, int64_t id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_entry(s, user_id, kind, id, e), e);
}
