/* Formats a plan for people and as JSON, from the same numbers. */
#include "engine/memory/memory_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/size_text.h"

static void gb(struct buf *b, const char *name, uint64_t bytes)
{
    buf_printf(b, ",\"%s\":%.3f", name, (double)bytes / 1e9);
}

static void bytes(struct buf *b, const char *name, uint64_t v)
{
    buf_printf(b, ",\"%s\":%" PRIu64, name, v);
}

static void rate(struct buf *b, const char *name, double v, int digits)
{
    if (v > 0)
        buf_printf(b, ",\"%s\":%.*f", name, digits, v);
    else
        buf_printf(b, ",\"%s\":null", name);
}

void memory_plan_json(const struct memory_plan *p, const struct memory_estimate *estimate,
                      struct buf *b)
{
    uint64_t weights = p->dense + p->experts + p->expert_cache;
    buf_printf(b, "\"strategy\":\"%s\"", strategy_name(p->strategy));
    gb(b, "model_weight_gb", p->total - p->kv - p->state - p->work - p->recall);
    gb(b, "kv_cache_gb", p->kv);
    gb(b, "total_required_gb", p->total);
    gb(b, "system_ram_gb", p->ram_total);
    buf_printf(b, ",\"overcommit_ratio\":%.4f", memory_overcommit(p));
    buf_printf(b, ",\"gpu_layers\":%d,\"cpu_layers\":%d,\"total_layers\":%d,\"ssd_stream\":%s",
               p->gpu_layers, p->cpu_layers, p->n_layer,
               p->strategy == STRATEGY_SSD_STREAMING ? "true" : "false");
    rate(b, "estimated_tok_s", estimate ? estimate->tokens_per_s : 0, 2);
    rate(b, "expected_hit_rate", estimate && p->expert_cache ? estimate->hit_rate : 0, 4);
    buf_printf(b, ",\"n_ctx\":%d,\"n_slots\":%d,\"n_blocks\":%d,\"max_rows\":%d", p->size.n_ctx,
               p->size.n_slots, p->size.n_blocks, p->size.max_rows);
    bytes(b, "weight_bytes", weights);
    bytes(b, "dense_bytes", p->dense);
    bytes(b, "expert_bytes", p->experts);
    bytes(b, "expert_cache_bytes", p->expert_cache);
    bytes(b, "kv_bytes", p->kv);
    buf_json_member(b, "kv_type", kv_type_name(p->kv_stored));
    bytes(b, "kv_stored_bytes_per_token", p->kv_per_token);
    bytes(b, "state_bytes", p->state);
    bytes(b, "work_bytes", p->work);
    bytes(b, "recall_bytes", p->recall);
    bytes(b, "device_bytes", p->device);
    bytes(b, "host_bytes", p->host);
    bytes(b, "ram_total_bytes", p->ram_total);
    bytes(b, "ram_available_bytes", p->ram_available);
    bytes(b, "ram_limit_bytes", p->ram_limit);
    bytes(b, "reserve_bytes", p->reserve);
    bytes(b, "gpu_total_bytes", p->gpu_total);
    bytes(b, "gpu_available_bytes", p->gpu_available);
    bytes(b, "gpu_limit_bytes", p->gpu_limit);
    if (p->gpu_id[0])
        buf_json_member(b, "device_id", p->gpu_id);
    if (p->strategy == STRATEGY_HYBRID)
        buf_json_member(b, "experts_without_slot", p->expert_text);
    buf_puts(b, ",\"reason\":");
    buf_json_string(b, p->reason, strlen(p->reason));
}

double memory_overcommit(const struct memory_plan *p)
{
    uint64_t have = p->gpu_layers ? p->gpu_total : p->ram_total;
    return have ? (double)p->total / (double)have : 0;
}

static void line(struct buf *b, const char *what, uint64_t v, const char *more)
{
    char text[SIZE_TEXT];
    if (v)
        buf_printf(b, "  %-22s %12s%s\n", what, size_text((double)v, text), more);
}

void memory_plan_table(const struct memory_plan *p, const struct memory_estimate *estimate,
                       struct buf *b)
{
    char text[SIZE_TEXT];
    buf_printf(b, "  strategy                %s on %s\n", strategy_name(p->strategy), p->backend);
    if (p->reason[0])
        buf_printf(b, "  not                     %s\n", p->reason);
    buf_printf(b, "  context, slots          %d tokens, %d at a time, KV for %" PRId64 " tokens\n",
               p->size.n_ctx, p->size.n_slots, (int64_t)p->size.n_blocks * BACKEND_BLOCK_TOKENS);
    line(b, "dense weights", p->dense, "");
    line(b, "experts", p->experts, "");
    line(b, p->strategy == STRATEGY_HYBRID ? "experts in GPU slots" : "expert cache",
         p->expert_cache,
         p->strategy == STRATEGY_HYBRID ? "  copies of those in RAM"
                                        : "  the other experts stay on the disk");
    if (p->strategy == STRATEGY_HYBRID)
        buf_printf(b, "  experts without a slot  %s\n", p->expert_text);
    snprintf(text, sizeof text, "  %s, %" PRIu64 " B a token", kv_type_name(p->kv_stored),
             p->kv_per_token);
    line(b, "KV cache", p->kv, text);
    line(b, "recurrent states", p->state, "");
    line(b, "work", p->work, "");
    line(b, "texts for drafts", p->recall, "");
    if (p->gpu_id[0])
        buf_printf(b, "  device                  %s, %s\n", p->gpu_name, p->gpu_id);
    if (p->gpu_total) {
        line(b, "on the device", p->device, "");
        line(b, "  it has free", p->gpu_available, "");
    }
    line(b, "in RAM", p->host, "");
    buf_printf(b, "  %-22s %12s", "  it may take", size_text((double)p->ram_limit, text));
    buf_printf(b, "  of %s free", size_text((double)p->ram_available, text));
    buf_printf(b, ", %s", size_text((double)p->ram_total, text));
    buf_printf(b, " in all; %s are left alone\n", size_text((double)p->reserve, text));
    if (estimate && estimate->tokens_per_s > 0) {
        buf_printf(b, "  decode, estimated       %.1f tokens/s alone, give or take %.0f %%",
                   estimate->tokens_per_s, MEMORY_ESTIMATE_OFF * 100);
        if (p->strategy == STRATEGY_SSD_STREAMING)
            buf_printf(b, " at a hit rate of %.0f %% (computing %.1f ms, disk %.1f ms a token)",
                       estimate->hit_rate * 100, estimate->compute_s * 1e3, estimate->disk_s * 1e3);
        buf_putc(b, '\n');
        if (estimate->disk.bytes_per_s > 0)
            buf_printf(b,
                       "  disk, measured          %.2f GB/s by up to %d reads at once; an expert "
                       "alone waits %.1f ms more\n",
                       estimate->disk.bytes_per_s * 1e-9, estimate->disk.depth,
                       estimate->disk.latency_s * 1e3);
    } else {
        buf_puts(b, "  decode, estimated       not known before it is measured\n");
    }
}
