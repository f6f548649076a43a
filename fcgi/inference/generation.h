/* One answer while it is made: engine events in; reasoning, content and tool calls out, as deltas
 * and as sums. Shared by the OpenAI API (deltas go to the client) and the recorder (sums go to
 * SQLite). One thread owns it. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/chat/chat_parser.h"
#include "engine/engine.h"

#define GENERATION_MAX_CALLS 64
#define GENERATION_CALL_ID 32

struct generation_call {
    char id[GENERATION_CALL_ID]; /* "call_..." */
    struct buf name, arguments;  /* arguments: JSON text */
    bool whole;
};

enum generation_state {
    GENERATION_QUEUED,
    GENERATION_PREFILL,
    GENERATION_RUNNING,
    GENERATION_DONE,
    GENERATION_FAILED
};

struct generation;
/* Called during generation_event for each delta, after the sums have grown. */
typedef void (*generation_delta_fn)(void *context, const struct generation *g,
                                    const struct chat_delta *d);

struct generation_params {
    const char *format; /* prompt.format; NULL: plain text, no parser */
    bool opens_reasoning;
    const cJSON *tools;           /* NULL: nothing is read as a call */
    bool stream_calls;            /* see chat_parser.h: a grammar holds the calls to their format */
    generation_delta_fn on_delta; /* may be NULL */
    void *context;
};

struct generation {
    struct chat_parser *parser;
    generation_delta_fn on_delta;
    void *context;
    enum generation_state state;
    struct buf reasoning, content;
    struct generation_call *calls[GENERATION_MAX_CALLS];
    int n_calls;
    int queue_position;      /* QUEUED */
    int done, total, cached; /* prefill, in tokens */
    int n_tokens;            /* generated so far */
    int n_reasoning;         /* of these, until the reasoning ended */
    bool reasons;            /* inside the reasoning block */
    double
        reasoning_ms; /* the engine's time from the first token to the reasoning's last; 0: none */
    int32_t prompt_estimate; /* as it was spent before another server counted; 0: was no estimate */
    int earlier_tokens;      /* of the text that the answer was begun with (generation_resume) */
    double earlier_reasoning_ms;
    double decode_ms;          /* the engine's time from the first token to the newest */
    double first_ms, last_ms;  /* clock_ms of the first and the newest token; 0: none */
    enum engine_finish finish; /* DONE */
    struct buf stop_string;    /* DONE by ENGINE_STOP_STRING: which one */
    struct engine_usage usage; /* DONE */
    struct err error;          /* FAILED */
};

bool generation_init(struct generation *g, const struct generation_params *p, struct err *e);
/* The answer resumes after this text of the model's, which counts as delivered. To be called before
 * the first event. */
bool generation_resume(struct generation *g, const char *text, size_t len, struct err *e);
/* Takes one event. False only for our own failures (memory). After DONE or FAILED the parser has
 * been finished. */
bool generation_event(struct generation *g, const struct engine_event *ev, struct err *e);
/* The engine vanished without DONE: delivers what the parser held back; the state becomes FAILED
 * with *why. */
void generation_break(struct generation *g, const struct err *why);
void generation_fini(struct generation *g);

/* Of another server's answer: has any server got the prompt, and may charge for it? As far as is
 * known: where none was asked, the reason of the failure says so. */
bool generation_was_asked(const struct generation *g);
/* Tokens that count for limits at the end: those generated, and what the prompt had more than was
 * estimated. */
int64_t generation_spent(const struct generation *g);
double generation_rate(const struct generation *g); /* tokens/s over the answer so far, by the
                                                       engine's clock; 0 before two tokens */
/* "stop", "length", "tool_calls"; NULL while it runs or when it failed. */
const char *generation_finish_reason(const struct generation *g);
/* A call's arguments as an object. What is none, since the answer was cut off, goes under the
 * member INVALID_JSON. */
void generation_put_arguments(struct buf *out, const char *text, size_t len);
/* The calls as OpenAI's array [{id, type, function:{name, arguments}}]; NULL when there are none.
 * Caller owns it. */
cJSON *generation_calls_json(const struct generation *g);
