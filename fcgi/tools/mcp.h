/* A client of the Model Context Protocol over streamable HTTP, or over the standard input and
 * output of a program (tool_pipe.h): a session with one server in which its tools are listed or one
 * is called. Answers come as JSON or as a stream of events; a ping in between is answered, any
 * other request of the server's is refused, since nothing is offered to it. What the server says is
 * outside text: it is checked for shape here and never trusted.
 *
 * Thread: the request's, behind WORK_TOOL. All functions fail with ERR_UNAVAILABLE, ERR_LIMIT,
 * ERR_FORBIDDEN or ERR_CANCELLED and a reason of tool_http.h or tool_pipe.h, or tool_refused (the
 * server wants another secret), tool_status (it answers with an error of HTTP), tool_rubbish (what
 * it says is not the protocol), tool_protocol (a version that is not spoken here), tool_error (an
 * error that it explains itself). */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/tools/tool_http.h"
#include "fcgi/tools/tool_pipe.h"

#define MCP_TOOLS_MAX 128 /* of one server */

struct mcp_server {
    const char *url;
    const char *run_dir;         /* for a program */
    const char *header, *secret; /* secret NULL: no header is sent */
    bool anywhere;               /* tool_http.h */
    double until;                /* clock_ms: all of the session */
    bool (*stopped)(void *context);
    void *context;
};

struct mcp_refusal { /* why tool_refused */
    long status;     /* 401 or 403; 0: nothing was refused */
    bool near;       /* tool_http.h; also where nothing was refused */
    char challenge[TOOL_HTTP_CHALLENGE];
};

struct mcp_session {
    const struct mcp_server *server;
    struct mcp_refusal refusal; /* stays when the session is closed */
    char id[TOOL_HTTP_SESSION]; /* "": the server keeps none */
    char version[16];
    struct tool_pipe pipe; /* fd -1: it is asked by HTTP */
    int64_t last_id;
};

bool mcp_open(struct mcp_session *s, const struct mcp_server *server, struct err *e);
/* Tells the server that the session is over; nothing is waited for long. */
void mcp_close(struct mcp_session *s);
/* All pages of its list: an array of the server's own objects, at most MCP_TOOLS_MAX; the caller
 * owns it. */
cJSON *mcp_list_tools(struct mcp_session *s, struct err *e);
/* The result object as the server sent it, be it an error of the tool's or not; the caller owns
 * it. arguments: an object, or NULL for none. */
cJSON *mcp_call_tool(struct mcp_session *s, const char *name, const cJSON *arguments,
                     struct err *e);
