/* The state of conversations, for clients that poll, and titles that the program made. */
#include "engine/base/arena.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/statement.h"

bool store_conversation_state(struct store *s, struct arena *a,
                              const struct store_ref *conversation, struct store_state *out,
                              struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_STATE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", conversation->user_id);
    statement_bind_int(q, ":id", conversation->id);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 ? statement_column_copy(q, 1, a, &out->running, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such conversation");
    if (ok)
        out->n_messages = sqlite3_column_int64(q, 0);
    statement_end(q);
    return ok;
}

bool store_conversation_newest(struct store *s, int64_t user_id, int64_t *updated_at, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_NEWEST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    int rc = statement_step(s, q, e);
    *updated_at = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    statement_end(q);
    return rc >= 0;
}

bool store_conversation_own_title(struct store *s, int64_t user_id, int64_t id, bool *own,
                                  struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_OWN_TITLE_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    int rc = statement_step(s, q, e);
    *own = rc == 1;
    statement_end(q);
    return rc >= 0;
}

bool store_conversation_retitle(struct store *s, const struct store_retitle *r, bool *changed,
                                struct err *e)
{
    int n = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_RETITLE, e);
    if (q) {
        statement_bind_int(q, ":user_id", r->user_id);
        statement_bind_int(q, ":id", r->id);
        statement_bind_text(q, ":old", r->old);
        statement_bind_text(q, ":title", r->title);
    }
    bool ok = store_write_end(s, q && statement_run(s, q, &n, e), e);
    *changed = ok && n > 0;
    return ok;
}
