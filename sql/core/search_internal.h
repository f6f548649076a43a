/* The search index inside other statements' transactions, and what a search asks of it. Inside sql/
 * only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct buf;
struct store;

/* A message that has just been finished; one that runs is left out. */
bool search_add(struct store *s, int64_t message_id, struct err *e);
/* The conversation's last `limit` messages, before their rows are deleted. None of them runs. */
bool search_remove(struct store *s, int64_t conversation_id, int limit, struct err *e);
/* One message that is finished, before its row is deleted. */
bool search_remove_one(struct store *s, int64_t message_id, struct err *e);
/* An attachment whose row was just written, and one whose row is about to be deleted if it is in no
 * message; user_id 0: by the recorder, whosever it is. */
bool search_add_file(struct store *s, int64_t attachment_id, struct err *e);
bool search_remove_file(struct store *s, int64_t user_id, int64_t attachment_id, struct err *e);
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
