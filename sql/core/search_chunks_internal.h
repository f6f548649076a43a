/* The index of passages: words of projects' files, for ranking them by a question. Other than the
 * indexes of store_search.c it knows words, not letters, and how often each stands in a passage.
 * Inside sql/ only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct buf;
struct store;

/* Once per connection: chunk_counts(), an auxiliary function of FTS5. For a row of chunk_search it
 * gives a blob of int32 in the machine's order: the words of the passage, then how often each
 * phrase of the MATCH stands in it. */
bool search_chunks_functions(struct store *s, struct err *e);
/* One short step of indexing what waits for it; *more: call again. Opens its own transaction. */
bool search_chunks_index(struct store *s, bool *more, struct err *e);
/* All that waits, within a transaction: of a small index that was emptied, so that nobody finds it
 * without its passages. */
bool search_chunks_fill(struct store *s, struct err *e);
/* Takes passages of a file out, rows and entries, while *letters lasts; *done: none is left. Within
 * a transaction, before the file's row is deleted. *any: some left the index. */
bool search_chunks_remove(struct store *s, int64_t attachment_id, int64_t *letters, bool *done,
                          bool *any, struct err *e);
/* The text as the index gets it: letters of scripts without blanks between words stand apart, so
 * that each of them is a word. */
bool search_chunks_words(struct buf *out, const char *text, size_t len);
