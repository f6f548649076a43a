/* Parts of OpenAI's JSON that its endpoints share. Written straight into a buffer: a chunk per
 * token is the worker's hot path. No state. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/tokenizer/vocab.h"

struct inference;
struct request;
struct stream_options;

#define OPENAI_ID_SIZE 48

/* "chatcmpl-..." from the request's id, so that log, header and answer name each other. */
void openai_id(char out[OPENAI_ID_SIZE], const char *prefix, const struct request *r);
/* Tells OpenAI's clients not to send a request again that failed, unless it is the server's state
 * that may be another one then (429, 503). Always false. */
bool openai_error_again(struct request *r, const struct err *e);
/* {"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...  (no closing brace) */
void openai_head(struct buf *b, const char *id, const char *object, const struct request *r);
/* {"prompt_tokens":...}; reasoning_tokens < 0: not said */
void openai_usage(struct buf *b, const struct engine_usage *u, int reasoning_tokens);
/* Appends ,"usage":... to a chunk of a stream, as the request asked for it. */
void openai_usage_so_far(struct buf *b, const struct stream_options *o, const struct inference *x,
                         int reasoning_tokens);
/* The chunk without choices that ends a stream whose request asked for its usage. */
void openai_usage_chunk(struct buf *b, const struct buf *head, const struct inference *x,
                        int reasoning_tokens);
/* {"queue_ms":...}: this server's own, truthful about where the time went. */
void openai_timings(struct buf *b, const struct engine_usage *u);
/* A log probability as a JSON number: finite, nine digits. */
void openai_logprob(struct buf *b, float logprob);
/* Appends ,{"ID":{"logprob","rank","decoded_token"},...} for a token of a prompt, as vLLM has it:
 * the token itself, then its n_top likeliest alternatives. */
void openai_prompt_logprob(struct buf *b, const struct vocab *v, const struct engine_token *t,
                           int n_top);
/* "token":"...","logprob":-0.1,"bytes":[104,105] */
void openai_token_members(struct buf *b, const struct vocab *v, int32_t id, float logprob);
/* Appends the items of choices[].logprobs.content for these tokens, comma-separated. */
void openai_logprobs(struct buf *items, const struct vocab *v, const struct engine_token *tokens,
                     int n);
/* The same of an event, also of one that another server's answer made. */
void openai_event_logprobs(struct buf *items, const struct request *r,
                           const struct engine_event *ev);
/* A vector as a list of numbers, with the digits that a float has. */
void embeddings_put_vector(struct buf *b, const float *v, int32_t n);
