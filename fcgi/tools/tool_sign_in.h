/* A user's sign-in at a tool server, from the browser's departure to its return. What proves that
 * the one who returns is the one who left is a cookie; the database holds hashes of it and of the
 * state, gives each out once, and knows the session that began it. The verifier of PKCE is made of
 * cookie and state and kept nowhere. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "sql/tools/store_tool_sign_ins.h"

struct request;

#define TOOL_SIGN_IN_CALLBACK "/api/tool-sign-in/callback"
#define TOOL_SIGN_IN_DOCUMENT "/api/tool-sign-in/client.json"

/* Where the browser is to go, appended to *url, and its cookie. Errors as oauth.h and mcp.h; also
 * the reason tool_client: the issuer does not know this server, and somebody has to enter a client;
 * or tool_issuer: the client was entered for another issuer. */
bool tool_sign_in_begin(struct request *r, const struct store_tool_server *server, struct buf *url,
                        struct err *e);
/* The issuer has sent the browser back. *server: where one is signed in now, with r->who set to the
 * user. False: *e with a reason that begins with tool_. */
bool tool_sign_in_end(struct request *r, struct store_tool_server *server, struct err *e);
/* The tokens go, and the issuer is told. ERR_NOTFOUND. */
bool tool_sign_in_forget(struct request *r, const struct store_tool_server *server, struct err *e);
