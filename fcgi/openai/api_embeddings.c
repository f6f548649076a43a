/* POST /v1/embeddings: not done, and said so. The families that run here are trained to continue
 * text: a hidden state of theirs is no embedding that anything was trained to compare, and one that
 * is served as such would mislead. */
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/openai.h"

bool embeddings_refuse(struct request *r, struct err *e)
{
    reply_header(r, "X-Should-Retry", "false"); /* OpenAI's clients try a 5xx again otherwise */
    r->error_override.status = 501;
    r->error_override.code = "not_implemented";
    return err_set(
        e, ERR_UNSUPPORTED,
        "this model is trained to continue text, not to embed it: there are no embeddings here");
}

const struct route api_embeddings_routes[] = {
    {.method = HTTP_POST,
     .path = "/v1/embeddings",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = embeddings_refuse,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Refused with 501: the model makes no embeddings",
             .body = "EmbeddingsRequest",
             .statuses = "501"}},
    {.method = HTTP_POST,
     .path = "/embeddings",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = embeddings_refuse,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same as /v1/embeddings",
             .body = "EmbeddingsRequest",
             .statuses = "501"}},
    {.method = HTTP_POST,
     .path = "/embedding",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = embeddings_refuse,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same as /v1/embeddings",
             .body = "EmbeddingsRequest",
             .statuses = "501"}},
    {0},
};
