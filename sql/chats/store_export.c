/* Rows for an export, all read within one transaction, so that they are of one moment. */
#include "sql/chats/store_export.h"

#include <string.h>

#include "sql/chats/messages_internal.h"
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

static sqlite3_stmt *select_by(struct store *s, enum query name, const struct store_export *which,
                               struct err *e)
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

bool store_export_count(struct store *s, const struct store_export *which,
                        struct store_export_counts *out, struct err *e)
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

bool store_export_each(struct store *s, const struct store_export *which,
                       store_export_conversation_fn fn, void *context, struct err *e)
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
            .project = statement_column_optional(q, 12),
        };
        if (!fn(context, &c))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_export_messages(struct store *s, const struct store_ref *conversation,
                           store_message_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_EXPORT_MESSAGES, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", conversation->user_id);
    statement_bind_int(q, ":conversation_id", conversation->id);
    return messages_each(s, q, fn, context, e);
}

bool store_export_files(struct store *s, const struct store_export *which, store_export_file_fn fn,
                        void *context, struct err *e)
{
    sqlite3_stmt *q = select_by(s, QUERY_EXPORT_FILES, which, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_export_file f = {.sha256 = statement_column_text(q, 0),
                                            .type = statement_column_text(q, 1),
                                            .bytes = sqlite3_column_int64(q, 2),
                                            .created_at = sqlite3_column_int64(q, 3)};
        if (!fn(context, &f))
            break;
    }
    statement_end(q);
    return rc >= 0;
}
