/* Decides what is loaded, and moves content from the disk cache into the backend. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "sched"
#include "engine/base/log.h"
#include "engine/sched/prompt_disk_internal.h"
#include "engine/sched/scheduler_state.h"

#define LOAD_OVERHEAD_MS 0.3 /* of a load, however little it brings */
#define FORGET_AT_ONCE 256

/* Where the job's block n, of this key, lies on disk: as the job's rows have it, or as the disk
 * cache itself knows of what was stored since the start, which a job that was preempted could not
 * name. */
static bool find_stored(const struct scheduler *s, const struct job *j, int32_t n,
                        const struct prompt_key *key, struct stored_ref *out)
{
    const uint32_t plain = prompt_disk_record(s, false), with_state = prompt_disk_record(s, true);
    *out = (struct stored_ref){.key = *key};
    if (n < j->params.n_stored && memcmp(key, &j->params.stored[n].key, sizeof *key) == 0)
        out->place = j->params.stored[n].place;
    else if (!disk_cache_find(s->disk->cache, key, &out->place))
        return false;
    return out->place.bytes == plain || out->place.bytes == with_state;
}

/* How many blocks are on disk, by keys that are made from the job's own tokens, and where: into
 * j->cache.known. Parent is the key before block `from`. */
static int32_t check_stored(const struct scheduler *s, struct job *j, int32_t from,
                            struct prompt_key *parent)
{
    struct prompt_key key;
    int32_t n = 0, most = (j->n_tokens - 1) / ENGINE_STORED_TOKENS;
    free(j->cache.known);
    j->cache.known = most > 0 ? malloc((size_t)most * sizeof *j->cache.known) : NULL;
    if (!j->cache.known)
        return 0;
    prompt_key_begin(&key, s->disk->identity, j->params.scope, j->n_experts);
    for (; n < most; n++) {
        if (n == from)
            *parent = key;
        prompt_key_next(&key, &j->params.cache_seal, j->tokens + n * ENGINE_STORED_TOKENS);
        if (!find_stored(s, j, n, &key, &j->cache.known[n]))
            break;
    }
    return n;
}

/* Recurrent models resume only behind a record that has a state. */
static int32_t cut_to_state(const struct scheduler *s, const struct job *j, int32_t n)
{
    const uint32_t with_state = prompt_disk_record(s, true);
    while (s->params.n_recurrent && n && j->cache.known[n - 1].place.bytes != with_state)
        n--;
    return n;
}

static bool pays(struct scheduler *s, const struct job *j, int32_t from, int32_t end)
{
    const struct prompt_disk *d = s->disk;
    double rate = stats_prefill_rate(&s->stats), bytes = 0, on_disk = 0;
    for (int32_t i = from; i < end; i++) {
        bytes += j->cache.known[i].place.bytes;
        if (!disk_cache_in_ram(d->cache, &j->cache.known[i]))
            on_disk += j->cache.known[i].place.bytes;
    }
    double load_ms = LOAD_OVERHEAD_MS + on_disk / disk_cache_read_rate(d->cache) * 1e3;
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
        const struct stored_ref *ref = &j->cache.known[i];
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
                                                       .scope = j->params.scope,
                                                       .seal = &j->params.cache_seal});
    free(blocks);
    return j->cache.load != NULL;
}

/* A job that is loading the block that this one would begin with; NULL: none is. */
static const struct job *loads_it(const struct scheduler *s, const struct job *j, int32_t from)
{
    for (int32_t i = 0; i < s->n_running; i++) {
        const struct job *other = s->running[i];
        const struct job_cache *c = &other->cache;
        if (other != j && c->load && c->next <= from && from < c->end &&
            memcmp(&c->known[from].key, &j->cache.known[from].key, sizeof c->known->key) == 0)
            return other;
    }
    return NULL;
}

static void begin_waiting(struct scheduler *s, struct job *j, uint64_t behind)
{
    j->cache.behind = behind;
    j->cache.began_ms = clock_ms();
    j->state = JOB_LOADING;
    s->disk->n_loading++;
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
    const struct job *other = loads_it(s, j, from);
    if (other) {
        begin_waiting(s, j, other->id);
        return;
    }
    if (!pays(s, j, from, end)) {
        set_miss(j, "slower than computing");
        return;
    }
    if (!start_load(s, j, end, &parent)) /* no memory: it is computed */
        return;
    set_miss(j, end < whole ? "unknown" : "");
    j->cache.next = from;
    j->cache.end = end;
    begin_waiting(s, j, 0);
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
        const struct stored_ref *last = &j->cache.known[loaded - 1];
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
    *(disk_load_from_ram(j->cache.load) ? &j->cache.from_ram : &j->cache.from_disk) += tokens;
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
    s->disk->moved_bytes += prompt_disk_record(s, state != NULL);
    if (!disk_load_from_ram(cache->load))
        cache->bytes += prompt_disk_record(s, state != NULL);
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

/* What the other one has loaded is on the device by now, and what it has not is begun anew. */
static void end_waiting(struct scheduler *s, struct job *j)
{
    for (int32_t i = 0; i < s->n_running; i++)
        if (s->running[i]->id == j->cache.behind && s->running[i]->cache.load)
            return;
    j->cache.ms += clock_ms() - j->cache.began_ms;
    s->disk->progress = true;
    admission_look_again(s, j);
}

static void poll_job(struct scheduler *s, struct job *j, uint64_t *left)
{
    const unsigned char *block, *state;
    enum disk_next next;
    while ((next = disk_load_next(j->cache.load, &block, &state)) == DISK_LOADED) {
        uint32_t bytes = prompt_disk_record(s, state != NULL);
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
        if (j->state == JOB_LOADING && !j->cache.load)
            end_waiting(s, j);
        else if (j->state == JOB_LOADING && left)
            poll_job(s, j, &left);
    }
    for (int32_t i = 0; i < s->n_running; i++)
        s->disk->n_loading += s->running[i]->state == JOB_LOADING;
}
