/* One user's conversations for export: whole, in the order in which they were made, and all from
 * one moment. Rules as in sql/core/store.h; rows come one at a time and are borrowed until the
 * callback returns, so memory does not grow with them.
 *
 *   store_export_begin(s, e) && store_export_each(s, &which, put_one, ...);   put_one may call the
 * other functions store_export_end(s);
 *
 * Between begin and end this connection sees one snapshot, and the WAL can't be emptied past it: do
 * not wait for slow readers in between. Nothing may be written through this connection meanwhile.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/chats/store_conversations.h"

struct store;

bool store_export_begin(struct store *s, struct err *e);
void store_export_end(struct store *s); /* accepts that none was begun */

struct store_export {
    int64_t user_id;
    const char *ids;                    /* JSON array of numbers; NULL: all */
    enum store_which archived, trashed; /* WHICH_ANY: both */
};
struct store_export_counts {
    int64_t conversations, messages;
};
bool store_export_count(struct store *s, const struct store_export *which,
                        struct store_export_counts *out, struct err *e);

struct store_export_conversation {
    int64_t id;
    const char *key, *title;
    const char *settings, *tags; /* JSON object; JSON array of texts */
    const char *project; /* {"key","name","colour","instructions","files":[{"sha256","name","mime",
                            "size"}]}; NULL: in none */
    int64_t leaf_id;     /* 0: none */
    bool pinned, archived;
    int64_t created_at, updated_at, trashed_at; /* trashed_at 0: not in the trash */
    const char *fork_of; /* key of the original when that is exported too (it came earlier); NULL */
};
typedef bool (*store_export_conversation_fn)(
    void *context, const struct store_export_conversation *c); /* false: enough */
bool store_export_each(struct store *s, const struct store_export *which,
                       store_export_conversation_fn fn, void *context, struct err *e);

/* The messages of one conversation, in order of their ids. As store_message_list, but `attachments`
 * is a JSON array of
 * {"sha256","name","mime","size"} in their order; finished_at 0: it is running. */
bool store_export_messages(struct store *s, const struct store_ref *conversation,
                           store_message_fn fn, void *context, struct err *e);

struct store_export_file { /* a content that messages have attached */
    const char *sha256, *type;
    int64_t bytes, created_at;
};
typedef bool (*store_export_file_fn)(void *context, const struct store_export_file *f);
/* Each one once. Its bytes lie at store_attachment_path; they may have gone since the snapshot. */
bool store_export_files(struct store *s, const struct store_export *which, store_export_file_fn fn,
                        void *context, struct err *e);
