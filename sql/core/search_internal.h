/* The search index inside other statements' transactions, and what a search asks of it. Inside sql/
 * only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct buf;

#define SEARCH_STEP_LETTERS ((int64_t)16384) /* indexed or taken out in one transaction, about */

/* At the beginning of each write transaction: the next 16 KB of text it may index at once. */
void search_transaction(struct store *s);
/* A message that has just been finished; one that runs is left out. */
bool search_add(struct store *s, int64_t message_id, struct err *e);
/* One message that is finished, before its row is deleted or its text changes. */
bool search_remove(struct store *s, int64_t message_id, struct err *e);
/* The same in steps: *letters is what may still be taken out. Unless *done the row must stay. */
bool search_remove_some(struct store *s, int64_t message_id, int64_t *letters, bool *done,
                        struct err *e);
/* An attachment whose row was just written, and one whose row is about to be deleted if it is in no
 * message; user_id 0: by the recorder, whosever it is. */
bool search_add_file(struct store *s, int64_t attachment_id, struct err *e);
bool search_remove_file(struct store *s, const struct store_ref *file, int64_t *letters, bool *done,
                        struct err *e);
/* It was put into a message, and stays after all. */
bool search_keep_file(struct store *s, int64_t attachment_id, struct err *e);
/* One short step of indexing what waits for it; *more: call again. Opens its own transaction. */
bool search_index(struct store *s, bool *more, struct err *e);
/* Does text of this user wait to be indexed? */
bool search_is_indexing(struct store *s, int64_t user_id, bool *out, struct err *e);
/* One short step of merging away what was removed; *more: call again. Opens its own transaction. */
bool search_clear(struct store *s, bool *more, struct err *e);

/* Once per connection: the functions by which statements compare texts. */
bool search_functions(struct store *s, struct err *e);
/* From here on they look for `text`, taken literally, letter case aside. terms: its pieces of three
 * letters for the index, empty when it is shorter: then the messages are read, some 32 MB at most.
 */
bool search_begin(struct store *s, const char *text, struct buf *terms, struct err *e);
/* How much the statement may read; a first try ends with an error at 2 MB, else what lies beyond is
 * passed over. Either sets s->search.cut. */
void search_limit(struct store *s, bool first_try);
/* The first place of the search's text in `text`; bytes 0: none. */
void search_place(const struct store *s, const char *text, size_t *at, size_t *bytes);
