/* /api/admin/models: the models on this machine, and which one is loaded. `sluice up` does it
 * (fcgi/cli/up/model_switch.c); under systemd the unit's configuration names the model, and this
 * only tells. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/admin/hub_pull.h"
#include "fcgi/admin/local_models.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

#define GRACE_DEFAULT_S 30
#define GRACE_MAX_S 3600

static cJSON *scan(const struct request *r, const cJSON *state, const struct status_page *page)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *folder;
    if (page->model_path[0])
        local_models_add(page->model_path, list);
    local_models_add(r->worker->model_path, list);
    cJSON_ArrayForEach (folder, cJSON_GetObjectItem(state, "folders"))
        if (cJSON_IsString(folder))
            local_models_scan(folder->valuestring, list);
    return list;
}

static bool list_models(struct request *r, struct err *e)
{
    static const char *const told[] = {"phase", "current", "wanted", "error",
                                       "since", "pull",    "folders"};
    struct status_page page;
    struct err why = {0};
    engine_status_read(r, &page);
    const bool asked = local_models_pending(
        r->worker->state_dir); /* before: it is taken away after the state is told */
    cJSON *state = local_models_state(r->worker->state_dir, &why), *o = cJSON_CreateObject();
    if (state && asked)
        cJSON_ReplaceItemInObject(state, "phase", cJSON_CreateString("asked"));
    cJSON_AddItemToObject(o, "items", scan(r, state, &page));
    cJSON_AddBoolToObject(o, "can_switch", state != NULL);
    for (size_t i = 0; state && i < sizeof told / sizeof told[0]; i++)
        cJSON_AddItemToObject(o, told[i],
                              cJSON_Duplicate(cJSON_GetObjectItem(state, told[i]), true));
    hub_pull_progress(r, cJSON_GetObjectItem(o, "pull"));
    if (!state)
        cJSON_AddStringToObject(o, "reason", why.text);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    cJSON_Delete(state);
    return true;
}

/* Only listed models can be loaded, because an admin of the page is not an admin of the machine. */
bool local_models_listed(const struct request *r, const cJSON *state, const char *path,
                         struct err *e)
{
    struct status_page page;
    const cJSON *item;
    bool found = false;
    engine_status_read(r, &page);
    cJSON *list = scan(r, state, &page);
    cJSON_ArrayForEach (item, list)
        found |= !strcmp(cJSON_GetObjectItem(item, "path")->valuestring, path);
    cJSON_Delete(list);
    return found ||
           err_field(e, ERR_NOTFOUND, "path", "no model of this machine's list has this path");
}

static bool busy(const cJSON *state, struct err *e)
{
    const char *phase = "";
    json_get_string(state, "phase", &phase, NULL);
    return strcmp(phase, "ready") && strcmp(phase, "unloaded") && strcmp(phase, "failed") &&
           !(err_set(e, ERR_CONFLICT, "the model is being changed now (%s)", phase) ||
             err_reason(e, "model_busy"));
}

static bool ask(struct request *r, const char *action, const char *path, int64_t grace_s,
                struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "action", action);
    if (path)
        cJSON_AddStringToObject(o, "path", path);
    cJSON_AddNumberToObject(o, "grace_s", (double)grace_s);
    bool ok = local_models_ask(r->worker->state_dir, o, e);
    cJSON_Delete(o);
    if (!ok)
        return false;
    char what[32];
    snprintf(what, sizeof what, "model.%s", action);
    audit_record(r, r->who.user_id, r->who.name, what,
                 path && strrchr(path, '/') ? strrchr(path, '/') + 1 : "");
    return reply_empty(r, 202);
}

static bool change(struct request *r, const char *action, struct err *e)
{
    int64_t grace_s = GRACE_DEFAULT_S;
    const char *path = NULL;
    const bool load = !strcmp(action, "load");
    const cJSON *body = request_json(r, e);
    if (!body || !json_get_int(body, "grace_s", 0, GRACE_MAX_S, &grace_s, e) ||
        (load && !json_get_string(body, "path", &path, e)))
        return false;
    if (load && !path)
        return err_field(e, ERR_INPUT, "path", "is needed");
    cJSON *state = local_models_state(r->worker->state_dir, e);
    bool ok = state && !busy(state, e) && (!load || local_models_listed(r, state, path, e)) &&
              ask(r, action, path, grace_s, e);
    cJSON_Delete(state);
    return ok;
}

static bool load_model(struct request *r, struct err *e)
{
    return change(r, "load", e);
}

static bool unload_model(struct request *r, struct err *e)
{
    return change(r, "unload", e);
}

static bool pull_model(struct request *r, struct err *e)
{
    const char *repo = NULL, *include = NULL;
    const cJSON *body = request_json(r, e);
    if (!body || !json_get_string(body, "repo", &repo, e) ||
        !json_get_string(body, "include", &include, e))
        return false;
    if (!repo || !*repo)
        return err_field(e, ERR_INPUT, "repo", "is needed");
    return hub_pull_ask(r, repo, include, e) && reply_empty(r, 202);
}

static bool stop_pull(struct request *r, struct err *e)
{
    cJSON *state = local_models_state(r->worker->state_dir, e);
    bool ok = state && ask(r, "pull_stop", NULL, 0, e);
    cJSON_Delete(state);
    return ok;
}

const struct route api_admin_models_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/models",
     .polled = true,
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list_models,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "The models on this machine, and which one is loaded",
             .reply = "LocalModels",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/admin/models/load",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = load_model,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Load another model, once the running answers have ended",
             .body = "ModelLoad",
             .statuses = "202 404 409 501"}},
    {.method = HTTP_POST,
     .path = "/api/admin/models/unload",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = unload_model,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Give the model's memory back, once the running answers have ended",
             .body = "ModelUnload",
             .statuses = "202 409 501"}},
    {.method = HTTP_POST,
     .path = "/api/admin/models/pull",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = pull_model,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Load a model from the hub to this machine's disk",
             .body = "ModelPull",
             .statuses = "202 409 501"}},
    {.method = HTTP_DELETE,
     .path = "/api/admin/models/pull",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = stop_pull,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Stop loading; what came is kept for the next time",
             .statuses = "202 409 501"}},
    {0},
};
