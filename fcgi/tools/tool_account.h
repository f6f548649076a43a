/* What a tool server wants to see before it answers: its own secret, or a token of the account that
 * the user has there. Tokens are kept fresh here, and what a server says when one is not good is
 * turned into what its user can do about it. Thread: the request's, behind WORK_TOOL. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/oauth/oauth.h"
#include "fcgi/tools/mcp.h"
#include "sql/tools/store_tool_sign_ins.h"

struct request;

struct tool_visit {
    struct request *r;
    const struct store_tool_server *server; /* in the request's arena */
    const char *secret;                     /* instead of the stored one; "": none; NULL: stored */
    double until;                           /* clock_ms */
    bool (*stopped)(void *context);         /* mcp.h */
    void *context;                          /* of this and of work */
    bool (*work)(void *context, struct mcp_session *s, struct err *e);
    struct mcp_refusal refusal; /* of the last attempt; status 0: none */
};
/* Opens a session and does the work in it; once more, where the server refused and a fresh token is
 * to be had. ERR_FORBIDDEN with the reason tool_sign_in: the user has to sign in (again); or
 * tool_scope: with more rights. Else as mcp_open and the work say. */
bool tool_account_visit(struct tool_visit *v, struct err *e);

/* Bounds of what is asked of the server's issuer. near: the server is in a private network. */
struct oauth_ask tool_account_ask(struct request *r, const struct store_tool_server *server,
                                  bool near, double until);
/* The issuer knows this client no more: it goes, if it was registered by itself, so that the next
 * sign-in registers another. False: somebody has to look after it, who entered it. */
bool tool_account_drop_client(struct request *r, const struct store_tool_server *server,
                              const char *client_id);
/* How it is with the user's account: JSON for the page; NULL: the server wants none. */
cJSON *tool_account_json(struct request *r, const struct store_tool_server *server);
