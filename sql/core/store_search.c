/* Messages and attachments by their text: the trigram indexes message_search and attachment_search.
 *
 * FTS5 keeps removed entries in older parts of its index until the parts are merged (its own
 * secure-delete came with SQLite 3.42). So every removal leaves a note, and the recorder merges
 * that index whole in small steps; the pages that this frees are zeroed by secure_delete. A small
 * index it empties and fills again, since merging leaves entries there with SQLite 3.45. Merging
 * writes the index anew, some 1.5 bytes for each byte of text: in a large database the removals of
 * some hours are merged together. */
#include "sql/core/search_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "sql/core/server_internal.h"
#include "sql/core/statement.h"

#define SEARCH_BYTES 1000 /* at most FOLD_LETTERS letters */
#define READ_BYTES                                                                                 \
    ((int64_t)32 << 20) /* of messages that one search without the index compares: some 100 ms */
#define FIRST_TRY_BYTES ((int64_t)2 << 20)
#define SEARCH_PIECES 64                          /* more make no text rarer */
#define LARGE_BYTES ((int64_t)64 << 20)           /* of the database: from here on ... */
#define MERGE_EVERY_MS ((int64_t)6 * 3600 * 1000) /* ... so long after the last time */
#define MERGE_PAGES 200 /* of 4 KB, in one transaction: some milliseconds */
#define SMALL_PAGES                                                                                \
    250 /* of 4 KB at most, some 700 KB of text: written anew in less than 100 ms                  \
         */

static const struct index {
    enum query merge, small, empty, fill;
    const char
        *state; /* name of a setting. 2: something was removed; 1: being merged; 0: nothing to do */
    const char *merged_at; /* Unix ms: when that was last done */
} of_messages = {QUERY_SEARCH_MERGE, QUERY_SEARCH_SMALL, QUERY_SEARCH_EMPTY,
                 QUERY_SEARCH_FILL,  "search_merge",     "search_merged_at"},
  of_files = {QUERY_SEARCH_MERGE_FILES, QUERY_SEARCH_SMALL_FILES, QUERY_SEARCH_EMPTY_FILES,
              QUERY_SEARCH_FILL_FILES,  "search_merge_files",     "search_merged_files_at"};

bool search_add(struct store *s, int64_t message_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SEARCH_ADD, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", message_id);
    return statement_run(s, q, NULL, e);
}

bool search_remove(struct store *s, int64_t conversation_id, int limit, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SEARCH_REMOVE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":conversation_id", conversation_id);
    statement_bind_int(q, ":limit", limit);
    return statement_run(s, q, NULL, e) && server_set_setting(s, of_messages.state, "2", e);
}

bool search_remove_one(struct store *s, int64_t message_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SEARCH_REMOVE_ONE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", message_id);
    return statement_run(s, q, NULL, e) && server_set_setting(s, of_messages.state, "2", e);
}

bool search_add_file(struct store *s, int64_t attachment_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SEARCH_ADD_FILE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", attachment_id);
    return statement_run(s, q, NULL, e);
}

bool search_remove_file(struct store *s, int64_t user_id, int64_t attachment_id, struct err *e)
{
    int removed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_SEARCH_REMOVE_FILE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", attachment_id);
    statement_bind_id(q, ":user_id", user_id);
    return statement_run(s, q, &removed, e) &&
           (!removed || server_set_setting(s, of_files.state, "2", e));
}

/* False: *e. 0 when it was never set. */
static bool read_number(struct store *s, const char *name, int64_t *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SETTING_GET, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    int rc = statement_step(s, q, e);
    *out = rc == 1 ? strtoll(statement_column_text(q, 0), NULL, 10) : 0;
    statement_end(q);
    return rc >= 0;
}

static bool note_merged(struct store *s, const struct index *x, struct err *e)
{
    char json[32];
    snprintf(json, sizeof json, "%lld", (long long)clock_wall_ms());
    return server_set_setting(s, x->merged_at, json, e);
}

static bool is_small(struct store *s, const struct index *x, bool *small, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, x->small, e);
    if (!q)
        return false;
    statement_bind_int(q, ":limit", SMALL_PAGES + 1);
    const int rc = statement_step(s, q, e);
    *small = rc == 1 && sqlite3_column_int64(q, 0) <= SMALL_PAGES;
    statement_end(q);
    return rc == 1;
}

/* Empties the index and fills it from the rows that there are. */
static bool write_anew(struct store *s, const struct index *x, struct err *e)
{
    const enum query steps[] = {x->empty, x->fill};
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *q = statement_begin(s, steps[i], e);
        if (!q || !statement_run(s, q, NULL, e))
            return false;
    }
    return server_set_setting(s, x->state, "0", e) && note_merged(s, x, e);
}

/* FTS5 changes fewer than two rows when nothing was left to merge. */
static bool merge(struct store *s, const struct index *x, int state, struct err *e)
{
    bool small;
    if (!is_small(s, x, &small, e))
        return false;
    if (small)
        return write_anew(s, x, e);
    sqlite3_stmt *q = statement_begin(s, x->merge, e);
    if (!q)
        return false;
    statement_bind_int(q, ":pages", state == 2 ? -MERGE_PAGES : MERGE_PAGES);
    const int before = sqlite3_total_changes(s->db);
    if (!statement_run(s, q, NULL, e))
        return false;
    const bool whole = state == 1 && sqlite3_total_changes(s->db) - before < 2;
    return server_set_setting(s, x->state, whole ? "0" : "1", e) &&
           (!whole || note_merged(s, x, e));
}

/* By name only: opening and closing the file would drop SQLite's locks. */
static bool is_large(struct store *s)
{
    struct stat st;
    return stat(sqlite3_db_filename(s->db, "main"), &st) == 0 && st.st_size > LARGE_BYTES;
}

static bool clear_index(struct store *s, const struct index *x, bool *more, struct err *e)
{
    int64_t state, merged_at;
    *more = false;
    if (!read_number(s, x->state, &state, e))
        return false;
    if (state <= 0)
        return true;
    if (!read_number(s, x->merged_at, &merged_at, e))
        return false;
    const int64_t since = clock_wall_ms() - merged_at;
    if (state == 2 && since >= 0 && since < MERGE_EVERY_MS && is_large(s))
        return true; /* later, together with what is removed until then */
    *more = true;
    return store_write_begin_unsynced(s, e) && store_write_end(s, merge(s, x, (int)state, e), e);
}

bool search_clear(struct store *s, bool *more, struct err *e)
{
    return clear_index(s, &of_messages, more, e) && (*more || clear_index(s, &of_files, more, e));
}

static const char *next_letter(const char *p)
{
    do
        p++;
    while ((*p & 0xc0) == 0x80);
    return p;
}

static const char *three_letters_on(const char *p)
{
    for (int i = 0; i < 3 && *p; i++)
        p = next_letter(p);
    return p;
}

/* "abc" "def" "efg": pieces side by side, and the last three letters. All must be there. */
static void put_pieces(const char *text, struct buf *out)
{
    const char *last = text, *from = text, *to;
    for (const char *p = three_letters_on(text); *p; p = next_letter(p))
        last = next_letter(last);
    for (int n = 0; *from && n < SEARCH_PIECES; n++, from = to) {
        const char *p = from > last ? last : from;
        to = three_letters_on(p);
        buf_puts(out, n ? " \"" : "\"");
        for (; p < to; p++)
            buf_puts(out, *p == '"' ? "\"\"" : (const char[]){*p, 0});
        buf_putc(out, '"');
    }
}

/* text_has(): whether a text contains what is searched. A connection has one search at a time. */
static void text_has(sqlite3_context *context, int n, sqlite3_value **args)
{
    struct store *s = sqlite3_user_data(context);
    const char *text = (const char *)sqlite3_value_text(args[0]);
    size_t at, bytes;
    (void)n;
    sqlite3_result_int(context,
                       text && fold_find(&s->search.needle, text,
                                         (size_t)sqlite3_value_bytes(args[0]), &at, &bytes));
}

static void text_has_within(sqlite3_context *context, int n, sqlite3_value **args)
{
    struct store *s = sqlite3_user_data(context);
    s->search.bytes_left -= sqlite3_value_bytes(args[0]);
    if (s->search.bytes_left >= 0) {
        text_has(context, n, args);
        return;
    }
    s->search.cut = true;
    if (s->search.stop_at_cut)
        sqlite3_result_error(context, "enough was read", -1);
    else
        sqlite3_result_int(context, 0);
}

static void text_folded(sqlite3_context *context, int n, sqlite3_value **args)
{
    const char *text = (const char *)sqlite3_value_text(args[0]);
    char *folded = text ? fold_whole(text) : NULL;
    (void)n;
    if (folded)
        sqlite3_result_text(context, folded, -1, free);
    else
        sqlite3_result_value(context, args[0]); /* as it is: NULL, or bytes that are no text */
}

bool search_functions(struct store *s, struct err *e)
{
    const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    return (!sqlite3_create_function(s->db, "text_folded", 1, flags | SQLITE_DETERMINISTIC, s,
                                     text_folded, NULL, NULL) &&
            !sqlite3_create_function(s->db, "text_has", 1, flags, s, text_has, NULL, NULL) &&
            !sqlite3_create_function(s->db, "text_has_within", 1, flags, s, text_has_within, NULL,
                                     NULL)) ||
           store_failed(s, e);
}

void search_limit(struct store *s, bool first_try)
{
    s->search.bytes_left = first_try ? FIRST_TRY_BYTES : READ_BYTES;
    s->search.stop_at_cut = first_try;
    s->search.cut = false;
}

bool search_begin(struct store *s, const char *text, struct buf *terms, struct err *e)
{
    if (strlen(text) > SEARCH_BYTES || !fold_needle(&s->search.needle, text, strlen(text)))
        return err_field(e, ERR_INPUT, "q", "is longer than %d bytes", SEARCH_BYTES);
    search_limit(s, false);
    if (s->search.needle.n >= 3)
        put_pieces(text, terms);
    return !terms->failed || err_set(e, ERR_NOMEM, "memory ran out");
}

void search_place(const struct store *s, const char *text, size_t *at, size_t *bytes)
{
    fold_find(&s->search.needle, text, strlen(text), at, bytes);
}
