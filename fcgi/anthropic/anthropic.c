/* anthropic.h: the codes of err.h become Anthropic's error types, in its error object. */
#include "fcgi/anthropic/anthropic.h"

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static const struct {
    int status;
    const char *type;
} types[] = {
    {400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
    {404, "not_found_error"},       {413, "request_too_large"},    {429, "rate_limit_error"},
    {503, "overloaded_error"},      {504, "timeout_error"},
};

void anthropic_error(struct buf *out, const struct request *r, const struct err *e)
{
    const int status = reply_error_status(r, e);
    const char *type = status < 500 ? "invalid_request_error" : "api_error";
    struct buf text = {0};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].status == status)
            type = types[i].type;
    if (r->error_override
            .context_tokens) /* the words by which its clients know that they have to compact */
        buf_printf(&text, "prompt is too long: %d tokens > %d maximum",
                   (int)r->error_override.prompt_tokens, (int)r->error_override.context_tokens);
    else
        buf_printf(&text, "%s%s%s", e->field, e->field[0] ? ": " : "", e->text);
    buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    buf_json_string(out, text.data ? text.data : "", text.len);
    buf_printf(out, ",\"details\":%s},\"request_id\":\"%s\"}",
               r->error_override.details ? r->error_override.details : "null", r->id);
    buf_fini(&text);
}

const struct api_dialect anthropic_dialect = {
    .error = anthropic_error,
    .request_id = "Request-Id", /* where its clients look for it */
    .stream_abort =
        {.close_event = DIALECT_SSE_CLOSE,
         .error_event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                        "\"message\":\"" DIALECT_ABORT_TEXT "\"}}\n\n"},
};
