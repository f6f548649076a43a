/* store_projects.h: the rows of projects, and what becomes of their chats. */
#include "sql/projects/store_projects.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define RELEASE_STEP 500 /* conversations in one transaction: some milliseconds */

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

static void borrow(sqlite3_stmt *q, struct store_project *p)
{
    *p = (struct store_project){.id = sqlite3_column_int64(q, 0),
                                .key = statement_column_text(q, 1),
                                .name = statement_column_text(q, 2),
                                .colour = sqlite3_column_int(q, 3),
                                .instructions = statement_column_text(q, 4),
                                .created_at = sqlite3_column_int64(q, 5),
                                .updated_at = sqlite3_column_int64(q, 6),
                                .n_chats = sqlite3_column_int64(q, 7),
                                .n_files = sqlite3_column_int64(q, 8),
                                .indexing = sqlite3_column_int(q, 9),
                                .owner_id = sqlite3_column_int64(q, 10),
                                .owner_name = statement_column_text(q, 11),
                                .access = sqlite3_column_int(q, 12),
                                .n_shares = sqlite3_column_int64(q, 13)};
}

bool store_project_list(struct store *s, int64_t user_id, store_project_fn fn, void *context,
                        struct err *e)
{
    int rc;
    struct store_project p;
    sqlite3_stmt *q = statement_begin(s, QUERY_PROJECT_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    while ((rc = statement_step(s, q, e)) == 1) {
        borrow(q, &p);
        if (!fn(context, &p))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

/* 1: a row, copied; 0: none; -1: *e. */
static int read_one(struct store *s, struct arena *a, sqlite3_stmt *q, struct store_project *out,
                    struct err *e)
{
    if (!q)
        return -1;
    int rc = statement_step(s, q, e);
    if (rc == 1) {
        borrow(q, out);
        if (!statement_column_copy(q, 1, a, &out->key, e) ||
            !statement_column_copy(q, 2, a, &out->name, e) ||
            !statement_column_copy(q, 4, a, &out->instructions, e) ||
            !statement_column_copy(q, 11, a, &out->owner_name, e))
            rc = -1;
    }
    statement_end(q);
    return rc;
}

bool store_project_get(struct store *s, struct arena *a, const struct store_ref *project,
                       struct store_project *out, struct err *e)
{
    const int rc = read_one(s, a, begin(s, QUERY_PROJECT_GET, project, e), out, e);
    return rc == 1 || (rc == 0 && none(e));
}

bool store_project_of_chat(struct store *s, struct arena *a, const struct store_ref *conversation,
                           struct store_project *out, struct err *e)
{
    *out = (struct store_project){0};
    return read_one(s, a, begin(s, QUERY_PROJECT_OF_CHAT, conversation, e), out, e) >= 0;
}

bool store_project_by_key(struct store *s, int64_t user_id, const char *key, int64_t *id,
                          struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROJECT_BY_KEY, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_text(q, ":key", key);
    const int rc = statement_step(s, q, e);
    *id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    statement_end(q);
    return rc >= 0;
}

bool store_project_check(const struct store_project_change *c, struct err *e)
{
    size_t characters = 0;
    for (const char *p = c->name ? c->name : ""; *p; p++) {
        characters += ((unsigned char)*p & 0xc0) != 0x80;
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_field(e, ERR_INPUT, "name", "holds a control character");
    }
    if (c->name &&
        (!characters || characters > STORE_PROJECT_NAME || strspn(c->name, " ") == strlen(c->name)))
        return err_field(e, ERR_INPUT, "name", "must have 1 to %d characters", STORE_PROJECT_NAME);
    if (c->instructions && strlen(c->instructions) > STORE_PROJECT_INSTRUCTIONS) {
        err_field(e, ERR_LIMIT, "instructions", "are longer than %d bytes",
                  STORE_PROJECT_INSTRUCTIONS);
        return err_reason(e, "project_instructions");
    }
    return c->colour < STORE_PROJECT_COLOURS ||
           err_field(e, ERR_INPUT, "colour", "must be 0 to %d", STORE_PROJECT_COLOURS - 1);
}

static void bind_change(sqlite3_stmt *q, const struct store_project_change *c)
{
    statement_bind_text(q, ":name", c->name);
    statement_bind_text(q, ":instructions", c->instructions);
    statement_bind_int(q, ":now", clock_wall_ms());
}

static bool add(struct store *s, int64_t user_id, const struct store_project_change *c, int64_t *id,
                struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_PROJECT_ADD, e);
    if (!q)
        return false;
    bind_change(q, c);
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_text(q, ":key", c->key);
    statement_bind_int(q, ":colour", c->colour < 0 ? 0 : c->colour);
    if (!c->instructions)
        statement_bind_text(q, ":instructions", "");
    statement_bind_int(q, ":most", STORE_PROJECTS_MAX);
    if (!statement_int(s, q, id, &why))
        return why.code == ERR_NOTFOUND
                   ? err_set(e, ERR_LIMIT, "at most %d projects are kept", STORE_PROJECTS_MAX)
                   : err_set(e, why.code, "%s", why.text);
    return users_check_quota(s, user_id, c->storage_bytes, e);
}

bool store_project_add(struct store *s, int64_t user_id, const struct store_project_change *c,
                       int64_t *id, struct err *e)
{
    return store_project_check(c, e) && store_write_begin(s, e) &&
           store_write_end(s, add(s, user_id, c, id, e), e);
}

/* What is in a project is its owner's, whoever put it there. */
static bool check_owners_quota(struct store *s, const struct store_ref *project, int64_t quota,
                               struct err *e)
{
    int64_t owner = 0;
    if (!quota)
        return true;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_OWNER, project, e);
    return q && statement_int(s, q, &owner, e) && users_check_quota(s, owner, quota, e);
}

static bool update(struct store *s, const struct store_ref *project,
                   const struct store_project_change *c, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_CHANGE, project, e);
    if (!q)
        return false;
    bind_change(q, c);
    if (c->colour >= 0)
        statement_bind_int(q, ":colour", c->colour);
    return statement_run(s, q, &changed, e) && (changed || none(e)) &&
           check_owners_quota(s, project, c->storage_bytes, e);
}

bool store_project_update(struct store *s, const struct store_ref *project,
                          const struct store_project_change *c, struct err *e)
{
    return store_project_check(c, e) && store_write_begin(s, e) &&
           store_write_end(s, update(s, project, c, e), e);
}

static bool release(struct store *s, const struct store_ref *project, bool trash_chats,
                    int *released, struct err *e)
{
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_RELEASE, project, e);
    if (!q)
        return false;
    statement_bind_int(q, ":trash", trash_chats);
    statement_bind_int(q, ":limit", RELEASE_STEP);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, released, e);
}

static bool remove_row(struct store *s, const struct store_ref *project, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_REMOVE, project, e);
    return q && statement_run(s, q, &changed, e) && (changed || none(e));
}

/* The chats leave it before, some in a transaction: killed in between, it is there with the rest.
 */
bool store_project_remove(struct store *s, const struct store_ref *project, bool trash_chats,
                          struct err *e)
{
    for (int n = RELEASE_STEP; n == RELEASE_STEP;)
        if (!store_write_begin(s, e) ||
            !store_write_end(s, release(s, project, trash_chats, &n, e), e))
            return false;
    return store_write_begin(s, e) && store_write_end(s, remove_row(s, project, e), e);
}
