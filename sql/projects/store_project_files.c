/* store_project_files.h: files come into projects together with the places of their passages. */
#include "sql/projects/store_project_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/files/store_attachments.h"
#include "sql/projects/chunking.h"
#include "sql/projects/store_projects.h"
#include "sql/users/users_internal.h"

#define PASSAGES_STEP 500 /* in one transaction: some milliseconds */

static bool copy_file(sqlite3_stmt *q, struct arena *a, struct store_project_file *f, struct err *e)
{
    *f = (struct store_project_file){
        .id = sqlite3_column_int64(q, 0),
        .bytes = sqlite3_column_int64(q, 3),
        .tokens = sqlite3_column_int64(q, 5),
        .text_bytes = sqlite3_column_int64(q, 8),
        .n_chunks = sqlite3_column_int64(q, 9),
        .indexing = sqlite3_column_int(q, 10),
    };
    return statement_column_copy(q, 1, a, &f->name, e) &&
           statement_column_copy(q, 2, a, &f->type, e) &&
           statement_column_copy(q, 4, a, &f->sha256, e) &&
           statement_column_copy(q, 6, a, &f->model, e) &&
           statement_column_copy(q, 7, a, &f->note, e);
}

bool store_project_files(struct store *s, struct arena *a, const struct store_ref *project,
                         struct store_project_files *out, struct err *e)
{
    int rc = 0;
    bool ok = true;
    *out =
        (struct store_project_files){.at = arena_alloc(a, STORE_PROJECT_FILES * sizeof *out->at)};
    if (!out->at)
        return err_set(e, ERR_NOMEM, "no memory for the project's files");
    sqlite3_stmt *q = statement_begin(s, QUERY_PROJECT_FILES, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", project->user_id);
    statement_bind_int(q, ":id", project->id);
    while (ok && out->n < STORE_PROJECT_FILES && (rc = statement_step(s, q, e)) == 1)
        ok = copy_file(q, a, &out->at[out->n++], e);
    statement_end(q);
    return ok && rc >= 0;
}

struct passages { /* of a text that comes into a project */
    struct place {
        int64_t start, bytes;
    } *at;
    int64_t n, bytes;
    bool has_text, failed;
};

static bool divide(void *context, const char *name, const char *text)
{
    struct passages *p = context;
    (void)name;
    const size_t len = text ? strlen(text) : 0;
    p->has_text = text != NULL;
    p->bytes = (int64_t)len;
    /* None but the last is shorter than half of the longest. */
    p->at = malloc((len / (CHUNK_BYTES / 2) + 2) * sizeof *p->at);
    p->failed = !p->at;
    for (size_t at = 0, n; at < len && !p->failed; at += n) {
        n = chunking_next(text + at, len - at);
        p->at[p->n++] = (struct place){(int64_t)at, (int64_t)n};
    }
    return false;
}

static sqlite3_stmt *begin(struct store *s, enum query which,
                           const struct store_project_file_ref *f, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":id", f->project_id);
        statement_bind_int(q, ":attachment_id", f->attachment_id);
    }
    return q;
}

/* 1: it is there; 0: not; -1: *e. */
static int is_there(struct store *s, const struct store_project_file_ref *f, struct err *e)
{
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_FILE_THERE, f, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":user_id", f->user_id);
    const int rc = statement_step(s, q, e);
    statement_end(q);
    return rc;
}

static bool fits(struct store *s, const struct store_project_file_ref *f, int64_t bytes,
                 struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROJECT_HOLDS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":id", f->project_id);
    if (!statement_row(s, q, e))
        return false;
    const int64_t files = sqlite3_column_int64(q, 0), held = sqlite3_column_int64(q, 1);
    statement_end(q);
    if (files >= STORE_PROJECT_FILES) {
        err_field(e, ERR_LIMIT, "attachment_id", "a project takes at most %d files",
                  STORE_PROJECT_FILES);
        return err_reason(e, "project_full");
    }
    if (held + bytes > STORE_PROJECT_TEXT_BYTES) {
        err_field(e, ERR_LIMIT, "attachment_id",
                  "the project's files would have more than %lld bytes of text",
                  (long long)STORE_PROJECT_TEXT_BYTES);
        return err_reason(e, "project_full");
    }
    return true;
}

/* Those from `first` on, as many as one transaction takes. */
static bool add_some(struct store *s, int64_t attachment_id, const struct passages *p,
                     int64_t first, struct err *e)
{
    for (int64_t i = first; i < p->n && i < first + PASSAGES_STEP; i++) {
        sqlite3_stmt *q = statement_begin(s, QUERY_CHUNK_ADD, e);
        if (!q)
            return false;
        statement_bind_int(q, ":attachment_id", attachment_id);
        statement_bind_int(q, ":start", p->at[i].start);
        statement_bind_int(q, ":bytes", p->at[i].bytes);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

/* Within a transaction. A file that was on its way out may have lost some of them meanwhile. */
static bool add_missing(struct store *s, int64_t attachment_id, const struct passages *p,
                        struct err *e)
{
    bool ok = true;
    for (int64_t i = 0; i < p->n && ok; i += PASSAGES_STEP)
        ok = add_some(s, attachment_id, p, i, e);
    return ok;
}

/* Before the file is in the project: what a killed process leaves goes with the attachment. */
static bool add_passages(struct store *s, int64_t attachment_id, const struct passages *p,
                         struct err *e)
{
    for (int64_t i = 0; i < p->n; i += PASSAGES_STEP) {
        if (!store_write_begin_unsynced(s, e) ||
            !store_write_end(s, add_some(s, attachment_id, p, i, e), e))
            return false;
        store_give_way();
    }
    return true;
}

static bool bound(struct store *s, const struct store_project_file_ref *f, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_BOUND, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":id", f->attachment_id);
    return statement_run(s, q, NULL, e) && search_keep_file(s, f->attachment_id, e);
}

static bool add(struct store *s, const struct store_project_file_ref *f, const struct passages *p,
                struct err *e)
{
    int changed = 0;
    const int there = is_there(s, f, e);
    if (there)
        return there > 0;
    if (!fits(s, f, p->bytes, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_FILE_ADD, f, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such project")) && bound(s, f, e) &&
           add_missing(s, f->attachment_id, p, e);
}

static bool add_own(struct store *s, const struct store_project_file_ref *f, struct err *e)
{
    struct passages p = {0};
    struct err why = {0};
    bool ok = store_attachment_text(
        s, &(struct store_ref){.user_id = f->user_id, .id = f->attachment_id}, divide, &p, &why);
    if (!ok && why.code == ERR_NOTFOUND)
        err_field(e, ERR_INPUT, "attachment_id", "there is no attachment %lld",
                  (long long)f->attachment_id);
    else if (!ok)
        *e = why;
    else if (p.failed)
        ok = err_set(e, ERR_NOMEM, "memory ran out");
    else if (!p.has_text)
        ok = err_field(e, ERR_UNSUPPORTED, "attachment_id", "has no text: it is an image") ||
             err_reason(e, "project_image");
    if (ok && is_there(s, f, e) == 0)
        ok = fits(s, f, p.bytes, e) && add_passages(s, f->attachment_id, &p, e);
    ok = ok && store_write_begin(s, e) && store_write_end(s, add(s, f, &p, e), e);
    free(p.at);
    return ok;
}

/* The project's owner; 0: the user may not read it, or not change it. */
static bool find_owner(struct store *s, enum query which, const struct store_ref *project,
                       int64_t *owner, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    *owner = 0;
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", project->user_id);
    statement_bind_int(q, ":id", project->id);
    const int rc = statement_step(s, q, e);
    if (rc == 1)
        *owner = sqlite3_column_int64(q, 0);
    statement_end(q);
    return rc >= 0;
}

/* A number of the row that a statement finds; 0: it finds none. */
static bool find_id(struct store *s, enum query which, const struct store_project_file_ref *f,
                    int64_t *id, struct err *e)
{
    sqlite3_stmt *q = begin(s, which, f, e);
    *id = 0;
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    const int rc = statement_step(s, q, e);
    if (rc == 1)
        *id = sqlite3_column_int64(q, 0);
    statement_end(q);
    return rc >= 0;
}

static bool copy(struct store *s, const struct store_project_file_ref *f, int64_t owner,
                 int64_t *id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_FILE_COPY, f, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!statement_int(s, q, id, &why))
        return why.code == ERR_NOTFOUND
                   ? err_field(e, ERR_INPUT, "attachment_id", "there is no attachment %lld",
                               (long long)f->attachment_id)
                   : err_set(e, why.code, "%s", why.text);
    return search_add_file(s, *id, e) && users_check_quota(s, owner, f->storage_bytes, e);
}

/* An editor's upload: the project has the same file already, or its owner gets a copy of the row.
 * The bytes are in one place, whoever has them. */
static bool add_copy(struct store *s, const struct store_project_file_ref *f, int64_t owner,
                     struct err *e)
{
    struct store_project_file_ref theirs = {.user_id = owner, .project_id = f->project_id};
    int64_t same = 0;
    if (!find_id(s, QUERY_PROJECT_FILE_SAME, f, &same, e))
        return false;
    if (same)
        return true;
    if (!store_write_begin(s, e) ||
        !store_write_end(s, copy(s, f, owner, &theirs.attachment_id, e), e))
        return false;
    if (add_own(s, &theirs, e))
        return true;
    store_attachment_remove(s, owner, theirs.attachment_id, &(struct err){0});
    return false;
}

bool store_project_file_add(struct store *s, const struct store_project_file_ref *f, struct err *e)
{
    int64_t owner = 0;
    const struct store_ref project = {.user_id = f->user_id, .id = f->project_id};
    if (!find_owner(s, QUERY_PROJECT_OWNER, &project, &owner, e))
        return false;
    if (!owner)
        return err_set(e, ERR_NOTFOUND, "there is no such project");
    return owner == f->user_id ? add_own(s, f, e) : add_copy(s, f, owner, e);
}

static bool remove_file(struct store *s, const struct store_project_file_ref *f, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = begin(s, QUERY_PROJECT_FILE_REMOVE, f, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", f->user_id);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such file in this project"));
}

bool store_project_file_remove(struct store *s, const struct store_project_file_ref *f,
                               struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_file(s, f, e), e);
}

static void read_passage(sqlite3_stmt *q, struct ranking_passage *p, int n_terms)
{
    const int32_t *counts = sqlite3_column_blob(q, 4);
    *p = (struct ranking_passage){.file = sqlite3_column_int64(q, 1),
                                  .start = sqlite3_column_int64(q, 2),
                                  .bytes = sqlite3_column_int64(q, 3)};
    /* Of the words, then the owner's, which says nothing, then the terms'. */
    const int n = sqlite3_column_bytes(q, 4) / (int)sizeof *counts - 2;
    if (!counts || n < 0)
        return;
    p->words = counts[0];
    memcpy(p->counts, counts + 2, (size_t)(n < n_terms ? n : n_terms) * sizeof *counts);
}

static bool collect(struct store *s, sqlite3_stmt *q, struct store_passages *out, struct err *e)
{
    int rc = 0, room = 0;
    bool ok = true;
    while (ok && (rc = statement_step(s, q, e)) == 1) {
        if (out->n == room) {
            struct ranking_passage *more =
                realloc(out->at, (size_t)(room = room ? room * 2 : 64) * sizeof *more);
            if (!more) {
                ok = err_set(e, ERR_NOMEM, "memory ran out");
                break;
            }
            out->at = more;
        }
        read_passage(q, &out->at[out->n++], out->n_terms);
    }
    statement_end(q);
    return ok && rc >= 0;
}

bool store_project_find(struct store *s, const struct store_ref *project, const char *question,
                        struct store_passages *out, struct err *e)
{
    char owner[24];
    int64_t owner_id = 0;
    struct buf terms = {0};
    *out = (struct store_passages){0};
    if (!find_owner(s, QUERY_PROJECT_OWNER_READ, project, &owner_id, e))
        return false;
    snprintf(owner, sizeof owner, "u%lld", (long long)owner_id);
    out->n_terms = ranking_query(&terms, owner, question);
    bool ok = !terms.failed || err_set(e, ERR_NOMEM, "memory ran out");
    if (ok && out->n_terms) {
        sqlite3_stmt *q = statement_begin(s, QUERY_CHUNK_FIND, e);
        ok = q != NULL;
        if (ok) {
            statement_bind_text(q, ":terms", terms.data);
            statement_bind_int(q, ":user_id", project->user_id);
            statement_bind_int(q, ":id", project->id);
            ok = collect(s, q, out, e);
        }
    }
    buf_fini(&terms);
    if (!ok) {
        free(out->at);
        *out = (struct store_passages){0};
    }
    return ok;
}
