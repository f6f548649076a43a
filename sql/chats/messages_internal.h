/* Rows of messages, for the files of this folder. Inside sql/ only. */
#pragma once
#include "sql/chats/store_conversations.h"
#include "sql/core/statement.h"

/* Steps through a query that gives @message_columns and attachments, row by row; ends the
 * statement. */
bool messages_each(struct store *s, sqlite3_stmt *q, store_message_fn fn, void *context,
                   struct err *e);
