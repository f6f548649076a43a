/* GET /tokenizer_info: what evaluation programs that use the server's tokenizer ask of it, under
 * vLLM's names. */
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

static void add_text(cJSON *o, const char *name, const char *text)
{
    cJSON_AddItemToObject(o, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

/* The first token that ends an answer, where the template names none. */
static const char *end_token(struct request *r, const struct text_model *m)
{
    size_t len = 0;
    const char *bytes = m->n_eos ? vocab_bytes(m->vocab, m->eos[0], &len) : NULL;
    return bytes ? arena_copy(r->arena, bytes, len) : NULL;
}

static bool show_tokenizer(struct request *r, struct err *e)
{
    const struct text_model *m = r->worker->text;
    const struct chat_template *t = m->chat_template;
    const char *eos = t && chat_template_eos(t) ? chat_template_eos(t) : end_token(r, m);
    cJSON *o = cJSON_CreateObject();
    (void)e;
    add_text(o, "tokenizer_class", "PreTrainedTokenizerFast");
    add_text(o, "bos_token", t ? chat_template_bos(t) : NULL);
    add_text(o, "eos_token", eos);
    add_text(o, "pad_token", eos); /* nothing is padded here; clients want a name for it */
    add_text(o, "chat_template", t ? chat_template_source(t) : NULL);
    cJSON_AddNumberToObject(o, "vocab_size", vocab_size(m->vocab));
    cJSON_AddNumberToObject(o, "model_max_length", m->n_ctx);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_tokenizer_routes[] = {
    {.method = HTTP_GET,
     .path = "/tokenizer_info",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_tokenizer,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Describe the tokenizer", .reply = "TokenizerInfo", .statuses = "200"}},
    {0},
};
