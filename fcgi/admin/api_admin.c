/* GET /api/admin/status: everything that the server knows of itself, for admins. */
#include <stdio.h>
#include <sys/utsname.h>

#include "config.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "fcgi/upstreams/upstream_status.h"
#include "sql/core/secret.h"
#include "sql/core/store.h"
#include "sql/prompts/store_prompt_blocks.h"

#define MAX_REPORT 65536

static void add_number(cJSON *o, const char *name, double v)
{
    cJSON_AddNumberToObject(o, name, v);
}

static void add_plan(cJSON *o, const struct status_page *p, const char *reason)
{
    cJSON_AddStringToObject(o, "state", engine_state_name(p->state));
    cJSON_AddStringToObject(o, "error", p->error);
    cJSON_AddItemToObject(o, "reason", reason ? cJSON_CreateString(reason) : cJSON_CreateNull());
    add_number(o, "pid", (double)p->pid);
    add_number(o, "started", p->started);
    add_number(o, "heartbeat", p->heartbeat);
    cJSON_AddStringToObject(o, "model_path", p->model_path);
    cJSON_AddStringToObject(o, "model_name", p->model_name);
    cJSON_AddStringToObject(o, "family", p->family);
    cJSON_AddStringToObject(o, "backend", p->backend);
    cJSON_AddStringToObject(o, "device", p->device);
    if (p->device_id[0])
        cJSON_AddStringToObject(o, "device_id", p->device_id);
    cJSON_AddStringToObject(o, "backend_note", p->backend_note);
    cJSON_AddStringToObject(o, "strategy", p->strategy);
    add_number(o, "n_layer", p->n_layer);
    add_number(o, "n_ctx", p->n_ctx);
    add_number(o, "n_vocab", p->n_vocab);
    add_number(o, "n_slots", p->n_slots);
    add_number(o, "max_queue", p->max_queue);
    add_number(o, "block_tokens", p->block_tokens);
    add_number(o, "n_blocks", p->n_blocks);
    add_number(o, "n_threads", p->n_threads);
    add_number(o, "parameters", (double)p->parameters);
    add_number(o, "active_parameters", (double)p->active_parameters);
}

static void add_memory(cJSON *o, const struct status_page *p)
{
    add_number(o, "file_bytes", (double)p->file_bytes);
    add_number(o, "weight_bytes", (double)p->weight_bytes);
    add_number(o, "dense_bytes", (double)p->dense_bytes);
    add_number(o, "expert_bytes", (double)p->expert_bytes);
    add_number(o, "active_bytes", (double)p->active_bytes);
    add_number(o, "experts_per_token", p->experts_per_token);
    add_number(o, "own_experts_per_token", p->trained_top_k);
    add_number(o, "kv_bytes", (double)p->kv_bytes);
    add_number(o, "kv_stored_bytes_per_token", (double)p->kv_stored_bytes_per_token);
    cJSON_AddStringToObject(o, "kv_type", p->kv_type);
    add_number(o, "state_bytes", (double)p->state_bytes);
    add_number(o, "work_bytes", (double)p->work_bytes);
    add_number(o, "recall_bytes", (double)p->recall_bytes);
    add_number(o, "loaded_weight_bytes", (double)p->loaded_weight_bytes);
    add_number(o, "memory_available", (double)p->memory_available);
    add_number(o, "memory_pressure_shrinks", (double)p->memory_pressure_shrinks);
    add_number(o, "device_bytes", (double)p->device_bytes);
    add_number(o, "host_bytes", (double)p->host_bytes);
    add_number(o, "resident_bytes", (double)p->resident_bytes);
    add_number(o, "anonymous_bytes", (double)p->anonymous_bytes);
    add_number(o, "mapped_bytes", (double)p->mapped_bytes);
    add_number(o, "locked_bytes", (double)status_locked_bytes(p));
    add_number(o, "resident_weight_bytes", (double)p->resident_weight_bytes);
    add_number(o, "disk_read_bytes", (double)p->disk_read_bytes);
}

/* Adds what was planned before the load, with the keys of the engine's ready line. */
static void add_memory_plan(cJSON *o, const struct status_page *p)
{
    cJSON *plan = p->plan[0] ? cJSON_Parse(p->plan) : NULL;
    cJSON_AddItemToObject(o, "plan", plan ? plan : cJSON_CreateNull());
}

/* Experts that stay on disk (ssd_streaming), and those that the GPU reads from RAM (hybrid). All 0:
 * all in one memory. */
static void add_experts(cJSON *o, const struct status_page *p)
{
    const struct status_experts *x = &p->experts;
    add_number(o, "budget_bytes", (double)x->budget_bytes);
    add_number(o, "resident_bytes", (double)x->resident_bytes);
    add_number(o, "asked", (double)x->asked);
    add_number(o, "hits", (double)x->hits);
    add_number(o, "late", (double)x->late);
    add_number(o, "misses", (double)x->misses);
    add_number(o, "evictions", (double)x->evictions);
    add_number(o, "read_bytes", (double)x->read_bytes);
    add_number(o, "warm_bytes", (double)x->warm_bytes);
    add_number(o, "wait_seconds", x->wait_seconds);
    add_number(o, "device_hits", (double)p->expert_device_hits);
    add_number(o, "device_misses", (double)p->expert_device_misses);
    add_number(o, "device_evictions", (double)p->expert_device_evictions);
    add_number(o, "bus_bytes", (double)p->expert_bus_bytes);
    add_number(o, "copied_bytes", (double)p->expert_copied_bytes);
    add_number(o, "on_cpu", (double)p->expert_on_cpu);
}

/* The prompt cache on disk: as the engine counts its records, and as the rows list them. */
static void add_prompt_cache(cJSON *o, struct request *r, const struct status_page *p)
{
    struct store_prompt_facts f = {0};
    struct err e = {0};
    if (!store_prompt_facts(r->store, &f, &e))
        cJSON_AddStringToObject(o, "error", e.text);
    cJSON_AddBoolToObject(o, "on", p->cache_identity != 0);
    cJSON_AddStringToObject(o, "note", p->cache_note);
    add_number(o, "budget_bytes", (double)p->cache_disk_budget);
    add_number(o, "ram_budget_bytes", (double)p->cache_ram_budget);
    add_number(o, "ram_bytes", (double)p->cache_ram_bytes);
    add_number(o, "bytes", (double)p->cache_disk_bytes);
    add_number(o, "records", (double)p->cache_records);
    add_number(o, "rows", (double)f.blocks);
    add_number(o, "row_bytes", (double)f.bytes);
    add_number(o, "row_tokens", (double)f.blocks * ENGINE_STORED_TOKENS);
    add_number(o, "users", (double)f.users);
    add_number(o, "removals", (double)f.removals);
    add_number(o, "stored", (double)p->cache_stored);
    add_number(o, "loaded", (double)p->cache_loaded);
    add_number(o, "loaded_tokens", (double)p->cache_loaded * ENGINE_STORED_TOKENS);
    add_number(o, "refused", (double)p->cache_refused);
    add_number(o, "damaged", (double)p->cache_damaged);
    add_number(o, "read_bytes", (double)p->cache_read_bytes);
    add_number(o, "written_bytes", (double)p->cache_written_bytes);
    add_number(o, "read_seconds", p->cache_read_seconds);
}

static void add_speculation(cJSON *o, const struct status_page *p)
{
    cJSON_AddStringToObject(o, "applied", p->speculate);
    cJSON_AddStringToObject(o, "note", p->speculate_note);
    cJSON_AddStringToObject(o, "draft_model", p->draft_model);
    add_number(o, "draft_host_bytes", (double)p->draft_host_bytes);
    add_number(o, "draft_device_bytes", (double)p->draft_device_bytes);
    add_number(o, "mtp_host_bytes", (double)p->mtp_host_bytes);
    add_number(o, "steps", (double)p->draft_steps);
    add_number(o, "drafted", (double)p->drafted_tokens);
    add_number(o, "accepted", (double)p->accepted_tokens);
}

static void add_load(cJSON *o, const struct status_page *p)
{
    add_number(o, "jobs_running", p->jobs_running);
    add_number(o, "jobs_waiting", p->jobs_waiting);
    add_number(o, "blocks_used", p->blocks_used);
    add_number(o, "blocks_cached", p->blocks_cached);
    add_number(o, "connections", p->connections);
    add_number(o, "decode_tokens_per_s", p->decode_tokens_per_s);
    add_number(o, "prefill_tokens_per_s", p->prefill_tokens_per_s);
    add_number(o, "jobs_accepted", (double)p->jobs_accepted);
    add_number(o, "jobs_refused", (double)p->jobs_refused);
    add_number(o, "jobs_failed", (double)p->jobs_done[OUTCOME_FAILED]);
    add_number(o, "jobs_lossy", (double)p->jobs_lossy);
    add_number(o, "prompt_tokens", (double)p->prompt_tokens);
    add_number(o, "cached_tokens", (double)p->cached_tokens);
    add_number(o, "completion_tokens", (double)p->completion_tokens);
    add_number(o, "prefix_queries", (double)p->prefix_queries);
    add_number(o, "prefix_hits", (double)p->prefix_hits);
    add_number(o, "steps", (double)p->steps);
    add_number(o, "step_seconds", p->step_seconds);
    add_number(o, "idle_seconds", p->idle_seconds);
}

/* model: of an engine beside the first, whose jobs have numbers of their own; else NULL. */
static void add_jobs(cJSON *list, const struct status_page *p, const char *model)
{
    static const char *const states[] = {"", "queued", "prefill", "decode"};
    for (int i = 0; i < p->n_jobs && i < STATUS_JOBS; i++) {
        const struct status_job *j = &p->jobs[i];
        char text[24];
        cJSON *o = cJSON_CreateObject();
        snprintf(text, sizeof text, "%llu", (unsigned long long)j->id);
        cJSON_AddStringToObject(o, "id", text);
        snprintf(text, sizeof text, "%llu", (unsigned long long)j->user);
        cJSON_AddStringToObject(o, "user_id", text);
        cJSON_AddStringToObject(o, "state", j->state > 0 && j->state < 4 ? states[j->state] : "");
        add_number(o, "prompt_tokens", j->prompt_tokens);
        add_number(o, "done_tokens", j->done_tokens);
        add_number(o, "completion_tokens", j->completion_tokens);
        add_number(o, "started", j->started_s);
        cJSON_AddStringToObject(o, "request_id", j->request_id);
        if (model)
            cJSON_AddStringToObject(o, "model", model);
        cJSON_AddItemToArray(list, o);
    }
}

/* Those that other servers answer stand behind the engine's. */
static void add_relayed_jobs(cJSON *list, const struct worker *w)
{
    cJSON *status = upstream_status_read(w->run_dir);
    const cJSON *o;
    cJSON_ArrayForEach (o, json_member(status, "jobs"))
        cJSON_AddItemToArray(list, cJSON_Duplicate(o, true));
    cJSON_Delete(status);
}

static void add_all_jobs(cJSON *list, const struct worker *w, const struct status_page *first)
{
    struct status_page page;
    add_jobs(list, first, NULL);
    for (int i = 0; i < w->n_locals; i++)
        if (status_read(w->locals[i].status_path, &page, NULL) && page.state == ENGINE_READY)
            add_jobs(list, &page, w->locals[i].model_id);
}

static void add_child(cJSON *list, const struct shared_child *c)
{
    static const char *const states[] = {"none", "starting", "idle", "busy", "leaving"};
    const int32_t state = c->state;
    cJSON *o = cJSON_CreateObject();
    add_number(o, "pid", c->pid);
    cJSON_AddStringToObject(o, "state",
                            state >= 0 && state <= CHILD_LEAVING ? states[state] : "none");
    add_number(o, "since", (double)c->since_ms);
    add_number(o, "requests", (double)c->requests);
    cJSON_AddItemToArray(list, o);
}

static void add_pools(cJSON *list, struct shared *s)
{
    for (int p = 0; p < POOL__N; p++) {
        cJSON *o = cJSON_CreateObject();
        int idle = 0, busy = 0;
        cJSON *children = cJSON_CreateArray();
        for (int i = 0; i < SHARED_CHILDREN; i++) {
            const struct shared_child *c = &s->pool[p].child[i];
            int32_t state = c->state;
            idle += state == CHILD_IDLE || state == CHILD_STARTING;
            busy += state == CHILD_BUSY;
            if (state != CHILD_NONE)
                add_child(children, c);
        }
        cJSON_AddStringToObject(o, "pool", worker_pool_name((enum worker_pool)p));
        add_number(o, "master_pid", s->pool[p].master_pid);
        add_number(o, "idle", idle);
        add_number(o, "busy", busy);
        add_number(o, "started", (double)s->pool[p].started);
        add_number(o, "crashed", (double)s->pool[p].crashed);
        cJSON_AddItemToObject(o, "children", children);
        cJSON_AddItemToArray(list, o);
    }
}

static void add_store(cJSON *o, struct request *r)
{
    struct store_facts f;
    struct err e = {0};
    if (!store_facts(r->store, &f, &e)) {
        cJSON_AddStringToObject(o, "error", e.text);
        return;
    }
    add_number(o, "schema_version", (double)f.schema_version);
    add_number(o, "database_bytes", (double)f.database_bytes);
    add_number(o, "wal_bytes", (double)f.wal_bytes);
    add_number(o, "free_bytes", (double)f.free_bytes);
    add_number(o, "users", (double)f.users);
    add_number(o, "conversations", (double)f.conversations);
    add_number(o, "messages", (double)f.messages);
    add_number(o, "running", (double)f.running);
    cJSON_AddStringToObject(o, "sqlite_version", f.sqlite_version);
    if (f.sqlite_warning)
        cJSON_AddStringToObject(o, "sqlite_warning", f.sqlite_warning);
    else
        cJSON_AddNullToObject(o, "sqlite_warning");
}

/* Unix ms of something that the server wrote down; null: never. */
static void add_time(cJSON *o, const char *name, struct request *r, const char *setting)
{
    const char *json;
    struct err e = {0};
    if (store_setting_get(r->store, r->arena, setting, &json, &e))
        cJSON_AddRawToObject(o, name, json);
    else
        cJSON_AddNullToObject(o, name);
}

static void add_versions(cJSON *o, const struct status_page *p, const struct request *r)
{
    struct utsname u;
    char text[160];
    cJSON_AddStringToObject(o, "sluice", PACKAGE_VERSION);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)p->model_fingerprint);
    if (p->model_fingerprint)
        cJSON_AddStringToObject(o, "model_fingerprint", text);
    cJSON_AddStringToObject(o, "sqlite", store_sqlite_version());
    cJSON_AddStringToObject(o, "libsodium", secret_library_version());
    cJSON_AddStringToObject(o, "cjson", cJSON_Version());
    if (uname(&u) == 0) {
        snprintf(text, sizeof text, "%.60s %.90s", u.sysname, u.release);
        cJSON_AddStringToObject(o, "kernel", text);
    }
    const char *server = request_server(r);
    if (server)
        cJSON_AddStringToObject(o, "server", server);
}

/* Adds what the supervisor says of its children; null under systemd. */
static void add_processes(cJSON *o, const struct worker *w)
{
    char path[4096];
    cJSON *v = NULL;
    if (file_join(path, sizeof path, w->run_dir, "processes.json", NULL))
        v = json_parse_file(path, MAX_REPORT, NULL);
    cJSON_AddItemToObject(o, "processes", v ? v : cJSON_CreateNull());
}

static bool admin_status(struct request *r, struct err *e)
{
    struct status_page page;
    engine_status_read(r, &page);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "version", PACKAGE_VERSION);
    add_plan(cJSON_AddObjectToObject(o, "engine"), &page, model_gate_reason(r, &page));
    add_memory(cJSON_AddObjectToObject(o, "memory"), &page);
    engine_status_put_parts(o, &page);
    add_memory_plan(o, &page);
    add_speculation(cJSON_AddObjectToObject(o, "speculation"), &page);
    add_experts(cJSON_AddObjectToObject(o, "experts"), &page);
    add_load(cJSON_AddObjectToObject(o, "load"), &page);
    add_prompt_cache(cJSON_AddObjectToObject(o, "prompt_cache"), r, &page);
    cJSON *jobs = cJSON_AddArrayToObject(o, "jobs");
    add_all_jobs(jobs, r->worker, &page);
    add_relayed_jobs(jobs, r->worker);
    add_pools(cJSON_AddArrayToObject(o, "pools"), r->worker->shared);
    cJSON *database = cJSON_AddObjectToObject(o, "database");
    add_store(database, r);
    add_time(database, "checkpoint_at", r, STORE_CHECKPOINT_SETTING);
    add_time(database, "backup_at", r, STORE_BACKUP_SETTING);
    add_versions(cJSON_AddObjectToObject(o, "versions"), &page, r);
    add_processes(o, r->worker);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_admin_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/status",
     .polled = true,
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = admin_status,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Everything that the server knows of itself",
             .reply = "AdminStatus",
             .statuses = "200"}},
    {0},
};
