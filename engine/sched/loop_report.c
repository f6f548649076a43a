/* What an engine that is ready tells: on the status page and on standard output. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/memory/memory_text.h"
#include "engine/sched/loop_state.h"
#include "engine/sched/watch/model_facts.h"

int32_t loop_most_experts(const struct model_plan *plan)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_layer; i++)
        if (plan->layers[i].ffn == FFN_MOE && plan->layers[i].moe.n_used > n)
            n = plan->layers[i].moe.n_used;
    return n;
}

void loop_describe_model(const struct loop *l, struct status_page *page)
{
    snprintf(page->model_name, sizeof page->model_name, "%s", l->text.name);
    snprintf(page->task, sizeof page->task, "%s", engine_task_name(l->params.task));
    page->experts_per_token = loop_most_experts(model_plan(l->model));
    page->trained_top_k = l->trained_top_k;
    model_facts(l->model, page);
    if (l->params.task == ENGINE_TASK_EMBED)
        model_facts_of_vectors(l->model, page);
}

void loop_describe_backend(const struct loop *l, struct status_page *page)
{
    struct backend_memory m = {0};
    struct buf plan = {0};
    const struct memory_load *from = &l->memory;
    const struct sizing *size = &from->plan.size;
    from->ops->memory(from->opened, &m);
    snprintf(page->backend, sizeof page->backend, "%s", from->ops->name);
    snprintf(page->device, sizeof page->device, "%s", from->ops->device_name(from->opened));
    snprintf(page->device_id, sizeof page->device_id, "%s", from->plan.gpu_id);
    snprintf(page->backend_note, sizeof page->backend_note, "%s", from->plan.reason);
    snprintf(page->strategy, sizeof page->strategy, "%s", strategy_name(from->plan.strategy));
    page->n_ctx = size->n_ctx;
    page->n_slots = size->n_slots;
    page->max_queue = (int32_t)l->params.max_queue;
    page->block_tokens = BACKEND_BLOCK_TOKENS;
    page->n_blocks = size->n_blocks;
    page->max_rows = size->max_rows;
    snprintf(page->speculate, sizeof page->speculate, "%s",
             engine_speculate_name(l->speculate.applied));
    snprintf(page->speculate_note, sizeof page->speculate_note, "%s",
             l->speculate.why[0] ? l->speculate.why : l->drafts.left_out);
    snprintf(page->draft_model, sizeof page->draft_model, "%s", l->drafts.name);
    const uint64_t drafts_host = draft_load_host_bytes(&l->drafts);
    page->draft_host_bytes = l->drafts.layer ? 0 : drafts_host;
    page->mtp_host_bytes = l->drafts.layer ? drafts_host : 0;
    page->draft_device_bytes = l->drafts.memory.plan.device;
    page->n_threads = from->ops->threads ? from->ops->threads(from->opened) : 0;
    page->loaded_weight_bytes = m.weights;
    page->kv_bytes = m.kv;
    page->kv_stored_bytes_per_token = from->plan.kv_per_token;
    snprintf(page->kv_type, sizeof page->kv_type, "%s", kv_type_name(m.kv_type));
    page->state_bytes = m.state;
    page->work_bytes = m.work;
    page->recall_bytes = from->plan.recall;
    page->device_bytes = m.device;
    page->host_bytes = m.host + from->plan.recall;
    page->locked_weight_bytes = memory_load_locked(from) + memory_load_locked(&l->drafts.memory);
    buf_putc(&plan, '{');
    memory_plan_json(&from->plan, &from->estimate, &plan); /* members, without braces */
    buf_putc(&plan, '}');
    if (!plan.failed && plan.len < sizeof page->plan) /* truncated JSON would be invalid */
        memcpy(page->plan, plan.data, plan.len + 1);
    buf_fini(&plan);
}

void loop_print_ready(const struct loop *l)
{
    struct buf b = {0};
    const char *device = l->memory.ops->device_name(l->memory.opened);
    buf_printf(&b, "{\"event\":\"ready\",\"pid\":%d,\"model\":", (int)getpid());
    buf_json_string(&b, l->text.name, strlen(l->text.name));
    buf_printf(&b, ",\"backend\":\"%s\",\"device\":", l->memory.ops->name);
    buf_json_string(&b, device, strlen(device));
    buf_putc(&b, ',');
    memory_plan_json(&l->memory.plan, &l->memory.estimate, &b);
    buf_printf(&b, ",\"speculate\":\"%s\"", engine_speculate_name(l->speculate.applied));
    if (l->drafts.draft && l->drafts.layer) {
        buf_printf(&b, ",\"mtp_bytes\":%llu",
                   (unsigned long long)draft_load_host_bytes(&l->drafts));
    } else if (l->drafts.draft) {
        buf_puts(&b, ",\"draft_model\":");
        buf_json_string(&b, l->drafts.name, strlen(l->drafts.name));
        buf_printf(&b, ",\"draft_model_bytes\":%llu",
                   (unsigned long long)(l->drafts.memory.plan.host + l->drafts.memory.plan.device));
    }
    buf_printf(&b, ",\"load_ms\":%.1f}\n", l->load_ms);
    if (!b.failed) {
        fputs(b.data, stdout);
        fflush(stdout);
    }
    buf_fini(&b);
}
