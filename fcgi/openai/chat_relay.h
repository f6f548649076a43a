/* A checked chat for a model that another server answers: the request that the relay sends on, in
 * OpenAI's form. It has what the client said of the answer, and nothing of who the client is.
 * Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/inference/inference.h"
#include "fcgi/openai/chat_request.h"

struct request;

/* Appends the JSON. ERR_UNSUPPORTED names a field that needs this server's own engine. */
bool chat_relay_put(struct buf *out, struct request *r, const struct chat_request *c,
                    struct err *e);
/* Fills *p, all but the listener; *p borrows from c. */
bool chat_relay_make(struct inference_params *p, struct request *r, struct chat_request *c,
                     struct err *e);
/* The same for all turns of a conversation: they go to one upstream, whose prompt cache has it. */
uint64_t chat_relay_affinity(const struct request *r, const cJSON *messages);
int64_t chat_relay_tokens(const struct buf *request); /* of the prompt, estimated */
