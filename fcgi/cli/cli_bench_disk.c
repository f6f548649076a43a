/* See cli_bench_disk.h. */
#include "fcgi/cli/cli_bench_disk.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/experts/expert_reader.h"
#include "engine/sched/random.h"

#define JOBS 32
#define PROBE_MS 400
#define PROBE_BYTES ((uint64_t)8 << 30)

struct probe {
    const struct expert_layout *layout;
    struct expert_reader *reader;
    struct expert_job jobs[JOBS];
    uint8_t *memory;   /* [JOBS, record_bytes_max] */
    uint64_t seed, at; /* of the random order */
};

/* A record that is nowhere near the one before. */
static const struct expert_record *pick(struct probe *p)
{
    const struct expert_layout *l = p->layout;
    const struct expert_layer *layer = &l->layers[(int32_t)(random_uniform(p->seed, p->at++) * l->n_layers)];
    return &layer->records[(int32_t)(random_uniform(p->seed, p->at++) * layer->n_expert)];
}

static void add(struct probe *p, int i)
{
    uint8_t *memory = p->memory + (size_t)i * p->layout->record_bytes_max;
    p->jobs[i] = (struct expert_job){.record = pick(p), .memory = memory, .buffer = -1};
    expert_reader_add(p->reader, &p->jobs[i], true);
}

static double run(struct probe *p, struct err *e)
{
    struct expert_reader_counters c = {0};
    double began = clock_ms();
    for (int i = 0; i < JOBS; i++)
        add(p, i);
    for (struct expert_job *job; (job = expert_reader_take(p->reader, true));) {
        if (job->failed) {
            *e = job->err;
            return 0;
        }
        expert_reader_counters(p->reader, &c);
        if (clock_ms() - began < PROBE_MS && c.bytes < PROBE_BYTES)
            add(p, (int)(job - p->jobs));
    }
    double ms = clock_ms() - began;
    expert_reader_counters(p->reader, &c);
    return (double)c.bytes / ms * 1000;
}

double bench_disk_bandwidth(const struct expert_layout *l, uint64_t seed, struct err *e)
{
    struct probe p = {.layout = l, .seed = seed};
    double rate = 0;
    p.memory = aligned_alloc(EXPERT_ALIGN, JOBS * l->record_bytes_max);
    if (!p.memory) {
        err_set(e, ERR_NOMEM, "no memory to measure the disk");
        return 0;
    }
    p.reader = expert_reader_open(&(struct expert_reader_params){.files = l->files, .n_files = l->n_files}, e);
    if (p.reader)
        rate = run(&p, e);
    expert_reader_close(&p.reader);
    free(p.memory);
    return rate;
}

void bench_disk_add(struct bench_disk *d, const struct expert_counters *before, const struct expert_counters *after)
{
    d->asked += after->asked - before->asked;
    d->hits += after->hits - before->hits;
    d->late += after->late - before->late;
    d->misses += after->misses - before->misses;
    d->read_bytes += after->disk.bytes - before->disk.bytes;
    d->needed_bytes += after->miss_bytes - before->miss_bytes +
                       after->prefetch_useful_bytes - before->prefetch_useful_bytes;
    d->read_ns += after->disk.read_ns - before->disk.read_ns;
    d->wait_ns += after->wait_ns - before->wait_ns;
}
