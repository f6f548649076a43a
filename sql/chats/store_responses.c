/* Kept responses: every read also compares the expiry, so that a row that was not cleared yet is
 * not found. */
#include "sql/chats/store_responses.h"

#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define CLEAR_ROWS 50

static bool insert(struct store *s, const struct store_response *row, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_RESPONSE_ADD, e);
    if (!q)
        return false;
    statement_bind_text(q, ":id", row->id);
    statement_bind_int(q, ":user_id", row->user_id);
    statement_bind_text(q, ":previous_id", row->previous_id);
    statement_bind_text(q, ":conversation_id", row->conversation_id);
    statement_bind_int(q, ":conversation_position", row->conversation_position);
    statement_bind_int(q, ":created_at", row->created_at);
    statement_bind_int(q, ":expires_at", row->expires_at);
    statement_bind_text(q, ":input", row->input);
    statement_bind_text(q, ":response", row->response);
    return statement_run(s, q, NULL, e) &&
           users_check_quota(s, row->user_id, row->storage_bytes, e);
}

bool store_response_add(struct store *s, const struct store_response *row, struct err *e)
{
    size_t size = strlen(row->input) + strlen(row->response);
    if (size > STORE_RESPONSE_BYTES)
        return err_set(e, ERR_LIMIT, "the response has %zu bytes, at most %zu are kept", size,
                       STORE_RESPONSE_BYTES);
    return store_write_begin(s, e) && store_write_end(s, insert(s, row, e), e);
}

bool store_response_get(struct store *s, struct arena *a, const struct store_text_ref *response,
                        struct store_response *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_RESPONSE_GET, e);
    if (!q)
        return false;
    statement_bind_text(q, ":id", response->id);
    statement_bind_int(q, ":user_id", response->user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    int rc = statement_step(s, q, e);
    *out = (struct store_response){.user_id = response->user_id};
    bool ok = rc == 1;
    if (ok) {
        out->created_at = sqlite3_column_int64(q, 1);
        out->expires_at = sqlite3_column_int64(q, 2);
        out->conversation_position = sqlite3_column_int64(q, 6);
        ok = statement_column_copy(q, 0, a, &out->previous_id, e) &&
             statement_column_copy(q, 3, a, &out->input, e) &&
             statement_column_copy(q, 4, a, &out->response, e) &&
             statement_column_copy(q, 5, a, &out->conversation_id, e);
    } else if (rc == 0) {
        err_set(e, ERR_NOTFOUND, "there is no such response");
    }
    statement_end(q);
    return ok;
}

bool store_response_each(struct store *s, int64_t user_id, store_response_fn fn, void *context,
                         struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_RESPONSE_EACH, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_response row = {
            .id = statement_column_text(q, 0),
            .user_id = user_id,
            .previous_id = statement_column_optional(q, 1),
            .created_at = sqlite3_column_int64(q, 2),
            .expires_at = sqlite3_column_int64(q, 3),
            .input = statement_column_text(q, 4),
            .response = statement_column_text(q, 5),
            .conversation_id = statement_column_optional(q, 6),
        };
        if (!fn(context, &row))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

static bool remove_row(struct store *s, int64_t user_id, const char *id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_RESPONSE_REMOVE, e);
    if (!q)
        return false;
    statement_bind_text(q, ":id", id);
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such response"));
}

bool store_response_remove(struct store *s, int64_t user_id, const char *id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_row(s, user_id, id, e), e);
}

bool store_response_clear(struct store *s, bool *any, struct err *e)
{
    static const struct statement_expiry expired = {.find = QUERY_RESPONSE_ANY_EXPIRED,
                                                    .remove = QUERY_RESPONSE_REMOVE_EXPIRED,
                                                    .limit = CLEAR_ROWS};
    return store_clear_expired(s, &expired, any, e);
}
