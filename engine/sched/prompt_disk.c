/* Stores what jobs leave: moves content from the backend to the disk cache. Loading is in
 * prompt_load.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "sched"
#include "engine/base/log.h"
#include "engine/sched/prompt_disk_internal.h"
#include "engine/sched/scheduler_state.h"

_Static_assert(BACKEND_BLOCK_TOKENS == ENGINE_STORED_TOKENS, "a stored block is one of the pool");

struct prompt_disk *prompt_disk_create(struct disk_cache *cache, uint64_t identity,
                                       int32_t n_blocks, struct err *e)
{
    struct prompt_disk *d = calloc(1, sizeof *d);
    if (!d || !(d->notes = calloc((size_t)n_blocks, sizeof *d->notes))) {
        free(d);
        err_set(e, ERR_NOMEM, "no memory for the prompt cache's notes");
        return NULL;
    }
    d->cache = cache;
    d->identity = identity;
    d->n_blocks = n_blocks;
    return d;
}

void prompt_disk_destroy(struct prompt_disk **at)
{
    struct prompt_disk *d = *at;
    *at = NULL;
    if (!d)
        return;
    for (struct pending *p = d->oldest, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(d->notes);
    free(d);
}

void prompt_disk_drop(struct prompt_disk *d, int32_t block)
{
    struct block_note *note = &d->notes[block];
    if (note->pending)
        note->pending->block = -1;
    *note = (struct block_note){0};
}

bool prompt_disk_busy(const struct scheduler *s)
{
    return s->disk && s->disk->oldest;
}

bool prompt_disk_waits(const struct scheduler *s)
{
    return s->disk && (s->disk->oldest || s->disk->n_loading) && !s->disk->progress;
}

uint32_t prompt_disk_record(const struct scheduler *s, bool with_state)
{
    const struct backend_content *content = s->params.ops->content;
    return record_bytes((uint32_t)content->block_bytes(s->params.backend),
                        with_state ? (uint32_t)content->state_bytes(s->params.backend) : 0);
}

static void append(struct prompt_disk *d, struct pending *p)
{
    *(d->newest ? &d->newest->next : &d->oldest) = p;
    d->newest = p;
    d->notes[p->block].pending = p;
}

/* Removes the oldest. */
static void remove_first(struct prompt_disk *d)
{
    struct pending *p = d->oldest;
    d->oldest = p->next;
    if (!d->oldest)
        d->newest = NULL;
    if (p->block >= 0)
        d->notes[p->block].pending = NULL;
    free(p);
}

/* The copy of the state after the block, or -1. */
static int32_t state_of(const struct scheduler *s, int32_t block)
{
    return s->checkpoints ? checkpoints_find(s->checkpoints, block) : -1;
}

/* True if a row says so: with a state, if one is at hand now. */
static bool on_disk(const struct scheduler *s, const struct job *j, int32_t i, bool with_state)
{
    return i < j->cache.n_stored &&
           (!with_state || j->cache.known[i].place.bytes == prompt_disk_record(s, true));
}

void prompt_disk_save(struct scheduler *s, struct job *j)
{
    struct prompt_disk *d = s->disk;
    struct record_about about = {.identity = d ? d->identity : 0, .variant = j->n_experts};
    if (!d || !s->reuse || j->params.cache_keep_seconds < 0)
        return;
    memcpy(about.scope, j->params.scope, sizeof about.scope);
    prompt_key_begin(&about.key, d->identity, j->params.scope, j->n_experts);
    for (int32_t i = 0; i < j->n_indexed; i++) {
        struct block_note *note = &d->notes[j->blocks[i]];
        memcpy(about.tokens, j->tokens + i * ENGINE_STORED_TOKENS, sizeof about.tokens);
        about.parent = about.key;
        prompt_key_next(&about.key, &j->params.cache_seal, about.tokens);
        about.end = (i + 1) * ENGINE_STORED_TOKENS;
        note->key = about.key;
        note->has_key = true;
        bool state = state_of(s, j->blocks[i]) >= 0;
        if (on_disk(s, j, i, state) || note->pending ||
            !disk_cache_wants(d->cache, &about.key, state))
            continue;
        struct pending *p = calloc(1, sizeof *p);
        if (!p)
            return;
        *p = (struct pending){.block = j->blocks[i],
                              .about = about,
                              .user = j->params.user,
                              .seal = j->params.cache_seal,
                              .keep_seconds = j->params.cache_keep_seconds,
                              .forgets_seen = j->params.cache_forgets_seen};
        memcpy(p->owner, j->params.cache_owner, sizeof p->owner);
        append(d, p);
    }
}

static bool fill(struct scheduler *s, const struct pending *p, int32_t state, struct disk_write *w)
{
    const struct backend_content *content = s->params.ops->content;
    void *to[1] = {record_block(w->record)};
    struct err e = {0};
    bool ok = content->save_blocks(s->params.backend, &p->block, 1, to, &e);
    if (ok && state >= 0)
        ok = content->save_state(s->params.backend, state,
                                 record_state(w->record, w->about.block_bytes), &e);
    if (!ok)
        log_warn("a block was not stored: %s", e.text);
    return ok;
}

/* What is left could not be read either: the device has failed. */
static void give_up(struct prompt_disk *d)
{
    for (struct pending *p = d->oldest; p; p = p->next) {
        if (p->block >= 0)
            d->notes[p->block].pending = NULL;
        p->block = -1;
    }
}

/* False: there is no memory for it until a write has ended. */
static bool copy_out(struct scheduler *s, const struct pending *p, uint64_t *left)
{
    struct disk_write *w;
    int32_t state = state_of(s, p->block); /* it may have been replaced while the block waited */
    enum disk_room room = disk_cache_begin_write(s->disk->cache, state >= 0, &w);
    if (room != DISK_ROOM)
        return room == DISK_NO_ROOM;
    const uint32_t block_bytes = w->about.block_bytes, state_bytes = w->about.state_bytes;
    double rate = stats_prefill_rate(&s->stats);
    w->about = p->about;
    w->about.block_bytes = block_bytes;
    w->about.state_bytes = state_bytes;
    w->user = p->user;
    w->seal = p->seal;
    w->keep_seconds = p->keep_seconds;
    w->forgets_seen = p->forgets_seen;
    w->compute_ms = rate > 0 ? ENGINE_STORED_TOKENS / rate * 1e3 : 0;
    memcpy(w->owner, p->owner, sizeof w->owner);
    bool ok = fill(s, p, state, w);
    disk_cache_end_write(s->disk->cache, w, ok);
    if (!ok)
        give_up(s->disk);
    uint64_t bytes = record_bytes(block_bytes, state_bytes);
    *left -= bytes < *left ? bytes : *left;
    return true;
}

void prompt_disk_copy(struct scheduler *s)
{
    struct prompt_disk *d = s->disk;
    uint64_t left = s->n_running ? BYTES_PER_ROUND : BYTES_WHEN_ALONE;
    if (!d)
        return;
    while (d->oldest && left && (d->oldest->block < 0 || copy_out(s, d->oldest, &left))) {
        d->progress = true;
        remove_first(d);
    }
    disk_cache_note_pending(d->cache, d->oldest != NULL);
}

void prompt_disk_publish(const struct scheduler *s, struct status_page *page)
{
    struct disk_counters c;
    if (!s->disk)
        return;
    disk_cache_counters(s->disk->cache, &c);
    page->cache_identity = s->disk->identity;
    page->cache_disk_budget = c.budget;
    page->cache_disk_bytes = c.disk_bytes;
    page->cache_ram_budget = c.ram_budget;
    page->cache_ram_bytes = c.ram_bytes;
    page->cache_records = c.records;
    page->cache_stored = c.stored;
    page->cache_loaded = s->disk->n_loaded;
    page->cache_refused = c.refused;
    page->cache_damaged = c.damaged;
    page->cache_forgotten = c.forgotten;
    page->cache_read_bytes = c.read_bytes;
    page->cache_written_bytes = c.written_bytes;
    page->cache_read_seconds = c.read_seconds;
    page->cache_write_seconds = c.write_seconds;
    memcpy(page->cache_note, c.note, sizeof page->cache_note);
}
