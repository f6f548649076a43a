/* What posting the results of calls, or another address of a server, ends. Inside sql/ only, within
 * the caller's transaction. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

/* The answer's runs go: their results are messages now. */
bool tool_runs_clear(struct store *s, int64_t message_id, struct err *e);
/* Client, sign-ins and whatever is under way at a server. */
bool tool_oauth_forget(struct store *s, int64_t server_id, struct err *e);
