/* From a checked chat request to its answer: prompt, jobs, waiting, usage. The same for each endpoint whose answer is
 * a chat (chat/completions, responses, messages); they differ only in how they read and how they show.
 * Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/openai/chat_request.h"

struct request;

/* Renders and tokenizes the conversation and fills *p, all but the listener. *p borrows from c and prompt; the caller
 * calls prompt_fini in any case. Errors about the conversation name c->source. */
bool chat_job_make(struct inference_params *p, struct prompt *prompt, struct request *r, struct chat_request *c,
                   struct err *e);

struct chat_view { /* how the answer is shown; both functions get listener.context */
    struct inference_listener listener;
    void (*begin)(void *context); /* a stream begins: from here on errors travel inside it. NULL: a whole reply */
    void (*end)(void *context, const struct err *broken); /* the reply, or a stream's last events; broken: why it is
                                                             cut short, only for streams */
};
/* Runs the jobs in *x (zeroed; the caller calls inference_end in any case) and counts the usage. */
bool chat_job_run(struct inference *x, struct request *r, const struct inference_params *p, const struct chat_view *v,
                  struct err *e);
