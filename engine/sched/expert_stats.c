/* Reads the counters of the expert cache and of the backend, and divides what a step used among
 * its jobs by their rows. */
#include "engine/sched/expert_stats.h"

#include <stdio.h>

void expert_stats_read(struct expert_stats *t, const struct expert_cache *cache,
                       const struct backend_counters *backend)
{
    struct expert_counters c = {0};
    if (cache)
        expert_cache_counters(cache, &c);
    *t = (struct expert_stats){
        .total = {[ENGINE_EXPERT_READ_BYTES] = c.disk.bytes,
                  [ENGINE_EXPERT_ASKED] = c.asked,
                  [ENGINE_EXPERT_HITS] = c.hits,
                  [ENGINE_EXPERT_LATE] = c.late,
                  [ENGINE_EXPERT_MISSES] = c.misses,
                  [ENGINE_EXPERT_EVICTIONS] = c.evictions,
                  [ENGINE_EXPERT_DEVICE_HITS] = backend->expert_hits,
                  [ENGINE_EXPERT_DEVICE_MISSES] = backend->expert_misses,
                  [ENGINE_EXPERT_DEVICE_EVICTIONS] = backend->expert_evictions,
                  [ENGINE_EXPERT_BUS_BYTES] = backend->expert_bus_bytes},
        .wait_ns = c.wait_ns,
        .read_ns = c.disk.read_ns};
}

void expert_stats_step(struct expert_stats *t, const struct expert_stats *now,
                       struct job *const *members, const struct step_sequence *sequences, int32_t n)
{
    double rows = 0;
    for (int32_t i = 0; i < n; i++)
        rows += sequences[i].n_tokens;
    for (int32_t i = 0; i < n && rows > 0; i++) {
        double share = sequences[i].n_tokens / rows;
        for (int k = 0; k < ENGINE_EXPERT__N; k++)
            members[i]->experts[k] += share * (double)(now->total[k] - t->total[k]);
    }
    const struct expert_stats before = *t;
    *t = *now;
    t->waited_ms = (double)(now->wait_ns - before.wait_ns) * 1e-6;
    t->reading_ms = (double)(now->read_ns - before.read_ns) * 1e-6;
}

void expert_stats_publish(const struct expert_cache *cache, struct status_page *page)
{
    struct expert_counters c;
    struct status_experts *to = &page->experts;
    expert_cache_counters(cache, &c);
    *to = (struct status_experts){
        .budget_bytes = c.budget_bytes,
        .resident_bytes = c.resident_bytes,
        .locked_bytes = c.locked_bytes,
        .resident_experts = c.resident_experts,
        .reads_under_way = c.disk.under_way,
        .prefetching = c.prefetching,
        .asked = c.asked,
        .hits = c.hits,
        .late = c.late,
        .misses = c.misses,
        .evictions = c.evictions,
        .failures = c.failures,
        .reads = c.disk.reads,
        .read_errors = c.disk.errors,
        .read_bytes = c.disk.bytes,
        .miss_bytes = c.miss_bytes,
        .prefetch_useful_bytes = c.prefetch_useful_bytes,
        .prefetch_wasted_bytes = c.prefetch_wasted_bytes,
        .warm_bytes = c.warm_bytes,
        .wait_seconds = (double)c.wait_ns * 1e-9,
        .read_seconds = (double)c.disk.read_ns * 1e-9,
        .read_depth_sum = (double)c.disk.depth_sum,
    };
    _Static_assert(EXPERT_LATENCY_BUCKETS == STATUS_BUCKETS, "one bucket for each");
    status_histogram_init(&to->read_time, EXPERT_LATENCY_FIRST, 2);
    for (int i = 0; i < STATUS_BUCKETS; i++) {
        to->read_time.count[i] = c.disk.latency[i];
        to->read_time.total += c.disk.latency[i];
    }
    to->read_time.sum = c.disk.latency_sum_s;
    snprintf(to->way, sizeof to->way, "%s", expert_cache_read_method(cache));
}
