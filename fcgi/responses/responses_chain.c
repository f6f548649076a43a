/* responses.h: what came before, out of the store. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/responses/responses.h"
#include "sql/chats/store_responses.h"

static const struct json_limits stored = {
    .max_depth = 160}; /* what came in with 128 is a little deeper in its row */

static void move_items(cJSON *out, cJSON *items)
{
    cJSON *item;
    while ((item = cJSON_DetachItemFromArray(items, 0)))
        cJSON_AddItemToArray(out, item);
}

/* The row's input and then its output. */
static bool add_row(cJSON *out, const struct store_response *row, struct err *e)
{
    cJSON *input = json_parse(row->input, strlen(row->input), &stored, e);
    cJSON *response = input ? json_parse(row->response, strlen(row->response), &stored, e) : NULL;
    bool ok = input && response;
    if (ok) {
        move_items(out, input);
        move_items(out, cJSON_GetObjectItemCaseSensitive(response, "output"));
    }
    cJSON_Delete(input);
    cJSON_Delete(response);
    return ok;
}

static bool find(struct request *r, const char *id, struct store_response *row, struct err *e)
{
    if (store_response_get(r->store, r->arena,
                           &(struct store_text_ref){.user_id = r->who.user_id, .id = id}, row, e))
        return true;
    if (e->code != ERR_NOTFOUND)
        return false;
    r->error_override.code = "previous_response_not_found";
    r->error_override.status = 400;
    return err_field(e, ERR_NOTFOUND, "previous_response_id", "'%.60s' is not kept here", id);
}

bool responses_before_count(struct responses_before *before, struct request *r, const char *text,
                            struct err *e)
{
    const size_t len = strlen(text);
    before->bytes += len;
    before->values += json_count_values(text, len);
    if (before->bytes <= ROUTE_CHAT_BODY && before->values <= REQUEST_MAX_JSON_VALUES)
        return true;
    r->error_override.status = 413;
    r->error_override.code = "request_too_large";
    return err_field(e, ERR_LIMIT, before->field,
                     "the conversation before it has over %zu bytes or %zu values", ROUTE_CHAT_BODY,
                     REQUEST_MAX_JSON_VALUES);
}

static bool count_row(struct responses_before *before, struct request *r,
                      const struct store_response *row, struct err *e)
{
    return responses_before_count(before, r, row->input, e) &&
           responses_before_count(before, r, row->response, e);
}

/* A chain begins anew, or in a conversation. */
static bool add_conversation(struct request *r, const struct store_response *first,
                             struct responses_before *before, struct err *e)
{
    if (!first->conversation_id ||
        responses_conversation_items(r, first->conversation_id, first->conversation_position,
                                     before, e))
        return true;
    if (e->code != ERR_NOTFOUND)
        return false;
    r->error_override.code = "previous_response_not_found";
    r->error_override.status = 400;
    return err_field(e, ERR_NOTFOUND, before->field,
                     "the conversation before it, '%.60s', was deleted", first->conversation_id);
}

bool responses_chain(struct request *r, const char *id, cJSON *out, struct err *e)
{
    struct store_response *rows = arena_alloc(r->arena, RESPONSES_MAX_CHAIN * sizeof *rows);
    struct responses_before before = {.field = "previous_response_id", .items = out};
    int n = 0;
    if (!rows)
        return err_set(e, ERR_NOMEM, "no memory for what came before");
    for (; id; id = rows[n++].previous_id) {
        if (n == RESPONSES_MAX_CHAIN)
            return err_field(e, ERR_LIMIT, "previous_response_id",
                             "more than %d responses stand behind one another", n);
        if (!find(r, id, &rows[n], e) || !count_row(&before, r, &rows[n], e))
            return false;
    }
    if (!add_conversation(r, &rows[n - 1], &before, e))
        return false;
    while (n > 0)
        if (!add_row(out, &rows[--n], e))
            return false;
    return true;
}

bool responses_chain_before(struct request *r, const struct store_response *row, cJSON *out,
                            struct err *e)
{
    struct responses_before before = {.field = "response_id", .items = out};
    return row->previous_id ? responses_chain(r, row->previous_id, out, e)
                            : add_conversation(r, row, &before, e);
}
