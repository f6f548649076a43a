/* POST /v1/completions: reads the request, runs its jobs and shows the answer. */
#include <stdio.h>

#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/completions.h"

static bool answer(struct request *r, const struct completions_request *c, struct err *e)
{
    struct inference x = {0};
    struct inference_params p;
    struct completions_view view;
    if (!r->model)
        p = completions_params(c, r);
    else if (!completions_relay_params(&p, c, r, e))
        return false;
    struct answer_view v = completions_view(&view, r, c, &x);
    bool ok = answer_view_run(&x, r, &p, &v, e);
    completions_view_fini(&view);
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
    {.method = HTTP_POST,
     .path = "/v1/completions",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = complete_text,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Go on with a text",
             .body = "CompletionRequest",
             .reply = "Completion",
             .statuses = "200",
             .streams = true}},
    {0},
};
