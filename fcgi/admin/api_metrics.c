/* GET /metrics: Prometheus text. The engine's figures come from its status page, the workers' from
 * shared memory; vLLM's names where it has them. No figure names a user or a prompt, but
 * differences tell what others ask, to the token: they are for admins and whoever they gave a key.
 */
#define LOG_MODULE "metrics"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "engine/base/log.h"
#include "fcgi/admin/local_metrics.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "fcgi/upstreams/upstream_metrics.h"
#include "sql/prompts/store_prompt_blocks.h"

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\n", name, help, name, type);
}

static void number(struct buf *b, const char *name, const char *type, const char *help, double v)
{
    head(b, name, type, help);
    buf_printf(b, "sluice_%s ", name);
    buf_json_number(b, v);
    buf_putc(b, '\n');
}

static void gauge(struct buf *b, const char *name, const char *help, double v)
{
    number(b, name, "gauge", help, v);
}

static void counter(struct buf *b, const char *name, const char *help, double v)
{
    number(b, name, "counter", help, v);
}

/* Label values: backslash, quote and newline are escaped. */
static void label(struct buf *b, const char *name, const char *value)
{
    buf_printf(b, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\\' || *c == '"')
            buf_putc(b, '\\');
        buf_putc(b, *c == '\n' ? ' ' : *c);
    }
    buf_putc(b, '"');
}

static void engine_histogram(struct buf *b, const char *name, const char *help,
                             const struct status_histogram *h)
{
    uint64_t sum = 0;
    head(b, name, "histogram", help);
    for (int i = 0; i < STATUS_BUCKETS; i++) {
        sum += h->count[i];
        if (i == STATUS_BUCKETS - 1) {
            buf_printf(b, "sluice_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)sum);
            break;
        }
        if (!h->bound[0])
            continue; /* the engine has nothing to measure here: no bounds, no values */
        buf_printf(b, "sluice_%s_bucket{le=\"", name);
        buf_json_number(b, h->bound[i]);
        buf_printf(b, "\"} %llu\n", (unsigned long long)sum);
    }
    buf_printf(b, "sluice_%s_sum %.9g\nsluice_%s_count %llu\n", name, h->sum, name,
               (unsigned long long)sum);
}

static void worker_histogram(struct buf *b, const char *name, const char *labels,
                             const struct shared_histogram *h)
{
    uint64_t sum = 0;
    for (int i = 0; i < SHARED_BUCKETS; i++) {
        sum += atomic_load_explicit(&h->count[i], memory_order_relaxed);
        if (i < SHARED_BUCKETS - 1)
            buf_printf(b, "sluice_%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels,
                       *labels ? "," : "", shared_bounds[i], (unsigned long long)sum);
        else
            buf_printf(b, "sluice_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels,
                       *labels ? "," : "", (unsigned long long)sum);
    }
    const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    buf_printf(b, "sluice_%s_sum%s%s%s %.9g\nsluice_%s_count%s%s%s %llu\n", name, open, labels,
               close, (double)atomic_load_explicit(&h->sum_ns, memory_order_relaxed) / 1e9, name,
               open, labels, close, (unsigned long long)sum);
}

static void engine_state(struct buf *b, const struct status_page *p)
{
    gauge(b, "up", "1 when the engine is ready", p->state == ENGINE_READY);
    head(b, "model_info", "gauge", "what is served");
    buf_puts(b, "sluice_model_info{");
    label(b, "model", p->model_name);
    buf_putc(b, ',');
    label(b, "family", p->family);
    buf_putc(b, ',');
    label(b, "backend", p->backend);
    buf_putc(b, ',');
    label(b, "device", p->device);
    buf_putc(b, ',');
    label(b, "strategy", p->strategy);
    buf_puts(b, "} 1\n");
    bool alive = p->state != ENGINE_DOWN;
    gauge(b, "num_requests_running", "jobs that hold a slot", alive ? p->jobs_running : 0);
    gauge(b, "num_requests_waiting", "jobs in the queue", alive ? p->jobs_waiting : 0);
    gauge(b, "slots", "jobs that can run at once", p->n_slots);
    gauge(b, "kv_cache_usage_perc", "share of KV blocks in use by running jobs, 0 to 1",
          alive && p->n_blocks ? (double)p->blocks_used / p->n_blocks : 0);
    gauge(b, "kv_cache_blocks", "KV blocks", p->n_blocks);
    gauge(b, "kv_cache_blocks_cached", "KV blocks kept for their prefix",
          alive ? p->blocks_cached : 0);
    gauge(b, "decode_tokens_per_second", "generated, over the last 10 s of work",
          alive ? p->decode_tokens_per_s : 0);
    gauge(b, "prefill_tokens_per_second", "prompt tokens computed, over the last 10 s of work",
          alive ? p->prefill_tokens_per_s : 0);
    gauge(b, "model_experts_per_token",
          "experts of a layer that a token uses; 0: the model has none", p->experts_per_token);
    gauge(b, "model_own_experts_per_token", "as the model says: fewer are lossy", p->trained_top_k);
    gauge(b, "weight_bytes", "bytes of the model's weights", (double)p->weight_bytes);
    gauge(b, "resident_memory_bytes", "the engine's resident set", (double)p->resident_bytes);
    gauge(b, "anonymous_memory_bytes", "of it, memory that no file backs",
          (double)p->anonymous_bytes);
    gauge(b, "mapped_memory_bytes", "of it, pages of files", (double)p->mapped_bytes);
    gauge(b, "locked_memory_bytes", "locked: weights, and the cache of experts",
          alive ? (double)status_locked_bytes(p) : 0);
    counter(b, "disk_read_bytes_total",
            "bytes that disks gave to the engine, those for the page cache included",
            (double)p->disk_read_bytes);
    gauge(b, "resident_weight_bytes", "pages of the model's files in RAM, whoever brought them",
          (double)p->resident_weight_bytes);
    gauge(b, "device_memory_bytes", "allocated on the device", (double)p->device_bytes);
    gauge(b, "start_time_seconds", "Unix time of the engine's start", p->started);
}

static void engine_totals(struct buf *b, const struct status_page *p)
{
    counter(b, "lossy_requests_total", "jobs that used fewer experts per token than the model says",
            (double)p->jobs_lossy);
    counter(b, "prompt_tokens_total", "prompt tokens of jobs, cached ones included",
            (double)p->prompt_tokens);
    counter(b, "generation_tokens_total", "tokens generated", (double)p->completion_tokens);
    counter(b, "prefill_tokens_total", "prompt tokens that were computed",
            (double)p->prefill_tokens);
    counter(b, "prefix_cache_queries_total", "prompt tokens looked up in the prefix cache",
            (double)p->prefix_queries);
    counter(b, "prefix_cache_hits_total", "prompt tokens found there", (double)p->prefix_hits);
    counter(b, "requests_accepted_total", "jobs accepted", (double)p->jobs_accepted);
    counter(b, "requests_refused_total", "jobs refused: queue full, too long, invalid",
            (double)p->jobs_refused);
    head(b, "request_success_total", "counter", "jobs ended, by reason");
    static const char *const reasons[ENGINE_FINISH__N] = {[OUTCOME_EOS] = "stop",
                                                          [OUTCOME_STOP_STRING] = "stop_string",
                                                          [OUTCOME_LENGTH] = "length",
                                                          [OUTCOME_CANCELLED] = "abort"};
    for (int i = 0; i < ENGINE_FINISH__N; i++)
        buf_printf(b, "sluice_request_success_total{finished_reason=\"%s\"} %llu\n", reasons[i],
                   (unsigned long long)p->jobs_done[i]);
    counter(b, "request_failure_total", "jobs that failed", (double)p->jobs_done[OUTCOME_FAILED]);
    counter(b, "preemptions_total", "jobs that lost their slot to another for a while",
            (double)p->preemptions);
    counter(b, "spec_decode_num_draft_tokens_total", "drafted tokens that steps verified",
            (double)p->drafted_tokens);
    counter(b, "spec_decode_num_accepted_tokens_total", "drafted tokens that came true",
            (double)p->accepted_tokens);
    counter(b, "spec_decode_num_drafts_total", "drafts that steps verified",
            (double)p->draft_steps);
    counter(b, "grammar_waits_total",
            "steps that a job sat out while its grammar's next tokens were looked for",
            (double)p->grammar_waits);
    counter(b, "steps_total", "steps of the model", (double)p->steps);
    counter(b, "step_rows_total", "rows (tokens) over all steps", (double)p->rows);
    counter(b, "step_seconds_total", "time inside steps", p->step_seconds);
    counter(b, "idle_seconds_total", "time without work", p->idle_seconds);
    counter(b, "weight_bytes_read_total", "weight bytes that the steps had to read",
            (double)p->weight_bytes_read);
    counter(b, "kv_bytes_read_total", "KV bytes that the steps had to read",
            (double)p->kv_bytes_read);
    engine_histogram(b, "time_to_first_token_seconds", "submission to first token",
                     &p->time_to_first_token);
    engine_histogram(b, "time_per_output_token_seconds", "between tokens of a job",
                     &p->time_per_output_token);
    engine_histogram(b, "request_queue_time_seconds", "waiting for a slot", &p->queue_time);
    engine_histogram(b, "e2e_request_latency_seconds", "submission to end", &p->job_time);
}

/* Writes the figures of experts that stay on disk. */
/* Writes what was planned before the load: the members of the status page's plan that end in
 * _bytes. */
static void planned(struct buf *b, const struct status_page *p)
{
    static const char suffix[] = "_bytes";
    cJSON *plan = cJSON_Parse(p->plan);
    head(b, "plan_bytes", "gauge", "memory by part and place as planned before the load");
    for (const cJSON *m = plan ? plan->child : NULL; m; m = m->next) {
        size_t n = strlen(m->string), tail = sizeof suffix - 1;
        if (cJSON_IsNumber(m) && n > tail && !strcmp(m->string + n - tail, suffix))
            buf_printf(b, "sluice_plan_bytes{part=\"%.*s\"} %.0f\n", (int)(n - tail), m->string,
                       m->valuedouble);
    }
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(plan, "estimated_tok_s");
    gauge(b, "estimated_tokens_per_second", "decode rate of one stream by the plan; 0: not known",
          cJSON_IsNumber(rate) ? rate->valuedouble : 0);
    cJSON_Delete(plan);
}

static void memory(struct buf *b, const struct status_page *p, bool alive)
{
    const struct {
        const char *part;
        uint64_t bytes;
    } parts[] = {{"weight", p->loaded_weight_bytes},
                 {"kv", p->kv_bytes},
                 {"state", p->state_bytes},
                 {"work", p->work_bytes},
                 {"recall", p->recall_bytes}};
    head(b, "memory_bytes", "gauge", "memory that was taken at the start, by part");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        buf_printf(b, "sluice_memory_bytes{part=\"%s\"} %llu\n", parts[i].part,
                   (unsigned long long)parts[i].bytes);
    gauge(b, "host_memory_bytes", "of these, in RAM", (double)p->host_bytes);
    gauge(b, "memory_available_bytes",
          "RAM that could be taken now without swapping, control groups included",
          alive ? (double)p->memory_available : 0);
    counter(b, "memory_pressure_shrinks_total", "times that the expert cache gave way to others",
            (double)p->memory_pressure_shrinks);
    planned(b, p);
}

static void experts(struct buf *b, const struct status_experts *x, bool alive)
{
    gauge(b, "expert_cache_budget_bytes", "memory that experts may take", (double)x->budget_bytes);
    gauge(b, "expert_cache_bytes", "memory that they take", alive ? (double)x->resident_bytes : 0);
    gauge(b, "expert_cache_locked_bytes", "of it, locked", alive ? (double)x->locked_bytes : 0);
    gauge(b, "expert_cache_experts", "experts in memory", alive ? (double)x->resident_experts : 0);
    gauge(b, "expert_reads_under_way", "reads that the disk works on",
          alive ? x->reads_under_way : 0);
    gauge(b, "expert_prefetching", "1 while reading ahead pays", alive && x->prefetching);
    counter(b, "expert_asked_total", "experts that layers of steps wanted", (double)x->asked);
    counter(b, "expert_hits_total", "of these, in memory", (double)x->hits);
    counter(b, "expert_late_total", "of these, being read ahead of time", (double)x->late);
    counter(b, "expert_misses_total", "of these, read then", (double)x->misses);
    counter(b, "expert_evictions_total", "experts that made room", (double)x->evictions);
    counter(b, "expert_failures_total", "experts that could not be read or were wrong",
            (double)x->failures);
    counter(b, "expert_reads_total", "reads of the disk", (double)x->reads);
    counter(b, "expert_read_errors_total", "reads that failed or came short",
            (double)x->read_errors);
    counter(b, "expert_read_bytes_total", "bytes that the disk gave", (double)x->read_bytes);
    counter(b, "expert_miss_bytes_total", "bytes asked of it because a step wanted them",
            (double)x->miss_bytes);
    counter(b, "expert_warm_bytes_total", "bytes read at the start", (double)x->warm_bytes);
    head(b, "expert_prefetch_bytes_total", "counter",
         "bytes read ahead, by whether their layer wanted them");
    buf_printf(b, "sluice_expert_prefetch_bytes_total{outcome=\"useful\"} %llu\n",
               (unsigned long long)x->prefetch_useful_bytes);
    buf_printf(b, "sluice_expert_prefetch_bytes_total{outcome=\"wasted\"} %llu\n",
               (unsigned long long)x->prefetch_wasted_bytes);
    counter(b, "expert_wait_seconds_total", "steps waited for the disk with nothing to compute",
            x->wait_seconds);
    counter(b, "expert_read_seconds_total", "time with a read under way", x->read_seconds);
    counter(b, "expert_read_depth_total", "reads under way, summed over reads", x->read_depth_sum);
    engine_histogram(b, "expert_read_duration_seconds", "from asking to having, of one read",
                     &x->read_time);
}

/* Writes the figures of experts that a GPU takes from RAM. */
static void split_experts(struct buf *b, const struct status_page *p)
{
    counter(b, "expert_device_hits_total",
            "hybrid: distinct experts of steps that were on the device",
            (double)p->expert_device_hits);
    counter(b, "expert_device_misses_total", "hybrid: those that were not",
            (double)p->expert_device_misses);
    counter(b, "expert_device_evictions_total",
            "experts on the device that a copy took the place of",
            (double)p->expert_device_evictions);
    counter(b, "expert_on_cpu_total",
            "hybrid: of the misses, computed on the cpu; the others were read over the bus",
            (double)p->expert_on_cpu);
    counter(b, "expert_bus_bytes_total", "hybrid: bytes of experts read over the bus",
            (double)p->expert_bus_bytes);
    counter(b, "expert_copied_bytes_total",
            "hybrid: bytes of experts copied to the device for later steps",
            (double)p->expert_copied_bytes);
}

/* Rows and records agree but for what is under way: events that are not written down yet, and
 * removals. */
static void prompt_cache(struct buf *b, struct request *r, const struct status_page *p)
{
    struct store_prompt_facts f = {0};
    struct err e = {0};
    const bool alive = p->state != ENGINE_DOWN;
    if (r->store && !store_prompt_facts(r->store, &f, &e))
        log_warn("the prompt cache's rows can't be counted: %s", e.text);
    gauge(b, "prompt_cache_budget_bytes", "what prompts may take on the disk",
          (double)p->cache_disk_budget);
    gauge(b, "prompt_cache_bytes", "of it taken, as the engine counts its records",
          alive ? (double)p->cache_disk_bytes : 0);
    gauge(b, "prompt_cache_records", "records on the disk, one for each block",
          alive ? (double)p->cache_records : 0);
    gauge(b, "prompt_cache_ram_budget_bytes", "what copies of records may take in RAM",
          (double)p->cache_ram_budget);
    gauge(b, "prompt_cache_ram_bytes", "of it taken", alive ? (double)p->cache_ram_bytes : 0);
    gauge(b, "prompt_cache_rows", "blocks that the database lists", (double)f.blocks);
    gauge(b, "prompt_cache_row_bytes", "bytes of their records", (double)f.bytes);
    gauge(b, "prompt_cache_removals", "records that the engine has yet to remove",
          (double)f.removals);
    counter(b, "prompt_cache_stored_total", "records written", (double)p->cache_stored);
    counter(b, "prompt_cache_loaded_total", "records that jobs continued from",
            (double)p->cache_loaded);
    counter(b, "prompt_cache_loaded_tokens_total", "tokens of these, which were not computed",
            (double)p->cache_loaded * ENGINE_STORED_TOKENS);
    counter(b, "prompt_cache_refused_total", "blocks that were not stored: no room, or no recorder",
            (double)p->cache_refused);
    counter(b, "prompt_cache_damaged_total", "records that were not what their row says",
            (double)p->cache_damaged);
    counter(b, "prompt_cache_forgotten_total", "records removed", (double)p->cache_forgotten);
    counter(b, "prompt_cache_read_bytes_total", "bytes of records read",
            (double)p->cache_read_bytes);
    counter(b, "prompt_cache_written_bytes_total", "bytes of records written",
            (double)p->cache_written_bytes);
    counter(b, "prompt_cache_read_seconds_total", "time spent reading them", p->cache_read_seconds);
    counter(b, "prompt_cache_write_seconds_total", "time spent writing them",
            p->cache_write_seconds);
}

static void http_totals(struct buf *b, const struct shared *s)
{
    head(b, "http_requests_total", "counter", "requests answered by the workers");
    for (int i = 0; i < SHARED_ROUTES; i++) {
        const struct route *route = i == SHARED_ROUTES - 1 ? NULL : route_at(i);
        for (int k = 0; k < SHARED_STATUSES; k++) {
            uint64_t n = atomic_load_explicit(&s->requests[i][k], memory_order_relaxed);
            if (n)
                buf_printf(
                    b,
                    "sluice_http_requests_total{method=\"%s\",route=\"%s\",status=\"%d\"} %llu\n",
                    route ? http_method_name(route->method) : "", route ? route->path : "",
                    shared_status_at(k), (unsigned long long)n);
        }
    }
    head(b, "worker_overhead_seconds", "histogram", "time of a request outside the engine");
    worker_histogram(b, "worker_overhead_seconds", "", &s->overhead);
    head(b, "http_request_duration_seconds", "histogram", "accept to end of reply");
    worker_histogram(b, "http_request_duration_seconds", "pool=\"short\"", &s->duration_short);
    worker_histogram(b, "http_request_duration_seconds", "pool=\"stream\"", &s->duration_stream);
    head(b, "http_first_byte_seconds", "histogram", "accept to the first byte of the reply");
    worker_histogram(b, "http_first_byte_seconds", "", &s->first_byte);
    counter(b, "http_response_bytes_total", "bytes of bodies", (double)s->bytes_out);
    counter(b, "client_disconnects_total", "clients that left before the end",
            (double)s->client_gone);
    counter(b, "engine_lost_total", "requests whose engine connection broke",
            (double)s->engine_lost);
    counter(b, "auth_failures_total", "requests without a valid key or session",
            (double)s->auth_failed);
    head(b, "rate_limited_total", "counter", "requests refused by a limit of their key or user");
    static const char *const limits[] = {"requests", "tokens", "jobs", "tokens_per_day", "storage"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        buf_printf(b, "sluice_rate_limited_total{limit=\"%s\"} %llu\n", limits[i],
                   (unsigned long long)s->limited[i]);
    head(b, "work_refused_total", "counter", "requests refused because too much slow work runs");
    for (int k = 0; k < WORK__N; k++)
        buf_printf(b, "sluice_work_refused_total{work=\"%s\"} %llu\n",
                   work_kind_name((enum work_kind)k), (unsigned long long)s->work_refused[k]);
    counter(b, "logins_throttled_total", "logins refused for too many failures",
            (double)s->login_throttled);
}

static void pools(struct buf *b, const struct shared *s)
{
    static const struct {
        const char *name;
        enum child_state state;
    } states[] = {{"starting", CHILD_STARTING},
                  {"idle", CHILD_IDLE},
                  {"busy", CHILD_BUSY},
                  {"leaving", CHILD_LEAVING}};
    head(b, "worker_processes", "gauge", "processes by pool and state");
    for (int p = 0; p < POOL__N; p++)
        for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
            int n = 0;
            for (int i = 0; i < SHARED_CHILDREN; i++)
                n += s->pool[p].child[i].state == (int32_t)states[k].state;
            buf_printf(b, "sluice_worker_processes{pool=\"%s\",state=\"%s\"} %d\n",
                       worker_pool_name((enum worker_pool)p), states[k].name, n);
        }
    head(b, "worker_started_total", "counter", "processes forked");
    for (int p = 0; p < POOL__N; p++)
        buf_printf(b, "sluice_worker_started_total{pool=\"%s\"} %llu\n",
                   worker_pool_name((enum worker_pool)p), (unsigned long long)s->pool[p].started);
    head(b, "worker_crashes_total", "counter", "processes that died");
    for (int p = 0; p < POOL__N; p++)
        buf_printf(b, "sluice_worker_crashes_total{pool=\"%s\"} %llu\n",
                   worker_pool_name((enum worker_pool)p), (unsigned long long)s->pool[p].crashed);
}

/* Engines that embed or score: none where there are none. */
static void side_engines(struct buf *b, const struct worker *w)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {
        {"side_engine_up", "gauge", "1 while an engine for embeddings or scores is ready"},
        {"side_jobs_running", "gauge", "requests that it computes"},
        {"side_jobs_waiting", "gauge", "requests that wait for it"},
        {"side_jobs_total", "counter", "requests that it ended"},
        {"side_tokens_total", "counter", "tokens that it read"},
        {"side_memory_bytes", "gauge", "bytes that it takes"},
    };
    struct status_page page[SIDE_MODELS];
    for (int i = 0; i < SIDE_MODELS; i++)
        if (w->side[i].path && !status_read(w->side[i].status_path, &page[i], NULL))
            page[i] = (struct status_page){0};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        head(b, rows[k].name, rows[k].type, rows[k].help);
        for (int i = 0; i < SIDE_MODELS; i++) {
            const struct status_page *p = &page[i];
            if (!w->side[i].path)
                continue;
            const double values[] = {
                p->state == ENGINE_READY,
                p->jobs_running,
                p->jobs_waiting,
                (double)(status_jobs_succeeded(p->jobs_done) + p->jobs_done[OUTCOME_FAILED]),
                (double)p->prompt_tokens,
                (double)p->resident_bytes};
            buf_printf(b, "sluice_%s{task=\"%s\"} %.17g\n", rows[k].name,
                       engine_task_name(w->side[i].task), values[k]);
        }
    }
}

static bool metrics(struct request *r, struct err *e)
{
    struct buf b = {0};
    struct status_page page;
    engine_status_read(r, &page);
    engine_state(&b, &page);
    engine_totals(&b, &page);
    memory(&b, &page, page.state != ENGINE_DOWN);
    experts(&b, &page.experts, page.state != ENGINE_DOWN);
    split_experts(&b, &page);
    prompt_cache(&b, r, &page);
    http_totals(&b, r->worker->shared);
    pools(&b, r->worker->shared);
    upstream_metrics_put(&b, r->worker->run_dir);
    side_engines(&b, r->worker);
    local_metrics_put(&b, r->worker, server_setting_bool(r, SETTING_METRICS_OPEN));
    if (b.failed) {
        buf_fini(&b);
        return err_set(e, ERR_NOMEM, "no memory for the figures");
    }
    reply_header(r, "Cache-Control", "no-store");
    reply_bytes(r, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
    buf_fini(&b);
    return true;
}

const struct route api_metrics_routes[] = {
    {.method = HTTP_GET,
     .path = "/metrics",
     .auth = ROUTE_FIGURES,
     .pool = POOL_SHORT,
     .handler = metrics,
     .scope = SCOPE_METRICS,
     .doc = {.summary = "Figures for Prometheus", .media = "text/plain", .statuses = "200"}},
    {0},
};
