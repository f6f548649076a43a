/* GET /v1/models and /v1/models/{id}: the model that the engine holds with its aliases, those of
 * the engines beside it, and those of this machine and of other servers that the caller may use. */
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/openai/model_object.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "sql/models/store_models.h"

struct listing {
    struct request *r;
    const struct status_page *page;
    cJSON *data;
};

static bool add_alias(void *context, const char *name)
{
    struct listing *l = context;
    cJSON *o = model_object_create(l->r, l->page);
    cJSON_ReplaceItemInObjectCaseSensitive(o, "id", cJSON_CreateString(name));
    cJSON_AddStringToObject(cJSON_GetObjectItemCaseSensitive(o, "sluice"), "alias_of",
                            l->r->worker->model_id);
    return cJSON_AddItemToArray(l->data, o);
}

static bool add_row(void *context, const struct store_model *m)
{
    struct listing *l = context;
    return cJSON_AddItemToArray(l->data,
                                m->path ? model_object_local(l->r, m) : model_object_relayed(m));
}

static void add_id(cJSON *o, const char *name, const cJSON *model)
{
    cJSON *id = cJSON_GetObjectItemCaseSensitive(model, "id");
    cJSON_AddItemToObject(o, name, id ? cJSON_Duplicate(id, true) : cJSON_CreateNull());
}

/* Anthropic's paging: what lies after, or before, the named model; at most `limit`. */
static bool cut_page(struct request *r, cJSON *data, bool *more, struct err *e)
{
    const char *after = request_query(r, "after_id"), *before = request_query(r, "before_id");
    int64_t limit = cJSON_GetArraySize(data);
    if (!request_query_int(r, "limit", 1, 1000, &limit, e))
        return false;
    for (cJSON *m = data->child, *next; m; m = next) {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "id"));
        next = m->next;
        bool is_before = before && id && !strcmp(id, before);
        bool passed = after || is_before;
        after = after && id && !strcmp(id, after) ? NULL : after;
        while (is_before && next) {
            cJSON *gone = next;
            next = next->next;
            cJSON_Delete(cJSON_DetachItemViaPointer(data, gone));
        }
        if (passed)
            cJSON_Delete(cJSON_DetachItemViaPointer(data, m));
    }
    *more = cJSON_GetArraySize(data) > limit;
    while (cJSON_GetArraySize(data) > limit)
        cJSON_DeleteItemFromArray(data, cJSON_GetArraySize(data) - 1);
    return true;
}

/* One list for the clients of OpenAI and of Anthropic: each finds its own members. */
static bool list_models(struct request *r, struct err *e)
{
    struct status_page page;
    bool more = false;
    engine_status_read(r, &page);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "object", "list");
    struct listing l = {.r = r, .page = &page, .data = cJSON_AddArrayToObject(o, "data")};
    cJSON_AddItemToArray(l.data, model_object_create(r, &page));
    model_name_each_alias(r, add_alias, &l);
    for (int i = 0; i < SIDE_MODELS; i++)
        if (r->worker->side[i].path)
            cJSON_AddItemToArray(l.data, model_object_of_side(&r->worker->side[i]));
    bool ok = store_model_list(r->store, model_name_user(r), add_row, &l, e) &&
              cut_page(r, l.data, &more, e);
    if (ok) {
        cJSON_AddBoolToObject(o, "has_more", more);
        add_id(o, "first_id", l.data->child);
        add_id(o, "last_id", cJSON_GetArrayItem(l.data, cJSON_GetArraySize(l.data) - 1));
        reply_json(r, 200, o);
    }
    cJSON_Delete(o);
    return ok;
}

static bool reply_side(struct request *r, const struct side_model *m)
{
    cJSON *o = model_object_of_side(m);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

/* A model of this machine that can't be opened here, or not yet, as the list has it. */
static bool reply_unopened(struct request *r, const char *id, struct err *e)
{
    struct store_model m;
    const struct store_model_ask ask = {.user_id = model_name_user(r), .name = id};
    if (!store_model_find(r->store, r->arena, &ask, &m, e))
        return false;
    cJSON *o = model_object_local(r, &m);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static bool show_model(struct request *r, struct err *e)
{
    struct status_page page;
    const char *id = request_param(r, "id");
    for (int i = 0; i < SIDE_MODELS; i++)
        if (r->worker->side[i].path && !strcmp(id, r->worker->side[i].id))
            return reply_side(r, &r->worker->side[i]);
    if (!model_name_take(r, id, e))
        return e->code == ERR_UNAVAILABLE && reply_unopened(r, id, e);
    engine_status_read(r, &page);
    cJSON *o = r->model   ? model_object_relayed(r->model)
               : r->local ? model_object_local(r, r->local)
                          : model_object_create(r, &page);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_models_routes[] = {
    {.method = HTTP_GET,
     .path = "/v1/models",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_models,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "List the models",
             .query = "ModelsQuery",
             .reply = "ModelList",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/models",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_models,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The same as /v1/models",
             .query = "ModelsQuery",
             .reply = "ModelList",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/v1/models/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_model,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Describe a model", .reply = "Model", .statuses = "200"}},
    {0},
};
