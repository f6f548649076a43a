/* Presets and prompts are rows of one table, told apart by their kind. */
#include "sql/chats/store_library.h"

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/statement.h"

static const char *const kinds[] = {"preset", "prompt"};

static bool no_entry(enum store_kind kind, struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such %s", kinds[kind]);
}

static sqlite3_stmt *begin(struct store *s, enum query which, const struct store_entry_ref *ref,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", ref->user_id);
        statement_bind_text(q, ":kind", kinds[ref->kind]);
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

bool store_library_list(struct store *s, const struct store_entry_ref *ref, store_entry_fn fn,
                        void *context, struct err *e)
{
    struct store_entry entry;
    sqlite3_stmt *q = begin(s, QUERY_LIBRARY_LIST, ref, e);
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

bool store_library_get(struct store *s, struct arena *a, const struct store_entry_ref *ref,
                       struct store_entry *out, struct err *e)
{
    sqlite3_stmt *q = begin(s, QUERY_LIBRARY_GET, ref, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", ref->id);
    int rc = statement_step(s, q, e);
    bool ok = false;
    if (rc == 1) {
        borrow(q, out);
        ok = statement_column_copy(q, 1, a, &out->name, e) &&
             statement_column_copy(q, 2, a, &out->body, e);
    } else if (rc == 0) {
        no_entry(ref->kind, e);
    }
    statement_end(q);
    return ok;
}

/* Does no entry but `ref` have this name? */
static bool name_free(struct store *s, const struct store_entry_ref *ref, const char *name,
                      struct err *e)
{
    sqlite3_stmt *q = begin(s, QUERY_LIBRARY_NAMED, ref, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    int rc = statement_step(s, q, e);
    bool taken = rc == 1 && sqlite3_column_int64(q, 0) != ref->id;
    statement_end(q);
    if (taken)
        return err_field(e, ERR_CONFLICT, "name", "another %s has this name", kinds[ref->kind]) ||
               err_reason(e, "prompt_exists");
    return rc >= 0;
}

static bool add(struct store *s, const struct store_entry_ref *ref, const struct store_entry *entry,
                int64_t *id, struct err *e)
{
    struct err why = {0};
    if (!name_free(s, ref, entry->name, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_LIBRARY_ADD, ref, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", entry->name);
    statement_bind_text(q, ":body", entry->body);
    statement_bind_int(q, ":most", STORE_LIBRARY_MAX);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (statement_int(s, q, id, &why))
        return true;
    return why.code == ERR_NOTFOUND ? err_set(e, ERR_LIMIT, "at most %d %ss are kept",
                                              STORE_LIBRARY_MAX, kinds[ref->kind])
                                    : err_set(e, why.code, "%s", why.text);
}

bool store_library_add(struct store *s, const struct store_entry_ref *ref,
                       const struct store_entry *entry, int64_t *id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add(s, ref, entry, id, e), e);
}

static bool change(struct store *s, const struct store_entry_ref *ref,
                   const struct store_entry *entry, struct err *e)
{
    int changed = 0;
    if (entry->name && !name_free(s, ref, entry->name, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_LIBRARY_CHANGE, ref, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", ref->id);
    statement_bind_text(q, ":name", entry->name);
    statement_bind_text(q, ":body", entry->body);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, &changed, e) && (changed || no_entry(ref->kind, e));
}

bool store_library_change(struct store *s, const struct store_entry_ref *ref,
                          const struct store_entry *entry, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, change(s, ref, entry, e), e);
}

static bool remove_entry(struct store *s, const struct store_entry_ref *ref, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = begin(s, QUERY_LIBRARY_REMOVE, ref, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", ref->id);
    return statement_run(s, q, &changed, e) && (changed || no_entry(ref->kind, e));
}

bool store_library_remove(struct store *s, const struct store_entry_ref *ref, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_entry(s, ref, e), e);
}
