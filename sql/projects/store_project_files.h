/* The files of projects, which are attachments (sql/files), and the search in their text. What is
 * searched are passages (chunking.h); the recorder puts them into the index, so for a moment after
 * a file came some are not found. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"
#include "sql/projects/ranking.h"

struct arena;
struct store;

#define STORE_PROJECT_FILES 100
#define STORE_PROJECT_TEXT_BYTES ((int64_t)20 << 20) /* of all its files; some 13,000 passages */

struct store_project_file {
    int64_t id; /* the attachment's */
    const char *name, *type, *sha256, *model, *note;
    int64_t bytes;      /* of the file */
    int64_t tokens;     /* of its text, as `model` counts */
    int64_t text_bytes; /* of its text */
    int64_t n_chunks;
    bool indexing; /* some of its passages are not found yet */
};
struct store_project_files {
    struct store_project_file *at; /* in the arena */
    int n;
};
/* In the order in which they were uploaded. */
bool store_project_files(struct store *s, struct arena *a, const struct store_ref *project,
                         struct store_project_files *out, struct err *e);
struct store_project_file_ref {
    int64_t user_id, project_id, attachment_id;
    int64_t storage_bytes; /* that the owner may keep in all; 0: no limit. Of an addition */
};
/* An attachment of the user becomes a file of the project, or is one already; that of an editor is
 * copied, so that it is the owner's. ERR_NOTFOUND: the project, or the user may not change it;
 * ERR_INPUT "attachment_id": there is none of the user's; ERR_UNSUPPORTED: it has no text;
 * ERR_LIMIT: too many files, too much text, or field STORE_QUOTA_FIELD. */
bool store_project_file_add(struct store *s, const struct store_project_file_ref *f, struct err *e);
bool store_project_file_remove(struct store *s, const struct store_project_file_ref *f,
                               struct err *e);

struct store_passages { /* the caller frees `at` */
    struct ranking_passage *at;
    int n, n_terms;
};
/* All passages of the project's files with a word of the question, without their scores. Of a
 * project that the user may not read there are none. */
bool store_project_find(struct store *s, const struct store_ref *project, const char *question,
                        struct store_passages *out, struct err *e);
