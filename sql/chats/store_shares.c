/* Links are checked and made in one transaction: no message is shared that is deleted or begins to
 * run meanwhile. */
#include "sql/chats/store_shares.h"

#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/statement.h"

static bool insert(struct store *s, const struct store_share *n, const unsigned char *token_hash,
                   int64_t *id, struct err *e)
{
    int64_t count;
    sqlite3_stmt *q = statement_begin(s, QUERY_SHARE_COUNT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":conversation_id", n->conversation_id);
    statement_bind_int(q, ":user_id", n->user_id);
    if (!statement_int(s, q, &count, e))
        return false;
    if (count >= STORE_SHARES_MAX)
        return err_set(e, ERR_LIMIT, "this conversation has %d links already; revoke one first",
                       STORE_SHARES_MAX);
    if (!(q = statement_begin(s, QUERY_SHARE_ADD, e)))
        return false;
    statement_bind_blob(q, ":token_hash", token_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":conversation_id", n->conversation_id);
    statement_bind_int(q, ":user_id", n->user_id);
    statement_bind_int(q, ":leaf_id", n->leaf_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_id(q, ":expires_at", n->expires_at);
    statement_bind_int(q, ":files", n->files);
    return statement_int(s, q, id, e);
}

/* Says why there was no such message to share, within the same transaction. */
static bool say_why(struct store *s, const struct store_share *n, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_PARENT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", n->user_id);
    statement_bind_int(q, ":conversation_id", n->conversation_id);
    statement_bind_int(q, ":id", n->leaf_id);
    int rc = statement_step(s, q, e);
    const bool running =
        rc == 1 && !strcmp(statement_column_text(q, 1), store_status_name(MESSAGE_RUNNING));
    statement_end(q);
    if (rc < 0)
        return false;
    if (running)
        return err_field(e, ERR_CONFLICT, "leaf_id", "is an answer that is still being written") ||
               err_reason(e, "answer_running");
    if (rc == 1)
        return err_set(e, ERR_NOTFOUND, "the conversation is in the trash");
    return err_field(e, ERR_INPUT, "leaf_id", "is not a message of this conversation");
}

static bool add(struct store *s, const struct store_share *n, const unsigned char *token_hash,
                int64_t *id, struct err *e)
{
    struct err why = {0};
    if (insert(s, n, token_hash, id, &why))
        return true;
    if (why.code == ERR_NOTFOUND)
        return say_why(s, n, e);
    *e = why;
    return false;
}

bool store_share_add(struct store *s, const struct store_share *n,
                     const unsigned char token_hash[SECRET_HASH_BYTES], int64_t *id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add(s, n, token_hash, id, e), e);
}

static void borrow(sqlite3_stmt *q, struct store_share *out)
{
    *out = (struct store_share){
        .id = sqlite3_column_int64(q, 0),
        .conversation_id = sqlite3_column_int64(q, 1),
        .leaf_id = sqlite3_column_int64(q, 2),
        .title = statement_column_text(q, 3),
        .created_at = sqlite3_column_int64(q, 4),
        .expires_at = sqlite3_column_int64(q, 5),
        .files = sqlite3_column_int(q, 6),
    };
}

bool store_share_list(struct store *s, const struct store_ref *conversation, store_share_fn fn,
                      void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SHARE_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", conversation->user_id);
    statement_bind_id(q, ":conversation_id", conversation->id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_int(q, ":limit", STORE_SHARES_LISTED);
    int rc;
    struct store_share share;
    while ((rc = statement_step(s, q, e)) == 1) {
        borrow(q, &share);
        if (!fn(context, &share))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_share_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_SHARE_REMOVE, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":id", id);
    }
    bool ok = q && statement_run(s, q, &changed, e) &&
              (changed || err_set(e, ERR_NOTFOUND, "there is no such link"));
    return store_write_end(s, ok, e);
}

bool store_share_find(struct store *s, struct arena *a,
                      const unsigned char token_hash[SECRET_HASH_BYTES], struct store_share *out,
                      struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SHARE_FIND, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":token_hash", token_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    int rc = statement_step(s, q, e);
    bool ok = rc == 1;
    if (ok) {
        borrow(q, out);
        out->user_id = sqlite3_column_int64(q, 7);
        ok = statement_column_copy(q, 3, a, &out->title, e);
    } else if (rc == 0) {
        err_set(e, ERR_NOTFOUND,
                "there is nothing behind this link: it was revoked, has expired or never was");
    }
    statement_end(q);
    return ok;
}

bool store_share_file(struct store *s, const struct store_share *share, const char *sha256,
                      int64_t *attachment_id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = share->files ? statement_begin(s, QUERY_SHARE_FILE, e) : NULL;
    if (!q)
        return !share->files && err_set(e, ERR_NOTFOUND, "this link shows no such file");
    statement_bind_int(q, ":user_id", share->user_id);
    statement_bind_int(q, ":conversation_id", share->conversation_id);
    statement_bind_int(q, ":leaf_id", share->leaf_id);
    statement_bind_text(q, ":sha256", sha256);
    if (statement_int(s, q, attachment_id, &why))
        return true;
    return err_set(e, why.code, "%s",
                   why.code == ERR_NOTFOUND ? "this link shows no such file" : why.text);
}
