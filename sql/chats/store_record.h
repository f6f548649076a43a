/* The recorder's part of the store: it writes answers as they grow, checkpoints the WAL and clears
 * away removed rows. Its connection is opened with store_params.checkpointer. Rules as in
 * sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/chats/store_conversations.h"

struct store_running {
    int64_t id, conversation_id, user_id;
    const char *job_key, *parser; /* valid in the callback */
    int64_t created_at;           /* of its job: later than the row's own when it was resumed */
    size_t written;               /* bytes of content, reasoning and tool_calls in the row */
    bool removed;                 /* its conversation was deleted: stop it, then finish the row */
};
/* Every running answer of every user, oldest first. */
typedef bool (*store_running_fn)(void *context, const struct store_running *r);
bool store_running_list(struct store *s, store_running_fn fn, void *context, struct err *e);

struct store_answer { /* the row's whole new state, not an addition */
    int64_t id;
    enum store_status status;
    bool keep_text; /* leave content, reasoning and tool_calls as they are in the row */
    int64_t
        count_for; /* finished with usage: the user whose counters grow with the row; 0: nobody's */
    const char *content, *reasoning;
    size_t content_len, reasoning_len;
    const int32_t *tokens; /* those of this job, when it has ended; NULL: not known */
    size_t n_tokens;
    const char *tool_calls;                     /* JSON array or NULL */
    const char *error, *error_detail, *timings; /* or NULL; error as in struct store_message */
    bool has_usage;
    int64_t prompt_tokens, cached_tokens, completion_tokens;
};
/* All answers of one tick in one transaction. durable: it is on the disk when record_end returns
 * (for finished answers); else a power cut may lose the tick, a killed process not. After a failure
 * the whole tick is undone and may be tried again. */
bool store_record_begin(struct store *s, bool durable, struct err *e);
/* Only rows that are running change; *gone (may be NULL) says that this one is not (removed, or
 * ended). */
bool store_record_write(struct store *s, const struct store_answer *a, bool *gone, struct err *e);
bool store_record_end(struct store *s, struct err *e);
void store_record_undo(struct store *s); /* accepts that no transaction is open */

struct store_wal {
    int64_t frames, checked_in; /* pages in the WAL; of these already in the database */
    bool busy;                  /* a reader or writer was in the way: try again later */
};
/* Moves the WAL into the database without waiting for anyone; truncate: also empties the file,
 * which needs a moment without readers. */
bool store_checkpoint(struct store *s, bool truncate, struct store_wal *w, struct err *e);
/* True when the WAL is so long (12 MB) that a checkpoint should not wait for its turn. */
bool store_wal_long(struct store *s);

/* One short step of clearing away: expired sessions and links, what lay in the trash for
 * STORE_TRASH_DAYS, rows of deleted conversations (a few hundred messages or
 * 64 KB of text a step), users whose last row is gone; then one of indexing texts for the search;
 * and last of merging away what the index still holds of deleted ones. A pause belongs between two
 * steps, in which others write. *more: call again. */
bool store_clear(struct store *s, bool *more, struct err *e);
