/* Asks a server for its tools, for its row. Thread: the request's; blocks. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "sql/tools/store_tool_servers.h"

struct request;

/* The answer goes to x->tools and x->listed_at, texts in the request's arena. secret: for a server
 * that is not kept yet ("": none); NULL: what is stored. may_wait: a server that wants a sign-in
 * first is taken without its tools, which come with the sign-in; where that is news, x->client_id
 * becomes "". Errors are of the field url but for ERR_NOMEM and the reasons tool_sign_in and
 * tool_scope. */
bool tool_fetch(struct request *r, struct store_tool_server *x, const char *secret, bool may_wait,
                struct err *e);
