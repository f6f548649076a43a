/* One request to a tool server, by libcurl. Bounded in time and size, TLS verified, redirects not
 * followed; what comes is given out piece by piece, since an answer may be a stream that says
 * something before it ends. Blocks its thread: only behind WORK_TOOL. Thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

#define TOOL_HTTP_BYTES ((size_t)4 << 20) /* of an answer, at most */
#define TOOL_HTTP_SESSION 256             /* of a session's id, with its NUL */
#define TOOL_HTTP_LINES 4
#define TOOL_HTTP_CHALLENGE 2048 /* of WWW-Authenticate, with its NUL */

struct tool_http {
    const char *url, *method;           /* "POST" or "DELETE" */
    const char *body;                   /* JSON; NULL: none */
    const char *lines[TOOL_HTTP_LINES]; /* more of the head, "Name: value"; NULL: none */
    bool anywhere;                      /* else only at a public address: tool_address.h */
    double until;                       /* clock_ms when it must have ended */
    /* Asked about once a second. True: it is to end now, ERR_CANCELLED. NULL: never. */
    bool (*stopped)(void *context);
    /* Takes what comes; false: that was all that is wanted, and the request ends well. type: the
     * answer's media type. Not called for a status other than 200. */
    bool (*take)(void *context, const char *type, const char *data, size_t len);
    void *context;
};

struct tool_http_answer {
    long status;
    char session[TOOL_HTTP_SESSION];     /* Mcp-Session-Id; "": none came */
    char challenge[TOOL_HTTP_CHALLENGE]; /* WWW-Authenticate, several with commas between */
    bool near;                           /* the server's address is none of the public internet */
};

/* False: no whole answer came. ERR_UNAVAILABLE or ERR_LIMIT with the reason tool_unreachable,
 * tool_address, tool_timeout or tool_too_large; ERR_CANCELLED. */
bool tool_http_ask(const struct tool_http *h, struct tool_http_answer *out, struct err *e);
