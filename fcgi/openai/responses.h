/* POST /v1/responses: OpenAI's newer form of a chat. The request's items are turned into chat's messages, the answer is
 * shown as items, whole or as events, and is kept in the store for previous_response_id. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "fcgi/http/dialect.h"
#include "fcgi/http/sse.h"
#include "fcgi/openai/chat_build.h"
#include "fcgi/openai/chat_job.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/parts.h"

struct request;

#define RESPONSES_ID_SIZE 64
#define RESPONSES_KEPT_MS ((int64_t)30 * 24 * 3600 * 1000) /* as long as OpenAI keeps them */
#define RESPONSES_MAX_CHAIN 512                            /* responses behind one another */

struct responses_request { /* zeroed, then responses_read; responses_request_fini in any case */
    struct chat_request chat;
    cJSON *input;         /* this request's own items, as they are stored; owned */
    cJSON *chain;         /* the items before them, oldest first: trees of the store's rows; owned */
    const char *previous; /* previous_response_id or NULL */
    bool store, logprobs;
    bool summary;  /* reasoning is given as its summary too */
    bool truncate; /* truncation: auto */
    struct buf echo; /* the request's fields as the answer repeats them: ,"name":value... */
};

/* counts: for /v1/responses/input_tokens. */
bool responses_read(struct responses_request *q, struct request *r, bool counts, struct err *e);
/* The job; with truncation: auto the oldest turns are dropped until the prompt leaves room for an answer. */
bool responses_job_make(struct inference_params *p, struct prompt *prompt, struct request *r, struct responses_request *q,
                        struct err *e);
/* After an error of chat's readers: the field as this request names it. Always false. */
bool responses_rename(struct err *e);
void responses_request_fini(struct responses_request *q);

struct responses_reader {
    struct request *r;
    struct chat_build *build;
    int files; /* that were read */
};
/* Adds an input item, of the request or of the store, to the conversation; i: its place, for errors. What a text model
 * cannot read becomes a text that says so, or is named as ignored. */
bool responses_add_item(struct responses_reader *rd, const cJSON *item, int i, struct err *e);
/* The request's `input` as the list of items that is stored: messages have a type and their content as parts, all have
 * ids. NULL: *e. */
cJSON *responses_input_items(const struct request *r, const cJSON *input, struct err *e);

/* "msg_...": of the request's item number n. */
void responses_item_id(char out[RESPONSES_ID_SIZE], const char *prefix, const struct request *r, int n);

/* The items of the chain that ends with the response `id`, added to the array `out`. ERR_NOTFOUND: it, or one before it,
 * is not there (any more). */
bool responses_chain(struct request *r, const char *id, cJSON *out, struct err *e);

struct responses_view { /* both forms */
    struct request *r;
    struct responses_request *q;
    const struct inference *x;
    int64_t created, completed; /* Unix seconds; completed 0: not yet */
    struct parts parts;
    struct buf pending; /* logprobs of tokens whose text has not come yet */
    struct sse sse;
    struct buf line;
    int sequence; /* number of the next event */
};
struct chat_view responses_view(struct responses_view *v, struct request *r, struct responses_request *q,
                                const struct inference *x);
void responses_view_fini(struct responses_view *v);
/* The parts as items, and the response object. status: "in_progress", "completed", ... */
void responses_put_item(struct buf *b, const struct responses_view *v, int index, const char *status);
void responses_put(struct buf *b, const struct responses_view *v, const char *status, const struct err *error);
/* "completed" or "incomplete". */
const char *responses_status(const struct responses_view *v);
/* Writes the finished response into v->line, and into the store where the request wants that. What could not be stored
 * says so: "store": false. */
void responses_finish(struct responses_view *v);
/* Makes the view a stream. */
void responses_stream(struct responses_view *v, struct chat_view *view);

extern const struct api_dialect responses_dialect; /* of POST /v1/responses: its streams end in its own words */
