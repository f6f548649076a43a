/* Runs the monitor thread: the heartbeat, the memory counts, and the size of the expert cache
 * under memory pressure. */
#include "engine/sched/watch/monitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#define LOG_MODULE "monitor"
#include "engine/base/log.h"
#include "engine/memory/memory_plan.h"
#include "engine/memory/pressure.h"

/* Pages of the model are counted every few seconds, but never for more than a hundredth of the
 * time: the walk over the pages of a 70 GB model takes a while, and an idle engine should be idle.
 */
#define SCAN_SECONDS 5.0
#define SCAN_SHARE 100.0
#define PAGES_PER_LOOK ((size_t)16384)
#define PAGES_PER_TICK                                                                             \
    ((size_t)2 << 20) /* 8 GiB of 4 KiB pages: some 10 ms each second at most                      \
                       */
#define LONG_STEP_S 10.0
#define BLOCK_BYTES 512 /* of ru_inblock, which is read_bytes in such units */

struct monitor {
    struct status_writer *status;
    const char *root;
    pthread_t thread;
    pthread_mutex_t
        lock; /* guards model, experts, pressure, stop, and a walk over the model's mappings */
    pthread_cond_t wake;
    const struct model *model;
    struct expert_cache *experts;
    struct pressure pressure;
    struct machine machine;
    bool stop;
    atomic_ullong step_started_ns; /* 0: no step runs */
    /* the walk, used by the thread alone: current mapping, offset in it, bytes found */
    int mapping;
    size_t offset;
    uint64_t resident;
    double next_scan_ms;
    unsigned char *pages; /* [PAGES_PER_LOOK] as filled by mincore */
};

struct process_counts { /* bytes; 0: the kernel does not say */
    uint64_t anonymous, mapped, disk_read;
};

/* Adds the numbers of lines "NAME: 123", times `unit`. */
static void read_counts(const char *root, const char *file, const char *name, uint64_t unit,
                        uint64_t *sum)
{
    char line[256], path[600];
    const size_t n = strlen(name);
    unsigned long long value;
    snprintf(path, sizeof path, "%s/proc/self/%s", root, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, name, n) && sscanf(line + n, ": %llu", &value) == 1)
            *sum += value * unit;
    fclose(f);
}

/* The kernel's own counts, which cost next to nothing to read: smaps would add a walk over all
 * pages. */
static struct process_counts count_process(const char *root)
{
    struct process_counts c = {0};
    read_counts(root, "status", "RssAnon", 1024, &c.anonymous);
    read_counts(root, "status", "RssFile", 1024, &c.mapped);
    read_counts(root, "status", "RssShmem", 1024, &c.mapped);
    read_counts(root, "io", "read_bytes", 1, &c.disk_read);
    struct rusage used;
    if (!c.disk_read &&
        getrusage(RUSAGE_SELF, &used) == 0) /* whom no one may trace can't read it */
        c.disk_read = (uint64_t)used.ru_inblock * BLOCK_BYTES;
    return c;
}

/* Continues the walk for at most one tick. True: the end was reached and m->resident is the sum. */
static bool walk_mappings(struct monitor *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t budget = PAGES_PER_TICK;
    const void *start;
    size_t len;
    if (!m->mapping && !m->offset)
        m->resident = 0;
    while (budget && model_mapping(m->model, m->mapping, &start, &len)) {
        size_t n = (len - m->offset + page - 1) / page;
        if (!n) {
            m->mapping++;
            m->offset = 0;
            continue;
        }
        n = n < PAGES_PER_LOOK ? n : PAGES_PER_LOOK;
        n = n < budget ? n : budget;
        uintptr_t at = ((uintptr_t)start + m->offset) & ~(uintptr_t)(page - 1);
        if (mincore((void *)at, n * page, m->pages) == 0)
            for (size_t i = 0; i < n; i++)
                m->resident += (m->pages[i] & 1) * (uint64_t)page;
        budget -= n;
        m->offset += n * page;
        if (m->offset >= len) {
            m->mapping++;
            m->offset = 0;
        }
    }
    if (!budget)
        return false;
    m->mapping = 0;
    m->offset = 0;
    return true;
}

static void note_long_step(struct monitor *m, struct status_page *page)
{
    static const char text[] = "a step has been running for ";
    unsigned long long started = atomic_load(&m->step_started_ns);
    double seconds = started ? (double)(clock_ns() - started) * 1e-9 : 0;
    if (page->state != ENGINE_READY)
        return;
    if (seconds > LONG_STEP_S)
        snprintf(page->error, sizeof page->error, "%s%.0f s", text, seconds);
    else if (!strncmp(page->error, text, sizeof text - 1))
        page->error[0] = 0;
}

/* Shrinks the expert cache when other processes take memory, before the kernel has to reclaim
 * pages. */
static void adjust_expert_cache(struct monitor *m)
{
    struct err ignored;
    struct machine_stress stress;
    struct expert_counters c;
    if (!machine_read(m->root, &m->machine, &ignored) || !m->experts)
        return;
    machine_stress_read(m->root, &stress);
    expert_cache_counters(m->experts, &c);
    uint64_t before = m->pressure.budget;
    if (!pressure_step(&m->pressure, m->machine.available, &stress, c.resident_bytes,
                       clock_ms() * 1e-3))
        return;
    expert_cache_set_budget(m->experts, m->pressure.budget);
    log_info("expert cache %s bytes=%llu before=%llu planned=%llu available=%llu stalled=%.1f%%",
             m->pressure.budget < before ? "shrinks" : "grows",
             (unsigned long long)m->pressure.budget, (unsigned long long)before,
             (unsigned long long)m->pressure.planned, (unsigned long long)m->machine.available,
             stress.stalled);
}

static double cpu_seconds(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void tick(struct monitor *m)
{
    adjust_expert_cache(m);
    double start = clock_ms();
    bool scan = start >= m->next_scan_ms;
    const struct process_counts counts = count_process(m->root);
    bool walked = m->model && (scan || m->mapping || m->offset) && walk_mappings(m);
    double took = clock_ms() - start;
    if (scan)
        m->next_scan_ms = start + SCAN_SECONDS * 1e3;
    m->next_scan_ms += took * SCAN_SHARE;
    struct status_page *page = status_begin(m->status);
    page->resident_bytes = counts.anonymous + counts.mapped;
    page->anonymous_bytes = counts.anonymous;
    page->mapped_bytes = counts.mapped;
    page->disk_read_bytes = counts.disk_read;
    page->cpu_seconds = cpu_seconds();
    if (walked)
        page->resident_weight_bytes = m->resident;
    page->memory_available = m->machine.available;
    page->memory_pressure_shrinks = m->pressure.shrinks;
    note_long_step(m, page);
    status_end(m->status);
}

static void *run(void *context)
{
    struct monitor *m = context;
    struct timespec next;
    pthread_mutex_lock(&m->lock);
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!m->stop) {
        tick(m);
        next.tv_sec++;
        while (!m->stop && pthread_cond_timedwait(&m->wake, &m->lock, &next) == 0)
            ;
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

struct monitor *monitor_create(struct status_writer *status, const char *root, struct err *e)
{
    pthread_condattr_t attributes;
    struct monitor *m = calloc(1, sizeof *m);
    unsigned char *pages = malloc(PAGES_PER_LOOK);
    if (!m || !pages) {
        free(m);
        free(pages);
        err_set(e, ERR_NOMEM, "no memory for the monitor");
        return NULL;
    }
    m->status = status;
    m->root = root;
    m->pages = pages;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&m->thread, NULL, run, m) != 0) {
        err_set(e, ERR_NOMEM, "cannot start the monitor's thread");
        free(pages);
        free(m);
        return NULL;
    }
    return m;
}

void monitor_set_model(struct monitor *m, const struct model *model)
{
    pthread_mutex_lock(&m->lock);
    m->model = model;
    m->mapping = 0;
    m->offset = 0;
    pthread_mutex_unlock(&m->lock);
}

void monitor_set_expert_cache(struct monitor *m, struct expert_cache *experts, uint64_t least)
{
    struct machine machine;
    struct machine_stress stress;
    struct expert_counters c = {0};
    struct err ignored;
    machine_stress_read(m->root, &stress);
    if (experts)
        expert_cache_counters(experts, &c);
    uint64_t total = machine_read(m->root, &machine, &ignored) ? machine.total : 0;
    pthread_mutex_lock(&m->lock);
    m->experts = experts;
    pressure_init(&m->pressure, c.budget_bytes, least, memory_reserve(total) / 2, &stress);
    pthread_mutex_unlock(&m->lock);
}

void monitor_step(struct monitor *m, bool running)
{
    atomic_store(&m->step_started_ns, running ? clock_ns() : 0);
}

void monitor_destroy(struct monitor **m)
{
    if (!*m)
        return;
    pthread_mutex_lock(&(*m)->lock);
    (*m)->stop = true;
    pthread_cond_signal(&(*m)->wake);
    pthread_mutex_unlock(&(*m)->lock);
    pthread_join((*m)->thread, NULL);
    pthread_cond_destroy(&(*m)->wake);
    pthread_mutex_destroy(&(*m)->lock);
    free((*m)->pages);
    free(*m);
    *m = NULL;
}
