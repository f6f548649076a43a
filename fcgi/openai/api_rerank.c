/* POST /v1/rerank, in the form of Cohere, Jina and vLLM: documents in the order in which they
 * answer a query, each with its score. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/text_job.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/openai.h"

static const struct field_row fields[] = {
    {"model", FIELD_READ},     {"query", FIELD_READ},
    {"documents", FIELD_READ}, {"texts", FIELD_READ},
    {"top_n", FIELD_READ},     {"return_documents", FIELD_READ},
    {"truncate", FIELD_READ},  {"instruction", FIELD_READ},
    {"user", FIELD_INERT},     {0},
};

struct rerank { /* one request */
    const char *model, *query, *instruction;
    const cJSON *documents;
    int64_t top_n; /* 0: all */
    bool return_documents, truncate;
};

struct ranked {
    int32_t index;
    float score;
    const char *text;
};

/* A string, or an object with its text. */
static const char *text_of(const cJSON *document)
{
    const cJSON *text = cJSON_IsObject(document) ? json_member(document, "text") : document;
    return cJSON_IsString(text) ? text->valuestring : NULL;
}

static bool read_request(struct request *r, struct rerank *q, struct err *e)
{
    const cJSON *body = field_body(r, e), *texts = NULL;
    *q = (struct rerank){.truncate = true}; /* as Cohere cuts documents */
    if (!body || !fields_take(r, body, fields, e) ||
        !json_get_string(body, "model", &q->model, e) ||
        !json_get_string(body, "query", &q->query, e) ||
        !json_get_string(body, "instruction", &q->instruction, e) ||
        !json_get_array(body, "documents", &q->documents, e) ||
        !json_get_array(body, "texts", &texts, e) ||
        !json_get_int(body, "top_n", 1, INT32_MAX, &q->top_n, e) ||
        !json_get_bool(body, "return_documents", &q->return_documents, e) ||
        !json_get_bool(body, "truncate", &q->truncate, e))
        return false;
    q->documents = q->documents ? q->documents : texts;
    if (!q->query || !q->query[0])
        return err_field(e, ERR_INPUT, "query", "is needed: what the documents should answer");
    return (q->documents && q->documents->child) ||
           err_field(e, ERR_INPUT, "documents", "are needed: a list of texts");
}

static bool add_documents(struct text_job *j, const struct rerank *q, struct err *e)
{
    char field[32], text[sizeof e->text];
    int i = 0;
    if (!text_job_begin_query(j, &(struct text_query){q->query, q->instruction}, e))
        return false;
    for (const cJSON *one = q->documents->child; one; one = one->next, i++) {
        snprintf(field, sizeof field, "documents[%d]", i);
        const char *document = text_of(one);
        if (!document)
            return err_field(e, ERR_INPUT, field, "neither a text nor an object with \"text\"");
        if (text_job_add_document(j, document, e))
            continue;
        if (e->field[0] || (e->code != ERR_INPUT && e->code != ERR_LIMIT))
            return false;
        snprintf(text, sizeof text, "%s", e->text);
        return err_field(e, e->code, field, "with the query, %s", text);
    }
    return true;
}

/* The best first; equal ones in the order in which they came. */
static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static struct ranked *rank(const struct text_job *j, const struct rerank *q)
{
    struct ranked *list = calloc((size_t)j->n_texts, sizeof *list);
    const cJSON *one = q->documents->child;
    for (int32_t i = 0; list && i < j->n_texts; i++, one = one->next)
        list[i] = (struct ranked){i, j->values[i], text_of(one)};
    if (list)
        qsort(list, (size_t)j->n_texts, sizeof *list, by_score);
    return list;
}

static bool reply(struct request *r, const struct text_job *j, const struct rerank *q,
                  struct err *e)
{
    struct buf b = {0};
    char id[OPENAI_ID_SIZE];
    struct ranked *list = rank(j, q);
    const int64_t n = q->top_n && q->top_n < j->n_texts ? q->top_n : j->n_texts;
    if (!list)
        return err_set(e, ERR_NOMEM, "no memory for the results");
    openai_id(id, "rerank-", r);
    buf_printf(&b, "{\"id\":\"%s\",\"object\":\"list\",\"model\":", id);
    buf_json_string(&b, j->model->id, strlen(j->model->id));
    buf_puts(&b, ",\"results\":[");
    for (int64_t i = 0; i < n; i++) {
        buf_printf(&b, "%s{\"index\":%d,\"relevance_score\":%.9g", i ? "," : "", (int)list[i].index,
                   (double)list[i].score);
        if (q->return_documents) {
            buf_puts(&b, ",\"document\":{\"text\":");
            buf_json_string(&b, list[i].text, strlen(list[i].text));
            buf_putc(&b, '}');
        }
        buf_putc(&b, '}');
    }
    buf_printf(&b, "],\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}",
               (long long)j->tokens, (long long)j->tokens);
    ignored_write(&b, r);
    buf_putc(&b, '}');
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    free(list);
    return true;
}

static bool rank_documents(struct request *r, struct err *e)
{
    struct rerank q;
    struct text_job j = {0};
    bool ok = read_request(r, &q, e) && text_job_begin(&j, r, ENGINE_TASK_SCORE, q.model, e);
    j.truncate = q.truncate;
    ok = ok && add_documents(&j, &q, e) && text_job_run(&j, 0, e) && reply(r, &j, &q, e);
    text_job_fini(&j);
    return ok;
}

static bool rerank(struct request *r, struct err *e)
{
    return rank_documents(r, e) || openai_error_again(r, e);
}

#define RERANK(where, words)                                                                       \
    {                                                                                              \
        .method = HTTP_POST, .path = (where), .auth = ROUTE_USER, .pool = POOL_STREAM,             \
        .body_limit = ROUTE_CHAT_BODY, .handler = rerank, .scope = SCOPE_INFERENCE, .doc = {       \
            .summary = (words),                                                                    \
            .body = "RerankRequest",                                                               \
            .reply = "Rerank",                                                                     \
            .statuses = "200 404"                                                                  \
        }                                                                                          \
    }

const struct route api_rerank_routes[] = {
    RERANK("/v1/rerank", "Put documents into the order in which they answer a query"),
    RERANK("/v2/rerank", "The same as /v1/rerank, where Cohere's clients look for it"),
    RERANK("/rerank", "The same as /v1/rerank"),
    {0},
};
