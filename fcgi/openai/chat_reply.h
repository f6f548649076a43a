/* How a chat completion is shown: as one JSON object, or as a stream of chunks. Both listen to an
 * inference. */
#pragma once
#include "engine/base/buf.h"
#include "fcgi/inference/answer_stream.h"
#include "fcgi/inference/inference.h"
#include "fcgi/openai/chat_job.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/openai.h"

struct request;

struct chat_whole {
    struct request *r;
    const struct chat_request *c;
    const struct inference *x;
    struct buf logprobs[INFERENCE_MAX_CHOICES]; /* items of each choice */
    struct buf scores;                          /* of the prompt, where they were asked for */
};
struct answer_view chat_whole_view(struct chat_whole *w, struct request *r,
                                   const struct chat_request *c, const struct inference *x);
void chat_whole_fini(struct chat_whole *w);

struct chat_stream {
    struct answer_stream stream;
    const struct chat_request *c;
    struct buf head; /* of every chunk: id, created, model */
    struct buf
        logprobs[INFERENCE_MAX_CHOICES]; /* items not sent yet: they go with the next chunk */
};
struct answer_view chat_stream_view(struct chat_stream *s, struct request *r,
                                    const struct chat_request *c, const struct inference *x);
void chat_stream_fini(struct chat_stream *s);
