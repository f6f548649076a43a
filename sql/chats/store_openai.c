/* Items are added, and what the conversation then holds is checked, in one transaction: limits hold
 * whoever else adds. */
#include "sql/chats/store_openai.h"

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/prompts/store_prompt_blocks.h"
#include "sql/users/users_internal.h"

static sqlite3_stmt *query_of(struct store *s, enum query which, int64_t user_id, const char *id,
                              struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_text(q, ":id", id);
        statement_bind_int(q, ":user_id", user_id);
    }
    return q;
}

static bool no_conversation(struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such conversation");
}

static bool no_item(struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such item");
}

/* Its bytes; ERR_NOTFOUND. */
static bool read_bytes(struct store *s, int64_t user_id, const char *id, int64_t *bytes,
                       struct err *e)
{
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_CONVERSATION_GET, user_id, id, e);
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    *bytes = rc == 1 ? sqlite3_column_int64(q, 3) : 0;
    statement_end(q);
    return rc == 1 || (rc == 0 && no_conversation(e));
}

/* Inside a write transaction. */
static bool insert_items(struct store *s, const struct store_openai_addition *a, struct err *e)
{
    int64_t bytes;
    if (!read_bytes(s, a->user_id, a->conversation_id, &bytes, e))
        return false;
    for (int i = 0; i < a->n; i++) {
        int changed = 0;
        sqlite3_stmt *q = query_of(s, QUERY_OPENAI_ITEM_ADD, a->user_id, a->conversation_id, e);
        if (!q)
            return false;
        statement_bind_text(q, ":item_id", a->items[i].id);
        statement_bind_text(q, ":item", a->items[i].item);
        if (!statement_run(s, q, &changed, e))
            return false;
        if (!changed)
            return err_field(e, ERR_INPUT, "items",
                             "'%.60s' is an item of this conversation already", a->items[i].id);
    }
    if (!read_bytes(s, a->user_id, a->conversation_id, &bytes, e))
        return false;
    if (bytes > STORE_OPENAI_BYTES)
        return err_field(e, ERR_LIMIT, "items",
                         "the conversation would have %lld bytes, at most %lld are kept",
                         (long long)bytes, (long long)STORE_OPENAI_BYTES);
    return users_check_quota(s, a->user_id, a->storage_bytes, e);
}

static bool insert(struct store *s, const struct store_openai_conversation *c,
                   const struct store_openai_addition *first, struct err *e)
{
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_CONVERSATION_ADD, c->user_id, c->id, e);
    if (!q)
        return false;
    statement_bind_int(q, ":created_at", c->created_at);
    statement_bind_text(q, ":metadata", c->metadata);
    return statement_run(s, q, NULL, e) && insert_items(s, first, e);
}

bool store_openai_conversation_add(struct store *s, const struct store_openai_conversation *c,
                                   const struct store_openai_addition *first, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, insert(s, c, first, e), e);
}

bool store_openai_items_add(struct store *s, const struct store_openai_addition *a, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, insert_items(s, a, e), e);
}

bool store_openai_conversation_get(struct store *s, struct arena *a,
                                   const struct store_text_ref *conversation,
                                   struct store_openai_conversation *out, struct err *e)
{
    const int64_t user_id = conversation->user_id;
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_CONVERSATION_GET, user_id, conversation->id, e);
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    *out = (struct store_openai_conversation){.id = conversation->id, .user_id = user_id};
    bool ok = rc == 1;
    if (ok) {
        out->created_at = sqlite3_column_int64(q, 0);
        out->last_position = sqlite3_column_int64(q, 2);
        ok = statement_column_copy(q, 1, a, &out->metadata, e);
    } else if (rc == 0) {
        no_conversation(e);
    }
    statement_end(q);
    return ok;
}

static bool change(struct store *s, const struct store_openai_conversation *c,
                   int64_t storage_bytes, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_CONVERSATION_CHANGE, c->user_id, c->id, e);
    if (!q)
        return false;
    statement_bind_text(q, ":metadata", c->metadata);
    return statement_run(s, q, &changed, e) && (changed || no_conversation(e)) &&
           users_check_quota(s, c->user_id, storage_bytes, e);
}

bool store_openai_conversation_change(struct store *s, const struct store_openai_conversation *c,
                                      int64_t storage_bytes, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, change(s, c, storage_bytes, e), e);
}

static bool remove_conversation(struct store *s, int64_t user_id, const char *id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_CONVERSATION_REMOVE, user_id, id, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, &changed, e) && (changed || no_conversation(e));
}

bool store_openai_conversation_remove(struct store *s, int64_t user_id, const char *id,
                                      struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_conversation(s, user_id, id, e), e);
}

bool store_openai_conversation_each(struct store *s, int64_t user_id,
                                    store_openai_conversation_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_OPENAI_CONVERSATION_EACH, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_openai_conversation c = {
            .id = statement_column_text(q, 0),
            .user_id = user_id,
            .created_at = sqlite3_column_int64(q, 1),
            .metadata = statement_column_text(q, 2),
            .last_position = sqlite3_column_int64(q, 3),
        };
        if (!fn(context, &c))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_openai_item_get(struct store *s, struct arena *a,
                           const struct store_openai_item_ref *item, struct store_openai_item *out,
                           struct err *e)
{
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_ITEM_GET, item->user_id, item->conversation_id, e);
    if (!q)
        return false;
    statement_bind_text(q, ":item_id", item->id);
    int rc = statement_step(s, q, e);
    *out = (struct store_openai_item){.id = item->id};
    bool ok = rc == 1;
    if (ok) {
        out->position = sqlite3_column_int64(q, 0);
        ok = statement_column_copy(q, 1, a, &out->item, e);
    } else if (rc == 0) {
        no_item(e);
    }
    statement_end(q);
    return ok;
}

static bool remove_item(struct store *s, int64_t user_id, const char *conversation_id,
                        const char *id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = query_of(s, QUERY_OPENAI_ITEM_REMOVE, user_id, conversation_id, e);
    if (!q)
        return false;
    statement_bind_text(q, ":item_id", id);
    return statement_run(s, q, &changed, e) && (changed || no_item(e)) &&
           store_prompts_forget_within(s,
                                       &(struct store_forgetting){.what = FORGET_OWNED,
                                                                  .user_id = user_id,
                                                                  .label = conversation_id},
                                       e);
}

bool store_openai_item_remove(struct store *s, int64_t user_id, const char *conversation_id,
                              const char *id, struct err *e)
{
    return store_write_begin(s, e) &&
           store_write_end(s, remove_item(s, user_id, conversation_id, id, e), e);
}

bool store_openai_items_each(struct store *s, const struct store_openai_range *range,
                             store_openai_item_fn fn, void *context, struct err *e)
{
    const enum query which = range->back ? QUERY_OPENAI_ITEMS_BACK : QUERY_OPENAI_ITEMS_FORWARD;
    sqlite3_stmt *q = query_of(s, which, range->user_id, range->conversation_id, e);
    if (!q)
        return false;
    statement_bind_int(q, ":from", range->from);
    statement_bind_int(q, ":until", range->until);
    statement_bind_int(q, ":limit", range->limit);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_openai_item item = {.id = statement_column_text(q, 0),
                                               .position = sqlite3_column_int64(q, 1),
                                               .item = statement_column_text(q, 2)};
        if (!fn(context, &item))
            break;
    }
    statement_end(q);
    return rc >= 0;
}
