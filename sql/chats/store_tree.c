/* Forks copy a branch message by message, so that the search index follows each row. Removals move
 * a subtree into deleted conversations, out of which the recorder clears it: taking its text out of
 * the index lasts some ten times as long. Both take several transactions where there is much. */
#include "sql/chats/store_tree.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/building_internal.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/files/attachments_internal.h"
#include "sql/prompts/store_prompt_blocks.h"

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
            ok = err_set(e, ERR_CONFLICT, "an answer is still being written") ||
                 err_reason(e, "answer_running");
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
    statement_bind_int(q, ":until", building_until());
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
    struct building to;
    int64_t leaf_id;
};

static bool copy_message(struct copy *c, int64_t *bytes, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(c->s, QUERY_MESSAGE_COPY, e);
    if (!q)
        return false;
    const int64_t id = c->ids.at[c->next++];
    statement_bind_int(q, ":user_id", c->fork->user_id);
    statement_bind_int(q, ":fork_id", c->to.id);
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
    int64_t bytes = BUILDING_BYTES;
    for (int n = 0; c->next < c->ids.n && n < BUILDING_MESSAGES && bytes > 0; n++)
        if (!copy_message(c, &bytes, e))
            return false;
    return c->next < c->ids.n ? building_go_on(&c->to, e) : building_show(&c->to, c->leaf_id, e);
}

static bool begin_copy(struct copy *c, struct err *e)
{
    const struct store_fork *f = c->fork;
    const struct place last = {f->user_id, f->conversation_id, f->message_id};
    if (!begin_fork(c->s, f, &c->to.id, e) || !read_ids(c->s, QUERY_BRANCH_IDS, &last, &c->ids, e))
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

bool store_conversation_fork(struct store *s, const struct store_fork *f, int64_t *id,
                             struct err *e)
{
    struct copy c = {.s = s, .fork = f, .to = {s, f->user_id, 0, f->storage_bytes}};
    if (f->title && strlen(f->title) > STORE_TITLE_BYTES)
        return err_field(e, ERR_INPUT, "title", "is longer than %d bytes", STORE_TITLE_BYTES);
    bool ok = store_write_begin(s, e) && store_write_end(s, begin_copy(&c, e), e);
    if (ok && !(ok = copy_rest(&c, e)))
        building_give_up(&c.to);
    *id = c.to.id;
    free(c.ids.at);
    return ok;
}

struct removal { /* of a message and all below it */
    struct store *s;
    struct place root;
    int64_t parent_id;
    int64_t to; /* the deleted conversation that takes what one transaction takes away */
    bool done;
};

static bool find_root(struct removal *r, struct err *e)
{
    sqlite3_stmt *q = statement_begin(r->s, QUERY_MESSAGE_PLACE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":id", r->root.message_id);
    const int rc = statement_step(r->s, q, e);
    r->root.conversation_id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    r->parent_id = rc == 1 ? sqlite3_column_int64(q, 1) : 0;
    statement_end(q);
    return rc == 1 || (rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such message"));
}

/* The branch that is shown ends elsewhere from now on, where it ended in here. */
static bool leave(const struct removal *r, struct err *e)
{
    sqlite3_stmt *q = statement_begin(r->s, QUERY_LEAF_LEAVE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":conversation_id", r->root.conversation_id);
    statement_bind_int(q, ":message_id", r->root.message_id);
    statement_bind_id(q, ":parent_id", r->parent_id);
    return statement_run(r->s, q, NULL, e);
}

static bool begin_removed(struct removal *r, struct err *e)
{
    sqlite3_stmt *q = statement_begin(r->s, QUERY_CONVERSATION_REMOVED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":conversation_id", r->root.conversation_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_int(r->s, q, &r->to, e);
}

static bool take_away(const struct removal *r, int64_t id, int64_t *bytes, struct err *e)
{
    int64_t n;
    sqlite3_stmt *q = statement_begin(r->s, QUERY_SHARES_DROP, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":conversation_id", r->root.conversation_id);
    statement_bind_int(q, ":id", id);
    if (!statement_run(r->s, q, NULL, e) || !(q = statement_begin(r->s, QUERY_MESSAGE_REMOVE, e)))
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":conversation_id", r->root.conversation_id);
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":to", r->to);
    if (!statement_int(r->s, q, &n, e))
        return false;
    *bytes -= n;
    return true;
}

/* Jobs that had read what goes now store none of it. */
static bool forget_prompts(const struct removal *r, struct err *e)
{
    return store_prompts_forget_within(
        r->s,
        &(struct store_forgetting){.what = FORGET_CONVERSATION,
                                   .user_id = r->root.user_id,
                                   .conversation_id = r->root.conversation_id},
        e);
}

/* What one transaction takes away, children before their parents. The list is read anew each time:
 * somebody may have written below one of these messages meanwhile. */
static bool remove_some(struct removal *r, struct err *e)
{
    struct ids ids = {0};
    int64_t bytes = BUILDING_BYTES;
    bool ok = find_root(r, e) && read_ids(r->s, QUERY_SUBTREE_IDS, &r->root, &ids, e) &&
              leave(r, e) && begin_removed(r, e);
    int i = 0;
    while (ok && i < ids.n && i < BUILDING_MESSAGES && bytes > 0)
        ok = take_away(r, ids.at[i++], &bytes, e);
    ok = ok && forget_prompts(r, e);
    r->done = i == ids.n;
    free(ids.at);
    return ok;
}

bool store_message_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    struct removal r = {.s = s, .root = {.user_id = user_id, .message_id = id}};
    while (store_write_begin(s, e) && store_write_end(s, remove_some(&r, e), e)) {
        if (r.done)
            return true;
        store_give_way();
    }
    return false;
}

/* Says why this message can't go alone. */
static bool may_leave(const struct removal *r, struct err *e)
{
    sqlite3_stmt *q = statement_begin(r->s, QUERY_MESSAGE_BETWEEN, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":conversation_id", r->root.conversation_id);
    statement_bind_int(q, ":id", r->root.message_id);
    const int rc = statement_step(r->s, q, e);
    const bool refused = rc == 1 && sqlite3_column_type(q, 0) != SQLITE_NULL;
    if (refused)
        err_set(e, ERR_CONFLICT, "%s", statement_column_text(q, 0));
    statement_end(q);
    return rc == 1 && !refused;
}

static bool lift_children(const struct removal *r, struct err *e)
{
    sqlite3_stmt *q = statement_begin(r->s, QUERY_MESSAGE_CHILDREN_UP, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", r->root.user_id);
    statement_bind_int(q, ":conversation_id", r->root.conversation_id);
    statement_bind_int(q, ":id", r->root.message_id);
    statement_bind_id(q, ":parent_id", r->parent_id);
    return statement_run(r->s, q, NULL, e);
}

static bool take_out(struct removal *r, struct err *e)
{
    int64_t bytes = 0;
    return find_root(r, e) && may_leave(r, e) && lift_children(r, e) && leave(r, e) &&
           begin_removed(r, e) && take_away(r, r->root.message_id, &bytes, e) &&
           forget_prompts(r, e);
}

bool store_message_take_out(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    struct removal r = {.s = s, .root = {.user_id = user_id, .message_id = id}};
    return store_write_begin(s, e) && store_write_end(s, take_out(&r, e), e);
}

static bool show_version(const struct removal *old, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(old->s, QUERY_CONVERSATION_POSTED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", old->root.user_id);
    statement_bind_int(q, ":id", old->root.conversation_id);
    statement_bind_id(q, ":leaf_id", id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_text(q, ":title", NULL);
    return statement_run(old->s, q, NULL, e);
}

static bool add_version(struct store *s, const struct store_version *v, int64_t *id, struct err *e)
{
    struct removal old = {.s = s, .root = {.user_id = v->user_id, .message_id = v->message_id}};
    sqlite3_stmt *q;
    if (!find_root(&old, e) || !(q = statement_begin(s, QUERY_MESSAGE_ADD_VERSION, e)))
        return false;
    statement_bind_int(q, ":user_id", v->user_id);
    statement_bind_int(q, ":id", v->message_id);
    statement_bind_text(q, ":content", v->content);
    statement_bind_int(q, ":now", clock_wall_ms());
    struct err why = {0};
    if (!statement_int(s, q, id, &why))
        return why.code == ERR_NOTFOUND
                   ? err_set(e, ERR_CONFLICT, "only a finished answer can be edited")
                   : err_set(e, why.code, "%s", why.text);
    return search_add(s, *id, e) && show_version(&old, *id, e);
}

bool store_message_version(struct store *s, const struct store_version *v, int64_t *id,
                           struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add_version(s, v, id, e), e);
}
