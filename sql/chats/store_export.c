/* store_export.h */
#include "sql/chats/store_export.h"

#include <string.h>

#include "sql/core/statement.h"

bool store_export_begin(struct store *s, struct err *e)
{
    int64_t objects;
    sqlite3_stmt *q = statement_begin(s, QUERY_BEGIN_READ, e);
    if (!q || !statement_run(s, q, NULL, e))
        return false;
    /* BEGIN alone takes no snapshot; the first read does. */
    q = statement_begin(s, QUERY_OBJECT_COUNT, e);
    if (q && statement_int(s, q, &objects, e))
        return true;
    store_export_end(s);
    return false;
}

void store_export_end(struct store *s)
{
    sqlite3_stmt *q = NULL;
    if (!sqlite3_get_autocommit(s->db) && (q = statement_begin(s, QUERY_ROLLBACK, NULL)))
        statement_run(s, q, NULL, NULL);
}

static sqlite3_stmt *select_by(struct store *s, enum query name, const struct store_export *which, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, name, e);
    if (!q)
        return NULL;
    statement_bind_int(q, ":user_id", which->user_id);
    statement_bind_text(q, ":ids", which->ids);
    if (which->archived != WHICH_ANY)
        statement_bind_int(q, ":archived", which->archived == WHICH_YES);
    if (which->trashed != WHICH_ANY)
        statement_bind_int(q, ":trashed", which->trashed == WHICH_YES);
    return q;
}

bool store_export_count(struct store *s, const struct store_export *which, struct store_export_counts *out, struct err *e)
{
    sqlite3_stmt *q = select_by(s, QUERY_EXPORT_COUNTS, which, e);
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    if (rc == 1)
        *out = (struct store_export_counts){sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1)};
    statement_end(q);
    return rc == 1;
}

bool store_export_each(struct store *s, const struct store_export *which, store_export_conversation_fn fn, void *context,
                       struct err *e)
{
    sqlite3_stmt *q = select_by(s, QUERY_EXPORT_CONVERSATIONS, which, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_export_conversation c = {
            .id = sqlite3_column_int64(q, 0),
            .key = statement_column_text(q, 1),
            .title = statement_column_text(q, 2),
            .settings = statement_column_text(q, 3),
            .leaf_id = sqlite3_column_int64(q, 4),
            .pinned = sqlite3_column_int(q, 5),
            .archived = sqlite3_column_int(q, 6),
            .created_at = sqlite3_column_int64(q, 7),
            .updated_at = sqlite3_column_int64(q, 8),
            .trashed_at = sqlite3_column_int64(q, 9),
            .fork_of = statement_column_optional(q, 10),
            .tags = statement_column_text(q, 11),
        };
        if (!fn(context, &c))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

static struct store_export_node node_of(sqlite3_stmt *q)
{
    return (struct store_export_node){.id = sqlite3_column_int64(q, 0),
                                      .parent_id = sqlite3_column_int64(q, 1),
                                      .role = store_role_of(statement_column_text(q, 2)),
                                      .status = store_status_of(statement_column_text(q, 3))};
}

static sqlite3_stmt *select_in(struct store *s, enum query name,
                               const struct store_ref *conversation, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, name, e);
    if (q) {
        statement_bind_int(q, ":user_id", conversation->user_id);
        statement_bind_int(q, ":conversation_id", conversation->id);
    }
    return q;
}

bool store_export_tree(struct store *s, const struct store_ref *conversation,
                       store_export_node_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = select_in(s, QUERY_EXPORT_TREE, conversation, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_export_node n = node_of(q);
        if (!fn(context, &n))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

enum column {
    C_CONTENT = 4, C_REASONING, C_CALLS, C_CALL_ID, C_ERROR, C_MODEL, C_TIMINGS, C_PROMPT, C_CACHED, C_COMPLETION,
    C_CREATED, C_FINISHED, C_ATTACHMENTS
};

bool store_export_messages(struct store *s, const struct store_ref *conversation,
                           store_export_message_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = select_in(s, QUERY_EXPORT_MESSAGES, conversation, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_export_message m = {
            .node = node_of(q),
            .content = statement_column_text(q, C_CONTENT),
            .content_len = (size_t)sqlite3_column_bytes(q, C_CONTENT),
            .reasoning = statement_column_text(q, C_REASONING),
            .reasoning_len = (size_t)sqlite3_column_bytes(q, C_REASONING),
            .tool_calls = statement_column_optional(q, C_CALLS),
            .tool_call_id = statement_column_optional(q, C_CALL_ID),
            .error = statement_column_optional(q, C_ERROR),
            .model = statement_column_optional(q, C_MODEL),
            .timings = statement_column_optional(q, C_TIMINGS),
            .has_usage = sqlite3_column_type(q, C_PROMPT) != SQLITE_NULL,
            .prompt_tokens = sqlite3_column_int64(q, C_PROMPT),
            .cached_tokens = sqlite3_column_int64(q, C_CACHED),
            .completion_tokens = sqlite3_column_int64(q, C_COMPLETION),
            .created_at = sqlite3_column_int64(q, C_CREATED),
            .finished_at = sqlite3_column_int64(q, C_FINISHED),
            .attachments = statement_column_text(q, C_ATTACHMENTS),
        };
        if (!fn(context, &m))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_export_files(struct store *s, const struct store_export *which, store_export_file_fn fn, void *context,
                        struct err *e)
{
    sqlite3_stmt *q = select_by(s, QUERY_EXPORT_FILES, which, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_export_file f = {.sha256 = statement_column_text(q, 0), .type = statement_column_text(q, 1),
                                            .bytes = sqlite3_column_int64(q, 2), .created_at = sqlite3_column_int64(q, 3)};
        if (!fn(context, &f))
            break;
    }
    statement_end(q);
    return rc >= 0;
}
