/* Writes growing answers, checkpoints the WAL and clears away removed rows, as the recorder alone
 * may. */
#include "sql/chats/store_record.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/continue_internal.h"
#include "sql/core/search_internal.h"
#include "sql/core/server_internal.h"
#include "sql/files/store_attachments.h"
#include "sql/chats/store_responses.h"
#include "sql/core/statement.h"
#include "sql/prompts/store_prompt_cache.h"

#define CLEAR_MESSAGES 300              /* deleted in one transaction ... */
#define CLEAR_BYTES ((int64_t)64 << 10) /* ... with this much text, about: some milliseconds */
#define ROW_BYTES 200                   /* of work that each row is, besides its text */
#define RELEASE_STEP 500 /* chats that leave projects in one transaction: some milliseconds */
#define DAY_MS ((int64_t)24 * 3600 * 1000)
#define LONG_WAL_FRAMES 2000 /* 8 MB */
#define LONG_WAL_BYTES                                                                             \
    ((int64_t)12 << 20)     /* above journal_size_limit, to which a WAL begun anew is cut */
#define TRUNCATE_FRAMES 250 /* 1 MB: what emptying the WAL may still move, while writers wait */
#define TRUNCATE_WAIT_MS 20 /* for readers, while writers wait */

bool store_running_list(struct store *s, store_running_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_RUNNING_LIST, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_running r = {
            .id = sqlite3_column_int64(q, 0),
            .conversation_id = sqlite3_column_int64(q, 1),
            .user_id = sqlite3_column_int64(q, 2),
            .job_key = statement_column_text(q, 3),
            .parser = statement_column_optional(q, 4),
            .created_at = sqlite3_column_int64(q, 5),
            .written = (size_t)sqlite3_column_int64(q, 6),
            .removed = sqlite3_column_int(q, 7),
        };
        if (!fn(context, &r))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_record_begin(struct store *s, bool durable, struct err *e)
{
    return durable ? store_write_begin(s, e) : store_write_begin_unsynced(s, e);
}

bool store_record_write(struct store *s, const struct store_answer *a, bool *gone, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_RECORD_WRITE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", a->id);
    statement_bind_text(q, ":status", store_status_name(a->status));
    statement_bind_int(q, ":keep", a->keep_text);
    statement_bind_bytes(q, ":content", a->content, a->content_len);
    statement_bind_bytes(q, ":reasoning", a->reasoning, a->reasoning_len);
    statement_bind_text(q, ":tool_calls", a->tool_calls);
    statement_bind_text(q, ":error", a->error);
    statement_bind_text(q, ":error_detail", a->error_detail);
    statement_bind_text(q, ":timings", a->timings);
    if (a->has_usage) {
        statement_bind_int(q, ":prompt_tokens", a->prompt_tokens);
        statement_bind_int(q, ":cached_tokens", a->cached_tokens);
        statement_bind_int(q, ":completion_tokens", a->completion_tokens);
    }
    statement_bind_int(q, ":now", clock_wall_ms());
    int changed = 0;
    bool ok = statement_run(s, q, &changed, e);
    if (gone)
        *gone = ok && !changed;
    /* Searched from now on; while it grew the index stayed as it was. */
    if (ok && changed && a->status != MESSAGE_RUNNING)
        ok = search_add(s, a->id, e) && continue_settle(s, a, e);
    /* In the same transaction, and only with the change from running: no answer is counted twice.
     */
    if (ok && changed && a->has_usage && a->count_for && a->status != MESSAGE_RUNNING)
        ok = server_add_usage(s,
                              &(struct store_usage){.user_id = a->count_for,
                                                    .requests = 1,
                                                    .prompt_tokens = a->prompt_tokens,
                                                    .cached_tokens = a->cached_tokens,
                                                    .completion_tokens = a->completion_tokens},
                              e);
    return ok;
}

bool store_record_end(struct store *s, struct err *e)
{
    return store_write_end(s, true, e);
}

void store_record_undo(struct store *s)
{
    store_write_end(s, false, NULL);
}

/* One call of SQLite's. */
static bool check_in(struct store *s, int mode, int wait_ms, struct store_wal *w, struct err *e)
{
    int frames = 0, done = 0;
    const int busy_ms = s->busy_ms;
    s->busy_ms = wait_ms;
    int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, mode, &frames, &done);
    s->busy_ms = busy_ms;
    w->busy = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED;
    w->frames = frames < 0 ? 0 : frames;
    w->checked_in = done < 0 ? 0 : done;
    return rc == SQLITE_OK || w->busy || store_failed(s, e);
}

/* Writes down when, for the admin page; and so makes sure that the WAL has something to check in.
 */
static bool note_time(struct store *s, struct err *e)
{
    char json[32];
    snprintf(json, sizeof json, "%lld", (long long)clock_wall_ms());
    return store_write_begin_unsynced(s, e) &&
           store_write_end(s, server_set_setting(s, STORE_CHECKPOINT_SETTING, json, e), e);
}

/* A checkpoint that empties the WAL keeps the write lock while it moves pages and waits for the
 * disk: so one that does not has moved nearly all of them before. Where a reader keeps it from
 * that, emptying would fail as well. */
static bool empty(struct store *s, struct store_wal *w, struct err *e)
{
    if (w->frames - w->checked_in > TRUNCATE_FRAMES) {
        w->busy = true;
        return true;
    }
    if (w->checked_in == w->frames && !note_time(s, e)) /* whole: see store_checkpoint */
        return false;
    s->own_commits = false;
    return check_in(s, SQLITE_CHECKPOINT_TRUNCATE, TRUNCATE_WAIT_MS, w, e);
}

/* The WAL-reset bug strikes when a checkpoint begins on a WAL that is checked in whole, while a
 * writer, for that very reason, begins the WAL anew. So none is begun unless a commit came after
 * the last one that was complete: then nobody can begin the WAL anew until we are done. */
bool store_checkpoint(struct store *s, bool truncate, struct store_wal *w, struct err *e)
{
    int64_t version = 0;
    memset(w, 0, sizeof *w);
    if (!s->checkpointer)
        return err_set(e, ERR_INTERNAL,
                       "database: only the recorder's connection checks the WAL in");
    sqlite3_stmt *q = statement_begin(s, QUERY_DATA_VERSION, e);
    if (!q || !statement_int(s, q, &version, e))
        return false;
    bool first = s->checked_version == 0, news = version != s->checked_version || s->own_commits;
    if (!news && !truncate)
        return true;
    if ((first || !news) && !note_time(s, e))
        return false;
    /* This checkpoint may miss what is committed from here on; the next one then sees that
     * something is new. */
    s->checked_version = version;
    s->own_commits = false;
    bool ok = check_in(s, SQLITE_CHECKPOINT_PASSIVE, 0, w, e);
    if (ok && (truncate || (w->checked_in < w->frames && w->frames > LONG_WAL_FRAMES)))
        ok = empty(s, w, e);
    if (!ok || w->busy || w->checked_in < w->frames)
        s->own_commits = true; /* incomplete: another checkpoint is safe, and needed */
    return ok;
}

bool store_wal_long(struct store *s)
{
    return store_wal_bytes(s) > LONG_WAL_BYTES;
}

/* Deletes what lay in the trash for STORE_TRASH_DAYS, one conversation a step. */
static bool clear_trash(struct store *s, bool *more, struct err *e)
{
    const int64_t now = clock_wall_ms(), before = now - STORE_TRASH_DAYS * DAY_MS;
    sqlite3_stmt *q = statement_begin(s, QUERY_CLEAR_NEXT_TRASHED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":before", before);
    int rc = statement_step(s, q, e);
    int64_t id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    statement_end(q);
    *more = rc == 1;
    if (rc != 1)
        return rc == 0;
    if (!store_write_begin(s, e))
        return false;
    if ((q = statement_begin(s, QUERY_CLEAR_TRASHED, e))) {
        statement_bind_int(q, ":id", id);
        statement_bind_int(q, ":before", before);
        statement_bind_int(q, ":now", now);
    }
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

/* 1: *id is the next to clear; 0: none; -1: *e. */
static int next(struct store *s, enum query which, int64_t *id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return -1;
    if (which == QUERY_CLEAR_NEXT_CONVERSATION)
        statement_bind_int(q, ":now", clock_wall_ms());
    int rc = statement_step(s, q, e);
    if (rc == 1)
        *id = sqlite3_column_int64(q, 0);
    statement_end(q);
    return rc;
}

/* The conversation's last message: 1: gone; 0: there is none, or more of it is left to take out of
 * the index; -1: *e. */
static int clear_last(struct store *s, int64_t conversation_id, int64_t *letters, int64_t *bytes,
                      struct err *e)
{
    bool done;
    sqlite3_stmt *q = statement_begin(s, QUERY_CLEAR_LAST_MESSAGE, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":conversation_id", conversation_id);
    const int rc = statement_step(s, q, e);
    const int64_t id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    if (rc == 1)
        *bytes -= sqlite3_column_int64(q, 1);
    statement_end(q);
    if (rc != 1)
        return rc;
    if (!search_remove_some(s, id, letters, &done, e))
        return -1;
    if (!done)
        return 0;
    if (!(q = statement_begin(s, QUERY_CLEAR_MESSAGE, e)))
        return -1;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, NULL, e) ? 1 : -1;
}

static bool clear_row(struct store *s, enum query which, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, NULL, e);
}

static bool clear_from(struct store *s, int64_t conversation_id, struct err *e)
{
    int64_t letters = SEARCH_STEP_LETTERS, bytes = CLEAR_BYTES;
    for (int n = 0, rc = 1; n < CLEAR_MESSAGES && bytes > 0 && rc == 1; n++)
        if ((rc = clear_last(s, conversation_id, &letters, &bytes, e)) < 0)
            return false;
    return clear_row(s, QUERY_CLEAR_CONVERSATION, conversation_id, e);
}

/* Deletes rows one by one while *bytes lasts, by a statement that gives the size of the one it
 * took. 1: none is left; 0: *bytes are spent; -1: *e. */
static int clear_rows(struct store *s, enum query which, int64_t user_id, int64_t *bytes,
                      struct err *e)
{
    while (*bytes > 0) {
        sqlite3_stmt *q = statement_begin(s, which, e);
        if (!q)
            return -1;
        statement_bind_int(q, ":id", user_id);
        const int rc = statement_step(s, q, e);
        *bytes -= rc == 1 ? sqlite3_column_int64(q, 0) + ROW_BYTES : 0;
        statement_end(q);
        if (rc != 1)
            return rc == 0 ? 1 : -1;
    }
    return 0;
}

/* Others' chats leave the projects of a deleted user some at a time, and then these go. */
static bool clear_owner(struct store *s, int64_t id, struct err *e)
{
    int released = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_USER_RELEASE_PROJECTS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":limit", RELEASE_STEP);
    return statement_run(s, q, &released, e) &&
           (released == RELEASE_STEP || clear_row(s, QUERY_USER_REMOVE_PROJECTS, id, e));
}

/* What hangs on a user's row goes before it, since all the rest goes with it at once. */
static bool clear_user(struct store *s, int64_t id, struct err *e)
{
    static const enum query large[] = {QUERY_CLEAR_USER_RESPONSE, QUERY_CLEAR_USER_ITEM};
    int64_t bytes = CLEAR_BYTES;
    int rc = 1;
    for (size_t i = 0; i < sizeof large / sizeof *large && rc == 1; i++)
        rc = clear_rows(s, large[i], id, &bytes, e);
    return rc == 1 ? clear_row(s, QUERY_CLEAR_USER, id, e) : rc == 0;
}

/* One of /v1/conversations that is deleted. */
static bool clear_openai(struct store *s, int64_t id, struct err *e)
{
    int64_t bytes = CLEAR_BYTES;
    const int rc = clear_rows(s, QUERY_CLEAR_OPENAI_ITEM, id, &bytes, e);
    return rc == 1 ? clear_row(s, QUERY_CLEAR_OPENAI, id, e) : rc == 0;
}

static const struct statement_expiry expired_sessions = {.find = QUERY_SESSION_ANY_EXPIRED,
                                                         .remove = QUERY_SESSION_REMOVE_EXPIRED};
static const struct statement_expiry expired_shares = {.find = QUERY_SHARE_ANY_EXPIRED,
                                                       .remove = QUERY_SHARE_REMOVE_EXPIRED};

bool store_clear(struct store *s, bool *more, struct err *e)
{
    int64_t id = 0;
    bool some = false;
    *more = false;
    if (!store_clear_expired(s, &expired_sessions, &some, e) ||
        !store_clear_expired(s, &expired_shares, &some, e) || !store_response_clear(s, more, e))
        return false;
    if (*more)
        return true;
    if (!clear_trash(s, more, e))
        return false;
    if (*more)
        return true;
    if (!store_prompts_clear(s, more, e))
        return false;
    if (*more)
        return true;
    int rc = next(s, QUERY_CLEAR_NEXT_OPENAI, &id, e);
    if (rc == 1) {
        *more = true;
        return store_write_begin_unsynced(s, e) && store_write_end(s, clear_openai(s, id, e), e);
    }
    if (rc == 0)
        rc = next(s, QUERY_CLEAR_NEXT_CONVERSATION, &id, e);
    if (rc == 1) {
        *more = true;
        /* Not synced: it is deleted already, and what a power cut undoes is cleared again. */
        return store_write_begin_unsynced(s, e) && store_write_end(s, clear_from(s, id, e), e);
    }
    if (rc == 0 && (rc = next(s, QUERY_CLEAR_NEXT_OWNER, &id, e)) == 1) {
        *more = true; /* its files are loose then */
        return store_write_begin_unsynced(s, e) && store_write_end(s, clear_owner(s, id, e), e);
    }
    if (rc == 0) {
        bool ok = store_attachment_clear(s, more, e);
        if (!ok || *more)
            return ok;
    }
    if (rc == 0 && (rc = next(s, QUERY_CLEAR_NEXT_USER, &id, e)) == 1) {
        *more = true;
        return store_write_begin(s, e) && store_write_end(s, clear_user(s, id, e), e);
    }
    return rc == 0 && search_index(s, more, e) && (*more || search_clear(s, more, e));
}
