/* Ollama's POST /api/embed and the older /api/embeddings: the same vectors as /v1/embeddings. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/text_job.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/openai/openai.h"

static const struct field_row embed_fields[] = {
    {"model", FIELD_READ},
    {"input", FIELD_READ},
    {"truncate", FIELD_READ},
    {"dimensions", FIELD_READ},
    {"options", FIELD_INERT},
    {"keep_alive", FIELD_INERT},
    {0},
};
static const struct field_row old_fields[] = {
    {"model", FIELD_READ},
    {"prompt", FIELD_READ},
    {"options", FIELD_INERT},
    {"keep_alive", FIELD_INERT},
    {0},
};

static bool begin(struct request *r, const cJSON *body, struct text_job *j, struct err *e)
{
    const char *name = NULL;
    if (!ollama_name(body, &name, e))
        return false;
    if (!name)
        return err_field(e, ERR_INPUT, "model", "is needed");
    return text_job_begin(j, r, ENGINE_TASK_EMBED, name, e);
}

/* What is wrong with a text, behind the field that it came in. */
static bool add_text(struct text_job *j, const char *field, const char *text, struct err *e)
{
    char what[sizeof e->text];
    if (text_job_add(j, text, e))
        return true;
    if (e->field[0] || (e->code != ERR_INPUT && e->code != ERR_LIMIT))
        return false;
    snprintf(what, sizeof what, "%s", e->text);
    return err_field(e, e->code, field, "text %d %s", (int)j->n_texts, what);
}

static bool add_texts(struct text_job *j, const cJSON *input, struct err *e)
{
    if (cJSON_IsString(input))
        return add_text(j, "input", input->valuestring, e);
    if (!cJSON_IsArray(input))
        return err_field(e, ERR_INPUT, "input", "is needed: a text, or a list of texts");
    for (const cJSON *one = input->child; one; one = one->next) {
        if (!cJSON_IsString(one))
            return err_field(e, ERR_INPUT, "input", "text %d is no string", (int)j->n_texts);
        if (!add_text(j, "input", one->valuestring, e))
            return false;
    }
    return j->n_texts > 0 || err_field(e, ERR_INPUT, "input", "the list is empty");
}

static void put_embeddings(struct request *r, const struct text_job *j)
{
    struct buf b = {0};
    buf_puts(&b, "{\"model\":");
    buf_json_string(&b, j->model->id, strlen(j->model->id));
    buf_puts(&b, ",\"embeddings\":[");
    for (int32_t i = 0; i < j->n_texts; i++) {
        if (i)
            buf_putc(&b, ',');
        embeddings_put_vector(&b, j->values + (size_t)i * (size_t)j->dimensions, j->dimensions);
    }
    /* nanoseconds, as Ollama counts; the model is in memory already */
    buf_printf(&b, "],\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%lld",
               (j->queue_ms + j->compute_ms) * 1e6, (long long)j->tokens);
    ignored_write(&b, r);
    buf_putc(&b, '}');
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
}

static bool embed(struct request *r, struct err *e)
{
    struct text_job j = {0};
    const cJSON *body = field_body(r, e);
    int64_t dimensions = 0;
    bool truncate = true;
    bool ok = body && fields_take(r, body, embed_fields, e) &&
              json_get_int(body, "dimensions", 1, 65536, &dimensions, e) &&
              json_get_bool(body, "truncate", &truncate, e) && begin(r, body, &j, e);
    j.truncate = truncate;
    ok = ok && add_texts(&j, json_member(body, "input"), e) &&
         text_job_run(&j, (int32_t)dimensions, e);
    if (ok)
        put_embeddings(r, &j);
    text_job_fini(&j);
    return ok;
}

static bool embed_one(struct request *r, struct err *e)
{
    struct text_job j = {0};
    struct buf b = {0};
    const char *prompt = NULL;
    const cJSON *body = field_body(r, e);
    bool ok = body && fields_take(r, body, old_fields, e) &&
              json_get_string(body, "prompt", &prompt, e) &&
              (prompt || err_field(e, ERR_INPUT, "prompt", "is needed: the text")) &&
              begin(r, body, &j, e);
    j.truncate = true;
    ok = ok && add_text(&j, "prompt", prompt, e) && text_job_run(&j, 0, e);
    if (ok) {
        buf_puts(&b, "{\"embedding\":");
        embeddings_put_vector(&b, j.values, j.dimensions);
        ignored_write(&b, r);
        buf_putc(&b, '}');
        reply_json_buf(r, 200, &b);
    }
    buf_fini(&b);
    text_job_fini(&j);
    return ok;
}

const struct route api_ollama_embed_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/embed",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = embed,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Make vectors of texts, in Ollama's form",
             .body = "OllamaEmbedRequest",
             .reply = "OllamaEmbeddings",
             OLLAMA_FORM,
             .statuses = "200 404"},
     .dialect = &ollama_dialect},
    {.method = HTTP_POST,
     .path = "/api/embeddings",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = embed_one,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Make a vector of one text, in Ollama's older form",
             .body = "OllamaEmbeddingRequest",
             .reply = "OllamaEmbedding",
             OLLAMA_FORM,
             .statuses = "200 404"},
     .dialect = &ollama_dialect},
    {0},
};
