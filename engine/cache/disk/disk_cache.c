/* Opens and closes the disk cache, and does what the loop thread asks of it without waiting for a
 * disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "disk"
#include "engine/base/log.h"
#include "engine/cache/disk/disk_cache_internal.h"

/* Memory while something is written or read, beside the plan's: enough to keep a disk busy. */
#define WRITE_STAGING ((size_t)16 << 20)
#define READ_STAGING ((size_t)32 << 20)
#define LOCK_MS 3000.0        /* many steps of another engine that forgets records here */
#define FIRST_READ_RATE 500e6 /* bytes per second, until it was measured */

void disk_activity_begin(struct disk_activity *a)
{
    if (!a->under_way++)
        a->since_ns = clock_ns();
}

void disk_activity_end(struct disk_activity *a)
{
    if (!--a->under_way)
        a->total_ns += clock_ns() - a->since_ns;
}

void disk_wake(struct disk_cache *c)
{
    if (c->params.wake)
        c->params.wake(c->params.wake_context);
}

void disk_tell_busy(struct disk_cache *c)
{
    record_feed_set_busy(c->params.feed, c->pending || c->writing > 0);
}

static void note_request(void *context)
{
    struct disk_cache *c = context;
    pthread_mutex_lock(&c->lock);
    c->asked = true;
    pthread_cond_signal(&c->to_write);
    pthread_mutex_unlock(&c->lock);
}

static bool start_threads(struct disk_cache *c, struct err *e)
{
    c->writer_runs = pthread_create(&c->writer, NULL, disk_writer_run, c) == 0;
    while (c->writer_runs && c->n_readers < DISK_READERS &&
           pthread_create(&c->readers[c->n_readers], NULL, disk_reader_run, c) == 0)
        c->n_readers++;
    return (c->writer_runs && c->n_readers) ||
           err_set(e, ERR_NOMEM, "cannot start the threads of the prompt cache");
}

/* Another model's engine may be forgetting records here (disk_requests.c): it lets go again and
 * again. */
static bool open_segments(struct disk_cache *c, struct err *e)
{
    const double until = clock_ms() + LOCK_MS;
    while (!segments_open(&c->segments, c->dir, e)) {
        segments_close(&c->segments);
        if (e->code != ERR_CONFLICT || clock_ms() >= until)
            return false;
        clock_sleep_us(DISK_LOCK_STEP_US);
    }
    return true;
}

struct disk_cache *disk_cache_open(const struct disk_cache_params *p, struct err *e)
{
    struct disk_cache *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(e, ERR_NOMEM, "no memory for the prompt cache");
        return NULL;
    }
    c->params = *p;
    c->params.dir = c->params.others = NULL;
    snprintf(c->dir, sizeof c->dir, "%s", p->dir);
    snprintf(c->others, sizeof c->others, "%s", p->others ? p->others : p->dir);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->to_write, NULL);
    pthread_cond_init(&c->to_read, NULL);
    staging_init(&c->write_staging, WRITE_STAGING);
    staging_init(&c->read_staging, READ_STAGING);
    c->counters.budget = p->budget;
    c->segments = (struct segments){.dir_fd = -1, .lock_fd = -1, .write_fd = -1};
    if (p->ram_budget && !(c->ram = record_ram_create(p->ram_budget))) {
        err_set(e, ERR_NOMEM, "no memory for the prompt cache in RAM");
        disk_cache_close(&c);
        return NULL;
    }
    if (!open_segments(c, e)) {
        disk_cache_close(&c);
        return NULL;
    }
    c->counters.disk_bytes = c->segments.disk_bytes;
    if (!start_threads(c, e)) {
        disk_cache_close(&c);
        return NULL;
    }
    record_feed_on_requests(p->feed, note_request, c);
    note_request(c); /* for what came before */
    return c;
}

void disk_cache_close(struct disk_cache **at)
{
    struct disk_cache *c = *at;
    *at = NULL;
    if (!c)
        return;
    record_feed_on_requests(c->params.feed, NULL, NULL);
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->to_write);
    pthread_cond_broadcast(&c->to_read);
    pthread_mutex_unlock(&c->lock);
    if (c->writer_runs)
        pthread_join(c->writer, NULL);
    while (c->n_readers)
        pthread_join(c->readers[--c->n_readers], NULL);
    segments_close(&c->segments);
    record_table_fini(&c->table);
    record_ram_destroy(&c->ram);
    staging_fini(&c->write_staging);
    staging_fini(&c->read_staging);
    pthread_cond_destroy(&c->to_write);
    pthread_cond_destroy(&c->to_read);
    pthread_mutex_destroy(&c->lock);
    free(c->forgotten);
    free(c->lost);
    free(c->kept);
    free(c);
}

void disk_cache_set_budget(struct disk_cache *c, uint64_t bytes)
{
    pthread_mutex_lock(&c->lock);
    c->counters.budget = bytes;
    pthread_mutex_unlock(&c->lock);
}

static double seconds_of(const struct disk_activity *a)
{
    return (double)(a->total_ns + (a->under_way ? clock_ns() - a->since_ns : 0)) * 1e-9;
}

void disk_cache_counters(struct disk_cache *c, struct disk_counters *out)
{
    pthread_mutex_lock(&c->lock);
    *out = c->counters;
    out->records = c->table.n;
    out->read_seconds = seconds_of(&c->reads);
    out->write_seconds = seconds_of(&c->writes);
    pthread_mutex_unlock(&c->lock);
    if (c->ram) {
        struct record_ram_counters ram;
        record_ram_counters(c->ram, &ram);
        out->ram_budget = ram.budget;
        out->ram_bytes = ram.bytes;
    }
}

double disk_cache_read_rate(struct disk_cache *c)
{
    pthread_mutex_lock(&c->lock);
    double rate =
        c->rate_ns ? (double)c->rate_bytes / ((double)c->rate_ns * 1e-9) : FIRST_READ_RATE;
    pthread_mutex_unlock(&c->lock);
    return rate;
}

bool disk_cache_wants(struct disk_cache *c, const struct prompt_key *key, bool with_state)
{
    pthread_mutex_lock(&c->lock);
    const struct record_entry *entry = record_table_find(&c->table, key);
    bool wants = !entry || (with_state && !entry->has_state);
    pthread_mutex_unlock(&c->lock);
    return wants;
}

bool disk_cache_find(struct disk_cache *c, const struct prompt_key *key, struct stored_place *place)
{
    pthread_mutex_lock(&c->lock);
    const struct record_entry *entry = record_table_find(&c->table, key);
    bool found = entry && entry->place.segment; /* else it is being written */
    if (found)
        *place = entry->place;
    pthread_mutex_unlock(&c->lock);
    return found;
}

bool disk_cache_in_ram(struct disk_cache *c, const struct stored_ref *ref)
{
    return c->ram && record_ram_has(c->ram, &ref->key, &ref->place);
}

static bool has_room(struct disk_cache *c, uint32_t bytes)
{
    return clock_ms() >= c->retry_ms &&
           c->counters.disk_bytes + c->queued_bytes + bytes <= c->counters.budget &&
           !record_feed_full(c->params.feed);
}

enum disk_room disk_cache_begin_write(struct disk_cache *c, bool with_state,
                                      struct disk_write **out)
{
    uint32_t bytes = record_bytes(c->params.block_bytes, with_state ? c->params.state_bytes : 0);
    enum disk_room room = DISK_ROOM;
    struct disk_queued_write *w = NULL;
    pthread_mutex_lock(&c->lock);
    if (!has_room(c, bytes)) {
        c->counters.refused++;
        room = DISK_NO_ROOM;
    } else if (!(w = calloc(1, sizeof *w)) ||
               !(w->buffer = staging_take(&c->write_staging, bytes))) {
        free(w);
        /* without a write under way nobody would wake the loop */
        room = c->write_staging.used ? DISK_WAIT : DISK_NO_ROOM;
    } else {
        c->queued_bytes += bytes;
    }
    pthread_mutex_unlock(&c->lock);
    if (room != DISK_ROOM)
        return room;
    w->write.record = w->buffer->data;
    w->write.about = (struct record_about){.identity = c->params.identity,
                                           .block_bytes = c->params.block_bytes,
                                           .state_bytes = with_state ? c->params.state_bytes : 0};
    *out = &w->write;
    return DISK_ROOM;
}

/* The key is known from here on, so that it is not handed over twice. A record without a state
 * stays where it is until the one with a state is written. */
static bool enter(struct disk_cache *c, const struct disk_write *w)
{
    struct record_entry *entry = record_table_find(&c->table, &w->about.key);
    if (entry) {
        bool better = w->about.state_bytes && !entry->has_state;
        entry->has_state = entry->has_state || better;
        return better;
    }
    entry = record_table_put(&c->table, &w->about.key);
    if (!entry)
        return false;
    entry->place =
        (struct stored_place){.bytes = record_bytes(w->about.block_bytes, w->about.state_bytes)};
    entry->has_state = w->about.state_bytes > 0;
    return true;
}

void disk_cache_end_write(struct disk_cache *c, struct disk_write *w, bool ok)
{
    struct disk_queued_write *q = (struct disk_queued_write *)w; /* its first member */
    uint32_t bytes = record_bytes(w->about.block_bytes, w->about.state_bytes);
    pthread_mutex_lock(&c->lock);
    if (ok && enter(c, w)) {
        q->next = NULL;
        *(c->newest ? &c->newest->next : &c->oldest) = q;
        c->newest = q;
        c->writing++;
        pthread_cond_signal(&c->to_write);
        q = NULL;
    } else {
        c->queued_bytes -= bytes;
        staging_give(&c->write_staging, q->buffer);
    }
    pthread_mutex_unlock(&c->lock);
    free(q);
}

bool disk_cache_writing(struct disk_cache *c)
{
    pthread_mutex_lock(&c->lock);
    bool writing = c->writing > 0;
    pthread_mutex_unlock(&c->lock);
    return writing;
}

void disk_cache_note_pending(struct disk_cache *c, bool pending)
{
    pthread_mutex_lock(&c->lock);
    c->pending = pending;
    disk_tell_busy(c);
    pthread_mutex_unlock(&c->lock);
}

/* With the lock: the writer's thread, which owns the segments, frees it. */
static void note_lost(struct disk_cache *c, const struct stored_place *place)
{
    if (c->n_lost == c->cap_lost) {
        int32_t cap = c->cap_lost ? c->cap_lost * 2 : 16;
        struct stored_place *lost = realloc(c->lost, (size_t)cap * sizeof *lost);
        if (!lost)
            return;
        c->lost = lost;
        c->cap_lost = cap;
    }
    c->lost[c->n_lost++] = *place;
    c->asked = true;
    pthread_cond_signal(&c->to_write);
}

void disk_report_gone(struct disk_cache *c, const struct prompt_key *key,
                      const struct stored_place *place)
{
    struct cache_event ev = {.type = CACHE_GONE, .key = *key, .place = *place};
    pthread_mutex_lock(&c->lock);
    struct record_entry *entry = record_table_find(&c->table, key);
    if (entry && !memcmp(&entry->place, place, sizeof *place)) {
        record_table_remove(&c->table, entry);
        note_lost(c, place);
    }
    c->counters.damaged++;
    pthread_mutex_unlock(&c->lock);
    if (c->ram)
        record_ram_drop(c->ram, key, place);
    record_feed_put(c->params.feed, &ev);
}

void disk_cache_note_use(struct disk_cache *c, const struct disk_block *block)
{
    struct cache_event ev = {.type = CACHE_USED, .key = block->key, .place = block->place};
    if (!record_feed_full(c->params.feed)) /* it only orders what is forgotten first */
        record_feed_put(c->params.feed, &ev);
}

int32_t disk_cache_take_forgotten(struct disk_cache *c, struct prompt_key *keys, int32_t most)
{
    pthread_mutex_lock(&c->lock);
    int32_t n = c->n_forgotten < most ? c->n_forgotten : most;
    c->n_forgotten -= n;
    if (n)
        memcpy(keys, c->forgotten + c->n_forgotten, (size_t)n * sizeof *keys);
    pthread_mutex_unlock(&c->lock);
    return n;
}
