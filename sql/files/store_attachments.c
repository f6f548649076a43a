/* The rows of attachments; a file is placed within the transaction that writes its row. */
#include "sql/files/store_attachments.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/files/attachments_internal.h"
#include "sql/users/users_internal.h"

#define CLEAR_ROWS 50 /* a step */
#define HOUR_MS ((int64_t)3600 * 1000)

static bool none(struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such attachment");
}

/* a->sha256 is the upload's. */
static bool insert(struct store *s, struct store_upload *u, const struct store_attachment *a,
                   int64_t *id, struct err *e)
{
    if (!attachment_file_place(s, u, a->sha256, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_ADD, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", a->user_id);
    statement_bind_text(q, ":sha256", a->sha256);
    statement_bind_text(q, ":name", a->name);
    statement_bind_text(q, ":type", a->type);
    statement_bind_int(q, ":bytes", u->bytes);
    if (a->tokens >= 0)
        statement_bind_int(q, ":tokens", a->tokens);
    statement_bind_text(q, ":model", a->tokens >= 0 ? a->model : NULL);
    statement_bind_text(q, ":note", a->note);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_text(q, ":text", a->text);
    return statement_int(s, q, id, e) && search_add_file(s, *id, e) &&
           users_check_quota(s, a->user_id, a->storage_bytes, e);
}

bool store_attachment_add(struct store *s, struct store_upload *u, const struct store_attachment *a,
                          int64_t *id, struct err *e)
{
    char sha256[DIGEST_TEXT_SIZE];
    bool ok = true;
    if (!*a->name || strlen(a->name) > STORE_FILE_NAME_BYTES)
        ok = err_field(e, ERR_INPUT, "name", "must have 1 to %d bytes", STORE_FILE_NAME_BYTES);
    else if (a->text && strlen(a->text) > STORE_ATTACHMENT_TEXT_BYTES)
        ok = err_field(e, ERR_LIMIT, "file", "has more than %zu bytes of text",
                       STORE_ATTACHMENT_TEXT_BYTES);
    digest_end(&u->digest, sha256);
    struct store_attachment row = *a;
    row.sha256 = sha256;
    if (ok) {
        ok = attachment_file_prepare(s, u, sha256, e) && store_write_begin(s, e) &&
             store_write_end(s, insert(s, u, &row, id, e), e);
        if (!ok)
            attachment_file_release(s, sha256, NULL);
    }
    store_upload_drop(u);
    return ok;
}

bool store_attachment_get(struct store *s, struct arena *a, const struct store_ref *attachment,
                          struct store_attachment *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", attachment->user_id);
    statement_bind_int(q, ":id", attachment->id);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1;
    if (ok) {
        *out = (struct store_attachment){
            .id = sqlite3_column_int64(q, 0),
            .bytes = sqlite3_column_int64(q, 4),
            .tokens = sqlite3_column_type(q, 5) == SQLITE_NULL ? -1 : sqlite3_column_int64(q, 5),
            .created_at = sqlite3_column_int64(q, 8),
            .sent = sqlite3_column_int(q, 9),
        };
        ok = statement_column_copy(q, 1, a, &out->sha256, e) &&
             statement_column_copy(q, 2, a, &out->name, e) &&
             statement_column_copy(q, 3, a, &out->type, e) &&
             statement_column_copy(q, 6, a, &out->model, e) &&
             statement_column_copy(q, 7, a, &out->note, e);
    } else if (rc == 0) {
        none(e);
    }
    statement_end(q);
    return ok;
}

/* Steps through (name, text); ends the statement. The number of rows; -1: *e. */
static int each_text(struct store *s, sqlite3_stmt *q, store_attachment_text_fn fn, void *context,
                     struct err *e)
{
    int rc, n = 0;
    while ((rc = statement_step(s, q, e)) == 1) {
        n++;
        if (!fn(context, statement_column_text(q, 0), statement_column_optional(q, 1)))
            break;
    }
    statement_end(q);
    return rc >= 0 ? n : -1;
}

bool store_attachment_text(struct store *s, const struct store_ref *attachment,
                           store_attachment_text_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_TEXT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", attachment->user_id);
    statement_bind_int(q, ":id", attachment->id);
    const int n = each_text(s, q, fn, context, e);
    return n > 0 || (n == 0 && none(e));
}

bool store_attachment_texts(struct store *s, const struct store_ref *message,
                            store_attachment_text_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_TEXTS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", message->user_id);
    statement_bind_int(q, ":message_id", message->id);
    return each_text(s, q, fn, context, e) >= 0;
}

/* A DELETE that gives the content it named. 1: done; 0: no such row; -1: *e. */
static int remove_row(struct store *s, sqlite3_stmt *q, char sha256[DIGEST_TEXT_SIZE],
                      struct err *e)
{
    int rc = statement_step(s, q, e);
    if (rc == 1)
        snprintf(sha256, DIGEST_TEXT_SIZE, "%s", statement_column_text(q, 0));
    statement_end(q);
    return rc;
}

/* One step; 2: its text is still in the search's index. */
static int remove_step(struct store *s, int64_t user_id, int64_t id, char sha256[DIGEST_TEXT_SIZE],
                       struct err *e)
{
    int rc = -1;
    bool done;
    int64_t letters = SEARCH_STEP_LETTERS;
    if (!store_write_begin(s, e))
        return -1;
    sqlite3_stmt *q = search_remove_file(s, &(struct store_ref){user_id, id}, &letters, &done, e)
                          ? statement_begin(s, QUERY_ATTACHMENT_REMOVE, e)
                          : NULL;
    if (q && !done) {
        rc = 2;
    } else if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":id", id);
        rc = remove_row(s, q, sha256, e);
    }
    return store_write_end(s, rc >= 0, e) ? rc : -1;
}

bool store_attachment_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    char sha256[DIGEST_TEXT_SIZE] = "";
    sqlite3_stmt *q;
    int rc;
    while ((rc = remove_step(s, user_id, id, sha256, e)) == 2)
        store_give_way(); /* others write between the steps */
    if (rc < 0)
        return false;
    if (rc == 1)
        return attachment_file_release(s, sha256, e);
    int64_t is_there;
    if (!(q = statement_begin(s, QUERY_ATTACHMENT_GET, e)))
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    return statement_int(s, q, &is_there, NULL)
               ? err_set(e, ERR_CONFLICT, "a message or a project has this attachment")
               : none(e);
}

bool attachments_bind(struct store *s, const struct store_ref *message, const int64_t *ids, int n,
                      struct err *e)
{
    for (int i = 0; i < n; i++) {
        int changed = 0;
        sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_BIND, e);
        if (!q)
            return false;
        for (int before = 0; before < i; before++)
            if (ids[before] == ids[i])
                return err_field(e, ERR_INPUT, "attachments", "holds the same one twice");
        statement_bind_int(q, ":user_id", message->user_id);
        statement_bind_int(q, ":message_id", message->id);
        statement_bind_int(q, ":position", i);
        statement_bind_int(q, ":id", ids[i]);
        if (!statement_run(s, q, &changed, e))
            return false;
        if (!changed)
            return err_field(e, ERR_INPUT, "attachments", "there is no attachment %lld",
                             (long long)ids[i]);
        if (!(q = statement_begin(s, QUERY_ATTACHMENT_BOUND, e)))
            return false;
        statement_bind_int(q, ":user_id", message->user_id);
        statement_bind_int(q, ":id", ids[i]);
        if (!statement_run(s, q, NULL, e) || !search_keep_file(s, ids[i], e))
            return false;
    }
    return true;
}

bool attachments_fork(struct store *s, int64_t user_id, int64_t id, int64_t fork_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENTS_FORK, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":fork_id", fork_id);
    return statement_run(s, q, NULL, e);
}

/* 1: a row went, and *sha256 may be a file without one; 0: none is due, or *letters are spent;
 * -1: *e. */
static int clear_one(struct store *s, int64_t *letters, char sha256[DIGEST_TEXT_SIZE],
                     struct err *e)
{
    bool done;
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_NEXT_LOOSE, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":before", clock_wall_ms() - STORE_LOOSE_HOURS * HOUR_MS);
    int rc = statement_step(s, q, e);
    int64_t id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    statement_end(q);
    if (rc != 1)
        return rc;
    if (!search_remove_file(s, &(struct store_ref){0, id}, letters, &done, e))
        return -1;
    if (!done)
        return 0;
    if (!(q = statement_begin(s, QUERY_ATTACHMENT_CLEAR, e)))
        return -1;
    statement_bind_int(q, ":id", id);
    return remove_row(s, q, sha256, e) < 0 ? -1 : 1;
}

bool store_attachment_clear(struct store *s, bool *any, struct err *e)
{
    char sha256[CLEAR_ROWS][DIGEST_TEXT_SIZE] = {0};
    int n = 0, rc = 1;
    int64_t letters = SEARCH_STEP_LETTERS;
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_NEXT_LOOSE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":before", clock_wall_ms() - STORE_LOOSE_HOURS * HOUR_MS);
    int first = statement_step(s, q, e); /* mostly there is nothing, and then no transaction */
    statement_end(q);
    *any = first == 1;
    if (first != 1)
        return first == 0;
    if (!store_write_begin(s, e))
        return false;
    while (n < CLEAR_ROWS && (rc = clear_one(s, &letters, sha256[n], e)) == 1)
        n++;
    if (!store_write_end(s, rc >= 0, e))
        return false;
    for (int i = 0; i < n; i++)
        if (sha256[i][0] && !attachment_file_release(s, sha256[i], e))
            return false;
    return true;
}
