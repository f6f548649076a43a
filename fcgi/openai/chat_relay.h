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
/* Its members that say how the answer is made, each behind a comma. */
bool chat_relay_put_settings(struct buf *out, const struct chat_request *c, struct err *e);
/* Who asks, as far as the relay has to know: the request's id, and the servers it came through.
 * ERR_UNAVAILABLE, and the reply says so: it has come back to this one (relay_via.h). */
bool chat_relay_origin(struct engine_relay *out, struct request *r, struct err *e);
/* The same for texts that begin alike. */
uint64_t chat_relay_affinity_of(const struct request *r, const char *text);
/* The same for all turns of a conversation: they go to one upstream, whose prompt cache has it. */
uint64_t chat_relay_affinity(const struct request *r, const cJSON *messages);
/* Tokens that the answer may have, and be charged for; -1: neither the request nor a limit says. */
int64_t chat_relay_most(const struct chat_request *c);
int64_t chat_relay_tokens(const struct buf *request); /* of the prompt, estimated */
