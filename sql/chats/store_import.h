/* Whole conversations from a file: each comes in with all its messages or not at all. Rules as in
 * sql/core/store.h; the user's id stands in the SQL. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/chats/store_conversations.h"

struct store;

#define STORE_KEY_BYTES 64
#define STORE_IMPORTED_FILE                                                                        \
    "imported" /* the name of a file that came before the message that names it */

struct store_import_file {
    const char *sha256,
        *name; /* an attachment of the message; the user's files with this content serve */
};

struct store_import_message {
    int parent; /* index of an earlier message; -1: a root */
    enum store_role role;
    enum store_status status; /* not MESSAGE_RUNNING */
    const char *content, *reasoning;
    const char *tool_calls; /* JSON array; NULL: none */
    const char *tool_call_id, *error, *model;
    const char *timings; /* JSON object; NULL: none */
    const char *sources; /* JSON object, as in struct store_message; NULL: none */
    bool has_usage;
    int64_t prompt_tokens, cached_tokens, completion_tokens;
    int64_t created_at, finished_at;
    const struct store_import_file *files;
    int n_files; /* at most STORE_MESSAGE_ATTACHMENTS */
};

struct store_import_project {
    const char *key; /* of a project that the user has already: that one is meant, as it is */
    const char *name, *instructions;
    int colour;
    const struct store_import_file *files;
    int n_files;
};

struct store_import {
    int64_t user_id;
    int64_t storage_bytes; /* that the user may keep in all, this with it; 0: no limit */
    const char *key; /* 1 to STORE_KEY_BYTES bytes; one that the user has already is ERR_CONFLICT */
    const char *title;    /* at most STORE_TITLE_BYTES */
    const char *settings; /* JSON object */
    const char *const *tags;
    int n_tags;
    bool pinned, archived;
    int64_t created_at, updated_at;
    int64_t trashed_at;  /* 0: not in the trash */
    const char *fork_of; /* key of another conversation of the user; NULL, or not there: none */
    const struct store_import_project *project; /* that it is in; NULL: none */
    const struct store_import_message *messages;
    int n_messages;
    int leaf; /* index of the last message of the branch that is shown; -1: none */
};

struct store_imported {
    int64_t id;
    int n_files, n_missing; /* attachments that the messages, and a project that was made, have
                               now; those that no file of the user serves for */
    bool without_project;   /* it has one, for which the user has no place any more */
};

/* *known: the user has a conversation with this key. */
bool store_import_known(struct store *s, int64_t user_id, const char *key, bool *known,
                        struct err *e);
/* A long conversation takes several transactions, between which others write; nobody sees it before
 * the last, and the recorder removes what a killed process leaves. A long text is found once the
 * recorder has indexed it. Not synced: a power cut may undo the last conversations, each of them
 * whole, until store_import_sync has returned. ERR_LIMIT, field STORE_QUOTA_FIELD
 * (sql/users/store_limits.h). */
bool store_import_add(struct store *s, const struct store_import *c, struct store_imported *out,
                      struct err *e);
/* *known: the user has a file with this content. */
bool store_import_file_known(struct store *s, int64_t user_id, const char *sha256, bool *known,
                             struct err *e);
/* All that was added is on the disk. */
bool store_import_sync(struct store *s, int64_t user_id, struct err *e);
