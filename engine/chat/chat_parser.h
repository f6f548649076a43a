/* A model's text to reasoning, content and tool calls, as a stream. Fed with any split of the text
 * it gives the same joined results, with their deltas as early as can be. Nothing is lost: a
 * malformed call comes back as content. A call is given out when it is complete; with stream_calls
 * its name leaves once it is known to be a tool's and the arguments have begun, then the arguments
 * as they are written (llama3's calls are known only at the end of the text), and one that breaks
 * after that keeps its arguments as the model wrote them and has no CHAT_CALL_END. One parser
 * belongs to one answer; not thread-safe. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct chat_parser;

enum chat_delta_type {
    CHAT_REASONING, /* text */
    CHAT_CONTENT,   /* text */
    CHAT_CALL,      /* a tool call begins: index, name */
    CHAT_ARGUMENTS, /* a piece of the arguments' JSON text of call `index` */
    CHAT_CALL_END,  /* the call is complete and its arguments are whole JSON */
};

struct chat_delta {
    enum chat_delta_type type;
    int index;        /* of the call, from 0 */
    const char *name; /* CHAT_CALL only */
    const char *text; /* valid during the callback */
    size_t len;
};
typedef void (*chat_delta_fn)(void *context, const struct chat_delta *d);

struct chat_parser_params {
    const char *format;   /* chat_traits.format */
    bool opens_reasoning; /* the prompt ended inside a reasoning block */
    const cJSON *tools;   /* the request's tools or NULL: then nothing is read as a call */
    bool stream_calls; /* give calls out while they are written: where a grammar holds the text to
                          the format, since a call that was begun can't be taken back; else a call
                          comes when it is complete */
    chat_delta_fn on_delta;
    void *context;
};

/* Does this format's markup consist of control tokens (VOCAB_SPECIAL)? Then the parser must be fed
 * text in which they are spelled out (detokenizer_init with special_text), but for those that end
 * the answer. */
bool chat_format_special_text(const char *format);
/* The tags around this format's reasoning; false: it has none of that kind (harmony has a channel,
 * "plain" may). */
bool chat_format_reasoning(const char *format, const char **open, const char **close);

/* The format "relayed": another server has told reasoning, content and calls apart, and each text
 * comes behind one of these bytes, which no UTF-8 holds. A call is its name, arguments, an end. */
#define CHAT_RELAYED_FORMAT "relayed"
enum chat_relayed {
    CHAT_RELAYED_CONTENT = 0xF8,
    CHAT_RELAYED_REASONING,
    CHAT_RELAYED_CALL, /* the name follows */
    CHAT_RELAYED_ARGUMENTS,
    CHAT_RELAYED_CALL_END,
    CHAT_RELAYED_LOGPROBS, /* of what follows, as chat_relayed_logprobs reads them: no text */
};
/* The first such piece of an event's text from *at on; *at moves behind it. 0: there is none. */
size_t chat_relayed_logprobs(const char **at, const char *end, const char **piece);

struct chat_parser *chat_parser_create(const struct chat_parser_params *p, struct err *e);
bool chat_parser_push(struct chat_parser *p, const char *text, size_t len, struct err *e);
/* End of the answer; gives out what was held back. */
bool chat_parser_finish(struct chat_parser *p, struct err *e);
void chat_parser_destroy(struct chat_parser **p);
