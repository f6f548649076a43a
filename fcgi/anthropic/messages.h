/* POST /v1/messages, Anthropic's form of a chat: the request is turned into chat's own, the answer
 * is shown as a list of blocks. Thread: the request's. */
#pragma once
#include "fcgi/inference/answer_stream.h"
#include "fcgi/openai/chat_job.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/parts.h"

struct request;

/* counts: for count_tokens, which wants no max_tokens and reads no sampling fields. */
bool messages_read(struct chat_request *c, struct request *r, bool counts, struct err *e);

/* cache_control of the body, its system, tools, messages' blocks and tool results. */
bool messages_read_cache(struct chat_request *c, const cJSON *body, struct err *e);

/* After an error of chat's readers: the field as this request names it. Always false. */
bool messages_rename(struct err *e);

struct messages_view {           /* both forms */
    struct answer_stream stream; /* `line` holds the whole form too */
    int n_prompt, max_tokens;
    struct parts parts;
    bool begun; /* message_start was sent */
    bool pinged;
    bool cache_marked;    /* the request has a cache_control */
    int64_t keep_seconds; /* its ttl; 0: without */
};
struct answer_view messages_view(struct messages_view *v, struct request *r,
                                 const struct chat_request *c, const struct inference_params *p,
                                 const struct inference *x);
void messages_view_fini(struct messages_view *v);
