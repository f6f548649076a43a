/* POST /v1/chat/completions, streamed and whole. */
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_job.h"
#include "fcgi/openai/chat_reply.h"

static bool answer_whole(struct request *r, const struct chat_request *c,
                         const struct inference_params *p, struct err *e)
{
    struct inference x = {0};
    struct chat_whole whole;
    struct answer_view v = chat_whole_view(&whole, r, c, &x);
    bool ok = answer_view_run(&x, r, p, &v, e);
    chat_whole_fini(&whole);
    inference_end(&x);
    return ok;
}

static bool answer_streamed(struct request *r, const struct chat_request *c,
                            const struct inference_params *p, struct err *e)
{
    struct inference x = {0};
    struct chat_stream s;
    struct answer_view v = chat_stream_view(&s, r, c, &x);
    bool ok = answer_view_run(&x, r, p, &v, e);
    chat_stream_fini(&s);
    inference_end(&x);
    return ok;
}

static bool complete_chat(struct request *r, struct err *e)
{
    struct chat_request c;
    struct prompt prompt = {0};
    struct inference_params p;
    bool ok = chat_request_read(&c, r, e) && chat_job_make(&p, &prompt, r, &c, e) &&
              (c.streaming.stream ? answer_streamed(r, &c, &p, e) : answer_whole(r, &c, &p, e));
    prompt_fini(&prompt);
    chat_request_fini(&c);
    return ok;
}

const struct route api_chat_routes[] = {
    {.method = HTTP_POST,
     .path = "/v1/chat/completions",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = complete_chat,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Answer a chat",
             .body = "ChatRequest",
             .reply = "ChatCompletion",
             .statuses = "200",
             .streams = true}},
    {.method = HTTP_POST,
     .path = "/chat/completions",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = complete_chat,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same as /v1/chat/completions",
             .body = "ChatRequest",
             .reply = "ChatCompletion",
             .statuses = "200",
             .streams = true}},
    {0},
};
