/* POST /v1/completions: reads the request, runs its jobs and shows the answer. */
#define LOG_MODULE "completions"
#include <stdio.h>

#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/completions.h"

static bool answer(struct request *r, const struct completions_request *c, struct err *e)
{
    struct inference x = {0};
    struct inference_params p = completions_params(c, r);
    struct completions_view v;
    p.listener = completions_listener(&v, r, c, &x);
    bool ok = inference_start(&x, r, &p, e);
    if (ok && c->streaming.stream) {
        struct err broken = {0};
        completions_stream_begin(&v);
        bool whole = inference_run(&x, &broken);
        completions_stream_end(&v, whole ? NULL : &broken);
        if (!whole && !r->client_gone)
            log_warn("id=%s stream ended with %s: %s", r->id, err_code_name(broken.code), broken.text);
    } else if (ok) {
        ok = inference_run(&x, e);
        if (ok)
            completions_reply(&v);
    }
    completions_view_fini(&v);
    inference_end(&x);
    return ok;
}

static bool complete_text(struct request *r, struct err *e)
{
    struct completions_request c;
    bool ok = completions_read(&c, r, e) && answer(r, &c, e);
    if (!ok && e->code == ERR_LIMIT && !e->field[0])
        snprintf(e->field, sizeof e->field, "prompt");
    completions_request_fini(&c);
    return ok;
}

const struct route api_completions_routes[] = {
    {.method = HTTP_POST, .path = "/v1/completions", .auth = ROUTE_USER, .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY, .handler = complete_text, .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Go on with a text", .body = "CompletionRequest", .reply = "Completion",
             .statuses = "200", .streams = true}},
    {0},
};
