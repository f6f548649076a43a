/* /v1/conversations: OpenAI's conversations, lists of items that responses continue
 * (responses_conversation.c). */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/auth/limits.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/openai.h"
#include "fcgi/responses/responses.h"
#include "sql/chats/store_openai.h"
#include "sql/prompts/store_prompt_blocks.h"

#define MAX_ITEMS 20 /* of a request, as OpenAI has it */
#define PAGE_DEFAULT 20
#define PAGE_MAX 100

static const struct field_row create_fields[] = {
    {"items", FIELD_READ}, {"metadata", FIELD_READ}, {NULL, FIELD_READ}};
static const struct field_row change_fields[] = {{"metadata", FIELD_READ}, {NULL, FIELD_READ}};
static const struct field_row item_fields[] = {{"items", FIELD_READ}, {NULL, FIELD_READ}};

static const char *conversation_of(const struct request *r)
{
    return request_param(r, "id");
}

static bool send_conversation(struct request *r, const struct store_openai_conversation *c)
{
    struct buf b = {0};
    buf_puts(&b, "{\"id\":");
    buf_json_string(&b, c->id, strlen(c->id));
    buf_printf(&b, ",\"object\":\"conversation\",\"created_at\":%lld,\"metadata\":%s",
               (long long)(c->created_at / 1000), c->metadata);
    ignored_write(&b, r);
    buf_putc(&b, '}');
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    return true;
}

static bool find(struct request *r, struct store_openai_conversation *c, struct err *e)
{
    return store_openai_conversation_get(
        r->store, r->arena,
        &(struct store_text_ref){.user_id = r->who.user_id, .id = conversation_of(r)}, c, e);
}

/* Each must be one that a response could read. Errors name items[i], not a response's input[i]. */
static bool check_items(struct request *r, const cJSON *items, struct err *e)
{
    cJSON *messages = cJSON_CreateArray();
    struct chat_build b = {.messages = messages};
    struct responses_reader rd = {.r = r, .build = &b, .before = true};
    const cJSON *item;
    bool ok = messages != NULL;
    int i = 0;
    cJSON_ArrayForEach (item, items)
        ok = ok && responses_add_item(&rd, item, i++, e);
    cJSON_Delete(messages);
    if (!ok && !e->text[0])
        return err_set(e, ERR_NOMEM, "no memory for the items");
    return ok || chat_build_rename(e, "input", "items");
}

struct addition {
    struct store_openai_addition rows;
    cJSON *tree; /* of the items, in which the rows' ids lie; owned */
};

/* The body's `items` as rows (may be none). conversation: the one that has some already, or NULL.
 */
static bool read_items(struct request *r, const cJSON *body, const char *conversation,
                       struct addition *a, struct err *e)
{
    const cJSON *list = NULL;
    if (!json_get_array(body, "items", &list, e))
        return false;
    a->rows.n = cJSON_GetArraySize(list);
    if (a->rows.n > MAX_ITEMS)
        return err_field(e, ERR_LIMIT, "items", "a request adds at most %d", MAX_ITEMS);
    a->tree = responses_input_items(r, list, e);
    if (!a->tree || !check_items(r, a->tree, e))
        return false;
    a->rows.items = responses_conversation_rows(r, conversation, a->tree, "items", e);
    return a->rows.items != NULL;
}

/* A list of JSON objects, as OpenAI pages them. */
struct list {
    struct buf *b;
    int64_t n, limit;
    char first[STORE_OPENAI_ID_MAX * 4 + 1], last[STORE_OPENAI_ID_MAX * 4 + 1];
    bool more;
};

static bool put_row(void *context, const struct store_openai_item *row)
{
    struct list *l = context;
    l->more = l->n == l->limit;
    if (l->more)
        return false;
    if (l->n++)
        buf_putc(l->b, ',');
    buf_puts(l->b, row->item);
    snprintf(l->last, sizeof l->last, "%s", row->id);
    if (l->n == 1)
        snprintf(l->first, sizeof l->first, "%s", row->id);
    return true;
}

static void end_list(struct request *r, struct list *l)
{
    buf_puts(l->b, "],\"first_id\":");
    buf_json_string(l->b, l->first, strlen(l->first));
    buf_puts(l->b, ",\"last_id\":");
    buf_json_string(l->b, l->last, strlen(l->last));
    buf_printf(l->b, ",\"has_more\":%s", l->more ? "true" : "false");
    ignored_write(l->b, r);
    buf_putc(l->b, '}');
    reply_json_buf(r, 200, l->b);
}

#define LIST_BEGIN "{\"object\":\"list\",\"data\":["

/* The metadata as it is stored; NULL and nothing are {}. */
static bool read_metadata(const cJSON *body, struct buf *out, struct err *e)
{
    const cJSON *metadata = NULL;
    if (!json_get_object(body, "metadata", &metadata, e) || !responses_metadata(metadata, e))
        return false;
    if (metadata)
        json_write(out, metadata);
    else
        buf_puts(out, "{}");
    return !out->failed || err_set(e, ERR_NOMEM, "no memory for the metadata");
}

static bool create(struct request *r, struct err *e)
{
    char id[OPENAI_ID_SIZE];
    struct buf metadata = {0};
    cJSON *body = field_body(r, e);
    openai_id(id, "conv_", r);
    struct addition a = {.rows = {.user_id = r->who.user_id,
                                  .conversation_id = id,
                                  .storage_bytes = r->who.limits.storage_bytes}};
    bool ok = body && fields_take(r, body, create_fields, e) && read_metadata(body, &metadata, e) &&
              read_items(r, body, NULL, &a, e);
    if (ok) {
        const struct store_openai_conversation c = {.id = id,
                                                    .user_id = r->who.user_id,
                                                    .created_at = clock_wall_ms(),
                                                    .metadata = metadata.data};
        ok = (store_openai_conversation_add(r->store, &c, &a.rows, e) ||
              limits_storage_refused(r, e)) &&
             send_conversation(r, &c);
    }
    cJSON_Delete(a.tree);
    buf_fini(&metadata);
    return ok;
}

static bool show(struct request *r, struct err *e)
{
    struct store_openai_conversation c;
    return find(r, &c, e) && send_conversation(r, &c);
}

static bool change(struct request *r, struct err *e)
{
    struct store_openai_conversation c;
    struct buf metadata = {0};
    cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, change_fields, e))
        return false;
    if (!cJSON_HasObjectItem(body, "metadata"))
        return err_field(e, ERR_INPUT, "metadata", "is needed");
    bool ok = read_metadata(body, &metadata, e) && find(r, &c, e);
    if (ok) {
        c.metadata = metadata.data;
        ok = (store_openai_conversation_change(r->store, &c, r->who.limits.storage_bytes, e) ||
              limits_storage_refused(r, e)) &&
             send_conversation(r, &c);
    }
    buf_fini(&metadata);
    return ok;
}

static bool remove_conversation(struct request *r, struct err *e)
{
    struct buf b = {0};
    const char *id = conversation_of(r);
    if (!store_openai_conversation_remove(r->store, r->who.user_id, id, e))
        return false;
    buf_puts(&b, "{\"id\":");
    buf_json_string(&b, id, strlen(id));
    buf_puts(&b, ",\"object\":\"conversation.deleted\",\"deleted\":true}");
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    return true;
}

static bool add_items(struct request *r, struct err *e)
{
    struct store_openai_conversation c;
    struct addition a = {.rows = {.user_id = r->who.user_id,
                                  .conversation_id = conversation_of(r),
                                  .storage_bytes = r->who.limits.storage_bytes}};
    struct buf b = {0};
    struct list l = {.b = &b, .limit = MAX_ITEMS};
    cJSON *body = field_body(r, e);
    bool ok =
        body && fields_take(r, body, item_fields, e) &&
        read_items(r, body, a.rows.conversation_id, &a, e) &&
        (a.rows.n || err_field(e, ERR_INPUT, "items", "is needed: a list of 1 to %d", MAX_ITEMS)) &&
        find(r, &c, e) &&
        (store_openai_items_add(r->store, &a.rows, e) || limits_storage_refused(r, e));
    if (ok) {
        buf_puts(&b, LIST_BEGIN);
        for (int i = 0; i < a.rows.n; i++)
            put_row(&l, &a.rows.items[i]);
        end_list(r, &l);
    }
    cJSON_Delete(a.tree);
    buf_fini(&b);
    return ok;
}

/* limit, order and after as a range of positions. One more than the page, which tells whether there
 * are more. */
static bool read_range(struct request *r, struct store_openai_range *range, int64_t *limit,
                       struct err *e)
{
    const char *order = request_query(r, "order"), *after = request_query(r, "after");
    struct store_openai_item item;
    *limit = PAGE_DEFAULT;
    if (order && strcmp(order, "asc") && strcmp(order, "desc"))
        return err_field(e, ERR_INPUT, "order", "must be asc or desc");
    if (!request_query_int(r, "limit", 1, PAGE_MAX, limit, e))
        return false;
    *range = (struct store_openai_range){
        .until = INT64_MAX, .limit = *limit + 1, .back = !order || !strcmp(order, "desc")};
    if (!after)
        return true;
    if (!store_openai_item_get(
            r->store, r->arena,
            &(struct store_openai_item_ref){
                .user_id = r->who.user_id, .conversation_id = conversation_of(r), .id = after},
            &item, e))
        return e->code == ERR_NOTFOUND
                   ? err_field(e, ERR_INPUT, "after", "is not an item of this conversation")
                   : false;
    if (range->back)
        range->until = item.position - 1;
    else
        range->from = item.position;
    return true;
}

static bool list_items(struct request *r, struct err *e)
{
    struct store_openai_conversation c;
    struct store_openai_range range;
    struct buf b = {0};
    struct list l = {.b = &b};
    if (!find(r, &c, e) || !read_range(r, &range, &l.limit, e))
        return false;
    buf_puts(&b, LIST_BEGIN);
    range.user_id = r->who.user_id;
    range.conversation_id = c.id;
    bool ok = store_openai_items_each(r->store, &range, put_row, &l, e);
    if (ok)
        end_list(r, &l);
    buf_fini(&b);
    return ok;
}

static bool find_item(struct request *r, struct store_openai_item *item, struct err *e)
{
    return store_openai_item_get(
        r->store, r->arena,
        &(struct store_openai_item_ref){.user_id = r->who.user_id,
                                        .conversation_id = conversation_of(r),
                                        .id = request_param(r, "item_id")},
        item, e);
}

static bool show_item(struct request *r, struct err *e)
{
    struct store_openai_item item;
    return find_item(r, &item, e) &&
           reply_bytes(r, 200, "application/json", item.item, strlen(item.item));
}

/* As with a page's messages: which blocks hold an item is not known, so all of the conversation's
 * go, and before it does. */
static bool remove_item(struct request *r, struct err *e)
{
    struct store_openai_conversation c;
    struct store_openai_item item;
    const char *id = conversation_of(r);
    int64_t removed;
    if (!find_item(r, &item, e) ||
        !store_prompts_forget(r->store,
                              &(struct store_forgetting){
                                  .what = FORGET_OWNED, .user_id = r->who.user_id, .label = id},
                              &removed, e) ||
        !store_openai_item_remove(r->store, r->who.user_id, id, item.id, e))
        return false;
    return find(r, &c, e) && send_conversation(r, &c);
}

#define ALL "/v1/conversations"
#define ONE ALL "/{id}"
#define ITEMS ONE "/items"

const struct route api_openai_conversations_routes[] = {
    {.method = HTTP_POST,
     .path = ALL,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = create,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Begin a conversation that responses continue",
             .body = "OpenaiConversationNew",
             .reply = "OpenaiConversation",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = ONE,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "A conversation that responses continue",
             .reply = "OpenaiConversation",
             .statuses = "200 404"}},
    {.method = HTTP_POST,
     .path = ONE,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Give a conversation other metadata",
             .body = "OpenaiConversationChange",
             .reply = "OpenaiConversation",
             .statuses = "200 404"}},
    {.method = HTTP_DELETE,
     .path = ONE,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_conversation,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Delete a conversation and its items",
             .reply = "OpenaiConversationDeleted",
             .statuses = "200 404"}},
    {.method = HTTP_GET,
     .path = ITEMS,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_items,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The items of a conversation",
             .query = "OpenaiItemsQuery",
             .reply = "ResponseItems",
             .statuses = "200 404"}},
    {.method = HTTP_POST,
     .path = ITEMS,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = add_items,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Add items to a conversation",
             .body = "OpenaiItemsNew",
             .query = "OpenaiIncludeQuery",
             .reply = "ResponseItems",
             .statuses = "200 404"}},
    {.method = HTTP_GET,
     .path = ITEMS "/{item_id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_item,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "An item of a conversation",
             .query = "OpenaiIncludeQuery",
             .reply = "ResponseItemKept",
             .statuses = "200 404"}},
    {.method = HTTP_DELETE,
     .path = ITEMS "/{item_id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_item,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Delete an item of a conversation",
             .reply = "OpenaiConversation",
             .statuses = "200 404"}},
    {0},
};
