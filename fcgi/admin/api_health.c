/* GET /health, /ready, /ping, /version: for probes, without a key. GET /load: for admins, as
 * /metrics is. GET /api/status: for the page. All from the status page, so they answer at once and
 * truthfully when the engine is down. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "engine/base/arena.h"
#include "fcgi/auth/auth.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "sql/models/store_models.h"

#define MAX_SUGGESTIONS 8

static bool reply_and_free(struct request *r, int status, cJSON *o)
{
    reply_json(r, status, o);
    cJSON_Delete(o);
    return true;
}

/* Is there a process that takes streams? A killed master leaves its number behind. */
static bool streams_are_served(const struct shared *s)
{
    const struct shared_pool *p = &s->pool[POOL_STREAM];
    if (p->master_pid <= 0 || (kill(p->master_pid, 0) != 0 && errno == ESRCH))
        return false;
    for (int i = 0; i < SHARED_CHILDREN; i++)
        if (p->child[i].state == CHILD_IDLE || p->child[i].state == CHILD_BUSY)
            return true;
    return false;
}

/* 200 only when a chat would be served now. */
static bool health(struct request *r, struct err *e)
{
    struct status_page page;
    bool ready = engine_status_read(r, &page), store = r->store != NULL,
         streams = streams_are_served(r->worker->shared);
    bool all = ready && store && streams;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "status", all ? "ok" : "unavailable");
    cJSON_AddStringToObject(o, "engine", engine_state_name(page.state));
    cJSON_AddStringToObject(o, "database", store ? "ok" : "unavailable");
    cJSON_AddStringToObject(o, "workers", streams ? "ok" : "unavailable");
    if (!ready && page.error[0] && auth_sees_figures(r))
        cJSON_AddStringToObject(o, "error", page.error); /* may name files and sizes */
    if (!all)
        reply_header(r, "Retry-After", "3");
    return reply_and_free(r, all ? 200 : 503, o);
}

/* vLLM's: how many requests are in its hands. */
static bool load(struct request *r, struct err *e)
{
    struct status_page page;
    engine_status_read(r, &page);
    const bool alive = page.state != ENGINE_DOWN;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "server_load", alive ? page.jobs_running + page.jobs_waiting : 0);
    return reply_and_free(r, 200, o);
}

static bool version(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", "sluice");
    cJSON_AddStringToObject(o, "version", PACKAGE_VERSION);
    return reply_and_free(r, 200, o);
}

static void add_model(cJSON *o, const struct request *r, const struct status_page *page)
{
    static const struct chat_traits none;
    const struct text_model *m = r->worker->text;
    const struct chat_traits *t = m->chat_template ? chat_template_traits(m->chat_template) : &none;
    cJSON *model = cJSON_AddObjectToObject(o, "model");
    cJSON_AddStringToObject(model, "id", r->worker->model_id);
    cJSON_AddStringToObject(model, "name", m->name);
    cJSON_AddStringToObject(model, "family", page->family);
    cJSON_AddNumberToObject(model, "n_ctx", page->n_ctx);
    cJSON_AddBoolToObject(model, "thinking", t->thinking);
    cJSON_AddBoolToObject(model, "thinking_switch", t->thinking_switch);
    cJSON_AddBoolToObject(model, "tools", prompt_takes_tools(r));
    cJSON_AddStringToObject(model, "backend", page->backend);
    cJSON_AddStringToObject(model, "device", page->device);
}

struct loading { /* models that are being loaded, of those that the user may use */
    struct shared *shared;
    cJSON *names;
};

static void add_banner(cJSON *o, const struct request *r)
{
    const char *text = server_setting_text(r, SETTING_BANNER);
    cJSON *banner =
        *text ? cJSON_AddObjectToObject(o, "banner") : cJSON_AddNullToObject(o, "banner");
    if (!*text)
        return;
    cJSON_AddStringToObject(banner, "text", text);
    cJSON_AddStringToObject(banner, "level", server_setting_text(r, SETTING_BANNER_LEVEL));
}

/* The admin's first messages for an empty chat; none: the page has its own. */
static void add_suggestions(cJSON *o, const struct request *r)
{
    cJSON *list = cJSON_AddArrayToObject(o, "suggestions");
    const char *at = server_setting_text(r, SETTING_SUGGESTIONS);
    while (*at && cJSON_GetArraySize(list) < MAX_SUGGESTIONS) {
        at += strspn(at, " |");
        size_t n = strcspn(at, "|");
        const char *next = at + n;
        while (n && at[n - 1] == ' ')
            n--;
        char *text = n ? arena_copy(r->arena, at, n) : NULL;
        if (text)
            cJSON_AddItemToArray(list, cJSON_CreateString(text));
        at = next;
    }
}

static bool add_loading(void *context, const struct store_model *m)
{
    struct loading *l = context;
    const struct shared_local *at = m->path ? local_model_state(l->shared, m->id) : NULL;
    if (!at || at->state != LOCAL_LOADING)
        return true;
    cJSON_AddItemToArray(l->names, cJSON_CreateString(m->name));
    cJSON *aliases = cJSON_Parse(m->aliases); /* a chat's settings may have one */
    const cJSON *alias;
    cJSON_ArrayForEach (alias, aliases)
        if (cJSON_IsString(alias))
            cJSON_AddItemToArray(l->names, cJSON_CreateString(alias->valuestring));
    cJSON_Delete(aliases);
    return true;
}

static bool status(struct request *r, struct err *e)
{
    struct status_page page;
    bool ready = engine_status_read(r, &page);
    bool alive = page.state != ENGINE_DOWN;
    const char *reason = model_gate_reason(r, &page);
    cJSON *o = cJSON_CreateObject(), *part;
    part = cJSON_AddObjectToObject(o, "engine");
    cJSON_AddStringToObject(part, "state", engine_state_name(page.state));
    if (!ready && page.error[0])
        cJSON_AddStringToObject(part, "error", page.error);
    else
        cJSON_AddNullToObject(part, "error");
    if (reason)
        cJSON_AddStringToObject(part, "reason", reason);
    else
        cJSON_AddNullToObject(part, "reason");
    add_model(o, r, &page);
    cJSON_AddStringToObject(o, "version", PACKAGE_VERSION);
    add_banner(o, r);
    add_suggestions(o, r);
    part = cJSON_AddObjectToObject(o, "load");
    cJSON_AddNumberToObject(part, "running", alive ? page.jobs_running : 0);
    cJSON_AddNumberToObject(part, "waiting", alive ? page.jobs_waiting : 0);
    cJSON_AddNumberToObject(part, "tokens_per_second", alive ? page.decode_tokens_per_s : 0);
    struct loading l = {r->worker->shared, cJSON_AddArrayToObject(o, "loading")};
    if (r->store && r->worker->n_locals > 0 &&
        !store_model_list(r->store, model_name_user(r), add_loading, &l, e)) {
        cJSON_Delete(o);
        return false;
    }
    return reply_and_free(r, 200, o);
}

const struct route api_health_routes[] = {
    {.method = HTTP_GET,
     .path = "/health",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = health,
     .probe = true,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Would a chat be served now?", .reply = "Health", .statuses = "200 503"}},
    {.method = HTTP_GET,
     .path = "/v1/health",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = health,
     .probe = true,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Would a chat be served now?", .reply = "Health", .statuses = "200 503"}},
    {.method = HTTP_GET,
     .path = "/ready",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = health,
     .probe = true,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Would a chat be served now?", .reply = "Health", .statuses = "200 503"}},
    {.method = HTTP_GET,
     .path = "/ping",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = health,
     .probe = true,
     .scope = SCOPE_ANY,
     .doc = {.summary = "The same, as vLLM and SageMaker name it",
             .reply = "Health",
             .statuses = "200 503"}},
    {.method = HTTP_POST,
     .path = "/ping",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = health,
     .probe = true,
     .scope = SCOPE_ANY,
     .doc = {.summary = "The same, as vLLM and SageMaker name it",
             .reply = "Health",
             .statuses = "200 503"}},
    {.method = HTTP_GET,
     .path = "/load",
     .auth = ROUTE_FIGURES,
     .pool = POOL_SHORT,
     .handler = load,
     .scope = SCOPE_METRICS,
     .doc = {.summary = "Count the requests that run or wait",
             .reply = "ServerLoad",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/version",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = version,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Name and version of the server", .reply = "Version", .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/status",
     .polled = true,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = status,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Engine, model and load, for the page",
             .reply = "Status",
             .statuses = "200"}},
    {0},
};
