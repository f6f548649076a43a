/* Tokens of unfinished answers, inside the recorder's transaction. Inside sql/ only. */
#pragma once
#include "sql/chats/store_record.h"

struct store;

/* After the row was written with its last state: keeps its tokens when it can be gone on with, drops them when not. */
bool continue_settle(struct store *s, const struct store_answer *a, struct err *e);
