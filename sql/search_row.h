/* The search index inside other statements' transactions, and what a search asks of it. Inside sql/ only. */
#pragma once
#include <stdbool.h>
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
/* One short step of merging away what was removed; *more: call again. Opens its own transaction. */
bool search_clear(struct store *s, bool *more, struct err *e);
/* LIKE's pattern for `text` taken literally, and its pieces of three letters for the index: empty when it is shorter. */
bool search_terms(const char *text, struct buf *pattern, struct buf *terms, struct err *e);
