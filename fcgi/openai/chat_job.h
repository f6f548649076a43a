/* From a checked chat request to its job: prompt, grammar, sampling. The same for each endpoint
 * whose answer is a chat (chat/completions, responses, messages); they differ only in how they read
 * and how they show. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/inference/answer_view.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/openai/chat_request.h"

struct request;

/* Renders and tokenizes the conversation and fills *p, all but the listener. *p borrows from c and
 * prompt; the caller calls prompt_fini in any case. Errors about the conversation name c->source.
 */
/* Can the prompt's tokens be counted here? Not where another server answers: ERR_UNSUPPORTED. */
bool chat_job_counts(const struct request *r, struct err *e);
bool chat_job_make(struct inference_params *p, struct prompt *prompt, struct request *r,
                   struct chat_request *c, struct err *e);
