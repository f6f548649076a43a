/* See memory_rates.h. */
#include "engine/memory/memory_rates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/experts/expert_pack.h"
#include "engine/experts/expert_reader.h"

#define PROBE_MS 400.0
#define PROBE_BYTES ((uint64_t)64 << 20) /* under way and in memory at most */
#define PROBE_JOBS 64
#define KEPT_S (24 * 3600)
#define RATES_FILE "disk-rates"
#define MAX_FILE 65536

struct probe {
    const struct expert_layout *layout;
    struct expert_reader *reader;
    struct expert_job jobs[PROBE_JOBS];
    int n_jobs;
    uint64_t random, wanted, record_bytes;
    uint8_t *memory;
};

/* Any record: what a cache misses lies anywhere. */
static void ask(struct probe *p, struct expert_job *job)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    const struct expert_layer *l = &p->layout->layers[(p->random >> 33) % (uint64_t)p->layout->n_layers];
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    const struct expert_record *r = &l->records[(p->random >> 33) % (uint64_t)l->n_expert];
    int i = (int)(job - p->jobs);
    *job = (struct expert_job){.record = r, .memory = p->memory + (size_t)i * p->record_bytes, .buffer = -1};
    for (int k = 0; k < r->n_parts; k++)
        p->wanted += r->parts[k].length;
    expert_reader_add(p->reader, job, true);
}

static double read_for_a_while(struct probe *p)
{
    double began = clock_ms(), took;
    struct expert_job *done;
    bool ok = true, more = true;
    for (int i = 0; i < p->n_jobs; i++)
        ask(p, &p->jobs[i]);
    while ((done = expert_reader_take(p->reader, true))) {
        ok = ok && !done->failed;
        more = more && ok && clock_ms() - began < PROBE_MS;
        if (more)
            ask(p, done);
    }
    took = clock_ms() - began;
    return ok && took > 0 ? (double)p->wanted / (took * 1e-3) : 0;
}

double memory_disk_probe(const struct model *m)
{
    struct expert_layout layout = {0};
    struct err ignored = {0};
    double rate = 0;
    if (!expert_layout_pick(&layout, m, NULL, &ignored))
        return 0;
    struct probe *p = calloc(1, sizeof *p);
    uint64_t n = PROBE_BYTES / layout.record_bytes_max;
    if (p) {
        p->layout = &layout;
        p->record_bytes = layout.record_bytes_max;
        p->n_jobs = n < 1 ? 1 : n > PROBE_JOBS ? PROBE_JOBS : (int)n;
        p->memory = aligned_alloc(EXPERT_ALIGN, (size_t)p->n_jobs * p->record_bytes);
        p->random = (uint64_t)clock_wall_ms();
    }
    if (p && p->memory)
        p->reader = expert_reader_open(&(struct expert_reader_params){.files = layout.files, .n_files = layout.n_files}, &ignored);
    if (p && p->reader)
        rate = read_for_a_while(p);
    if (p) {
        if (p->reader)
            expert_reader_close(&p->reader);
        free(p->memory);
    }
    free(p);
    expert_layout_close(&layout);
    return rate;
}

/* Lines "device rate time"; the last of a device counts. */
static double kept_rate(const char *path, uint64_t device)
{
    struct buf b = {0};
    double rate = 0;
    if (file_exists(path) && file_read(path, MAX_FILE, &b, NULL) && b.data)
        for (char *line = b.data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            uint64_t at;
            double r;
            int64_t when;
            if (sscanf(line, "%" SCNu64 " %lf %" SCNd64, &at, &r, &when) == 3 && at == device && r > 0 &&
                clock_wall_s() - when < KEPT_S && when <= clock_wall_s())
                rate = r;
        }
    buf_fini(&b);
    return rate;
}

static void keep_rate(const char *path, uint64_t device, double rate)
{
    struct buf b = {0};
    if (file_exists(path))
        file_read(path, MAX_FILE / 2, &b, NULL); /* too long: begun anew */
    buf_printf(&b, "%" PRIu64 " %.0f %" PRId64 "\n", device, rate, clock_wall_s());
    if (!b.failed)
        file_write_atomic(path, b.data, b.len, 0600, NULL); /* a cache: without it the next start measures again */
    buf_fini(&b);
}

double memory_disk_rate(const struct model *m, const char *cache_dir)
{
    struct stat st;
    char path[4096];
    bool keeps = cache_dir && model_file(m, 0) && stat(model_file(m, 0), &st) == 0 &&
                 file_join(path, sizeof path, cache_dir, RATES_FILE, NULL);
    double rate = keeps ? kept_rate(path, (uint64_t)st.st_dev) : 0;
    if (rate > 0)
        return rate;
    rate = memory_disk_probe(m);
    if (keeps && rate > 0)
        keep_rate(path, (uint64_t)st.st_dev, rate);
    return rate;
}
