/* history.h: both rings lie in one mapped file, which a seqlock guards. */
#include "fcgi/status/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/mapped_file.h"

#define READ_TRIES 100

struct history_file {
    struct mapped_header head;
    uint64_t sequence;          /* odd while the writer is at it */
    struct history_sample last; /* at_ms 0: none yet */
    struct history_row fine[HISTORY_FINE_ROWS], coarse[HISTORY_COARSE_ROWS];
};

struct history {
    struct history_file *file;
};

const char *const history_sum_names[HISTORY_SUM__N] = {
    "prompt_tokens", "cached_tokens", "completion_tokens", "jobs_done",         "jobs_failed",
    "jobs_refused",  "expert_asked",  "expert_hits",       "expert_read_bytes", "expert_bus_bytes",
    "step_ms",       "cpu_ms",        "disk_bytes",        "http_requests",     "http_errors"};
const char *const history_gauge_names[HISTORY_GAUGE__N] = {"up",
                                                           "running",
                                                           "waiting",
                                                           "blocks_used",
                                                           "blocks_cached",
                                                           "resident_bytes",
                                                           "weight_bytes",
                                                           "expert_bytes",
                                                           "device_bytes",
                                                           "available_bytes",
                                                           "host_cpu"};

/* ---- the file ---- */

static const struct mapped_header layout = {
    .magic = 0x54534853u, .version = 1, .size = sizeof(struct history_file)};

struct history *history_open(const char *path, struct err *e)
{
    struct history *h = calloc(1, sizeof *h);
    if (!h) {
        err_set(e, ERR_NOMEM, "no memory for the history");
        return NULL;
    }
    if (!(h->file = mapped_file_open(path, layout, 0640, e))) {
        free(h);
        return NULL;
    }
    h->file->sequence += h->file->sequence & 1; /* a writer that was killed in the middle */
    return h;
}

void history_close(struct history **h)
{
    if (*h)
        munmap((*h)->file, sizeof *(*h)->file);
    free(*h);
    *h = NULL;
}

/* ---- writing ---- */

/* The growth of a counter. One that is less than before was reset, so all of it is growth. */
static uint64_t grown(uint64_t now, uint64_t before)
{
    if (now == HISTORY_UNKNOWN || before == HISTORY_UNKNOWN)
        return 0;
    return now >= before ? now - before : now;
}

static struct history_row *row_at(struct history_row *ring, int n, int step_s, int64_t now_s)
{
    int64_t slot = now_s / step_s;
    struct history_row *row = &ring[slot % n];
    if (row->at != slot * step_s)
        *row = (struct history_row){.at = slot * step_s};
    return row;
}

static void add_to(struct history_row *row, const struct history_sample *s,
                   const struct history_row *growth)
{
    row->covered_s += growth->covered_s;
    for (int i = 0; i < HISTORY_SUM__N; i++)
        row->sums[i] += growth->sums[i];
    for (int i = 0; i < HISTORY_GAUGE__N; i++) {
        row->areas[i] += s->gauges[i] * growth->covered_s;
        if (row->highest[i] < s->gauges[i])
            row->highest[i] = s->gauges[i];
    }
    for (int k = 0; k < HISTORY_TIMES__N; k++)
        for (int i = 0; i < HISTORY_BUCKETS; i++)
            row->buckets[k][i] += growth->buckets[k][i];
}

/* The growth from the previous sample to this one. Of an engine that started in between, all
 * counters are growth. */
static void compute_growth(const struct history_sample *s, const struct history_sample *last,
                           struct history_row *g)
{
    const bool same = s->engine_started == last->engine_started;
    *g = (struct history_row){
        .covered_s = s->at_ms > last->at_ms ? (double)(s->at_ms - last->at_ms) / 1e3 : 0};
    for (int i = 0; i < HISTORY_SUM__N; i++)
        if (i >= HISTORY_ENGINE__N || s->engine_known)
            g->sums[i] =
                grown(s->counters[i], i < HISTORY_ENGINE__N && !same ? 0 : last->counters[i]);
    for (int k = 0; k < HISTORY_TIMES__N && s->engine_known; k++)
        for (int i = 0; i < HISTORY_BUCKETS; i++)
            g->buckets[k][i] = (uint32_t)grown(s->buckets[k][i], same ? last->buckets[k][i] : 0);
}

/* If the engine's page is unreadable, the previous sample stays the baseline of the next
 * difference. */
static void remember(struct history_sample *last, const struct history_sample *s)
{
    const bool same = s->engine_started == last->engine_started;
    struct history_sample next = *s;
    if (last->at_ms && !s->engine_known) {
        next = *last;
        next.at_ms = s->at_ms;
        for (int i = HISTORY_ENGINE__N; i < HISTORY_SUM__N; i++)
            next.counters[i] = s->counters[i];
    }
    for (int i = 0; i < HISTORY_SUM__N; i++)
        if (next.counters[i] == HISTORY_UNKNOWN)
            next.counters[i] = i >= HISTORY_ENGINE__N || same ? last->counters[i] : 0;
    *last = next;
}

void history_add(struct history *h, const struct history_sample *s)
{
    struct history_file *f = h->file;
    struct history_row growth = {0};
    const bool first =
        f->last.at_ms == 0; /* what was counted before anyone wrote belongs to no row */
    if (!first)
        compute_growth(s, &f->last, &growth);
    __atomic_store_n(&f->sequence, f->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    add_to(row_at(f->fine, HISTORY_FINE_ROWS, HISTORY_FINE_S, s->at_ms / 1000), s, &growth);
    add_to(row_at(f->coarse, HISTORY_COARSE_ROWS, HISTORY_COARSE_S, s->at_ms / 1000), s, &growth);
    remember(&f->last, s);
    __atomic_store_n(&f->sequence, f->sequence + 1, __ATOMIC_RELEASE);
}

/* ---- reading ---- */

static void merge(struct history_row *into, const struct history_row *row)
{
    into->covered_s += row->covered_s;
    for (int i = 0; i < HISTORY_SUM__N; i++)
        into->sums[i] += row->sums[i];
    for (int i = 0; i < HISTORY_GAUGE__N; i++) {
        into->areas[i] += row->areas[i];
        into->highest[i] = into->highest[i] > row->highest[i] ? into->highest[i] : row->highest[i];
    }
    for (int k = 0; k < HISTORY_TIMES__N; k++)
        for (int i = 0; i < HISTORY_BUCKETS; i++)
            into->buckets[k][i] += row->buckets[k][i];
}

static void collect(const struct history_file *f, struct history_view *v, bool fine)
{
    const struct history_row *ring = fine ? f->fine : f->coarse;
    const int rows = fine ? HISTORY_FINE_ROWS : HISTORY_COARSE_ROWS,
              row_s = fine ? HISTORY_FINE_S : HISTORY_COARSE_S;
    for (int i = 0; i < v->n; i++) {
        struct history_row *out = &v->rows[i];
        *out = (struct history_row){0};
        for (int64_t at = v->from + i * v->step_s; at < v->from + (i + 1) * v->step_s;
             at += row_s) {
            const struct history_row *row = &ring[at / row_s % rows];
            if (row->at != at || row->covered_s <= 0)
                continue;
            out->at = v->from + i * v->step_s;
            merge(out, row);
        }
    }
    memcpy(v->bounds, f->last.bounds, sizeof v->bounds);
}

static bool collect_whole(const struct history_file *f, struct history_view *v, bool fine)
{
    for (int attempt = 0; attempt < READ_TRIES; attempt++) {
        uint64_t before = __atomic_load_n(&f->sequence, __ATOMIC_ACQUIRE);
        if (!(before & 1)) {
            collect(f, v, fine);
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (__atomic_load_n(&f->sequence, __ATOMIC_RELAXED) == before)
                return true;
        }
        usleep(200);
    }
    return false;
}

bool history_read(const char *path, int64_t now_s, int64_t seconds, struct history_view *v,
                  struct err *e)
{
    const bool fine = seconds <= (int64_t)HISTORY_FINE_S * HISTORY_FINE_ROWS;
    const int64_t row_s = fine ? HISTORY_FINE_S : HISTORY_COARSE_S;
    const int64_t together = (seconds / row_s + HISTORY_MAX_POINTS - 1) / HISTORY_MAX_POINTS;
    v->step_s = row_s * (together > 0 ? together : 1);
    v->n = (int)(seconds / v->step_s);
    v->n = v->n < 1 ? 1 : v->n > HISTORY_MAX_POINTS ? HISTORY_MAX_POINTS : v->n;
    v->from = (now_s / v->step_s + 1 - v->n) * v->step_s;
    memset(v->rows, 0, sizeof v->rows);
    memset(v->bounds, 0, sizeof v->bounds);
    const struct history_file *f = mapped_file_open_readonly(path, layout);
    if (!f)
        return true; /* nobody wrote yet */
    bool ok = collect_whole(f, v, fine) ||
              err_set(e, ERR_BUSY, "the history is being written; try again");
    munmap((void *)f, sizeof *f);
    return ok;
}

double history_quantile(const struct history_view *v, const struct history_row *row,
                        enum history_times which, double q)
{
    const uint32_t *counts = row->buckets[which];
    const double *bounds = v->bounds[which];
    double total = 0, below = 0;
    for (int i = 0; i < HISTORY_BUCKETS; i++)
        total += counts[i];
    for (int i = 0; i < HISTORY_BUCKETS && total > 0; i++) {
        if (below + counts[i] >= q * total && counts[i]) {
            double low = i ? bounds[i - 1] : 0, high = bounds[i];
            return isinf(high) ? low : low + (high - low) * (q * total - below) / counts[i];
        }
        below += counts[i];
    }
    return -1;
}
