/* Forks copy a branch message by message, and removals delete a subtree, so that the search index
 * follows each row. */
#include "sql/chats/store_tree.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/files/attachments_internal.h"
#include "sql/users/users_internal.h"

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
    int64_t id, leaf_id;
};

static bool copy_messages(struct store *s, const struct store_fork *f, const struct ids *ids,
                          struct copy *copy, struct err *e)
{
    for (int i = 0; i < ids->n; i++) {
        sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_COPY, e);
        if (!q)
            return false;
        statement_bind_int(q, ":user_id", f->user_id);
        statement_bind_int(q, ":fork_id", copy->id);
        statement_bind_id(q, ":parent_id", copy->leaf_id);
        statement_bind_int(q, ":id", ids->at[i]);
        if (!statement_int(s, q, &copy->leaf_id, e) || !search_add(s, copy->leaf_id, e) ||
            !attachments_fork(s, f->user_id, ids->at[i], copy->leaf_id, e))
            return false;
    }
    return true;
}

static bool set_leaf(struct store *s, int64_t user_id, int64_t id, int64_t leaf_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_CHANGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":leaf_id", leaf_id);
    return statement_run(s, q, NULL, e);
}

static bool make_fork(struct store *s, const struct store_fork *f, struct ids *ids, int64_t *id,
                      struct err *e)
{
    const struct place last = {f->user_id, f->conversation_id, f->message_id};
    if (!begin_fork(s, f, id, e) || !read_ids(s, QUERY_BRANCH_IDS, &last, ids, e))
        return false;
    if (!ids->n)
        return err_field(e, ERR_INPUT, "from_message_id", "is not a message of this conversation");
    struct copy copy = {.id = *id};
    return copy_messages(s, f, ids, &copy, e) &&
           set_leaf(s, f->user_id, copy.id, copy.leaf_id, e) &&
           users_check_quota(s, f->user_id, f->storage_bytes, e);
}

bool store_conversation_fork(struct store *s, const struct store_fork *f, int64_t *id,
                             struct err *e)
{
    struct ids ids = {0};
    if (f->title && strlen(f->title) > STORE_TITLE_BYTES)
        return err_field(e, ERR_INPUT, "title", "is longer than %d bytes", STORE_TITLE_BYTES);
    bool ok = store_write_begin(s, e) && store_write_end(s, make_fork(s, f, &ids, id, e), e);
    free(ids.at);
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
