/* How a dialect shows an answer, and the run of its jobs: submission, waiting, usage, the reply or
 * the stream's end. Every endpoint that runs the model comes through here. Thread: the request's.
 */
#pragma once
#include "engine/base/err.h"
#include "fcgi/inference/inference.h"

struct answer_view { /* both functions get listener.context */
    struct inference_listener listener;
    void (*begin)(void *context); /* a stream begins: from here on errors travel inside it. NULL: a
                                     whole reply */
    void (*end)(void *context,
                const struct err *broken); /* the reply, or a stream's last events; broken: why it
                                              is cut short, only for streams */
};
/* Runs the jobs in *x (zeroed; the caller calls inference_end in any case) and counts the usage. */
bool answer_view_run(struct inference *x, struct request *r, const struct inference_params *p,
                     const struct answer_view *v, struct err *e);
