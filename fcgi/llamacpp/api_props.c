/* GET /props and /slots: the server as llama.cpp's clients see it, from the status page. */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/llamacpp/llamacpp.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

/* A model of this machine whose engine the next request for it starts; to ask about it starts none.
 */
static bool sleeps(const struct request *r)
{
    const struct worker *w = r->worker;
    const int state = local_model_state_now(w->shared, w->local_id);
    return w->local_id && state != LOCAL_READY && state != LOCAL_LOADING;
}

/* A zeroed page for one that sleeps: it has no slots. */
static bool need_engine(struct request *r, struct status_page *page, struct err *e)
{
    *page = (struct status_page){0};
    return sleeps(r) || engine_status_read(r, page) ||
           err_set(e, ERR_UNAVAILABLE, "%s",
                   page->error[0] ? page->error : "the engine is still loading the model");
}

/* As llama.cpp's router has it: ?model= names the one that is meant. */
static bool take_model(struct request *r, struct err *e)
{
    const char *name = request_query(r, "model");
    if (!name)
        return true;
    if (!model_name_take(r, name, e))
        return false;
    return !r->model ||
           err_field(e, ERR_UNSUPPORTED, "model", "'%.100s' is answered by another server", name);
}

/* What a request begins with where it says nothing. */
static bool add_defaults(cJSON *o, const struct request *r, const struct status_page *page,
                         struct err *e)
{
    struct settings s;
    struct buf b = {0};
    settings_begin(&s, r);
    llamacpp_settings(&b, &s);
    buf_puts(&b, ",\"n_probs\":0,\"ignore_eos\":false,\"stream\":false,\"grammar\":\"\"}");
    cJSON *d = cJSON_AddObjectToObject(o, "default_generation_settings");
    cJSON *params = b.failed ? NULL : json_parse(b.data, b.len, NULL, e);
    buf_fini(&b);
    if (!params)
        return err_set(e, ERR_NOMEM, "no memory for the settings");
    cJSON_AddItemToObject(d, "params", params);
    cJSON_AddNumberToObject(d, "n_ctx", page->n_ctx ? page->n_ctx : r->worker->text->n_ctx);
    return true;
}

static void add_template(cJSON *o, const struct text_model *m)
{
    const struct chat_template *t = m->chat_template;
    const char *bos = t ? chat_template_bos(t) : NULL, *eos = t ? chat_template_eos(t) : NULL;
    cJSON_AddStringToObject(o, "chat_template", t ? chat_template_source(t) : "");
    cJSON *caps = cJSON_AddObjectToObject(o, "chat_template_caps");
    if (t) {
        cJSON_AddBoolToObject(caps, "supports_tools", chat_template_traits(t)->tools);
        cJSON_AddBoolToObject(caps, "supports_system_role", chat_template_traits(t)->system_role);
    }
    cJSON_AddStringToObject(o, "bos_token", bos ? bos : "");
    cJSON_AddStringToObject(o, "eos_token", eos ? eos : "");
}

static bool show_props(struct request *r, struct err *e)
{
    struct status_page page;
    if (!take_model(r, e) || !need_engine(r, &page, e))
        return false;
    cJSON *o = cJSON_CreateObject(), *modalities;
    bool ok = add_defaults(o, r, &page, e);
    cJSON_AddNumberToObject(o, "total_slots", page.n_slots);
    cJSON_AddStringToObject(o, "model_alias", r->worker->model_id);
    /* Its name: paths of the machine stay here. */
    cJSON_AddStringToObject(o, "model_path", r->worker->text->name);
    add_template(o, r->worker->text);
    modalities = cJSON_AddObjectToObject(o, "modalities");
    cJSON_AddBoolToObject(modalities, "vision", false);
    cJSON_AddBoolToObject(modalities, "audio", false);
    cJSON_AddStringToObject(o, "build_info", "sluice-" PACKAGE_VERSION);
    cJSON_AddBoolToObject(o, "is_sleeping", page.state != ENGINE_READY);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

/* Jobs have no slots of their own here: as many are shown busy as jobs run. */
static bool list_slots(struct request *r, struct err *e)
{
    struct status_page page;
    int64_t must_be_free = 0;
    if (!request_query_int(r, "fail_on_no_slot", 0, 1, &must_be_free, e) || !take_model(r, e) ||
        !need_engine(r, &page, e))
        return false;
    if (must_be_free && page.n_slots && page.jobs_running >= page.n_slots)
        return err_set(e, ERR_UNAVAILABLE, "no slot is free: %d of %d are busy",
                       (int)page.jobs_running, (int)page.n_slots);
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < page.n_slots; i++) {
        cJSON *slot = cJSON_CreateObject();
        cJSON_AddNumberToObject(slot, "id", i);
        cJSON_AddNumberToObject(slot, "n_ctx", page.n_ctx);
        cJSON_AddBoolToObject(slot, "speculative",
                              page.speculate[0] && strcmp(page.speculate, "off") != 0);
        cJSON_AddBoolToObject(slot, "is_processing", i < page.jobs_running);
        cJSON_AddItemToArray(list, slot);
    }
    reply_json(r, 200, list);
    cJSON_Delete(list);
    return true;
}

const struct route api_props_routes[] = {
    {.method = HTTP_GET,
     .path = "/props",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_props,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Describe the server, in llama.cpp's form",
             .query = "PropsQuery",
             .reply = "LlamacppProps",
             .statuses = "200 404"}},
    {.method = HTTP_GET,
     .path = "/slots",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_slots,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "How many jobs run, in llama.cpp's form",
             .query = "SlotsQuery",
             .reply = "LlamacppSlots",
             .statuses = "200 404"}},
    {0},
};
