/* responses.h: what came before, out of the store. */
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/responses.h"
#include "sql/chats/store_responses.h"

static const struct json_limits stored = {.max_depth = 160}; /* what came in with 128 is a little deeper in its row */

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
    if (store_response_get(r->store, r->arena, r->who.user_id, id, row, e))
        return true;
    if (e->code != ERR_NOTFOUND)
        return false;
    r->hint.code = "previous_response_not_found";
    r->hint.status = 400;
    return err_field(e, ERR_NOTFOUND, "previous_response_id", "'%.60s' is not kept here", id);
}

/* The chain is a body that was sent in parts: it has a body's limits. */
static bool count_row(struct request *r, const struct store_response *row, size_t *bytes, size_t *values, struct err *e)
{
    size_t input = strlen(row->input), response = strlen(row->response);
    *bytes += input + response;
    *values += json_count_values(row->input, input) + json_count_values(row->response, response);
    if (*bytes <= ROUTE_CHAT_BODY && *values <= REQUEST_MAX_JSON_VALUES)
        return true;
    r->hint.status = 413;
    r->hint.code = "request_too_large";
    return err_field(e, ERR_LIMIT, "previous_response_id", "the conversation before it has over %zu bytes or %zu values",
                     ROUTE_CHAT_BODY, REQUEST_MAX_JSON_VALUES);
}

bool responses_chain(struct request *r, const char *id, cJSON *out, struct err *e)
{
    struct store_response *rows = arena_alloc(r->arena, RESPONSES_MAX_CHAIN * sizeof *rows);
    size_t bytes = 0, values = 0;
    int n = 0;
    if (!rows)
        return err_set(e, ERR_NOMEM, "no memory for what came before");
    for (; id; id = rows[n++].previous_id) {
        if (n == RESPONSES_MAX_CHAIN)
            return err_field(e, ERR_LIMIT, "previous_response_id", "more than %d responses stand behind one another", n);
        if (!find(r, id, &rows[n], e) || !count_row(r, &rows[n], &bytes, &values, e))
            return false;
    }
    while (n > 0)
        if (!add_row(out, &rows[--n], e))
            return false;
    return true;
}
