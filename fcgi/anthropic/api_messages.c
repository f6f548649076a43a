/* POST /v1/messages and /v1/messages/count_tokens: both read one kind of request. */
#include "fcgi/anthropic/anthropic.h"
#include "fcgi/anthropic/messages.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"

static bool answer(struct request *r, const struct chat_request *c,
                   const struct inference_params *p, struct err *e)
{
    struct inference x = {0};
    struct messages_view view;
    struct answer_view v = messages_view(&view, r, c, p, &x);
    bool ok = answer_view_run(&x, r, p, &v, e);
    messages_view_fini(&view);
    inference_end(&x);
    return ok;
}

static bool create_message(struct request *r, struct err *e)
{
    struct chat_request c;
    struct prompt prompt = {0};
    struct inference_params p;
    bool ok = messages_read(&c, r, false, e) &&
              (chat_job_make(&p, &prompt, r, &c, e) || messages_rename(e)) && answer(r, &c, &p, e);
    prompt_fini(&prompt);
    chat_request_fini(&c);
    return ok;
}

static bool count_tokens(struct request *r, struct err *e)
{
    struct chat_request c;
    struct prompt prompt = {0};
    struct inference_params p;
    struct buf b = {0};
    if (!work_begin_text(r, e))
        return false;
    bool ok = messages_read(&c, r, true, e) && chat_job_counts(r, e) &&
              (chat_job_make(&p, &prompt, r, &c, e) || messages_rename(e));
    if (ok) {
        buf_printf(&b, "{\"input_tokens\":%zu}", prompt.ids.n);
        reply_json_buf(r, 200, &b);
    }
    buf_fini(&b);
    prompt_fini(&prompt);
    chat_request_fini(&c);
    return ok;
}

const struct route api_messages_routes[] = {
    {.method = HTTP_POST,
     .path = "/v1/messages",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = create_message,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Answer a chat, in Anthropic's form",
             .body = "MessagesRequest",
             .reply = "MessagesReply",
             .error = "MessagesError",
             .statuses = "200",
             .streams = true},
     .dialect = &anthropic_dialect},
    {.method = HTTP_POST,
     .path = "/v1/messages/count_tokens",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = count_tokens,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The tokens of a prompt, in Anthropic's form",
             .body = "MessagesCount",
             .reply = "MessagesCounted",
             .error = "MessagesError",
             .statuses = "200"},
     .dialect = &anthropic_dialect},
    {0},
};
