/* Resuming an answer that ended early: its row runs again, and the tokens that made its text are
 * kept for the prompt. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/chats/continue_internal.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"

bool continue_settle(struct store *s, const struct store_answer *a, struct err *e)
{
    const bool keep = a->status != MESSAGE_DONE;
    if (a->status == MESSAGE_RUNNING || (keep && (a->keep_text || !a->tokens)))
        return true;
    sqlite3_stmt *q = statement_begin(s, keep ? QUERY_UNFINISHED_KEEP : QUERY_UNFINISHED_DROP, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", a->id);
    if (keep)
        statement_bind_blob(q, ":tokens", a->tokens, a->n_tokens * sizeof *a->tokens);
    return statement_run(s, q, NULL, e);
}

bool store_message_tokens(struct store *s, struct arena *a, const struct store_ref *message,
                          struct store_tokens *out, struct err *e)
{
    *out = (struct store_tokens){0};
    sqlite3_stmt *q = statement_begin(s, QUERY_UNFINISHED_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", message->user_id);
    statement_bind_int(q, ":id", message->id);
    int rc = statement_step(s, q, e);
    bool ok = rc >= 0;
    if (rc == 1) {
        const void *blob = sqlite3_column_blob(q, 0);
        size_t len = (size_t)sqlite3_column_bytes(q, 0);
        int32_t *copy = arena_alloc(a, len ? len : 1);
        if (!copy)
            ok = err_set(e, ERR_NOMEM, "no memory for the answer's tokens");
        else if (len)
            memcpy(copy, blob, len);
        *out = (struct store_tokens){.tokens = copy, .n = len / sizeof *copy};
    }
    statement_end(q);
    return ok;
}

static bool begin_again(struct store *s, const struct store_continue *c, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q;
    /* The index knows the text as it is; it learns the new one when the answer ends. */
    if (!search_remove(s, c->message_id, e) || !(q = statement_begin(s, QUERY_MESSAGE_CONTINUE, e)))
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_int(q, ":conversation_id", c->conversation_id);
    statement_bind_int(q, ":id", c->message_id);
    statement_bind_text(q, ":model", c->model);
    statement_bind_text(q, ":job_key", c->job_key);
    statement_bind_text(q, ":parser", c->parser);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!statement_run(s, q, &changed, e))
        return false;
    if (!changed)
        return err_set(e, ERR_CONFLICT,
                       "this answer cannot be continued: it has ended, it is running, something "
                       "follows it, or a link shows it as it is") ||
               err_reason(e, "continue_unknown");
    if (!(q = statement_begin(s, QUERY_UNFINISHED_BEGIN, e)))
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_int(q, ":id", c->message_id);
    statement_bind_blob(q, ":tokens", c->tokens ? (const void *)c->tokens : "",
                        c->n_tokens * sizeof *c->tokens);
    return statement_run(s, q, NULL, e);
}

static bool show(struct store *s, const struct store_continue *c, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_POSTED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_int(q, ":id", c->conversation_id);
    statement_bind_int(q, ":leaf_id", c->message_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, NULL, e);
}

bool store_message_continue(struct store *s, const struct store_continue *c, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, begin_again(s, c, e) && show(s, c, e), e);
}
