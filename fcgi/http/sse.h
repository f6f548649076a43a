/* Server-sent events over the request's connection: LF framing, one flush per event, never buffered
 * by nginx. A write that fails, or a client seen gone, sets r->client_gone; later calls do nothing
 * and return false. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

struct request;

#define SSE_EVENTS_TYPE "text/event-stream; charset=utf-8"
#define SSE_LINES_TYPE                                                                             \
    "application/x-ndjson"    /* of Ollama's streams: an object a line, in the place of events */
#define SSE_KEEPALIVE_MS 8000 /* longest silence; proxies cut at 60 s, phones earlier */

struct sse {
    struct request *r;
    struct buf out; /* events not yet flushed */
    uint64_t last_ns;
    bool abort_enabled; /* see sse_enable_abort */
    bool head_waits;    /* for the first flush */
};

/* Sends the headers (200, text/event-stream, no-cache, no-transform, X-Accel-Buffering: no). */
bool sse_start(struct sse *s, struct request *r);
/* The same of one of the types above, but the headers leave with the first flush: what is there
 * already goes with them, in one packet. Of SSE_LINES_TYPE, sse_line takes the place of events and
 * comments. */
void sse_begin(struct sse *s, struct request *r, const char *content_type);
/* The stream is one of the API's: if this process dies after the first sse_wait, its master ends it
 * with the error event of the route's dialect. */
void sse_enable_abort(struct sse *s);
/* One event. event NULL: only `data:`. data must hold no newline (JSON never does). Queued:
 * sse_flush sends it. */
void sse_event(struct sse *s, const char *event, const char *data, size_t len);
void sse_line(struct sse *s, const char *data, size_t len);
void sse_comment(struct sse *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes what is queued. False: the client has gone. */
bool sse_flush(struct sse *s);
/* The same, and more is to come that takes its time: from here on the master ends the stream if
 * this process dies (sse_enable_abort). */
bool sse_wait(struct sse *s);
/* Milliseconds until a keepalive is due: the timeout for poll. 0: now. */
int sse_idle_ms(const struct sse *s);
void sse_end(struct sse *s); /* flushes, frees; the connection ends with the request */
