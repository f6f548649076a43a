/* The tokens of unfinished answers, written within the recorder's transaction. Inside sql/ only. */
#pragma once
#include "sql/chats/store_record.h"

struct store;

/* Called after the row was written with its last state: keeps its tokens when the answer can be
 * resumed, else drops them. */
bool continue_settle(struct store *s, const struct store_answer *a, struct err *e);
