/* POST /v1/embeddings, and Ollama's /api/embed and /api/embeddings: not done, and said so. The families that run here are trained to continue text: a hidden state of
 * theirs is no embedding that anything was trained to compare, and one that is served as such would mislead. */
#include "fcgi/ollama.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"

static bool refuse(struct request *r, struct err *e)
{
    reply_header(r, "X-Should-Retry", "false"); /* OpenAI's clients try a 5xx again otherwise */
    r->hint.status = 501;
    r->hint.code = "not_implemented";
    return err_set(e, ERR_UNSUPPORTED, "this model is trained to continue text, not to embed it: there are no embeddings here");
}

const struct route api_embeddings_routes[] = {
    {HTTP_POST, "/v1/embeddings", ROUTE_USER, POOL_SHORT, ROUTE_JSON_BODY, refuse, SCOPE_INFERENCE,
     {.summary = "Refused with 501: the model makes no embeddings", .body = "EmbeddingsRequest",
      .statuses = "501"}},
    {HTTP_POST, "/api/embed", ROUTE_USER, POOL_SHORT, ROUTE_JSON_BODY, refuse, SCOPE_INFERENCE,
     {.summary = "Refused with 501: the model makes no embeddings", .body = "OllamaRefused", OLLAMA_FORM, .statuses = "501"}},
    {HTTP_POST, "/api/embeddings", ROUTE_USER, POOL_SHORT, ROUTE_JSON_BODY, refuse, SCOPE_INFERENCE,
     {.summary = "Refused with 501: the model makes no embeddings", .body = "OllamaRefused", OLLAMA_FORM, .statuses = "501"}},
    {0},
};
