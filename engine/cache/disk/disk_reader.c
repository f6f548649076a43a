/* The readers' threads: bring the blocks of a load back in runs, one run being what lies side by
 * side in a segment, and check each record before the loop thread sees it. Loads are served in the
 * order in which they came, each a few runs ahead of what was taken from it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/cache/disk/disk_cache_internal.h"

/* Longer runs read no faster with two at a time, come later, and take more memory that has to be
 * made first, a page fault every 4 KiB. */
#define RUN_BYTES ((uint64_t)1 << 20)
#define RUNS_AHEAD 8
#define RATE_WINDOW_NS 2000000000u /* reads that the rate is taken over: 2 s of them */

struct run {
    int32_t first, n; /* blocks */
    uint64_t bytes;
    struct staging_buffer *buffer; /* NULL: not read yet, or given back */
    bool ready, from_ram;
    int32_t n_good; /* of its blocks, from the first on */
};

struct disk_load {
    struct disk_cache *c;
    struct record_about base; /* what all blocks have in common */
    struct prompt_key parent;
    struct prompt_seal seal;
    int32_t end, n;
    struct disk_block *blocks;               /* [n] */
    int32_t (*tokens)[ENGINE_STORED_TOKENS]; /* [n] */
    struct run *runs;                        /* [n_runs] */
    int32_t n_runs, to_read, to_take;        /* runs; guarded by the cache's lock, as all below */
    int32_t taken;                           /* blocks of run to_take */
    int32_t busy;                            /* readers that use it */
    bool closed, failed;
    bool from_ram; /* the block that was taken last */
    struct disk_load *next;
};

bool disk_read(int fd, void *to, size_t bytes, uint64_t offset)
{
    char *at = to;
    while (bytes) {
        ssize_t n = pread(fd, at, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : ENODATA;
            return false;
        }
        at += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

static void destroy(struct disk_load *l)
{
    for (int32_t i = 0; i < l->n_runs; i++)
        staging_give(&l->c->read_staging, l->runs[i].buffer);
    free(l->blocks);
    free(l->tokens);
    free(l->runs);
    free(l);
}

static void find_runs(struct disk_load *l)
{
    for (int32_t i = 0; i < l->n; i++) {
        const struct stored_place *p = &l->blocks[i].place;
        const struct stored_place *before = i ? &l->blocks[i - 1].place : p;
        struct run *last = &l->runs[l->n_runs - (l->n_runs > 0)];
        if (i && p->segment == before->segment && p->offset == before->offset + before->bytes &&
            last->bytes + p->bytes <= RUN_BYTES) {
            last->n++;
            last->bytes += p->bytes;
            continue;
        }
        l->runs[l->n_runs++] = (struct run){.first = i, .n = 1, .bytes = p->bytes};
    }
}

struct disk_load *disk_cache_load(struct disk_cache *c, const struct disk_load_params *p)
{
    struct disk_load *l = calloc(1, sizeof *l), **at;
    const size_t n = (size_t)p->n;
    if (!l)
        return NULL;
    l->c = c;
    l->n = p->n;
    l->parent = p->parent;
    l->end = p->end;
    l->base = (struct record_about){.identity = c->params.identity,
                                    .block_bytes = c->params.block_bytes,
                                    .variant = p->variant};
    if (p->seal)
        l->seal = *p->seal;
    strncpy(l->base.scope, p->scope, sizeof l->base.scope - 1);
    l->blocks = malloc(n * sizeof *l->blocks);
    l->tokens = malloc(n * sizeof *l->tokens);
    l->runs = calloc(n, sizeof *l->runs);
    if (!l->blocks || !l->tokens || !l->runs) {
        destroy(l);
        return NULL;
    }
    memcpy(l->blocks, p->blocks, n * sizeof *l->blocks);
    memcpy(l->tokens, p->tokens, n * sizeof *l->tokens);
    find_runs(l);
    pthread_mutex_lock(&c->lock);
    for (at = &c->loads; *at; at = &(*at)->next)
        ;
    *at = l;
    pthread_cond_broadcast(&c->to_read);
    pthread_mutex_unlock(&c->lock);
    return l;
}

static struct record_about about_of(const struct disk_load *l, int32_t i)
{
    struct record_about a = l->base;
    uint32_t state = l->c->params.state_bytes;
    a.key = l->blocks[i].key;
    a.parent = i ? l->blocks[i - 1].key : l->parent;
    a.end = l->end + i * ENGINE_STORED_TOKENS;
    a.state_bytes = l->blocks[i].place.bytes == record_bytes(a.block_bytes, state) ? state : 0;
    memcpy(a.tokens, l->tokens[i], sizeof a.tokens);
    return a;
}

static bool read_disk(struct disk_load *l, const struct run *run)
{
    const struct stored_place *place = &l->blocks[run->first].place;
    bool direct;
    int fd = segments_open_file(&l->c->segments, place->segment, &direct);
    bool ok = fd >= 0 && disk_read(fd, run->buffer->data, run->bytes, place->offset);
    if (fd >= 0 && !direct)
        posix_fadvise(fd, (off_t)place->offset, (off_t)run->bytes, POSIX_FADV_DONTNEED);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* All of the run's records, or none. */
static bool read_ram(struct disk_load *l, const struct run *run)
{
    unsigned char *at = run->buffer->data;
    for (int32_t i = run->first; i < run->first + run->n; i++) {
        const struct disk_block *b = &l->blocks[i];
        if (!l->c->ram || !record_ram_get(l->c->ram, &b->key, &b->place, at))
            return false;
        at += b->place.bytes;
    }
    return true;
}

/* A copy, before it is opened; not of a record that was forgotten since it was read, or that no row
 * has told of: nobody would forget the copy. */
static void keep_in_ram(struct disk_cache *c, const struct disk_block *b, const void *record)
{
    struct stored_place now;
    if (!c->ram || record_ram_has(c->ram, &b->key, &b->place))
        return;
    record_ram_put(c->ram, &b->key, &b->place, record);
    if (!disk_cache_find(c, &b->key, &now) || memcmp(&now, &b->place, sizeof now) != 0)
        record_ram_drop(c->ram, &b->key, &b->place);
}

/* Reads and checks a run; how many of its blocks are what they should be. */
static int32_t read_run(struct disk_load *l, struct run *run)
{
    int32_t good = 0;
    run->from_ram = read_ram(l, run);
    const bool ok = run->from_ram || read_disk(l, run);
    unsigned char *at = run->buffer->data;
    for (; ok && good < run->n; good++) {
        struct record_about about = about_of(l, run->first + good);
        uint32_t bytes = l->blocks[run->first + good].place.bytes;
        keep_in_ram(l->c, &l->blocks[run->first + good], at);
        if (bytes != record_bytes(about.block_bytes, about.state_bytes) ||
            !record_is(at, &about, l->seal.on ? &l->seal : NULL))
            break;
        at += bytes;
    }
    return good;
}

/* The next run to read, with its buffer; NULL: there is none now. */
static struct disk_load *pick(struct disk_cache *c, struct run **run)
{
    for (struct disk_load *l = c->loads; l; l = l->next) {
        if (l->failed || l->to_read == l->n_runs || l->to_read - l->to_take >= RUNS_AHEAD)
            continue;
        *run = &l->runs[l->to_read];
        (*run)->buffer = staging_take(&c->read_staging, (*run)->bytes);
        if (!(*run)->buffer)
            return NULL; /* the oldest goes first: what is taken from it makes room */
        l->to_read++;
        l->busy++;
        return l;
    }
    return NULL;
}

static void note_rate(struct disk_cache *c, uint64_t bytes, uint64_t ns)
{
    c->rate_bytes += bytes;
    c->rate_ns += ns;
    if (c->rate_ns > RATE_WINDOW_NS) {
        c->rate_bytes /= 2;
        c->rate_ns /= 2;
    }
}

/* With the lock. */
static void finish_run(struct disk_load *l, struct run *run, int32_t good)
{
    struct disk_cache *c = l->c;
    run->n_good = good;
    run->ready = true;
    l->failed = l->failed || good < run->n;
    c->counters.read_bytes += run->from_ram ? 0 : run->bytes;
    c->counters.loaded += (uint64_t)good;
    if (--l->busy == 0 && l->closed)
        destroy(l);
}

static void serve(struct disk_cache *c, struct disk_load *l, struct run *run)
{
    const bool alone = c->reads.under_way == 0;
    disk_activity_begin(&c->reads);
    pthread_mutex_unlock(&c->lock);
    uint64_t start = clock_ns();
    int32_t good = read_run(l, run);
    uint64_t took = clock_ns() - start;
    if (good < run->n)
        disk_report_gone(c, &l->blocks[run->first + good].key, &l->blocks[run->first + good].place);
    pthread_mutex_lock(&c->lock);
    /* Two reads at once take longer each: then half the time counts. */
    if (!run->from_ram)
        note_rate(c, run->bytes, alone && c->reads.under_way == 1 ? took : took / DISK_READERS);
    disk_activity_end(&c->reads);
    finish_run(l, run, good);
    pthread_mutex_unlock(&c->lock);
    disk_wake(c);
    pthread_mutex_lock(&c->lock);
}

void *disk_reader_run(void *cache)
{
    struct disk_cache *c = cache;
    struct run *run;
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        struct disk_load *l = pick(c, &run);
        if (l)
            serve(c, l, run);
        else
            pthread_cond_wait(&c->to_read, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* With the lock: the next block, if it has come. */
static enum disk_next next_block(struct disk_load *l, int32_t *index, unsigned char **record)
{
    struct run *run;
    for (;;) {
        if (l->to_take == l->n_runs)
            return DISK_END;
        run = &l->runs[l->to_take];
        if (!run->ready)
            return l->failed && l->to_take >= l->to_read ? DISK_DAMAGED : DISK_NOT_YET;
        if (l->taken < run->n)
            break;
        staging_give(&l->c->read_staging, run->buffer);
        run->buffer = NULL;
        l->to_take++;
        l->taken = 0;
        pthread_cond_broadcast(&l->c->to_read);
    }
    if (l->taken == run->n_good)
        return DISK_DAMAGED;
    *record = run->buffer->data;
    for (int32_t i = 0; i < l->taken; i++)
        *record += l->blocks[run->first + i].place.bytes;
    *index = run->first + l->taken++;
    l->from_ram = run->from_ram;
    return DISK_LOADED;
}

enum disk_next disk_load_next(struct disk_load *l, const unsigned char **block,
                              const unsigned char **state)
{
    unsigned char *record = NULL;
    int32_t i = 0;
    pthread_mutex_lock(&l->c->lock);
    enum disk_next next = next_block(l, &i, &record);
    pthread_mutex_unlock(&l->c->lock);
    if (next != DISK_LOADED)
        return next;
    const uint32_t block_bytes = l->base.block_bytes;
    *block = record_block(record);
    *state = l->blocks[i].place.bytes > record_bytes(block_bytes, 0)
                 ? record_state(record, block_bytes)
                 : NULL;
    return next;
}

bool disk_load_from_ram(const struct disk_load *l)
{
    return l->from_ram;
}

void disk_load_close(struct disk_load **at)
{
    struct disk_load *l = *at;
    *at = NULL;
    if (!l)
        return;
    struct disk_cache *c = l->c;
    pthread_mutex_lock(&c->lock);
    struct disk_load **link = &c->loads;
    while (*link != l)
        link = &(*link)->next;
    *link = l->next;
    l->closed = true;
    l->failed = true;
    if (!l->busy)
        destroy(l);
    if (!c->loads)
        staging_trim(&c->read_staging);
    pthread_cond_broadcast(&c->to_read); /* there is room for others */
    pthread_mutex_unlock(&c->lock);
}
