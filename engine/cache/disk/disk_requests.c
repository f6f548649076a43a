/* Does what the recorder asks for, on the writer's thread: forgets records, and reconciles what is
 * on disk with the rows that there are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#define LOG_MODULE "disk"
#include "engine/base/log.h"
#include "engine/cache/disk/disk_cache_internal.h"

#define FORGET_STEP 256
#define OTHER_STEP 64 /* with another folder's lock held */

/* True if a record of this key and size begins at the place. */
static bool is_there(struct segments *s, const struct stored_ref *ref)
{
    bool direct, found = false;
    struct prompt_key key;
    uint32_t bytes;
    const struct segment *segment = segments_find(s, ref->place.segment);
    if (!segment || ref->place.offset % RECORD_ALIGN || ref->place.offset > segment->size ||
        ref->place.bytes > segment->size - ref->place.offset)
        return false;
    unsigned char *header = aligned_alloc(RECORD_ALIGN, RECORD_ALIGN);
    int fd = header ? segments_open_file(s, ref->place.segment, &direct) : -1;
    if (fd >= 0 && disk_read(fd, header, RECORD_ALIGN, ref->place.offset))
        found = record_peek(header, &key, &bytes) && bytes == ref->place.bytes &&
                !memcmp(&key, &ref->key, sizeof key);
    if (fd >= 0)
        close(fd);
    free(header);
    return found;
}

/* The loop thread drops what it holds of it. */
static void note_forgotten(struct disk_cache *c, const struct prompt_key *key)
{
    if (c->n_forgotten == c->cap_forgotten) {
        int32_t cap = c->cap_forgotten ? c->cap_forgotten * 2 : 256;
        struct prompt_key *keys = realloc(c->forgotten, (size_t)cap * sizeof *keys);
        if (!keys)
            return;
        c->forgotten = keys;
        c->cap_forgotten = cap;
    }
    c->forgotten[c->n_forgotten++] = *key;
}

/* Takes the record out of the table if it is the one at the place. */
static bool leave_table(struct disk_cache *c, const struct stored_ref *ref)
{
    struct record_entry *entry = record_table_find(&c->table, &ref->key);
    bool known = entry && !memcmp(&entry->place, &ref->place, sizeof ref->place);
    if (known)
        record_table_remove(&c->table, entry);
    if (known || !entry) /* else its content was stored again, and only the old record goes */
        note_forgotten(c, &ref->key);
    return known;
}

/* n at most FORGET_STEP. Their bytes go together: one by one they kept this thread, which is the
 * last to get the processor, on a busy machine for minutes. */
static void forget(struct disk_cache *c, const struct stored_ref *refs, int32_t n)
{
    struct stored_place freed[FORGET_STEP];
    bool known[FORGET_STEP];
    int32_t n_freed = 0;
    pthread_mutex_lock(&c->lock);
    for (int32_t i = 0; i < n; i++)
        known[i] = leave_table(c, &refs[i]);
    pthread_mutex_unlock(&c->lock);
    for (int32_t i = 0; i < n; i++) {
        if (c->ram)
            record_ram_drop(c->ram, &refs[i].key, &refs[i].place);
        if (known[i] || is_there(&c->segments, &refs[i]))
            freed[n_freed++] = refs[i].place;
    }
    segments_sort(freed, n_freed);
    segments_free(&c->segments, freed, n_freed);
    pthread_mutex_lock(&c->lock);
    c->counters.forgotten += (uint64_t)n_freed;
    c->counters.disk_bytes = c->segments.disk_bytes;
    c->retry_ms = n_freed ? 0 : c->retry_ms; /* there is room again */
    pthread_mutex_unlock(&c->lock);
    for (int32_t i = 0; i < n; i++)
        record_feed_put(c->params.feed, &(struct cache_event){.type = CACHE_FORGOTTEN,
                                                              .key = refs[i].key,
                                                              .place = refs[i].place});
}

/* n at most OTHER_STEP, in the folder of another model. False: somebody else has its lock. */
static bool forget_there(const char *dir, const struct stored_ref *refs, int32_t n)
{
    struct segments other = {.dir_fd = -1, .lock_fd = -1, .write_fd = -1};
    struct stored_place freed[OTHER_STEP];
    struct err e = {0};
    int32_t n_freed = 0;
    if (access(dir, F_OK) != 0 && errno == ENOENT)
        return true;
    const bool ok = segments_open(&other, dir, &e);
    for (int32_t i = 0; ok && i < n; i++)
        if (is_there(&other, &refs[i]))
            freed[n_freed++] = refs[i].place;
    if (ok) {
        segments_sort(freed, n_freed);
        segments_free(&other, freed, n_freed);
        segments_drop_empty(&other);
    } else {
        log_debug("prompt cache: %s is not dealt with now: %s", dir, e.text);
    }
    segments_close(&other);
    return ok;
}

/* Of a model whose engine does not run. Who has the folder's lock may change it: where that is
 * somebody else, no answer comes, and the recorder asks again. The lock is let go between steps,
 * for longer than an engine that is being loaded waits between two looks at it. */
static void forget_of(struct disk_cache *c, const struct record_request *r)
{
    char dir[sizeof c->others + 32];
    snprintf(dir, sizeof dir, "%s-%lld", c->others, (long long)r->model);
    for (int32_t at = 0; at < r->n; at += OTHER_STEP) {
        const int32_t n = r->n - at < OTHER_STEP ? r->n - at : OTHER_STEP;
        if (at)
            clock_sleep_us(2 * DISK_LOCK_STEP_US);
        if (!forget_there(dir, r->refs + at, n))
            return;
        for (int32_t i = at; i < at + n; i++)
            record_feed_put(c->params.feed, &(struct cache_event){.type = CACHE_FORGOTTEN,
                                                                  .key = r->refs[i].key,
                                                                  .place = r->refs[i].place,
                                                                  .model = r->model});
    }
}

/* Remembers which announcements the rows may not show yet: those records stay in any case. */
static void begin_reconciling(struct disk_cache *c, uint64_t acknowledged)
{
    pthread_mutex_lock(&c->lock);
    c->settled_event = acknowledged;
    c->reconciling = true;
    c->n_kept = 0;
    for (uint32_t i = 0; i < c->table.cap; i++)
        c->table.slots[i].seen = false;
    pthread_mutex_unlock(&c->lock);
}

void disk_keep_old(struct disk_cache *c, const struct stored_ref *ref)
{
    if (!c->reconciling)
        return;
    if (c->n_kept == c->cap_kept) {
        int32_t cap = c->cap_kept ? c->cap_kept * 2 : 64;
        struct stored_ref *kept = realloc(c->kept, (size_t)cap * sizeof *kept);
        if (!kept) { /* what is old stays as it is until rows tell again */
            c->reconciling = false;
            return;
        }
        c->kept = kept;
        c->cap_kept = cap;
    }
    c->kept[c->n_kept++] = *ref;
}

/* A row that names another record than the table does. A newer one that its row does not show yet
 * is no fault of the row's; the older record goes when the row has moved on. */
static bool is_behind(const struct disk_cache *c, const struct record_entry *entry)
{
    return entry->place.segment && entry->event > c->settled_event;
}

/* The row's record enters the table; one of the same block that is being written keeps its entry,
 * and takes the row over when it is announced. */
static void enter(struct disk_cache *c, const struct stored_ref *ref)
{
    pthread_mutex_lock(&c->lock);
    struct record_entry *entry = record_table_find(&c->table, &ref->key);
    if (!entry && (entry = record_table_put(&c->table, &ref->key)))
        entry->has_state =
            ref->place.bytes == record_bytes(c->params.block_bytes, c->params.state_bytes);
    if (entry) {
        entry->place = ref->place;
        entry->seen = true;
    }
    pthread_mutex_unlock(&c->lock);
}

/* A row. True: its record is there. */
static bool reconcile(struct disk_cache *c, const struct stored_ref *ref)
{
    pthread_mutex_lock(&c->lock);
    struct record_entry *entry = record_table_find(&c->table, &ref->key);
    const bool elsewhere = entry && entry->place.segment;
    const bool same = elsewhere && !memcmp(&entry->place, &ref->place, sizeof ref->place);
    const bool behind = elsewhere && is_behind(c, entry);
    if (same && !behind)
        entry->seen = true;
    if (behind && !same)
        disk_keep_old(c, ref);
    const bool right = same || behind;
    pthread_mutex_unlock(&c->lock);
    if (elsewhere || !is_there(&c->segments, ref))
        return right;
    enter(c, ref);
    return true;
}

/* Places of all records, in order, with room for the older ones that rows still name; those that
 * rows do not name leave the table, and RAM, and are freed. */
static struct stored_place *collect(struct disk_cache *c, int32_t *n, struct stored_place **gone,
                                    int32_t *n_gone)
{
    struct record_table *t = &c->table;
    struct stored_place *live = malloc(((size_t)t->n + (size_t)c->n_kept + 1) * sizeof *live);
    *gone = malloc(((size_t)t->n + 1) * sizeof **gone);
    *n = *n_gone = 0;
    if (!live || !*gone) {
        free(live);
        return NULL;
    }
    for (uint32_t i = 0; i < t->cap; i++) {
        struct record_entry *entry = &t->slots[i];
        if (!entry->place.bytes || !entry->place.segment) /* empty, or being written */
            continue;
        if (entry->seen || entry->event > c->settled_event) {
            live[(*n)++] = entry->place;
            continue;
        }
        (*gone)[(*n_gone)++] = entry->place;
        if (c->ram)
            record_ram_drop(c->ram, &entry->key, &entry->place);
        record_table_remove(t, entry);
        i--; /* another one may have moved here */
    }
    segments_sort(*gone, *n_gone);
    return live;
}

/* Those that were not forgotten since their rows were read. The list is this thread's as long as
 * nothing is reconciled. */
static void add_kept(struct disk_cache *c, struct stored_place *live, int32_t *n)
{
    for (int32_t i = 0; i < c->n_kept; i++)
        if (is_there(&c->segments, &c->kept[i]))
            live[(*n)++] = c->kept[i].place;
    segments_sort(live, *n);
    int32_t kept = 0; /* a row may have been kept and, later, found to be right */
    for (int32_t i = 0; i < *n; i++)
        if (!kept || memcmp(&live[kept - 1], &live[i], sizeof *live) != 0)
            live[kept++] = live[i];
    *n = kept;
}

static void end_reconciling(struct disk_cache *c)
{
    struct stored_place *gone = NULL;
    int32_t n = 0, n_gone = 0;
    struct cache_event ev = {.type = CACHE_RECONCILED};
    pthread_mutex_lock(&c->lock);
    struct stored_place *live = c->reconciling ? collect(c, &n, &gone, &n_gone) : NULL;
    c->reconciling = false;
    pthread_mutex_unlock(&c->lock);
    if (live) {
        segments_free(&c->segments, gone, n_gone);
        add_kept(c, live, &n);
    }
    for (int32_t i = c->segments.n - 1, at = n; live && i >= 0; i--) { /* settling may remove it */
        struct segment *segment = &c->segments.list[i];
        while (at && live[at - 1].segment > segment->number) /* a file that was lost */
            at--;
        int32_t end = at;
        while (at && live[at - 1].segment == segment->number)
            at--;
        if (segment->old)
            segments_settle(&c->segments, segment, live + at, end - at);
    }
    free(live);
    free(gone);
    pthread_mutex_lock(&c->lock);
    c->counters.forgotten += (uint64_t)n_gone;
    c->counters.disk_bytes = c->segments.disk_bytes;
    pthread_mutex_unlock(&c->lock);
    log_info("prompt cache reconciled records=%d orphans=%d bytes=%llu", n, n_gone,
             (unsigned long long)c->segments.disk_bytes);
    record_feed_put(c->params.feed, &ev);
}

static void serve(struct disk_cache *c, const struct record_request *r)
{
    switch (r->type) {
    case RECORD_FORGET:
        if (r->model)
            forget_of(c, r);
        for (int32_t i = 0; !r->model && i < r->n; i += FORGET_STEP)
            forget(c, r->refs + i, r->n - i < FORGET_STEP ? r->n - i : FORGET_STEP);
        disk_wake(c);
        break;
    case RECORD_RECONCILE_BEGIN:
        begin_reconciling(c, r->acknowledged);
        break;
    case RECORD_RECONCILE:
        for (int32_t i = 0; i < r->n; i++)
            if (!reconcile(c, &r->refs[i]))
                disk_report_gone(c, &r->refs[i].key, &r->refs[i].place);
        break;
    case RECORD_RECONCILE_END:
        end_reconciling(c);
        break;
    }
}

static void free_lost(struct disk_cache *c)
{
    struct stored_place place;
    pthread_mutex_lock(&c->lock);
    while (c->n_lost) {
        place = c->lost[--c->n_lost];
        pthread_mutex_unlock(&c->lock);
        segments_free(&c->segments, &place, 1);
        pthread_mutex_lock(&c->lock);
        c->counters.disk_bytes = c->segments.disk_bytes;
    }
    pthread_mutex_unlock(&c->lock);
}

void disk_requests_serve(struct disk_cache *c)
{
    struct record_request *r;
    free_lost(c);
    while ((r = record_feed_take(c->params.feed))) {
        serve(c, r);
        free(r);
    }
}
