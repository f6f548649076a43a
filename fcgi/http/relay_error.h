/* What went wrong with an upstream, as this server's error: the relay sends a reason in the error's
 * field (ENGINE_RELAY_REASON), here it becomes err.reason, an HTTP status and a code. */
#pragma once
#include "engine/base/err.h"

struct request;

/* Moves the reason to its place; any other error stays as it is. */
void relay_error_read(struct err *e);
/* The same, and what the reply says of it. */
void relay_error_explain(struct request *r, struct err *e);
