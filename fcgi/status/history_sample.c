/* history_sample.h: reads the engine's status page, the workers' counters and the machine's times,
 * each in one pass. */
#include "fcgi/status/history_sample.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/wire/status.h"
#include "fcgi/process/shared.h"

_Static_assert(HISTORY_BUCKETS == STATUS_BUCKETS, "one bucket for each");

/* Share of the processors' time since the last call that was not idle. */
static double host_cpu(struct history_source *from)
{
    unsigned long long t[8] = {0}; /* user nice system idle iowait irq softirq steal */
    FILE *f = fopen("/proc/stat", "re");
    if (f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                    &t[4], &t[5], &t[6], &t[7]) < 4)
        t[0] = 0;
    if (f)
        fclose(f);
    uint64_t all = 0;
    for (int i = 0; i < 8; i++)
        all += t[i];
    uint64_t busy = all - t[3] - t[4];
    double share = from->host_all && all > from->host_all
                       ? (double)(busy - from->host_busy) / (double)(all - from->host_all)
                       : 0;
    from->host_all = all;
    from->host_busy = busy;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static void take_counters(const struct status_page *p, uint64_t *c)
{
    c[HISTORY_PROMPT_TOKENS] = p->prompt_tokens;
    c[HISTORY_CACHED_TOKENS] = p->cached_tokens;
    c[HISTORY_COMPLETION_TOKENS] = p->completion_tokens;
    c[HISTORY_JOBS_DONE] = status_jobs_succeeded(p->jobs_done);
    c[HISTORY_JOBS_FAILED] = p->jobs_done[OUTCOME_FAILED];
    c[HISTORY_JOBS_REFUSED] = p->jobs_refused;
    c[HISTORY_EXPERT_ASKED] = p->experts.asked + p->expert_device_hits + p->expert_device_misses;
    c[HISTORY_EXPERT_HITS] = p->experts.hits + p->expert_device_hits;
    c[HISTORY_EXPERT_READ_BYTES] = p->experts.read_bytes;
    c[HISTORY_EXPERT_BUS_BYTES] = p->expert_bus_bytes;
    c[HISTORY_STEP_MS] = (uint64_t)(p->step_seconds * 1e3);
}

/* What a running engine holds now. */
static void take_gauges(const struct status_page *p, double *g)
{
    g[HISTORY_UP] = p->state == ENGINE_READY;
    g[HISTORY_RUNNING] = p->jobs_running;
    g[HISTORY_WAITING] = p->jobs_waiting;
    g[HISTORY_BLOCKS_USED] = p->blocks_used;
    g[HISTORY_BLOCKS_CACHED] = p->blocks_cached;
    g[HISTORY_RESIDENT_BYTES] = (double)p->resident_bytes;
    g[HISTORY_WEIGHT_BYTES] = (double)p->resident_weight_bytes;
    g[HISTORY_EXPERT_BYTES] = (double)p->experts.resident_bytes;
    g[HISTORY_DEVICE_BYTES] = (double)p->device_bytes;
}

static void take_times(const struct status_histogram *h, double *bounds, uint64_t *buckets)
{
    memcpy(bounds, h->bound, sizeof h->bound);
    memcpy(buckets, h->count, sizeof h->count);
}

static void take_http(const struct shared *s, uint64_t *c)
{
    for (int i = 0; i < SHARED_ROUTES; i++)
        for (int k = 0; k < SHARED_STATUSES; k++)
            c[HISTORY_REQUESTS] += atomic_load_explicit(&s->requests[i][k], memory_order_relaxed);
    c[HISTORY_ERRORS] = atomic_load_explicit(&s->http_errors, memory_order_relaxed);
}

void history_sample_take(struct history_source *from, struct history_sample *s)
{
    static struct status_page page; /* the recorder's one thread */
    struct err ignored;
    *s = (struct history_sample){.at_ms = clock_wall_ms()};
    s->gauges[HISTORY_HOST_CPU] = host_cpu(from);
    take_http(from->shared, s->counters);
    if (!status_read(from->status_path, &page, &ignored))
        return;
    s->engine_known = true;
    s->engine_started = page.started;
    s->counters[HISTORY_CPU_MS] = s->counters[HISTORY_DISK_BYTES] = HISTORY_UNKNOWN;
    take_counters(&page, s->counters);
    take_times(&page.time_to_first_token, s->bounds[HISTORY_FIRST_TOKEN],
               s->buckets[HISTORY_FIRST_TOKEN]);
    take_times(&page.time_per_output_token, s->bounds[HISTORY_PER_TOKEN],
               s->buckets[HISTORY_PER_TOKEN]);
    if (page.state == ENGINE_DOWN)
        return;
    take_gauges(&page, s->gauges);
    s->gauges[HISTORY_AVAILABLE_BYTES] = (double)page.memory_available;
    /* by the engine's own word: a stranger may not look into it */
    if (page.cpu_seconds > 0)
        s->counters[HISTORY_CPU_MS] = (uint64_t)(page.cpu_seconds * 1e3);
    s->counters[HISTORY_DISK_BYTES] = page.disk_read_bytes;
}
