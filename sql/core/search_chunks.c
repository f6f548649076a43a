/* search_chunks_internal.h: passages go into their index, and out of it, a few in a transaction. */
#include "sql/core/search_chunks_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"

#define STEP_CHUNKS 32
#define COUNTS_MAX 65 /* the owner and the terms of a question */

/* Chinese and Japanese letters, and Korean syllables, Thai and Lao, which write no blanks or glue
 * endings to words. A query is made by the same function, so it finds them side by side. */
static bool stands_alone(uint32_t c)
{
    return (c >= 0x0e00 && c <= 0x0eff) || (c >= 0x3040 && c <= 0x30ff) ||
           (c >= 0x3400 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7af) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3ffff);
}

/* Bytes of the letter at p, at most `left`; *c: which one. The store's texts are valid UTF-8. */
static size_t letter(const char *p, size_t left, uint32_t *c)
{
    const unsigned char first = (unsigned char)*p;
    size_t n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (n > left)
        n = left;
    *c = n == 1 ? first : first & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        *c = *c << 6 | ((unsigned char)p[i] & 0x3fu);
    return n;
}

bool search_chunks_words(struct buf *out, const char *text, size_t len)
{
    size_t from = 0;
    uint32_t c;
    for (size_t at = 0, n; at < len; at += n) {
        n = letter(text + at, len - at, &c);
        if (n < 3 || !stands_alone(c))
            continue;
        buf_append(out, text + from, at - from);
        buf_putc(out, ' ');
        buf_append(out, text + at, n);
        buf_putc(out, ' ');
        from = at + n;
    }
    buf_append(out, text + from, len - from);
    return !out->failed;
}

static void chunk_counts(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *context,
                         int n, sqlite3_value **args)
{
    int32_t out[COUNTS_MAX + 1] = {0};
    int words = 0, instances = 0, phrase, column, offset;
    (void)n;
    (void)args;
    const int phrases = api->xPhraseCount(fts);
    if (phrases > COUNTS_MAX || api->xColumnSize(fts, 1, &words) ||
        api->xInstCount(fts, &instances)) {
        sqlite3_result_error(context, "the passages could not be counted", -1);
        return;
    }
    out[0] = words;
    for (int i = 0; i < instances; i++)
        if (!api->xInst(fts, i, &phrase, &column, &offset))
            out[1 + phrase]++;
    sqlite3_result_blob(context, out, (int)sizeof *out * (1 + phrases), SQLITE_TRANSIENT);
}

bool search_chunks_functions(struct store *s, struct err *e)
{
    fts5_api *api = NULL;
    sqlite3_stmt *q = NULL;
    /* Once for a connection: not worth keeping. */
    if (sqlite3_prepare_v2(s->db, query_text[QUERY_FTS5_API], -1, &q, NULL))
        return store_failed(s, e);
    sqlite3_bind_pointer(q, sqlite3_bind_parameter_index(q, ":api"), (void *)&api, "fts5_api_ptr",
                         NULL);
    sqlite3_step(q);
    sqlite3_finalize(q);
    return (api && !api->xCreateFunction(api, "chunk_counts", NULL, chunk_counts, NULL)) ||
           store_failed(s, e);
}

struct file_text { /* of one attachment; whole, since parts of a text are read no faster */
    char *text, *owner;
    size_t len;
};

static bool read_text(struct store *s, int64_t id, struct file_text *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CHUNK_TEXT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    if (!statement_row(s, q, e))
        return false;
    out->len = (size_t)sqlite3_column_bytes(q, 0);
    out->text = malloc(out->len + 1);
    out->owner = strdup(statement_column_text(q, 1));
    if (out->text)
        memcpy(out->text, statement_column_text(q, 0), out->len);
    statement_end(q);
    return (out->text && out->owner) || err_set(e, ERR_NOMEM, "memory ran out");
}

static void free_text(struct file_text *t)
{
    free(t->text);
    free(t->owner);
}

struct chunk {
    int64_t id, start, bytes;
    bool indexed;
};

/* Some of the file's passages. How many; -1: *e. */
static int read_chunks(struct store *s, enum query which, int64_t id, struct chunk out[STEP_CHUNKS],
                       struct err *e)
{
    int n = 0, rc = 0;
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":limit", STEP_CHUNKS);
    while (n < STEP_CHUNKS && (rc = statement_step(s, q, e)) == 1) {
        out[n++] = (struct chunk){.id = sqlite3_column_int64(q, 0),
                                  .start = sqlite3_column_int64(q, 1),
                                  .bytes = sqlite3_column_int64(q, 2),
                                  .indexed = which == QUERY_CHUNK_SOME && sqlite3_column_int(q, 3)};
    }
    statement_end(q);
    return rc < 0 ? -1 : n;
}

/* One entry of the index comes in or goes out: which takes the same text both times. */
static bool put_entry(struct store *s, enum query which, const struct file_text *t,
                      const struct chunk *k, struct err *e)
{
    struct buf words = {0};
    sqlite3_stmt *q = NULL;
    bool ok = (size_t)(k->start + k->bytes) <= t->len &&
              search_chunks_words(&words, t->text + k->start, (size_t)k->bytes);
    ok = ok || err_set(e, ERR_INTERNAL, "a passage lies outside of its text");
    if (ok && (q = statement_begin(s, which, e))) {
        statement_bind_int(q, ":id", k->id);
        statement_bind_text(q, ":owner", t->owner);
        statement_bind_bytes(q, ":text", words.data ? words.data : "", words.len);
    }
    ok = q && statement_run(s, q, NULL, e);
    buf_fini(&words);
    return ok;
}

static bool run(struct store *s, enum query which, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, NULL, e);
}

static bool index_some(struct store *s, int64_t file, const struct file_text *t, struct err *e)
{
    struct chunk chunks[STEP_CHUNKS];
    int64_t left = SEARCH_STEP_LETTERS;
    const int n = read_chunks(s, QUERY_CHUNK_WAITING, file, chunks, e);
    for (int i = 0; i < n && left > 0; i++) {
        if (!put_entry(s, QUERY_CHUNK_INDEX, t, &chunks[i], e) ||
            !run(s, QUERY_CHUNK_MARK, chunks[i].id, e))
            return false;
        left -= chunks[i].bytes;
    }
    return n >= 0;
}

/* 1: *file has passages that wait; 0: none has; -1: *e. */
static int next_file(struct store *s, int64_t *file, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CHUNK_NEXT_FILE, e);
    if (!q)
        return -1;
    const int rc = statement_step(s, q, e);
    if (rc == 1)
        *file = sqlite3_column_int64(q, 0);
    statement_end(q);
    return rc;
}

bool search_chunks_index(struct store *s, bool *more, struct err *e)
{
    int64_t file = 0;
    struct file_text t = {0};
    const int rc = next_file(s, &file, e);
    *more = rc == 1;
    if (rc != 1)
        return rc == 0;
    /* Read within the transaction: until then the file may have gone. */
    bool ok = store_write_begin_unsynced(s, e);
    if (ok)
        ok = store_write_end(s,
                             (next_file(s, &file, e) < 1) ||
                                 (read_text(s, file, &t, e) && index_some(s, file, &t, e)),
                             e);
    free_text(&t);
    return ok;
}

bool search_chunks_fill(struct store *s, struct err *e)
{
    int64_t file = 0;
    int rc;
    while ((rc = next_file(s, &file, e)) == 1) {
        struct file_text t = {0};
        const bool ok = read_text(s, file, &t, e) && index_some(s, file, &t, e);
        free_text(&t);
        if (!ok)
            return false;
    }
    return rc == 0;
}

bool search_chunks_remove(struct store *s, int64_t attachment_id, int64_t *letters, bool *done,
                          bool *any, struct err *e)
{
    struct chunk chunks[STEP_CHUNKS];
    struct file_text t = {0};
    *any = false;
    int i = 0, n = read_chunks(s, QUERY_CHUNK_SOME, attachment_id, chunks, e);
    bool ok = n <= 0 ? n == 0 : read_text(s, attachment_id, &t, e);
    while (ok && n > 0 && *letters > 0) {
        for (i = 0; ok && i < n && *letters > 0; i++) {
            *any |= chunks[i].indexed;
            ok = (!chunks[i].indexed || put_entry(s, QUERY_CHUNK_UNINDEX, &t, &chunks[i], e)) &&
                 run(s, QUERY_CHUNK_REMOVE, chunks[i].id, e);
            *letters -= chunks[i].bytes;
        }
        if (ok && i == n)
            ok = (n = read_chunks(s, QUERY_CHUNK_SOME, attachment_id, chunks, e)) >= 0;
    }
    *done = ok && n == 0;
    free_text(&t);
    return ok;
}
