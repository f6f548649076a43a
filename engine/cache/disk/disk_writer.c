/* The writer's thread: appends records, makes sure that they are on disk, and announces them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/clock.h"
#define LOG_MODULE "disk"
#include "engine/base/log.h"
#include "engine/cache/disk/disk_cache_internal.h"

#define RETRY_MS 60000.0 /* after a write that failed */
#define BATCH SEGMENTS_MAX_PARTS

/* Answers go first: this thread gets the processor and the disk last. Neither is needed for it to
 * work, so a refusal is no matter. */
static void lower_priority(void)
{
    enum { BY_THREAD = 1, BEST_EFFORT = 2, LOWEST = 7, CLASS_SHIFT = 13 };
    if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10) != 0 ||
        syscall(SYS_ioprio_set, BY_THREAD, 0, BEST_EFFORT << CLASS_SHIFT | LOWEST) != 0)
        log_debug("the writer keeps its priority");
}

/* One line when it begins to fail, and one when it works again. */
static void note_failure(struct disk_cache *c, const struct err *e)
{
    bool first = !c->counters.note[0];
    c->retry_ms = clock_ms() + RETRY_MS;
    snprintf(c->counters.note, sizeof c->counters.note, "nothing is stored for now: %.120s",
             e->text);
    if (first)
        log_warn("prompt cache: %s", c->counters.note);
}

static void note_success(struct disk_cache *c)
{
    if (c->counters.note[0])
        log_info("prompt cache: blocks are stored again");
    c->counters.note[0] = 0;
    c->retry_ms = 0;
}

/* The event comes before the entry's number is known to anyone else: both under the lock. */
static void announce(struct disk_cache *c, const struct disk_write *w,
                     const struct stored_place *place)
{
    struct cache_event ev = {.type = CACHE_STORED,
                             .key = w->about.key,
                             .place = *place,
                             .parent = w->about.parent,
                             .end = w->about.end,
                             .state_bytes = w->about.state_bytes,
                             .identity = w->about.identity,
                             .user = w->user,
                             .keep_seconds = w->keep_seconds,
                             .forgets_seen = w->forgets_seen,
                             .compute_ms = w->compute_ms};
    memcpy(ev.owner, w->owner, sizeof ev.owner);
    struct record_entry *entry = record_table_find(&c->table, &w->about.key);
    /* The one that it is better than was forgotten meanwhile: the rows say whether it is wanted. */
    if (!entry && (entry = record_table_put(&c->table, &w->about.key)))
        entry->has_state = w->about.state_bytes > 0;
    if (entry) {
        if (entry->place.segment) /* its row has yet to be told of the newer one */
            disk_keep_old(c, &(struct stored_ref){.key = entry->key, .place = entry->place});
        entry->place = *place;
        entry->event = record_feed_put(c->params.feed, &ev);
    }
    c->counters.stored++;
    c->counters.written_bytes += place->bytes;
}

/* A record without a state may lie there from before. */
static void leave(struct disk_cache *c, const struct prompt_key *key)
{
    struct record_entry *entry = record_table_find(&c->table, key);
    if (entry && entry->place.segment)
        entry->has_state = false;
    else if (entry)
        record_table_remove(&c->table, entry);
}

/* With the lock: ends n writes, which lie on disk from `first` on, or have failed (*e). */
static void end_writes(struct disk_cache *c, struct disk_queued_write **batch, int n,
                       struct stored_place first, const struct err *e)
{
    for (int i = 0; i < n; i++) {
        struct disk_write *w = &batch[i]->write;
        uint32_t bytes = record_bytes(w->about.block_bytes, w->about.state_bytes);
        first.bytes = bytes;
        if (!e) {
            announce(c, w, &first);
        } else {
            leave(c, &w->about.key);
            c->counters.refused++;
        }
        first.offset += bytes;
        c->queued_bytes -= bytes;
        c->writing--;
        staging_give(&c->write_staging, batch[i]->buffer);
        free(batch[i]);
    }
    c->counters.disk_bytes = c->segments.disk_bytes;
    if (!c->writing)
        staging_trim(&c->write_staging);
    disk_tell_busy(c);
    if (e)
        note_failure(c, e);
    else
        note_success(c);
}

/* Before they are announced, so that nobody can have them forgotten yet. */
static void keep_in_ram(struct disk_cache *c, struct disk_queued_write **batch, int n,
                        struct stored_place at)
{
    for (int i = 0; i < n; i++, at.offset += at.bytes) {
        const struct disk_write *w = &batch[i]->write;
        at.bytes = record_bytes(w->about.block_bytes, w->about.state_bytes);
        record_ram_put(c->ram, &w->about.key, &at, w->record);
    }
}

static void write_batch(struct disk_cache *c, struct disk_queued_write **batch, int n)
{
    struct iovec parts[BATCH];
    struct stored_place first = {0};
    struct err e = {0};
    for (int i = 0; i < n; i++) {
        struct record_about *about = &batch[i]->write.about;
        const struct prompt_seal *seal = &batch[i]->write.seal;
        record_finish(batch[i]->write.record, about, seal->on ? seal : NULL);
        parts[i] = (struct iovec){batch[i]->write.record,
                                  record_bytes(about->block_bytes, about->state_bytes)};
    }
    bool ok = segments_append(&c->segments, parts, n, &first, &e);
    if (ok && !segments_sync(&c->segments, &e)) {
        ok = false;
        for (int i = 0; i < n; i++, first.offset += first.bytes) {
            first.bytes = (uint32_t)parts[i].iov_len;
            segments_free(&c->segments, &first, 1);
        }
    } else if (ok && c->ram)
        keep_in_ram(c, batch, n, first);
    pthread_mutex_lock(&c->lock);
    end_writes(c, batch, n, first, ok ? NULL : &e);
    pthread_mutex_unlock(&c->lock);
    disk_wake(c);
}

void *disk_writer_run(void *cache)
{
    struct disk_cache *c = cache;
    struct disk_queued_write *batch[BATCH];
    lower_priority();
    pthread_mutex_lock(&c->lock);
    while (!c->stop || c->oldest) {
        if (c->asked) {
            c->asked = false;
            pthread_mutex_unlock(&c->lock);
            disk_requests_serve(c);
            pthread_mutex_lock(&c->lock);
            continue;
        }
        int n = 0;
        for (; n < BATCH && c->oldest; c->oldest = c->oldest->next)
            batch[n++] = c->oldest;
        if (!c->oldest)
            c->newest = NULL;
        if (!n) {
            pthread_cond_wait(&c->to_write, &c->lock);
            continue;
        }
        disk_activity_begin(&c->writes);
        pthread_mutex_unlock(&c->lock);
        write_batch(c, batch, n);
        pthread_mutex_lock(&c->lock);
        disk_activity_end(&c->writes);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
