/* Measures the disk with the reader that the expert cache uses: the throughput at several queue
 * depths, then the latency of a single read on an idle queue. */
#include "engine/experts/disk_probe.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/experts/cache/expert_slots.h"
#include "engine/experts/io/expert_reader.h"

#define PROBE_MS 250.0
#define LEAD_MS 30.0                     /* not counted: the queues fill at first */
#define PROBE_BYTES ((uint64_t)64 << 20) /* at most in flight */
#define PROBE_JOBS 64
#define ALONE_READS 48
#define ALONE_PAUSE_US 2000

struct probe {
    const struct expert_layout *layout;
    struct expert_reader *reader;
    struct expert_job jobs[PROBE_JOBS];
    uint8_t *memory; /* [n_jobs, record_bytes] */
    int32_t n_jobs;
    uint64_t record_bytes, random;
};

static uint32_t draw(struct probe *p)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 33);
}

/* Requests a random record, because the misses of a cache lie anywhere. */
static void ask(struct probe *p, struct expert_job *job)
{
    const struct expert_layer *l = &p->layout->layers[draw(p) % (uint32_t)p->layout->n_layers];
    *job = (struct expert_job){.record = &l->records[draw(p) % (uint32_t)l->n_expert],
                               .memory = p->memory + (uint64_t)(job - p->jobs) * p->record_bytes};
    expert_reader_add(p->reader, job, true);
}

static uint64_t bytes_read(const struct probe *p)
{
    struct expert_reader_counters c;
    expert_reader_counters(p->reader, &c);
    return c.bytes;
}

static double read_for_a_while(struct probe *p, struct err *e)
{
    const double began = clock_ms();
    double from = 0, now = began;
    uint64_t before = 0, read = 0;
    for (int32_t i = 0; i < p->n_jobs; i++)
        ask(p, &p->jobs[i]);
    for (struct expert_job *job; (job = expert_reader_take(p->reader, true, NULL));) {
        if (job->failed) {
            *e = job->err;
            return 0;
        }
        if (now >= began + PROBE_MS)
            continue; /* still in flight at the end */
        now = clock_ms();
        read = bytes_read(p);
        if (!before && now >= began + LEAD_MS) {
            before = read;
            from = now;
        }
        ask(p, job);
    }
    if (before && read > before)
        return (double)(read - before) / (now - from) * 1000;
    return (double)bytes_read(p) / (clock_ms() - began) *
           1000; /* too slow for a window of its own: use the whole time */
}

/* Reads one record after another with pauses, as layers do between computing: an idle disk and CPU
 * take a while to wake up. */
static double read_alone(struct probe *p, struct err *e)
{
    uint64_t ns = 0;
    for (int i = 0; i < ALONE_READS && (double)ns < PROBE_MS * 1e6; i++) {
        clock_sleep_us(ALONE_PAUSE_US);
        const uint64_t began = clock_ns();
        ask(p, p->jobs);
        struct expert_job *job = expert_reader_take(p->reader, true, NULL);
        if (!job || job->failed) {
            *e = job ? job->err : *e;
            return 0;
        }
        ns += clock_ns() - began;
    }
    return (double)bytes_read(p) / (double)ns * 1e9;
}

static double probe_at(const struct expert_layout *l, int32_t depth, bool alone, uint64_t seed,
                       struct err *e)
{
    struct probe p = {.layout = l, .random = seed * 2 + 1, .record_bytes = l->record_bytes_max};
    const uint64_t fit = PROBE_BYTES / p.record_bytes;
    double rate = 0;
    p.n_jobs = alone || fit < 1 ? 1 : fit > PROBE_JOBS ? PROBE_JOBS : (int32_t)fit;
    const size_t bytes = (size_t)p.n_jobs * p.record_bytes;
    p.memory = expert_slots_map(bytes, e);
    if (!p.memory)
        return 0;
    memset(p.memory, 0, bytes); /* populate its pages before the clock starts */
    p.reader = expert_reader_open(
        &(struct expert_reader_params){.files = l->files, .n_files = l->n_files, .depth = depth},
        e);
    if (p.reader)
        rate = alone ? read_alone(&p, e) : read_for_a_while(&p, e);
    expert_reader_close(&p.reader);
    expert_slots_unmap(p.memory, bytes);
    return rate;
}

struct disk_speed disk_probe(const struct expert_layout *l, uint64_t seed, struct err *e)
{
    static const int32_t depths[] = {8, 16, 32, 64};
    struct disk_speed best = {0};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        const double rate = probe_at(l, depths[i], false, seed + i, e);
        if (!(rate > 0))
            return (struct disk_speed){0};
        if (rate > best.bytes_per_s * 1.05)
            best = (struct disk_speed){.bytes_per_s = rate, .depth = depths[i]};
    }
    const double alone = probe_at(l, best.depth, true, seed, e),
                 record = (double)l->expert_bytes / expert_slots_count(l);
    best.latency_s =
        alone > 0 && alone < best.bytes_per_s ? record / alone - record / best.bytes_per_s : 0;
    return best;
}
