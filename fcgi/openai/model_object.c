/* model_object.h: joins what the model's files, the server's settings and the engine's status page
 * say. */
#include "fcgi/openai/model_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/settings.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "sql/models/store_models.h"

static void add_traits(cJSON *o, const struct text_model *m)
{
    if (!m->chat_template) {
        cJSON_AddNullToObject(o, "chat_template");
        return;
    }
    const struct chat_traits *t = chat_template_traits(m->chat_template);
    cJSON *c = cJSON_AddObjectToObject(o, "chat_template");
    cJSON_AddStringToObject(c, "format", t->format);
    cJSON_AddBoolToObject(c, "tools", t->tools);
    cJSON_AddBoolToObject(c, "system_role", t->system_role);
    cJSON_AddBoolToObject(c, "thinking", t->thinking);
    cJSON_AddBoolToObject(c, "thinking_switch", t->thinking_switch);
    cJSON_AddBoolToObject(c, "reasoning_effort", t->effort);
}

/* A float with the digits that it has: 0.3, not 0.300000012. */
static void add_float(cJSON *o, const char *name, float v)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)v);
    cJSON_AddNumberToObject(o, name, strtod(text, NULL));
}

/* Writes a request's default sampling: the model's own, or the server's where an admin set it. */
static void add_defaults(cJSON *o, const struct request *r)
{
    struct settings s;
    cJSON *d = cJSON_AddObjectToObject(o, "defaults");
    settings_begin(&s, r);
    add_float(d, "temperature", s.sampling.temperature);
    add_float(d, "top_p", s.sampling.top_p);
    cJSON_AddNumberToObject(d, "top_k", s.sampling.top_k);
    add_float(d, "min_p", s.sampling.min_p);
    add_float(d, "repetition_penalty", s.sampling.repetition_penalty);
}

/* Writes what clients of Anthropic's form, vLLM and gateways look for in a model. n_ctx: tokens; 0:
 * not known. */
static void add_client_members(cJSON *o, const char *id, int64_t created_s, int64_t n_ctx)
{
    char date[32] = "1970-01-01T00:00:00Z";
    time_t created = (time_t)created_s;
    struct tm utc;
    if (gmtime_r(&created, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    cJSON_AddStringToObject(o, "type", "model");
    cJSON_AddStringToObject(o, "display_name", id);
    cJSON_AddStringToObject(o, "created_at", date);
    cJSON_AddStringToObject(o, "lifecycle", "active");
    static const char *const lengths[] = {"max_model_len", "context_length", "max_input_tokens",
                                          "max_tokens"};
    for (size_t i = 0; n_ctx && i < sizeof lengths / sizeof lengths[0]; i++)
        cJSON_AddNumberToObject(o, lengths[i], (double)n_ctx);
}

/* What every model has; the caller adds `sluice`. */
static cJSON *begin(const char *id, int64_t created, int32_t n_ctx)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", id);
    cJSON_AddStringToObject(o, "object", "model");
    cJSON_AddNumberToObject(o, "created", (double)created);
    cJSON_AddStringToObject(o, "owned_by", "sluice");
    add_client_members(o, id, created, n_ctx);
    return o;
}

cJSON *model_object_of_side(const struct side_model *m)
{
    struct status_page page = {0};
    status_read(m->status_path, &page, NULL);
    cJSON *o = begin(m->id, m->created, page.n_ctx ? page.n_ctx : m->text.n_ctx);
    cJSON *s = cJSON_AddObjectToObject(o, "sluice");
    cJSON_AddStringToObject(s, "task", engine_task_name(m->task));
    cJSON_AddStringToObject(s, "state", engine_state_name(page.state));
    if (!page.n_ctx)
        return o;
    cJSON_AddStringToObject(s, "family", page.family);
    cJSON_AddStringToObject(s, "backend", page.backend);
    cJSON_AddStringToObject(s, "device", page.device);
    cJSON_AddNumberToObject(s, "context", page.n_ctx);
    if (page.dimensions) {
        cJSON_AddNumberToObject(s, "dimensions", page.dimensions);
        cJSON_AddStringToObject(s, "pooling", page.pooling);
    }
    cJSON_AddNumberToObject(s, "parameters", (double)page.parameters);
    cJSON_AddNumberToObject(s, "weight_bytes", (double)page.weight_bytes);
    cJSON_AddNumberToObject(s, "host_bytes", (double)page.host_bytes);
    cJSON_AddNumberToObject(s, "jobs_running", page.jobs_running);
    cJSON_AddNumberToObject(s, "jobs_waiting", page.jobs_waiting);
    cJSON_AddNumberToObject(s, "tokens", (double)page.prompt_tokens);
    return o;
}

cJSON *model_object_create(const struct request *r, const struct status_page *page)
{
    const struct worker *w = r->worker;
    char fingerprint[24];
    cJSON *o = begin(w->model_id, w->model_created, page->n_ctx ? page->n_ctx : w->text->n_ctx);
    cJSON *s = cJSON_AddObjectToObject(o, "sluice");
    cJSON_AddStringToObject(s, "state", engine_state_name(page->state));
    add_traits(s, w->text);
    add_defaults(s, r);
    cJSON_AddNumberToObject(s, "context_trained", w->text->n_ctx);
    if (!page->n_ctx) /* the engine has not told yet */
        return o;
    snprintf(fingerprint, sizeof fingerprint, "%016llx",
             (unsigned long long)page->model_fingerprint);
    cJSON_AddStringToObject(s, "family", page->family);
    cJSON_AddStringToObject(s, "fingerprint", fingerprint);
    cJSON_AddStringToObject(s, "backend", page->backend);
    cJSON_AddStringToObject(s, "device", page->device);
    if (page->backend_note[0])
        cJSON_AddStringToObject(s, "backend_note", page->backend_note);
    cJSON_AddStringToObject(s, "strategy", page->strategy);
    cJSON_AddStringToObject(s, "speculate", page->speculate);
    if (page->speculate_note[0])
        cJSON_AddStringToObject(s, "speculate_note", page->speculate_note);
    if (page->draft_model[0])
        cJSON_AddStringToObject(s, "draft_model", page->draft_model);
    if (page->mtp_host_bytes)
        cJSON_AddBoolToObject(s, "mtp", true);
    cJSON_AddNumberToObject(s, "context", page->n_ctx);
    cJSON_AddNumberToObject(s, "layers", page->n_layer);
    cJSON_AddNumberToObject(s, "attention_layers", page->n_attention);
    cJSON_AddNumberToObject(s, "recurrent_layers", page->n_recurrent);
    cJSON_AddNumberToObject(s, "vocabulary", page->n_vocab);
    cJSON_AddNumberToObject(s, "slots", page->n_slots);
    cJSON_AddNumberToObject(s, "parameters", (double)page->parameters);
    cJSON_AddNumberToObject(s, "active_parameters", (double)page->active_parameters);
    cJSON_AddNumberToObject(s, "file_bytes", (double)page->file_bytes);
    cJSON_AddNumberToObject(s, "weight_bytes", (double)page->weight_bytes);
    cJSON_AddNumberToObject(s, "expert_bytes", (double)page->expert_bytes);
    cJSON_AddNumberToObject(s, "active_bytes", (double)page->active_bytes);
    engine_status_put_parts(s, page);
    cJSON_AddNumberToObject(s, "unused_tensors", page->n_unused_tensors);
    cJSON_AddNumberToObject(s, "kv_bytes_per_token", (double)page->kv_bytes_per_token);
    cJSON_AddStringToObject(s, "kv_type", page->kv_type);
    cJSON_AddNumberToObject(s, "kv_stored_bytes_per_token",
                            (double)page->kv_stored_bytes_per_token);
    cJSON_AddNumberToObject(s, "state_bytes", (double)page->state_bytes_per_sequence);
    cJSON_AddNumberToObject(s, "kv_bytes", (double)page->kv_bytes);
    return o;
}

static void add_aliases(cJSON *o, const struct store_model *m)
{
    cJSON *aliases = cJSON_Parse(m->aliases);
    cJSON_AddItemToObject(o, "aliases", aliases ? aliases : cJSON_CreateArray());
}

cJSON *model_object_relayed(const struct store_model *m)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", m->name);
    cJSON_AddStringToObject(o, "object", "model");
    cJSON_AddNumberToObject(o, "created", (double)(m->created_at / 1000));
    cJSON_AddStringToObject(o, "owned_by", "upstream");
    add_client_members(o, m->name, m->created_at / 1000, m->context);
    cJSON *s = cJSON_AddObjectToObject(o, "sluice");
    cJSON_AddStringToObject(s, "kind", m->kind);
    cJSON_AddBoolToObject(s, "relayed", true);
    cJSON_AddBoolToObject(s, "tools", m->tools);
    cJSON_AddBoolToObject(s, "vision", m->vision);
    cJSON_AddBoolToObject(s, "reasoning", m->reasoning);
    if (m->context)
        cJSON_AddNumberToObject(s, "context", (double)m->context);
    add_aliases(s, m);
    return o;
}

cJSON *model_object_local(struct request *r, const struct store_model *m)
{
    struct status_page page = {0};
    struct err ignored = {0};
    const int state = local_model_state_now(r->worker->shared, m->id);
    const struct worker *w = local_model_of(r->worker, m->id);
    const bool opened = model_name_enter(r, m, &ignored);
    if (opened && state == LOCAL_READY)
        engine_status_read(r, &page);
    cJSON *o = opened ? model_object_create(r, &page)
                      : begin(m->name, m->created_at / 1000, (int32_t)m->context);
    cJSON *s = opened ? cJSON_GetObjectItemCaseSensitive(o, "sluice")
                      : cJSON_AddObjectToObject(o, "sluice");
    model_name_leave(r);
    r->error_override.retry_after_s = 0; /* a listing is no request for it */
    cJSON_DeleteItemFromObjectCaseSensitive(s, "state");
    cJSON_AddStringToObject(s, "state", w && !w->text ? "failed" : local_state_name(state));
    cJSON_AddStringToObject(s, "kind", m->kind);
    cJSON_AddBoolToObject(s, "on_demand", true);
    cJSON_AddBoolToObject(s, "pinned", m->pinned);
    add_aliases(s, m);
    return o;
}
