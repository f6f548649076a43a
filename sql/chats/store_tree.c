/* Forks copy a branch message by message, in several transactions where it is long, and removals
 * delete a subtree, so that the search index follows each row. */
#include "sql/chats/store_tree.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/files/attachments_internal.h"
#include "sql/users/users_internal.h"

#define COPY_MESSAGES 300                /* of a fork, in one transaction ... */
#define COPY_BYTES ((int64_t)256 << 10)  /* ... with this much text, about */
#define BUILDING_MS ((int64_t)60 * 1000) /* without a step, until its maker is taken for dead */

struct ids {
    int64_t *at;
    int n;
};

struct place { /* of a message in its conversation */
    int64_t user_id, conversation_id, message_id;
};

/* The ids of branch_ids or subtree_ids; n 0: there is no such message. The caller frees ids->at. */
static bool read_ids(struct store *s, enum query which, const struct place *at, struct ids *ids,
                     struct err *e)
{
    if (!(ids->at = calloc(STORE_TREE_MESSAGES, sizeof *ids->at)))
        return err_set(e, ERR_NOMEM, "memory ran out");
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", at->user_id);
    statement_bind_int(q, ":conversation_id", at->conversation_id);
    statement_bind_int(q, ":message_id", at->message_id);
    statement_bind_int(q, ":limit", STORE_TREE_MESSAGES + 1);
    int rc;
    bool ok = true;
    while (ok && (rc = statement_step(s, q, e)) == 1)
        if (ids->n == STORE_TREE_MESSAGES)
            ok = err_set(e, ERR_LIMIT, "these are more than %d messages", STORE_TREE_MESSAGES);
        else if (!strcmp(statement_column_text(q, 1), store_status_name(MESSAGE_RUNNING)))
            ok = err_set(e, ERR_CONFLICT, "an answer is still being written");
        else
            ids->at[ids->n++] = sqlite3_column_int64(q, 0);
    statement_end(q);
    return ok && rc == 0;
}

static bool begin_fork(struct store *s, const struct store_fork *f, int64_t *id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_FORK, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":conversation_id", f->conversation_id);
    statement_bind_text(q, ":title", f->title);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_int(q, ":until", clock_wall_ms() + BUILDING_MS);
    if (!statement_int(s, q, id, &why))
        return why.code == ERR_NOTFOUND ? err_set(e, ERR_NOTFOUND, "there is no such conversation")
                                        : err_set(e, why.code, "%s", why.text);
    if (!(q = statement_begin(s, QUERY_TAGS_FORK, e)))
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":conversation_id", f->conversation_id);
    statement_bind_int(q, ":fork_id", *id);
    return statement_run(s, q, NULL, e);
}

struct copy { /* the new conversation */
    struct store *s;
    const struct store_fork *fork;
    struct ids ids; /* that it begins with; [next]: the next one to copy */
    int next;
    int64_t id, leaf_id;
};

/* until 0: it is there from now on. */
static bool set_building(const struct copy *c, int64_t until, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(c->s, QUERY_CONVERSATION_BUILDING, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", c->fork->user_id);
    statement_bind_int(q, ":id", c->id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_id(q, ":until", until);
    statement_bind_id(q, ":leaf_id", until ? 0 : c->leaf_id);
    return statement_run(c->s, q, &changed, e) &&
           (changed || err_set(e, ERR_CONFLICT, "the copy took too long and was given up"));
}

static bool copy_message(struct copy *c, int64_t *bytes, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(c->s, QUERY_MESSAGE_COPY, e);
    if (!q)
        return false;
    const int64_t id = c->ids.at[c->next++];
    statement_bind_int(q, ":user_id", c->fork->user_id);
    statement_bind_int(q, ":fork_id", c->id);
    statement_bind_id(q, ":parent_id", c->leaf_id);
    statement_bind_int(q, ":id", id);
    if (!statement_row(c->s, q, &why))
        return why.code == ERR_NOTFOUND
                   ? err_set(e, ERR_CONFLICT, "a message was deleted while it was being copied")
                   : err_set(e, why.code, "%s", why.text);
    c->leaf_id = sqlite3_column_int64(q, 0);
    *bytes -= sqlite3_column_int64(q, 1);
    statement_end(q);
    return search_add(c->s, c->leaf_id, e) &&
           attachments_fork(c->s, c->fork->user_id, id, c->leaf_id, e);
}

/* What one transaction copies; the last one shows it all. */
static bool copy_some(struct copy *c, struct err *e)
{
    for (int64_t n = 0, bytes = COPY_BYTES; c->next < c->ids.n && n < COPY_MESSAGES && bytes > 0;
         n++)
        if (!copy_message(c, &bytes, e))
            return false;
    return set_building(c, c->next < c->ids.n ? clock_wall_ms() + BUILDING_MS : 0, e) &&
           users_check_quota(c->s, c->fork->user_id, c->fork->storage_bytes, e);
}

static bool begin_copy(struct copy *c, struct err *e)
{
    const struct store_fork *f = c->fork;
    const struct place last = {f->user_id, f->conversation_id, f->message_id};
    if (!begin_fork(c->s, f, &c->id, e) || !read_ids(c->s, QUERY_BRANCH_IDS, &last, &c->ids, e))
        return false;
    if (!c->ids.n)
        return err_field(e, ERR_INPUT, "from_message_id", "is not a message of this conversation");
    return copy_some(c, e);
}

/* The transactions after the first one. */
static bool copy_rest(struct copy *c, struct err *e)
{
    while (c->next < c->ids.n) {
        store_give_way();
        if (!store_write_begin(c->s, e) || !store_write_end(c->s, copy_some(c, e), e))
            return false;
    }
    return true;
}

/* The recorder clears away what there is of it. */
static void give_up(const struct copy *c)
{
    struct err why = {0};
    if (store_write_begin(c->s, &why))
        store_write_end(c->s, set_building(c, clock_wall_ms(), &why), &why);
}

bool store_conversation_fork(struct store *s, const struct store_fork *f, int64_t *id,
                             struct err *e)
{
    struct copy c = {.s = s, .fork = f};
    if (f->title && strlen(f->title) > STORE_TITLE_BYTES)
        return err_field(e, ERR_INPUT, "title", "is longer than %d bytes", STORE_TITLE_BYTES);
    bool ok = store_write_begin(s, e) && store_write_end(s, begin_copy(&c, e), e);
    if (ok && !(ok = copy_rest(&c, e)))
        give_up(&c);
    *id = c.id;
    free(c.ids.at);
    return ok;
}

static bool remove_messages(struct store *s, int64_t user_id, int64_t conversation_id,
                            const struct ids *ids, struct err *e)
{
    for (int i = 0; i < ids->n; i++) {
        sqlite3_stmt *q;
        if (!search_remove(s, ids->at[i], e) || !(q = statement_begin(s, QUERY_MESSAGE_DELETE, e)))
            return false;
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":conversation_id", conversation_id);
        statement_bind_int(q, ":id", ids->at[i]);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

static bool cut(struct store *s, int64_t user_id, int64_t id, struct ids *ids, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_PLACE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    int rc = statement_step(s, q, e);
    const int64_t conversation_id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    const int64_t parent_id = rc == 1 ? sqlite3_column_int64(q, 1) : 0;
    statement_end(q);
    if (rc != 1)
        return rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such message");
    const struct place first = {user_id, conversation_id, id};
    if (!read_ids(s, QUERY_SUBTREE_IDS, &first, ids, e) ||
        !remove_messages(s, user_id, conversation_id, ids, e) ||
        !(q = statement_begin(s, QUERY_LEAF_REFRESH, e)))
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":conversation_id", conversation_id);
    statement_bind_id(q, ":parent_id", parent_id);
    return statement_run(s, q, NULL, e);
}

bool store_message_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    struct ids ids = {0};
    bool ok = store_write_begin(s, e) && store_write_end(s, cut(s, user_id, id, &ids, e), e);
    free(ids.at);
    return ok;
}
