/* Messages and attachments by their text: the trigram indexes message_search and attachment_search,
 * and part_search for what is long or came together with much else. Filling an index takes seconds
 * for each megabyte, and whoever writes meanwhile waits: so a transaction indexes a little text at
 * once and leaves the rest, in parts, to the recorder.
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
#include "sql/core/search_chunks_internal.h"
#include "sql/core/server_internal.h"
#include "sql/core/statement.h"

#define SEARCH_BYTES 1000 /* at most FOLD_LETTERS letters */
#define READ_BYTES                                                                                 \
    ((int64_t)32 << 20) /* of messages that one search without the index compares: some 100 ms */
#define AT_ONCE_BYTES ((int64_t)16 << 10) /* of text that one transaction indexes itself */
#define FIRST_TRY_BYTES ((int64_t)2 << 20)
#define SEARCH_PIECES 64                          /* more make no text rarer */
#define LARGE_BYTES ((int64_t)64 << 20)           /* of the database: from here on ... */
#define MERGE_EVERY_MS ((int64_t)6 * 3600 * 1000) /* ... so long after the last time */
#define MERGE_PAGES 200                  /* of 4 KB, in one transaction: some milliseconds */
#define SMALL_PAGES 250                  /* of 4 KB at most, and ... */
#define SMALL_BYTES ((int64_t)512 << 10) /* ... of text: written anew in less than 100 ms */
#define ROW_BYTES 64                     /* what a row costs beside its text */

static const struct index {
    enum query merge, small, sizes, empty, fill;
    const char
        *state; /* name of a setting. 2: something was removed; 1: being merged; 0: nothing to do */
    const char *merged_at; /* Unix ms: when that was last done */
} of_messages = {QUERY_SEARCH_MERGE, QUERY_SEARCH_SMALL, QUERY_SEARCH_SIZES, QUERY_SEARCH_EMPTY,
                 QUERY_SEARCH_FILL,  "search_merge",     "search_merged_at"},
  of_files = {QUERY_SEARCH_MERGE_FILES, QUERY_SEARCH_SMALL_FILES, QUERY_SEARCH_SIZES_FILES,
              QUERY_SEARCH_EMPTY_FILES, QUERY_SEARCH_FILL_FILES,  "search_merge_files",
              "search_merged_files_at"},
  of_parts = {QUERY_SEARCH_MERGE_PARTS, QUERY_SEARCH_SMALL_PARTS, QUERY_SEARCH_SIZES_PARTS,
              QUERY_SEARCH_EMPTY_PARTS, QUERY_SEARCH_FILL_PARTS,  "search_merge_parts",
              "search_merged_parts_at"},
  of_chunks = {QUERY_SEARCH_MERGE_CHUNKS, QUERY_SEARCH_SMALL_CHUNKS, QUERY_SEARCH_SIZES_CHUNKS,
               QUERY_SEARCH_EMPTY_CHUNKS, QUERY_SEARCH_FILL_CHUNKS,  "search_merge_chunks",
               "search_merged_chunks_at"};

static const struct kind { /* of what is searched */
    enum query bytes, add, remove, add_parts, indexed_part, drop_parts;
    const struct index *index;
} messages = {QUERY_SEARCH_MESSAGE_BYTES, QUERY_SEARCH_ADD, QUERY_SEARCH_REMOVE, QUERY_PART_ADD,
              QUERY_PART_INDEXED,         QUERY_PART_DROP,  &of_messages},
  files = {QUERY_SEARCH_FILE_BYTES,
           QUERY_SEARCH_ADD_FILE,
           QUERY_SEARCH_REMOVE_FILE,
           QUERY_PART_ADD_FILE,
           QUERY_PART_INDEXED_FILE,
           QUERY_PART_DROP_FILE,
           &of_files};

/* A statement about one row. */
static bool run(struct store *s, enum query which, int64_t id, int *changed, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, changed, e);
}

/* 1: *out is its first column; 0: no row; -1: *e. */
static int ask(struct store *s, enum query which, int64_t id, int64_t *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":id", id);
    const int rc = statement_step(s, q, e);
    if (rc == 1)
        *out = sqlite3_column_int64(q, 0);
    statement_end(q);
    return rc;
}

void search_transaction(struct store *s)
{
    s->search.bytes_at_once = AT_ONCE_BYTES;
}

/* A row without text to search (an answer that runs) is left out. */
static bool add(struct store *s, const struct kind *k, int64_t id, struct err *e)
{
    int64_t bytes = 0;
    const int rc = ask(s, k->bytes, id, &bytes, e);
    if (rc != 1)
        return rc == 0;
    const bool at_once = bytes <= s->search.bytes_at_once;
    if (at_once)
        s->search.bytes_at_once -= bytes;
    return run(s, at_once ? k->add : k->add_parts, id, NULL, e);
}

static bool mark_part(struct store *s, int64_t id, const char *state, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PART_MARK, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_text(q, ":state", state);
    return statement_run(s, q, NULL, e);
}

/* Takes parts out of their index while *letters lasts; *done: none of this row is left there. */
static bool remove_parts(struct store *s, const struct kind *k, int64_t id, int64_t *letters,
                         bool *done, struct err *e)
{
    int rc = 1;
    int64_t part, n = 0;
    bool any = false;
    *done = false;
    while (*letters > 0 && (rc = ask(s, k->indexed_part, id, &part, e)) == 1) {
        if (ask(s, QUERY_PART_LETTERS, part, &n, e) < 0 ||
            !run(s, QUERY_PART_REMOVE, part, NULL, e) || !mark_part(s, part, "removed", e))
            return false;
        *letters -= n;
        any = true;
    }
    *done = rc == 0;
    return rc >= 0 && (!any || server_set_setting(s, of_parts.state, "2", e));
}

static bool remove_some(struct store *s, const struct kind *k, int64_t id, int64_t *letters,
                        bool *done, struct err *e)
{
    int changed = 0;
    if (!remove_parts(s, k, id, letters, done, e))
        return false;
    if (!*done)
        return true;
    /* In this order: the first looks for parts. */
    return run(s, k->remove, id, &changed, e) && run(s, k->drop_parts, id, NULL, e) &&
           (!changed || server_set_setting(s, k->index->state, "2", e));
}

bool search_add(struct store *s, int64_t message_id, struct err *e)
{
    return add(s, &messages, message_id, e);
}

bool search_remove_some(struct store *s, int64_t message_id, int64_t *letters, bool *done,
                        struct err *e)
{
    return remove_some(s, &messages, message_id, letters, done, e);
}

bool search_remove(struct store *s, int64_t message_id, struct err *e)
{
    bool done;
    return remove_some(s, &messages, message_id, &(int64_t){INT64_MAX}, &done, e);
}

bool search_add_file(struct store *s, int64_t attachment_id, struct err *e)
{
    return add(s, &files, attachment_id, e);
}

bool search_keep_file(struct store *s, int64_t attachment_id, struct err *e)
{
    return run(s, QUERY_PART_AGAIN_FILE, attachment_id, NULL, e);
}

bool search_remove_file(struct store *s, const struct store_ref *file, int64_t *letters, bool *done,
                        struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SEARCH_FILE_LOOSE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", file->id);
    statement_bind_id(q, ":user_id", file->user_id);
    const int rc = statement_step(s, q, e);
    statement_end(q);
    *done = true;
    if (rc != 1)
        return rc == 0;
    bool any;
    return search_chunks_remove(s, file->id, letters, done, &any, e) &&
           (!any || server_set_setting(s, of_chunks.state, "2", e)) &&
           (!*done || remove_some(s, &files, file->id, letters, done, e));
}

/* The next part that waits: of the user after the last one, so that everybody has a turn. 0: none.
 */
static bool next_part(struct store *s, int64_t after, int64_t *id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PART_NEXT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":after", after);
    const int rc = statement_step(s, q, e);
    *id = rc == 1 ? sqlite3_column_int64(q, 0) : 0;
    if (rc == 1)
        s->search.last_user = sqlite3_column_int64(q, 1);
    statement_end(q);
    if (rc == 0 && after)
        return next_part(s, 0, id, e);
    return rc >= 0;
}

static bool index_parts(struct store *s, struct err *e)
{
    int64_t id, n = 0;
    for (int64_t letters = SEARCH_STEP_LETTERS; letters > 0; letters -= n + 1) {
        if (!next_part(s, s->search.last_user, &id, e))
            return false;
        if (!id)
            break;
        if (!mark_part(s, id, "indexed", e) || !run(s, QUERY_PART_INDEX, id, NULL, e) ||
            ask(s, QUERY_PART_LETTERS, id, &n, e) < 0)
            return false;
    }
    return true;
}

bool search_index(struct store *s, bool *more, struct err *e)
{
    int64_t id;
    const int64_t last = s->search.last_user;
    if (!next_part(s, last, &id, e))
        return false;
    s->search.last_user = last;
    *more = id != 0;
    if (!id)
        return search_chunks_index(s, more, e);
    return store_write_begin_unsynced(s, e) && store_write_end(s, index_parts(s, e), e);
}

bool search_is_indexing(struct store *s, int64_t user_id, bool *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PART_WAITING, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    const int rc = statement_step(s, q, e);
    statement_end(q);
    *out = rc == 1;
    return rc >= 0;
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

/* Reads no further than the bound. */
static bool is_little_text(struct store *s, const struct index *x, bool *little, struct err *e)
{
    int64_t bytes = 0;
    int rc = 1;
    sqlite3_stmt *q = statement_begin(s, x->sizes, e);
    if (!q)
        return false;
    while (bytes <= SMALL_BYTES && (rc = statement_step(s, q, e)) == 1)
        bytes += sqlite3_column_int64(q, 0) + ROW_BYTES;
    statement_end(q);
    *little = bytes <= SMALL_BYTES;
    return rc >= 0;
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
    return rc == 1 && (!*small || is_little_text(s, x, small, e));
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
    return (x != &of_chunks || search_chunks_fill(s, e)) &&
           server_set_setting(s, x->state, "0", e) && note_merged(s, x, e);
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
    return clear_index(s, &of_messages, more, e) && (*more || clear_index(s, &of_files, more, e)) &&
           (*more || clear_index(s, &of_parts, more, e)) &&
           (*more || clear_index(s, &of_chunks, more, e));
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
                                     NULL) &&
            search_chunks_functions(s, e)) ||
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
