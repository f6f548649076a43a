/* POST /v1/embeddings: texts, or their tokens, become vectors by the embedding model's engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/text_job.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/openai.h"
#include "sql/core/base64.h"

static const struct field_row fields[] = {
    {"model", FIELD_READ},    {"input", FIELD_READ},
    {"content", FIELD_READ},  {"dimensions", FIELD_READ},
    {"truncate", FIELD_READ}, {"encoding_format", FIELD_READ},
    {"user", FIELD_INERT},    {0},
};

struct input { /* of one request */
    struct text_job *job;
    int index; /* in `input`; -1: it is no list */
};

/* "input" or "input[3]", in front of what is wrong with it. */
static bool name_input(const struct input *in, struct err *e)
{
    char text[sizeof e->text];
    if (e->field[0] || (e->code != ERR_INPUT && e->code != ERR_LIMIT))
        return false;
    snprintf(text, sizeof text, "%s", e->text);
    if (in->index < 0)
        return err_field(e, e->code, "input", "%s", text);
    char field[32];
    snprintf(field, sizeof field, "input[%d]", in->index);
    return err_field(e, e->code, field, "%s", text);
}

static bool add_numbers(const struct input *in, const cJSON *list, struct err *e)
{
    const int n = cJSON_GetArraySize(list);
    const int32_t n_vocab = vocab_size(in->job->model->text.vocab);
    int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    bool ok = ids || err_set(e, ERR_NOMEM, "no memory for %d tokens", n);
    int i = 0;
    for (const cJSON *one = list->child; ok && one; one = one->next) {
        const double v = cJSON_IsNumber(one) ? one->valuedouble : -1;
        ok = (v >= 0 && v < n_vocab && v == floor(v)) ||
             err_set(e, ERR_INPUT, "token %d is no id from 0 to %d", i, (int)n_vocab - 1);
        if (ok)
            ids[i++] = (int32_t)v;
    }
    ok = ok && text_job_add_ids(in->job, ids, i, e);
    free(ids);
    return ok || name_input(in, e);
}

static bool add_one(const struct input *in, const cJSON *v, struct err *e)
{
    if (cJSON_IsString(v))
        return text_job_add(in->job, v->valuestring, e) || name_input(in, e);
    if (cJSON_IsArray(v) && cJSON_IsNumber(v->child))
        return add_numbers(in, v, e);
    err_set(e, ERR_INPUT, "neither a text nor a list of token ids");
    return name_input(in, e);
}

/* A text, tokens, or a list of either. */
static bool add_input(struct text_job *j, const cJSON *input, struct err *e)
{
    struct input in = {j, -1};
    if (!input || cJSON_IsNull(input))
        return err_field(e, ERR_INPUT, "input", "is needed: a text, or a list of texts");
    if (!cJSON_IsArray(input) || cJSON_IsNumber(input->child))
        return add_one(&in, input, e);
    if (!input->child)
        return err_field(e, ERR_INPUT, "input", "the list is empty");
    for (const cJSON *one = input->child; one; one = one->next) {
        in.index++;
        if (!add_one(&in, one, e))
            return false;
    }
    return true;
}

void embeddings_put_vector(struct buf *b, const float *v, int32_t n)
{
    buf_putc(b, '[');
    for (int32_t i = 0; i < n; i++)
        buf_printf(b, "%s%.9g", i ? "," : "", (double)v[i]);
    buf_putc(b, ']');
}

/* Little-endian floats, as OpenAI's clients unpack them. */
static void put_base64(struct buf *b, const float *v, int32_t n)
{
    const size_t bytes = (size_t)n * sizeof *v, room = BASE64_CHARS(bytes);
    buf_putc(b, '"');
    if (buf_reserve(b, room)) {
        base64_encode((const unsigned char *)v, bytes, b->data + b->len, room);
        b->len += room - 1;
    }
    buf_putc(b, '"');
}

static bool reply(struct request *r, const struct text_job *j, bool base64)
{
    struct buf b = {0};
    buf_puts(&b, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < j->n_texts; i++) {
        const float *v = j->values + (size_t)i * (size_t)j->dimensions;
        buf_printf(&b, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i ? "," : "",
                   (int)i);
        if (base64)
            put_base64(&b, v, j->dimensions);
        else
            embeddings_put_vector(&b, v, j->dimensions);
        buf_putc(&b, '}');
    }
    buf_puts(&b, "],\"model\":");
    buf_json_string(&b, j->model->id, strlen(j->model->id));
    buf_printf(&b, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}",
               (long long)j->tokens, (long long)j->tokens);
    ignored_write(&b, r);
    buf_putc(&b, '}');
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    return true;
}

static bool read_format(const cJSON *body, bool *base64, struct err *e)
{
    const char *format = "float";
    if (!json_get_string(body, "encoding_format", &format, e))
        return false;
    *base64 = !strcmp(format, "base64");
    return *base64 || !strcmp(format, "float") ||
           err_field(e, ERR_INPUT, "encoding_format", "'%.40s' is unknown, want float or base64",
                     format);
}

static bool embed_texts(struct request *r, struct err *e)
{
    struct text_job j = {0};
    const cJSON *body = field_body(r, e);
    const char *model = NULL;
    int64_t dimensions = 0;
    bool base64 = false, truncate = false;
    if (!body || !fields_take(r, body, fields, e) || !json_get_string(body, "model", &model, e) ||
        !json_get_int(body, "dimensions", 1, 65536, &dimensions, e) ||
        !json_get_bool(body, "truncate", &truncate, e) || !read_format(body, &base64, e))
        return false;
    const cJSON *input = json_member(body, "input");
    bool ok = text_job_begin(&j, r, ENGINE_TASK_EMBED, model, e);
    j.truncate = truncate;
    ok = ok && add_input(&j, input ? input : json_member(body, "content"), e) &&
         text_job_run(&j, (int32_t)dimensions, e) && reply(r, &j, base64);
    text_job_fini(&j);
    return ok;
}

static bool embed(struct request *r, struct err *e)
{
    return embed_texts(r, e) || openai_error_again(r, e);
}

#define EMBEDDINGS(where, words)                                                                   \
    {                                                                                              \
        .method = HTTP_POST, .path = (where), .auth = ROUTE_USER, .pool = POOL_STREAM,             \
        .body_limit = ROUTE_CHAT_BODY, .handler = embed, .scope = SCOPE_INFERENCE, .doc = {        \
            .summary = (words),                                                                    \
            .body = "EmbeddingsRequest",                                                           \
            .reply = "Embeddings",                                                                 \
            .statuses = "200 404"                                                                  \
        }                                                                                          \
    }

const struct route api_embeddings_routes[] = {
    EMBEDDINGS("/v1/embeddings", "Make vectors of texts"),
    EMBEDDINGS("/embeddings", "The same as /v1/embeddings"),
    EMBEDDINGS("/embedding", "The same as /v1/embeddings"),
    {0},
};
