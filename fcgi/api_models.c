/* GET /v1/models and /v1/models/{id}: the one model that the engine holds. */
#include <string.h>

#include "fcgi/facts.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/worker.h"

static bool list_models(struct request *r, struct err *e)
{
    struct status_page page;
    facts_read(r, &page);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "object", "list");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "data"), facts_model(r, &page));
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static bool show_model(struct request *r, struct err *e)
{
    struct status_page page;
    const char *id = request_param(r, "id");
    if (strcmp(id, r->worker->model_id) && strcmp(id, r->worker->text->name)) {
        r->hint.code = "model_not_found";
        return err_field(e, ERR_NOTFOUND, "model", "'%.100s' is not here; this server has '%s'", id,
                         r->worker->model_id);
    }
    facts_read(r, &page);
    cJSON *o = facts_model(r, &page);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_models_routes[] = {
    {HTTP_GET, "/v1/models", ROUTE_USER, POOL_SHORT, 0, list_models, SCOPE_INFERENCE,
     {.summary = "List the models", .reply = "ModelList", .statuses = "200"}},
    {HTTP_GET, "/v1/models/{id}", ROUTE_USER, POOL_SHORT, 0, show_model, SCOPE_INFERENCE,
     {.summary = "Describe a model", .reply = "Model", .statuses = "200"}},
    {0},
};
