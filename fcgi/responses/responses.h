/* POST /v1/responses: OpenAI's newer form of a chat. The request's items are turned into chat's
 * messages, the answer is shown as items, whole or as events, and is kept in the store for
 * previous_response_id. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "fcgi/http/dialect.h"
#include "fcgi/inference/answer_stream.h"
#include "fcgi/openai/chat_build.h"
#include "fcgi/openai/chat_job.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/parts.h"

struct request;
struct store_openai_item;
struct store_response;

#define RESPONSES_ID_SIZE 64
#define RESPONSES_KEPT_MS ((int64_t)30 * 24 * 3600 * 1000) /* as long as OpenAI keeps them */
#define RESPONSES_MAX_CHAIN 512                            /* responses behind one another */

struct responses_request { /* zeroed, then responses_read; responses_request_fini in any case */
    struct chat_request chat;
    cJSON *input; /* this request's own items, as they are stored; owned */
    cJSON *chain; /* the items before them, oldest first: trees of the store's rows; owned */
    const char *previous;                 /* previous_response_id or NULL */
    const char *conversation;             /* its id, or NULL */
    int64_t conversation_position;        /* of the last of its items in `chain` */
    const struct store_openai_item *rows; /* the input as it goes there */
    bool appended;                        /* false: the conversation could not take what was said */
    bool store, logprobs;
    bool summary;    /* reasoning is given as its summary too */
    bool truncate;   /* truncation: auto */
    bool compacts;   /* all is there to be summarised; what is dropped: the model's steps first */
    struct buf echo; /* the request's fields as the answer repeats them: ,"name":value... */
};

/* counts: for /v1/responses/input_tokens. */
bool responses_read(struct responses_request *q, struct request *r, bool counts, struct err *e);
/* instructions, then what came before (previous_response_id or conversation), then the input:
 * q->chat.messages, q->input, q->chain. */
bool responses_read_items(struct responses_request *q, struct request *r, struct chat_build *b,
                          const cJSON *body, struct err *e);
/* At most 16 short strings; NULL is none. */
bool responses_metadata(const cJSON *metadata, struct err *e);
/* The job; with truncation: auto the oldest turns are dropped until the prompt leaves room for an
 * answer. */
bool responses_job_make(struct inference_params *p, struct prompt *prompt, struct request *r,
                        struct responses_request *q, struct err *e);
/* After an error of chat's readers: the field as this request names it. Always false. */
bool responses_rename(struct err *e);
void responses_request_fini(struct responses_request *q);

struct responses_reader {
    struct request *r;
    struct chat_build *build;
    int files;   /* that were read */
    bool before; /* what came before the input: it may end with images alone */
};
/* Adds an input item, of the request or of the store, to the conversation; i: its place, for
 * errors. What a text model cannot read becomes a text that says so, or is named as ignored. */
bool responses_add_item(struct responses_reader *rd, const cJSON *item, int i, struct err *e);
/* The request's `input` as the list of items that is stored: messages have a type and their content
 * as parts, all have ids. NULL: *e. */
cJSON *responses_input_items(const struct request *r, const cJSON *input, struct err *e);

/* "msg_...": of the request's item number n. */
void responses_item_id(char out[RESPONSES_ID_SIZE], const char *prefix, const struct request *r,
                       int n);

struct responses_before { /* what comes before an input */
    const char *field;    /* of the request, that names it */
    cJSON *items;         /* the array that the items are added to */
    size_t bytes, values; /* so far: it is a body that was sent in parts, and has a body's limits */
    int64_t position;     /* of the last item, where they are a conversation's */
};
/* The items of the chain that ends with the response `id`, added to the array `out`. ERR_NOTFOUND:
 * it, or one before it, is not there (any more). */
bool responses_chain(struct request *r, const char *id, cJSON *out, struct err *e);
/* The same of what came before a response that was kept. */
bool responses_chain_before(struct request *r, const struct store_response *row, cJSON *out,
                            struct err *e);
/* Counts the text of items in; ERR_LIMIT (413). */
bool responses_before_count(struct responses_before *before, struct request *r, const char *text,
                            struct err *e);

/* The request's `conversation`, "conv_..." or {"id"}, into q->conversation; its items are added to
 * q->chain. */
bool responses_conversation_read(struct responses_request *q, struct request *r, const cJSON *body,
                                 struct err *e);
/* Adds the items of a conversation up to a position. ERR_NOTFOUND. */
bool responses_conversation_items(struct request *r, const char *id, int64_t until,
                                  struct responses_before *before, struct err *e);
/* Items as rows, with texts in the request's arena. ERR_INPUT at field[i].id: none that can be
 * kept, or one that is there twice, or that the conversation (may be NULL) has. */
struct store_openai_item *responses_conversation_rows(struct request *r, const char *conversation,
                                                      const cJSON *items, const char *field,
                                                      struct err *e);

/* POST /v1/responses/compact. */
bool responses_compact(struct request *r, struct err *e);
/* A compaction's text as `encrypted_content`: plain, and safe against damage. */
void responses_compaction_write(struct buf *out, const char *summary, size_t len);
/* NULL: not one of this server's, or damaged. In the request's arena. */
const char *responses_compaction_read(struct request *r, const char *content);

struct responses_view {          /* both forms */
    struct answer_stream stream; /* `line` holds the whole form too */
    struct responses_request *q;
    int64_t created, completed; /* Unix seconds; completed 0: not yet */
    struct parts parts;
    struct buf pending; /* logprobs of tokens whose text has not come yet */
    int sequence;       /* number of the next event */
};
struct answer_view responses_view(struct responses_view *v, struct request *r,
                                  struct responses_request *q, const struct inference *x);
void responses_view_fini(struct responses_view *v);
/* "rs_...", "msg_...", "fc_...": of the answer's part. */
void responses_part_id(char out[RESPONSES_ID_SIZE], const struct responses_view *v, int index);
/* The parts as items, and the response object. status: "in_progress", "completed", ... */
void responses_put_item(struct buf *b, const struct responses_view *v, int index,
                        const char *status);
void responses_put(struct buf *b, const struct responses_view *v, const char *status,
                   const struct err *error);
void responses_put_usage(struct buf *b, const struct generation *g);
/* "completed" or "incomplete". */
const char *responses_status(const struct responses_view *v);
/* Writes the finished response into v->line, and into the store where the request wants that. What
 * could not be stored says so: "store": false. */
void responses_finish(struct responses_view *v);
/* What was asked and answered goes into the conversation, at once or not at all; what could not go
 * says so: a warning, and "conversation": null. */
void responses_conversation_append(struct responses_view *v);
/* Makes the view a stream. */
void responses_stream(struct responses_view *v, struct answer_view *view);

extern const struct api_dialect
    responses_dialect; /* of POST /v1/responses: its streams end in its own words */
