/* Ollama's routes about models: GET /api/tags, /api/ps, /api/version, POST /api/show; and those
 * that this server refuses. */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "sql/models/store_models.h"

#define NEVER "2999-12-31T23:59:59Z" /* a time that clients read, and show as "forever" */

/* The list's first entry again, under another name. */
static bool add_alias(void *context, const char *name)
{
    cJSON *models = context, *o = cJSON_Duplicate(models->child, true);
    char full[160];
    ollama_facts_name(full, sizeof full, name);
    cJSON_ReplaceItemInObjectCaseSensitive(o, "name", cJSON_CreateString(full));
    cJSON_ReplaceItemInObjectCaseSensitive(o, "model", cJSON_CreateString(full));
    return cJSON_AddItemToArray(models, o);
}

struct tags {
    struct request *r;
    cJSON *models;
    bool running; /* only what is in memory */
};

/* Memory as it was taken at the start, and of it the device's. */
static cJSON *running_entry(const struct request *r, const struct status_page *page)
{
    cJSON *m = ollama_facts_entry(r, page);
    cJSON_DeleteItemFromObject(m, "modified_at");
    cJSON *size =
        cJSON_CreateNumber((double)(page->loaded_weight_bytes + page->kv_bytes + page->state_bytes +
                                    page->work_bytes + page->recall_bytes));
    cJSON_ReplaceItemInObjectCaseSensitive(m, "size", size);
    cJSON_AddNumberToObject(m, "size_vram", (double)page->device_bytes);
    return m;
}

/* One of this machine beside the first. It is unloaded when it was not used for its time. */
static bool add_local(struct tags *t, const struct store_model *row)
{
    struct status_page page;
    struct err ignored = {0};
    char when[OLLAMA_TIME_BYTES];
    const struct shared_local *l = local_model_state(t->r->worker->shared, row->id);
    if (!model_name_enter(t->r, row, &ignored)) {
        t->r->error_override.retry_after_s = 0;
        return true;
    }
    const bool ready = engine_status_read(t->r, &page) && l && l->state == LOCAL_READY;
    if (!t->running) {
        cJSON_AddItemToArray(t->models, ollama_facts_entry(t->r, &page));
    } else if (ready) {
        cJSON *m = running_entry(t->r, &page);
        const bool stays = row->pinned || !row->idle_s;
        ollama_time(when,
                    (l->wanted_ms > l->since_ms ? l->wanted_ms : l->since_ms) + row->idle_s * 1000);
        cJSON_AddStringToObject(m, "expires_at", stays ? NEVER : when);
        cJSON_AddNumberToObject(m, "context_length", page.n_ctx);
        cJSON_AddItemToArray(t->models, m);
    }
    model_name_leave(t->r);
    return true;
}

/* Another server's model, as far as it is known. */
static bool add_row(void *context, const struct store_model *row)
{
    struct tags *t = context;
    cJSON *details;
    if (strcmp(row->kind, "chat") != 0 || (t->running && !row->path))
        return true;
    if (row->path)
        return add_local(t, row);
    cJSON *o = cJSON_CreateObject();
    char full[160], modified[OLLAMA_TIME_BYTES];
    ollama_facts_name(full, sizeof full, row->name);
    ollama_time(modified, row->created_at);
    cJSON_AddStringToObject(o, "name", full);
    cJSON_AddStringToObject(o, "model", full);
    cJSON_AddStringToObject(o, "modified_at", modified);
    cJSON_AddNumberToObject(o, "size", 0);
    cJSON_AddStringToObject(o, "digest", "");
    details = cJSON_AddObjectToObject(o, "details");
    cJSON_AddStringToObject(details, "format", "");
    cJSON_AddStringToObject(details, "family", "");
    return cJSON_AddItemToArray(t->models, o);
}

/* Until this version the page's list of its user's tags was here: a page that is still open is sent
 * to where it is now. */
static bool redirect_page(struct request *r)
{
    reply_header(r, "Location", "/api/conversation-tags");
    return reply_empty(r, 308);
}

static bool list_models(struct request *r, struct err *e)
{
    struct status_page page;
    if (r->who.by == AUTH_SESSION)
        return redirect_page(r);
    engine_status_read(r, &page);
    cJSON *o = cJSON_CreateObject(), *models = cJSON_AddArrayToObject(o, "models");
    cJSON_AddItemToArray(models, ollama_facts_entry(r, &page));
    model_name_each_alias(r, add_alias, models);
    struct tags t = {.r = r, .models = models};
    bool ok = store_model_list(r->store, model_name_user(r), add_row, &t, e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool list_running(struct request *r, struct err *e)
{
    struct status_page page;
    const bool ready = engine_status_read(r, &page);
    cJSON *o = cJSON_CreateObject(), *models = cJSON_AddArrayToObject(o, "models");
    if (ready) {
        cJSON *m = running_entry(r, &page);
        cJSON_AddStringToObject(m, "expires_at", NEVER);
        cJSON_AddNumberToObject(m, "context_length", page.n_ctx);
        cJSON_AddItemToArray(models, m);
    }
    struct tags t = {.r = r, .models = models, .running = true};
    bool ok = store_model_list(r->store, model_name_user(r), add_row, &t, e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool show_model(struct request *r, struct err *e)
{
    static const struct field_row fields[] = {
        {"model", FIELD_READ}, {"name", FIELD_READ}, {"verbose", FIELD_READ}, {0}};
    struct status_page page;
    const char *name;
    bool verbose; /* there is nothing more to say */
    const cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, fields, e) || !json_get_bool(body, "verbose", &verbose, e) ||
        !ollama_name(body, &name, e))
        return false;
    if (!name)
        return err_field(e, ERR_INPUT, "model", "is needed");
    if (!ollama_model(r, body, e))
        return false;
    engine_status_read(r, &page);
    struct buf b = {0};
    cJSON *o = r->model ? ollama_facts_relayed(r->model) : ollama_facts_show(r, &page);
    if (json_write(&b, o) && b.len)
        b.len--; /* the closing brace comes after the warnings */
    ignored_write(&b, r);
    buf_putc(&b, '}');
    reply_json_buf(r, 200, &b);
    cJSON_Delete(o);
    buf_fini(&b);
    return true;
}

static bool show_version(struct request *r, struct err *e)
{
    struct buf b = {0};
    (void)e;
    buf_printf(&b, "{\"version\":\"" OLLAMA_VERSION "\",\"sluice\":\"%s\"}", PACKAGE_VERSION);
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    return true;
}

static bool refuse(struct request *r, struct err *e)
{
    r->error_override.status = 501;
    r->error_override.code = "not_implemented";
    return err_set(e, ERR_UNSUPPORTED,
                   "models are not made, copied, deleted or pushed by Ollama's API here: they are "
                   "files on the "
                   "server, and an admin chooses the one that is served");
}

#define REFUSED(m, p, words)                                                                       \
    {.method = (m),                                                                                \
     .path = (p),                                                                                  \
     .auth = ROUTE_USER,                                                                           \
     .pool = POOL_SHORT,                                                                           \
     .body_limit = ROUTE_JSON_BODY,                                                                \
     .handler = refuse,                                                                            \
     .scope = SCOPE_INFERENCE,                                                                     \
     .doc = {.summary = "Refused with 501: " words,                                                \
             .body = "OllamaRefused",                                                              \
             OLLAMA_FORM,                                                                          \
             .statuses = "501"},                                                                   \
     .dialect = &ollama_dialect}

const struct route api_ollama_models_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/tags",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_models,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "List the models, in Ollama's form; a page's session is sent to "
                        "/api/conversation-tags",
             .reply = "OllamaTags",
             OLLAMA_FORM,
             .statuses = "200 308"},
     .dialect = &ollama_dialect},
    {.method = HTTP_GET,
     .path = "/api/ps",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_running,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "The models in memory, in Ollama's form",
             .reply = "OllamaRunning",
             OLLAMA_FORM,
             .statuses = "200"},
     .dialect = &ollama_dialect},
    {.method = HTTP_GET,
     .path = "/api/version",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = show_version,
     .scope = SCOPE_ANY,
     .doc = {.summary = "The version of Ollama whose API this speaks",
             .reply = "OllamaVersion",
             OLLAMA_FORM,
             .statuses = "200"},
     .dialect = &ollama_dialect},
    {.method = HTTP_POST,
     .path = "/api/show",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = show_model,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Describe a model, in Ollama's form",
             .body = "OllamaShowRequest",
             .reply = "OllamaShow",
             OLLAMA_FORM,
             .statuses = "200 404"},
     .dialect = &ollama_dialect},
    REFUSED(HTTP_POST, "/api/create", "models are not made here"),
    REFUSED(HTTP_POST, "/api/copy", "models are not copied"),
    REFUSED(HTTP_DELETE, "/api/delete", "models are not deleted"),
    REFUSED(HTTP_POST, "/api/push", "models are not pushed"),
    {.method = HTTP_POST,
     .path = "/api/blobs/{digest}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = refuse,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Refused with 501: files of models are not uploaded",
             OLLAMA_FORM,
             .statuses = "501"},
     .dialect = &ollama_dialect},
    {0},
};
