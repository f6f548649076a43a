/* One request to one upstream: sent and read by libcurl, its stream taken apart. A job makes one,
 * and another to the next upstream where this one gave nothing. Owner: the relay's thread. */
#pragma once
#include <curl/curl.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/relay/relay_answer.h"
#include "fcgi/relay/upstreams.h"

struct relay_call;

struct relay_call_params {
    CURLM *multi;
    struct upstream *to;
    const char *remote; /* the model's name there */
    bool text;          /* engine_relay.text */
    const char *chat; /* [n_chat] JSON; stays until the call ends, or has forgotten what it sent */
    size_t n_chat;
    const char *via;                 /* the value of a header, NULL: none */
    struct relay_answer *answer;     /* what comes is told to it */
    void (*progress)(void *context); /* something came; the answer has been flushed */
    void *context;
};
/* NULL: *e; nothing was sent. */
struct relay_call *relay_call_begin(const struct relay_call_params *p, struct err *e);
struct relay_call *relay_call_of(CURL *easy);
void *relay_call_context(const struct relay_call *c);
/* Past its patience? The names of what it waits for: "first" or "next"; NULL: it is not. */
const char *relay_call_late(const struct relay_call *c, double now);

enum relay_verdict {
    RELAY_WHOLE,   /* the answer came to its end */
    RELAY_REFUSED, /* the request's own fault: no other upstream is asked */
    RELAY_MISSING, /* it has no such model, or asks us for it: that says nothing of how it is */
    RELAY_BUSY,    /* 429 or the like: another one may have room */
    RELAY_DOWN,    /* nobody listens there */
    RELAY_FAILED,  /* it broke, or speaks nonsense */
};
/* After libcurl has ended the transfer with `rc`, or (late) its patience has. *e: why, for people,
 * its field ENGINE_RELAY_REASON and a reason; *wait_ms: RELAY_BUSY, what the upstream asks for. */
enum relay_verdict relay_call_verdict(struct relay_call *c, CURLcode rc, const char *late,
                                      double *wait_ms, struct err *e);
/* After the verdict: more than *e says, for the log and the admin only ("" where there is none). */
const char *relay_call_detail(const struct relay_call *c);
/* The upstream has said all, but does not end its reply. */
bool relay_call_lingers(const struct relay_call *c, double now);
/* Bytes that it holds of the request, besides the chat. */
size_t relay_call_held(const struct relay_call *c);
/* Frees the request's body; the chat is not needed after it. False: some is still to be sent. */
bool relay_call_forget_sent(struct relay_call *c);
/* Takes it out of the multi handle; where it still runs its connection is closed, which is how an
 * upstream learns that nobody waits any more. Accepts NULL, nulls *c. */
void relay_call_end(struct relay_call **c);
