/* POST /completion, /completions and /infill: llama.cpp's own form. */
#include <stdio.h>

#include "fcgi/http/request.h"
#include "fcgi/llamacpp/llamacpp.h"

static bool answer(struct request *r, const struct llamacpp_request *q, struct err *e)
{
    struct inference x = {0};
    struct inference_params p = completions_params(&q->text, r);
    struct llamacpp_view view;
    struct answer_view v = llamacpp_view(&view, r, q, &x);
    bool ok = answer_view_run(&x, r, &p, &v, e);
    llamacpp_view_fini(&view);
    inference_end(&x);
    return ok;
}

typedef bool (*reader)(struct llamacpp_request *q, struct request *r, struct err *e);

static bool serve(struct request *r, reader read, const char *prompt_field, struct err *e)
{
    struct llamacpp_request q;
    bool ok = read(&q, r, e) && answer(r, &q, e);
    if (!ok && e->code == ERR_LIMIT && !e->field[0])
        snprintf(e->field, sizeof e->field, "%s", prompt_field);
    llamacpp_request_fini(&q);
    return ok;
}

static bool complete(struct request *r, struct err *e)
{
    return serve(r, llamacpp_read, "prompt", e);
}

static bool infill(struct request *r, struct err *e)
{
    return serve(r, llamacpp_read_infill, "input_prefix", e);
}

const struct route api_llamacpp_routes[] = {
    {.method = HTTP_POST,
     .path = "/completion",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = complete,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Go on with a text, in llama.cpp's form",
             .body = "LlamacppRequest",
             .reply = "LlamacppCompletion",
             .statuses = "200",
             .streams = true},
     .dialect = &llamacpp_dialect},
    {.method = HTTP_POST,
     .path = "/completions",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = complete,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same; OpenAI's form is at /v1/completions",
             .body = "LlamacppRequest",
             .reply = "LlamacppCompletion",
             .statuses = "200",
             .streams = true},
     .dialect = &llamacpp_dialect},
    {.method = HTTP_POST,
     .path = "/infill",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = infill,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Fill in the middle of a text, in llama.cpp's form",
             .body = "InfillRequest",
             .reply = "LlamacppCompletion",
             .statuses = "200 501",
             .streams = true},
     .dialect = &llamacpp_dialect},
    {0},
};
