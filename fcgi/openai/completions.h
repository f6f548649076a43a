/* POST /v1/completions: raw text in, raw text out. What the request says, and how the answer is
 * shown. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/inference/answer_stream.h"
#include "fcgi/inference/answer_view.h"
#include "fcgi/inference/constraint.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/settings.h"
#include "fcgi/openai/chat_request.h"

struct request;

struct completions_request {
    struct ids prompts[INFERENCE_MAX_CHOICES];
    struct buf echoes[INFERENCE_MAX_CHOICES]; /* the prompts' text, when `echo` */
    int n_prompts, n;                         /* n choices for each prompt */
    struct settings settings;
    struct stream_options streaming;
    bool echo;
    struct buf grammar;  /* compiled, of response_format or grammar; empty: free text */
    int logprobs;        /* alternatives per token; -1: none */
    int prompt_logprobs; /* vLLM's, of the prompt's tokens; -1: none */
    int scores;          /* engine_job_params.prompt_scores */
    const char *salt;
    struct buf relay; /* the request to another server; empty: this one answers */
    int64_t most_tokens;
    uint64_t affinity;
};
bool completions_read(struct completions_request *c, struct request *r, struct err *e);
/* Its steps that llama.cpp's form (llamacpp.h) shares: is there room for one prompt more, a token
 * id of a list, the form of the answer. Errors name "prompt". */
bool completions_room(const struct completions_request *c, struct err *e);
bool completions_push_id(struct ids *out, const struct vocab *v, const cJSON *item, struct err *e);
bool completions_read_form(struct completions_request *c, struct request *r, const cJSON *body,
                           struct err *e);
/* Of a model that another server answers (r->model): the prompt and what of the settings goes on.
 * ERR_UNSUPPORTED names a field that needs this server's own engine. */
bool completions_relay_read(struct completions_request *c, struct request *r, const cJSON *body,
                            struct err *e);
bool completions_relay_params(struct inference_params *p, const struct completions_request *c,
                              struct request *r, struct err *e);
/* Makes the engine's job; the caller still sets the listener. The job points into *c. */
struct inference_params completions_params(const struct completions_request *c,
                                           const struct request *r);
void completions_request_fini(struct completions_request *c);

/* The legacy logprobs object of one choice: four lists that grow together. */
struct completions_logprobs {
    struct buf tokens, logprobs, top, offsets;
    size_t offset; /* characters so far, the echoed prompt included */
};

struct completions_view { /* both forms */
    struct answer_stream stream;
    const struct completions_request *c;
    struct buf head; /* of every chunk: id, created, model */
    struct completions_logprobs logprobs[INFERENCE_MAX_CHOICES];
    struct buf scores[INFERENCE_MAX_CHOICES]; /* prompt_logprobs' items */
};
struct answer_view completions_view(struct completions_view *v, struct request *r,
                                    const struct completions_request *c, const struct inference *x);
void completions_view_fini(struct completions_view *v);
