/* Conversations out of a file into one user's history: the door of this room, for the API and
 * `sluice import`.
 *
 * The file is a JSON text, JSON texts one after another (JSONL), or a ZIP archive of such texts;
 * what it is and whose export it is, is seen from its content. It is read once, from front to back,
 * one conversation in memory at a time. Each conversation goes through one format (formats.h) into
 * a draft (draft.h) and from there into the store, whole or not at all; one that is wrong is
 * reported and the next one is read. A conversation whose key the user has already is a duplicate
 * and is passed over.
 *
 * Thread: the caller's, with its connection to the store. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct arena;
struct store;
struct store_upload;

#define IMPORT_ITEM_BYTES ((size_t)64 << 20) /* of one conversation's JSON text */
#define IMPORT_ITEM_VALUES                                                                         \
    ((size_t)1500000)         /* in it: a value costs 64 bytes in memory, however short its text */
#define IMPORT_DEPTH 64       /* of its nesting, */
#define IMPORT_TREE_DEPTH 900 /* where messages stand in each other; as json.h allows */
#define IMPORT_TEXT_BYTES IMPORT_ITEM_BYTES       /* of one member kept as it was written */
#define IMPORT_UNPACKED_BYTES ((int64_t)16 << 30) /* of an archive's contents */
#define IMPORT_ENTRIES 250000                     /* of an archive */
#define IMPORT_RATIO 100    /* an archive's contents against its size, past the first 64 MiB */
#define IMPORT_PROBLEMS 100 /* that a report names; more are counted */

struct import_problem {
    char item[160]; /* "conversations.json[3]" */
    char path[64];  /* inside it: "mapping.abc.parent"; "" for the whole of it */
    char reason[256];
};

struct import_report {
    const char
        *format; /* name of the first conversation's format; "mixed"; NULL: none was recognised */
    int64_t conversations; /* found */
    int64_t imported, duplicates,
        failed;              /* their sum; in a dry run `imported` says what would be */
    int64_t messages;        /* of those imported */
    int64_t attachments;     /* of those messages: files that came in, or were there */
    int64_t without_project; /* conversations whose project has no place: the user has too many */
    int64_t attachments_missing; /* files that messages name and that are neither in the import nor
                                    there */
    int64_t replaced;      /* characters that no text can hold (NUL, half surrogates), now U+FFFD */
    int64_t skipped_files; /* of an archive: not conversations */
    struct import_problem problems[IMPORT_PROBLEMS];
    int64_t n_problems; /* all of them; the first IMPORT_PROBLEMS are kept */
};

struct import_progress {
    int64_t bytes, total_bytes; /* of the file as it was given */
    const struct import_report *report;
};

struct import_params {
    struct store *store;
    int64_t user_id;
    int fd;                /* a regular file, read from its beginning; stays the caller's */
    bool dry_run;          /* nothing is written */
    int64_t storage_bytes; /* that the user may keep in all; 0: no limit. A conversation that goes
                              over it ends the import */
    bool (*progress)(void *context,
                     const struct import_progress
                         *p); /* after each conversation; false: stop there. May be NULL */
    void *context;            /* of all of these */
    /* Keeps a file of an own archive as one of the user's (taken over); NULL: files are not taken.
     * At most max_file_bytes each. */
    bool (*take_file)(void *context, struct store_upload *file, struct err *e);
    int64_t max_file_bytes;
    /* Are the settings of a conversation of an own export such as a chat may have? *e's field is
     * the member's name. NULL: any object is taken. */
    bool (*check_settings)(void *context, const cJSON *settings, struct arena *a, struct err *e);
};

/* True when the file was read to its end, even if conversations in it failed: *report has them.
 * False: *e says why the file as a whole is refused or could not be read on; what was imported
 * before that stays, and *report counts it. The report is large: not for the stack. */
bool import_run(const struct import_params *p, struct import_report *report, struct err *e);
/* The report as a JSON object; e: why it ended early, or NULL. */
void import_report_json(struct buf *out, const struct import_report *r, bool dry_run,
                        const struct err *e);
