/* POST /completion, /completions and /infill: llama.cpp's own form. */
#define LOG_MODULE "llamacpp"
#include <stdio.h>

#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/llamacpp/llamacpp.h"

static bool answer(struct request *r, const struct llamacpp_request *q, struct err *e)
{
    struct inference x = {0};
    struct inference_params p = completions_params(&q->text, r);
    struct llamacpp_view v;
    p.listener = llamacpp_listener(&v, r, q, &x);
    bool ok = inference_start(&x, r, &p, e);
    if (ok && q->text.streaming.stream) {
        struct err broken = {0};
        llamacpp_stream_begin(&v);
        bool whole = inference_run(&x, &broken);
        llamacpp_stream_end(&v, whole ? NULL : &broken);
        if (!whole && !r->client_gone)
            log_warn("id=%s stream ended with %s: %s", r->id, err_code_name(broken.code),
                     broken.text);
    } else if (ok) {
        ok = inference_run(&x, e);
        if (ok)
            llamacpp_reply(&v);
    }
    llamacpp_view_fini(&v);
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
    {.method = HTTP_POST, .path = "/completion", .auth = ROUTE_USER, .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY, .handler = complete, .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Go on with a text, in llama.cpp's form", .body = "LlamacppRequest",
             .reply = "LlamacppCompletion", .statuses = "200", .streams = true},
     .dialect = &llamacpp_dialect},
    {.method = HTTP_POST, .path = "/completions", .auth = ROUTE_USER, .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY, .handler = complete, .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same; OpenAI's form is at /v1/completions", .body = "LlamacppRequest",
             .reply = "LlamacppCompletion", .statuses = "200", .streams = true},
     .dialect = &llamacpp_dialect},
    {.method = HTTP_POST, .path = "/infill", .auth = ROUTE_USER, .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY, .handler = infill, .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Fill in the middle of a text, in llama.cpp's form",
             .body = "InfillRequest", .reply = "LlamacppCompletion", .statuses = "200 501",
             .streams = true},
     .dialect = &llamacpp_dialect},
    {0},
};
