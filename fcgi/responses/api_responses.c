/* POST /v1/responses and what was kept of them. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/inference/stored_prompt.h"
#include "fcgi/openai/openai.h"
#include "fcgi/responses/responses.h"
#include "sql/chats/store_responses.h"

#define PAGE_DEFAULT 20
#define PAGE_MAX 100

static bool answer(struct request *r, struct responses_request *q, const struct inference_params *p,
                   struct err *e)
{
    struct inference x = {0};
    struct responses_view view;
    struct answer_view v = responses_view(&view, r, q, &x);
    bool ok = answer_view_run(&x, r, p, &v, e);
    responses_view_fini(&view);
    inference_end(&x);
    return ok;
}

static bool create_response(struct request *r, struct err *e)
{
    struct responses_request q = {0};
    struct prompt prompt = {0};
    struct inference_params p;
    char id[OPENAI_ID_SIZE];
    bool ok = responses_read(&q, r, false, e) && responses_job_make(&p, &prompt, r, &q, e);
    openai_id(id, "resp_", r);
    if (ok && (q.conversation || q.store)) /* a conversation's items outlive its responses */
        stored_prompt_own(p.job.cache_owner, q.conversation ? q.conversation : id);
    ok = ok && answer(r, &q, &p, e);
    prompt_fini(&prompt);
    responses_request_fini(&q);
    return ok;
}

static bool count_tokens(struct request *r, struct err *e)
{
    struct responses_request q = {0};
    struct prompt prompt = {0};
    struct inference_params p;
    struct buf b = {0};
    /* a small body may name a long conversation */
    bool ok = work_begin(r, WORK_TEXT, e) && responses_read(&q, r, true, e) &&
              chat_job_counts(r, e) &&
              (chat_job_make(&p, &prompt, r, &q.chat, e) || responses_rename(e));
    if (ok) {
        buf_printf(&b, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", prompt.ids.n);
        reply_json_buf(r, 200, &b);
    }
    buf_fini(&b);
    prompt_fini(&prompt);
    responses_request_fini(&q);
    return ok;
}

static bool find(struct request *r, struct store_response *row, struct err *e)
{
    const char *id = request_param(r, "id");
    return store_response_get(
        r->store, r->arena, &(struct store_text_ref){.user_id = r->who.user_id, .id = id}, row, e);
}

static bool show_response(struct request *r, struct err *e)
{
    struct store_response row;
    const char *stream = request_query(r, "stream");
    if (stream && strcmp(stream, "false"))
        return err_field(e, ERR_UNSUPPORTED, "stream",
                         "only answers in the background could be taken up; there are none");
    return find(r, &row, e) &&
           reply_bytes(r, 200, "application/json", row.response, strlen(row.response));
}

static bool remove_response(struct request *r, struct err *e)
{
    struct buf b = {0};
    const char *id = request_param(r, "id");
    if (!store_response_remove(r->store, r->who.user_id, id, e))
        return false;
    buf_puts(&b, "{\"id\":");
    buf_json_string(&b, id, strlen(id));
    buf_puts(&b, ",\"object\":\"response\",\"deleted\":true}");
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    return true;
}

static bool cancel_response(struct request *r, struct err *e)
{
    struct store_response row;
    return find(r, &row, e) &&
           err_field(e, ERR_INPUT, "response_id",
                     "the response is complete; only one in the background can be cancelled");
}

static const char *item_id(const cJSON *item)
{
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "id"));
    return id ? id : "";
}

struct page {
    int64_t limit;
    bool ascending;
    const char *after;
};

static bool read_page(struct request *r, struct page *p, struct err *e)
{
    const char *order = request_query(r, "order");
    *p = (struct page){.limit = PAGE_DEFAULT, .after = request_query(r, "after")};
    if (order && strcmp(order, "asc") && strcmp(order, "desc"))
        return err_field(e, ERR_INPUT, "order", "must be asc or desc");
    p->ascending = order && !strcmp(order, "asc");
    return request_query_int(r, "limit", 1, PAGE_MAX, &p->limit, e);
}

/* The item before or behind this one; NULL: none. */
static const cJSON *step(const cJSON *all, const cJSON *item, bool forward)
{
    if (forward)
        return item->next;
    return item == all->child ? NULL : item->prev;
}

/* The page of `all` as a list object. */
static bool put_page(struct buf *b, const cJSON *all, const struct page *p, struct err *e)
{
    const cJSON *at = all->child && !p->ascending ? all->child->prev
                                                  : all->child; /* the first's prev is the last */
    const char *first = "", *last = "";
    if (p->after) {
        while (at && strcmp(item_id(at), p->after))
            at = step(all, at, p->ascending);
        if (!at)
            return err_field(e, ERR_INPUT, "after", "is not an item of this response's input");
        at = step(all, at, p->ascending);
    }
    buf_puts(b, "{\"object\":\"list\",\"data\":[");
    for (int64_t n = 0; at && n < p->limit; n++, at = step(all, at, p->ascending)) {
        first = n ? first : item_id(at);
        last = item_id(at);
        if (n)
            buf_putc(b, ',');
        json_write(b, at);
    }
    buf_puts(b, "],\"first_id\":");
    buf_json_string(b, first, strlen(first));
    buf_puts(b, ",\"last_id\":");
    buf_json_string(b, last, strlen(last));
    buf_printf(b, ",\"has_more\":%s}", at ? "true" : "false");
    return true;
}

/* What the model was given: the chain before it, and its own input. */
static bool list_input(struct request *r, struct err *e)
{
    struct store_response row;
    struct page page;
    struct buf b = {0};
    if (!read_page(r, &page, e) || !find(r, &row, e))
        return false;
    cJSON *all = cJSON_CreateArray(), *item;
    bool ok = responses_chain_before(r, &row, all, e);
    cJSON *own =
        ok ? json_parse(row.input, strlen(row.input), &(struct json_limits){.max_depth = 128}, e)
           : NULL;
    while (own && (item = cJSON_DetachItemFromArray(own, 0)))
        cJSON_AddItemToArray(all, item);
    ok = own && put_page(&b, all, &page, e);
    if (ok)
        reply_json_buf(r, 200, &b);
    cJSON_Delete(own);
    cJSON_Delete(all);
    buf_fini(&b);
    return ok;
}

#define ONE "/v1/responses/{id}"

const struct route api_responses_routes[] = {
    {.method = HTTP_POST,
     .path = "/v1/responses",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = create_response,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Answer a chat, in the form of the Responses API",
             .body = "ResponseRequest",
             .reply = "Response",
             .statuses = "200 404",
             .streams = true},
     .dialect = &responses_dialect},
    {.method = HTTP_POST,
     .path = "/responses",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = create_response,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same as /v1/responses",
             .body = "ResponseRequest",
             .reply = "Response",
             .statuses = "200 404",
             .streams = true},
     .dialect = &responses_dialect},
    {.method = HTTP_POST,
     .path = "/v1/responses/input_tokens",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = count_tokens,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The tokens of a response's input",
             .body = "ResponseRequest",
             .reply = "ResponseInputTokens",
             .statuses = "200 404"}},
    {.method = HTTP_POST,
     .path = "/v1/responses/compact",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = responses_compact,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Compact a conversation to its user's messages and a summary",
             .body = "ResponseCompactRequest",
             .reply = "ResponseCompaction",
             .statuses = "200 404"}},
    {.method = HTTP_GET,
     .path = ONE,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_response,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "A response that was kept",
             .query = "ResponseQuery",
             .reply = "Response",
             .statuses = "200 404"}},
    {.method = HTTP_DELETE,
     .path = ONE,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_response,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Forget a response", .reply = "ResponseDeleted", .statuses = "200 404"}},
    {.method = HTTP_POST,
     .path = ONE "/cancel",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = cancel_response,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Refuse to cancel: a kept response is complete",
             .reply = "Response",
             .statuses = "200 404"}},
    {.method = HTTP_GET,
     .path = ONE "/input_items",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_input,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "What the model was given",
             .query = "ResponseItemsQuery",
             .reply = "ResponseItems",
             .statuses = "200 404"}},
    {0},
};
