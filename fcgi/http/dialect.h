/* The form in which a family of clients expects errors. A route names its dialect; a path without a
 * route has the dialect of the route that it would lie under, so that /v1/messages/nonsense is
 * refused in Anthropic's form. */
#pragma once
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/process/stream_abort.h"

struct request;

struct api_dialect {
    /* Writes the whole error object for *e and r->error_override. */
    void (*error)(struct buf *out, const struct request *r, const struct err *e);
    const char
        *request_id; /* a further header that carries the request's id; NULL: X-Request-Id alone */
    struct stream_abort_text
        stream_abort; /* of a stream whose process died, framed as its events are */
};

#define DIALECT_SSE_CLOSE ":\n\n"
/* The error object of dialect_default as a server-sent event. */
#define DIALECT_ERROR_EVENT                                                                        \
    "data: {\"error\":{\"message\":\"" DIALECT_ABORT_TEXT                                          \
    "\",\"type\":\"server_error\",\"param\":null,\"code\":\"worker_lost\"}}\n\n"
#define DIALECT_ABORT_TEXT "the process that served this stream died; ask again"

/* OpenAI's error object, which the page's routes use too; the first of api_dialects. */
extern const struct api_dialect dialect_default;
/* All of them, ended by NULL: fcgi/routes.c. */
extern const struct api_dialect *const api_dialects[];

const struct api_dialect *dialect_of(const struct request *r); /* never NULL */
/* A dialect's place in api_dialects, for memory that processes share; and what ends a stream of the
 * one at that place. */
int dialect_index(const struct api_dialect *d);
const struct stream_abort_text *dialect_stream_abort(int index);
