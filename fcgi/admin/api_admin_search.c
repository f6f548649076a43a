/* /api/admin/models/search: models of a hub, and beside each whether it would run on this machine.
 * `sluice up` asks the hub and plans (fcgi/cli/pull/model_search.c); this passes the question on
 * and shows what is found so far. */
#include <limits.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/admin/local_models.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"

enum { QUERY_MAX = 200, LIMIT_MAX = 30, FOUND_MAX = 4 << 20, REQUEST_MAX = 4096 };

static bool state_file(const struct request *r, const char *name, char path[PATH_MAX],
                       struct err *e)
{
    return file_join(path, PATH_MAX, r->worker->state_dir, name, e);
}

static bool runs_here(const struct request *r, struct err *e)
{
    cJSON *state = local_models_state(r->worker->state_dir, e);
    cJSON_Delete(state);
    return state != NULL;
}

static bool ask(struct request *r, struct err *e)
{
    const char *query = "";
    int64_t limit = 8;
    char path[PATH_MAX];
    struct buf text = {0};
    const cJSON *body = request_json(r, e);
    if (!body || !json_get_string(body, "query", &query, e) ||
        !json_get_int(body, "limit", 1, LIMIT_MAX, &limit, e))
        return false;
    if (strlen(query) > QUERY_MAX)
        return err_field(e, ERR_INPUT, "query", "is longer than %d bytes", QUERY_MAX);
    if (!runs_here(r, e) || !state_file(r, STATE_SEARCH_REQUEST, path, e))
        return false;
    buf_puts(&text, "{\"query\":");
    buf_json_string(&text, query, strlen(query));
    buf_printf(&text, ",\"limit\":%d}", (int)limit);
    bool ok = text.failed ? err_set(e, ERR_NOMEM, "no memory for the request")
                          : file_write_atomic(path, text.data, text.len, 0600, e);
    buf_fini(&text);
    return ok && reply_empty(r, 202);
}

/* What is shown before anything was found. query: NULL before the first question. */
static cJSON *nothing_yet(const char *query, const char *phase)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "query", query ? cJSON_CreateString(query) : cJSON_CreateNull());
    cJSON_AddStringToObject(o, "phase", phase);
    cJSON_AddNullToObject(o, "error");
    cJSON_AddItemToObject(o, "items", cJSON_CreateArray());
    return o;
}

static cJSON *state_json(const struct request *r, const char *name, size_t most)
{
    char path[PATH_MAX];
    return state_file(r, name, path, NULL) ? json_parse_file(path, most, NULL) : NULL;
}

static bool show(struct request *r, struct err *e)
{
    const char *query = "";
    if (!runs_here(r, e))
        return false;
    /* A question that `sluice up` has not taken yet counts already: nobody sees the answer to
     * another one. */
    cJSON *asked = state_json(r, STATE_SEARCH_REQUEST, REQUEST_MAX);
    json_get_string(asked, "query", &query, NULL);
    cJSON *found = asked ? nothing_yet(query, "searching") : state_json(r, STATE_SEARCH, FOUND_MAX);
    if (!found)
        found = nothing_yet(NULL, "none");
    bool ok = reply_json(r, 200, found);
    cJSON_Delete(asked);
    cJSON_Delete(found);
    return ok;
}

const struct route api_admin_search_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/models/search",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = show,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "What the last search on the hub found so far, and what would run here",
             .reply = "ModelSearchFound",
             .statuses = "200 501"}},
    {.method = HTTP_POST,
     .path = "/api/admin/models/search",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = ask,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Search models on the hub, and plan each for this machine; a new search "
                        "ends the last one",
             .body = "ModelSearch",
             .statuses = "202 501"}},
    {0},
};
