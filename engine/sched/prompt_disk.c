/* Decides what is loaded and what is stored, and moves content between backend and disk cache. */
#include "engine/sched/prompt_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "sched"
#include "engine/base/log.h"
#include "engine/sched/scheduler_state.h"

/* Content that is moved between two steps, while others wait for the next one; and while none do.
 */
#define BYTES_PER_ROUND ((uint64_t)8 << 20)
#define BYTES_WHEN_ALONE ((uint64_t)128 << 20)
#define LOAD_OVERHEAD_MS 0.3 /* of a load, however little it brings */
#define FORGET_AT_ONCE 256

_Static_assert(BACKEND_BLOCK_TOKENS == ENGINE_STORED_TOKENS, "a stored block is one of the pool");

struct pending {   /* a block that is to be copied out */
    int32_t block; /* -1: its content has been forgotten since */
    struct record_about about;
    uint64_t user;
    char owner[ENGINE_CACHE_OWNER_SIZE];
    int64_t keep_seconds;
    struct pending *next;
};

struct block_note {        /* of each block of the pool */
    struct prompt_key key; /* of its content */
    bool has_key;
    struct pending *pending;
};

struct prompt_disk {
    struct disk_cache *cache;
    uint64_t identity;
    struct block_note *notes; /* [n_blocks] */
    int32_t n_blocks;
    struct pending *oldest, *newest;
    int32_t n_loading;
    uint64_t n_loaded;              /* blocks that jobs continued from in place of computing them */
    bool progress;                  /* something was moved in this round */
    uint64_t moved_bytes, moved_ns; /* from staging into the backend */
};

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

static uint32_t size_of(const struct scheduler *s, bool with_state)
{
    const struct backend_content *content = s->params.ops->content;
    return record_bytes((uint32_t)content->block_bytes(s->params.backend),
                        with_state ? (uint32_t)content->state_bytes(s->params.backend) : 0);
}

/* --- loading --- */

/* How many of the named blocks are the job's, by keys that are made from its own tokens. Parent is
 * the key before block `from`. */
static int32_t check_stored(const struct scheduler *s, const struct job *j, int32_t from,
                            struct prompt_key *parent)
{
    const uint32_t plain = size_of(s, false), with_state = size_of(s, true);
    struct prompt_key key;
    int32_t n = 0;
    prompt_key_begin(&key, s->disk->identity, j->params.scope, j->n_experts);
    for (; n < j->params.n_stored && (n + 1) * ENGINE_STORED_TOKENS < j->n_tokens; n++) {
        const struct stored_ref *ref = &j->params.stored[n];
        if (n == from)
            *parent = key;
        prompt_key_next(&key, j->tokens + n * ENGINE_STORED_TOKENS);
        if (memcmp(&key, &ref->key, sizeof key) != 0 ||
            (ref->place.bytes != plain && ref->place.bytes != with_state))
            break;
    }
    return n;
}

/* Recurrent models resume only behind a record that has a state. */
static int32_t cut_to_state(const struct scheduler *s, const struct job *j, int32_t n)
{
    const uint32_t with_state = size_of(s, true);
    while (s->params.n_recurrent && n && j->params.stored[n - 1].place.bytes != with_state)
        n--;
    return n;
}

static bool pays(struct scheduler *s, const struct job *j, int32_t from, int32_t end)
{
    const struct prompt_disk *d = s->disk;
    double rate = stats_prefill_rate(&s->stats), bytes = 0;
    for (int32_t i = from; i < end; i++)
        bytes += j->params.stored[i].place.bytes;
    double load_ms = LOAD_OVERHEAD_MS + bytes / disk_cache_read_rate(d->cache) * 1e3;
    if (d->moved_bytes)
        load_ms += bytes * ((double)d->moved_ns / (double)d->moved_bytes) * 1e-6;
    return rate <= 0 || load_ms < (end - from) * ENGINE_STORED_TOKENS / rate * 1e3;
}

static bool start_load(struct scheduler *s, struct job *j, int32_t end,
                       const struct prompt_key *parent)
{
    const int32_t from = j->n_computed / ENGINE_STORED_TOKENS;
    struct disk_block *blocks = malloc((size_t)(end - from) * sizeof *blocks);
    for (int32_t i = from; blocks && i < end; i++) {
        const struct stored_ref *ref = &j->params.stored[i];
        blocks[i - from] = (struct disk_block){ref->key, ref->place};
    }
    if (blocks)
        j->cache.load = disk_cache_load(
            s->disk->cache, &(struct disk_load_params){.blocks = blocks,
                                                       .n = end - from,
                                                       .parent = *parent,
                                                       .tokens = j->tokens + j->n_computed,
                                                       .end = j->n_computed + ENGINE_STORED_TOKENS,
                                                       .variant = j->n_experts,
                                                       .scope = j->params.scope});
    free(blocks);
    return j->cache.load != NULL;
}

static void set_miss(struct job *j, const char *why)
{
    if (!j->preempted) /* it was said at the first admission */
        j->cache.miss = why;
}

void prompt_disk_begin(struct scheduler *s, struct job *j)
{
    const int32_t from = j->n_computed / ENGINE_STORED_TOKENS;
    const int32_t whole = (j->params.n_prompt - 1) / ENGINE_STORED_TOKENS;
    struct prompt_key parent = {{0}};
    set_miss(j, from >= whole ? "" : "unknown");
    if (!s->reuse || prompt_scores_wanted(j)) {
        set_miss(j, from >= whole ? "" : "off");
        return;
    }
    if (!s->disk)
        return;
    int32_t known = check_stored(s, j, from, &parent), end = cut_to_state(s, j, known);
    j->cache.n_stored = known;
    if (known > from && end <= from)
        set_miss(j, "no state");
    if (end <= from)
        return;
    if (!pays(s, j, from, end)) {
        set_miss(j, "slower than computing");
        return;
    }
    if (!start_load(s, j, end, &parent)) /* no memory: it is computed */
        return;
    set_miss(j, end < whole ? "unknown" : "");
    j->cache.next = from;
    j->cache.began_ms = clock_ms();
    j->state = JOB_LOADING;
    s->disk->n_loading++;
}

void prompt_disk_cancel(struct job *j)
{
    disk_load_close(&j->cache.load);
}

/* The job goes on behind what was loaded. */
static void end_load(struct scheduler *s, struct job *j)
{
    const int32_t loaded = j->n_computed / ENGINE_STORED_TOKENS;
    struct job_cache *cache = &j->cache;
    prompt_disk_cancel(j);
    cache->ms += clock_ms() - cache->began_ms;
    j->state = JOB_PREFILL;
    slot_turn_note(&j->turn, j->n_computed, 0);
    if (loaded && loaded <= cache->n_stored) {
        const struct stored_ref *last = &j->params.stored[loaded - 1];
        disk_cache_note_use(s->disk->cache, &(struct disk_block){last->key, last->place});
    }
    if (!j->preempted && !j->n_generated)
        scheduler_emit_progress(s, j);
}

static void count_loaded(struct scheduler *s, struct job *j, int32_t tokens)
{
    if (j->preempted) /* its own blocks, which is no hit of the cache */
        return;
    j->n_cached += tokens;
    j->cache.from_disk += tokens;
    s->stats.cached_tokens += (uint64_t)tokens;
    s->stats.prefix_hits += (uint64_t)tokens;
}

/* One block into the backend. False: the device has failed, or refuses. */
static bool take_block(struct scheduler *s, struct job *j, const unsigned char *block,
                       const unsigned char *state)
{
    const struct backend_content *content = s->params.ops->content;
    const void *from[1] = {block};
    struct job_cache *cache = &j->cache;
    struct err e = {0};
    uint64_t start = clock_ns();
    if (!content->load_blocks(s->params.backend, &j->blocks[cache->next], 1, from, &e) ||
        (state && !content->load_state(s->params.backend, j->slot, state, &e))) {
        log_warn("job=%llu a stored block was not loaded: %s", (unsigned long long)j->id, e.text);
        return false;
    }
    s->disk->moved_ns += clock_ns() - start;
    s->disk->moved_bytes += size_of(s, state != NULL);
    cache->bytes += size_of(s, state != NULL);
    cache->next++;
    if (s->params.n_recurrent && !state)
        return true; /* it can be continued only behind the next one that has a state */
    s->disk->n_loaded += (uint64_t)(cache->next - j->n_computed / ENGINE_STORED_TOKENS);
    count_loaded(s, j, cache->next * ENGINE_STORED_TOKENS - j->n_computed);
    j->n_computed = cache->next * ENGINE_STORED_TOKENS;
    admission_index_blocks(s, j);
    if (s->checkpoints)
        admission_save_checkpoint(s, j);
    return true;
}

static void poll_job(struct scheduler *s, struct job *j, uint64_t *left)
{
    const unsigned char *block, *state;
    enum disk_next next;
    while ((next = disk_load_next(j->cache.load, &block, &state)) == DISK_LOADED) {
        uint32_t bytes = size_of(s, state != NULL);
        s->disk->progress = true;
        if (!take_block(s, j, block, state)) {
            set_miss(j, "damaged");
            end_load(s, j);
            return;
        }
        *left -= bytes < *left ? bytes : *left;
        if (!*left)
            return;
    }
    if (next == DISK_NOT_YET)
        return;
    if (next == DISK_DAMAGED) {
        set_miss(j, "damaged");
        j->cache.n_stored = j->cache.next; /* what is computed now is stored again */
    }
    s->disk->progress = true;
    end_load(s, j);
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct prompt_key));
}

/* Content that somebody asked to be forgotten is not found on the device any more either. */
static void drop_forgotten(struct scheduler *s)
{
    struct prompt_key keys[FORGET_AT_ONCE];
    struct prompt_disk *d = s->disk;
    int32_t n;
    do {
        n = disk_cache_take_forgotten(d->cache, keys, FORGET_AT_ONCE);
        qsort(keys, (size_t)n, sizeof *keys, compare_keys);
        for (int32_t i = 0; n && i < d->n_blocks; i++)
            if (d->notes[i].has_key &&
                bsearch(&d->notes[i].key, keys, (size_t)n, sizeof *keys, compare_keys))
                prefix_index_drop(s->index, i);
    } while (n == FORGET_AT_ONCE);
}

static int32_t count_others(const struct scheduler *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_running; i++)
        n += s->running[i]->state != JOB_LOADING;
    return n;
}

void prompt_disk_poll(struct scheduler *s)
{
    if (!s->disk)
        return;
    uint64_t left = count_others(s) ? BYTES_PER_ROUND : BYTES_WHEN_ALONE;
    s->disk->progress = false;
    s->disk->n_loading = 0;
    drop_forgotten(s);
    for (int32_t i = 0; i < s->n_running; i++) {
        struct job *j = s->running[i];
        if (j->state == JOB_LOADING && left)
            poll_job(s, j, &left);
        s->disk->n_loading += j->state == JOB_LOADING;
    }
}

/* --- storing --- */

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
           (!with_state || j->params.stored[i].place.bytes == size_of(s, true));
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
        prompt_key_next(&about.key, about.tokens);
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
                              .keep_seconds = j->params.cache_keep_seconds};
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
    w->keep_seconds = p->keep_seconds;
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
