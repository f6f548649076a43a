/* A streamed answer to an inference: what every dialect's view does alike. Queued events leave
 * together when nothing more is pending, silence is filled, and the first object names what was
 * ignored.
 *
 * A view that streams has a struct answer_stream as its first member, so that it can be the
 * listener's context of the functions below. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "fcgi/http/sse.h"
#include "fcgi/inference/inference.h"

struct answer_stream {
    struct request *r;
    const struct inference *x;
    struct sse sse;
    struct buf line; /* the next event's data */
    bool warned;     /* an object was written: the first one names what was ignored */
};

void answer_stream_begin(struct answer_stream *s);       /* server-sent events */
void answer_stream_begin_lines(struct answer_stream *s); /* one JSON object a line */
/* Queues s->line as an event (name NULL: without one), or as a line; its text stays until it is
 * cleared. */
void answer_stream_event(struct answer_stream *s, const char *name);
void answer_stream_line(struct answer_stream *s);
/* Appends the member "warnings" to s->line, once in a stream. */
void answer_stream_warnings(struct answer_stream *s);
void answer_stream_fini(struct answer_stream *s);

/* Members of an inference_listener. */
void answer_stream_pause(void *context);
int answer_stream_idle_ms(void *context);
/* A comment says how far the prompt is read. */
void answer_stream_keep_alive(void *context);
