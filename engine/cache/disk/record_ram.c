/* A hash table with chains, and one list in the order of use. Whoever copies holds a reference, so
 * that what is dropped meanwhile stays until that is done. */
#include "engine/cache/disk/record_ram.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUCKETS 16384u /* a power of two */
#define MOST 30000u    /* each is a mapping, of which a process has 65530 as Linux comes */

struct copy {
    struct prompt_key key;
    struct stored_place place;
    void *data; /* pages of its own, which go back to the system with it */
    int references;
    struct copy *chain;         /* in its bucket */
    struct copy *newer, *older; /* by use */
};

struct record_ram {
    pthread_mutex_t lock; /* guards all below */
    struct copy *buckets[BUCKETS];
    struct copy *newest, *oldest;
    struct record_ram_counters counters;
};

struct record_ram *record_ram_create(uint64_t budget)
{
    struct record_ram *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->counters.budget = budget;
    return r;
}

static void release(struct copy *c)
{
    if (c && --c->references == 0) {
        munmap(c->data, c->place.bytes);
        free(c);
    }
}

static struct copy **slot_of(struct record_ram *r, const struct prompt_key *key)
{
    uint32_t h;
    memcpy(&h, key->bytes, sizeof h); /* it is a hash already */
    return &r->buckets[h & (BUCKETS - 1)];
}

/* Where the copy is linked, or the end of its chain. */
static struct copy **find(struct record_ram *r, const struct prompt_key *key,
                          const struct stored_place *place)
{
    struct copy **at = slot_of(r, key);
    while (*at && (memcmp(&(*at)->key, key, sizeof *key) != 0 ||
                   memcmp(&(*at)->place, place, sizeof *place) != 0))
        at = &(*at)->chain;
    return at;
}

static void leave_order(struct record_ram *r, struct copy *c)
{
    *(c->newer ? &c->newer->older : &r->newest) = c->older;
    *(c->older ? &c->older->newer : &r->oldest) = c->newer;
}

static void enter_order(struct record_ram *r, struct copy *c)
{
    c->newer = NULL;
    c->older = r->newest;
    *(r->newest ? &r->newest->newer : &r->oldest) = c;
    r->newest = c;
}

static void remove_at(struct record_ram *r, struct copy **at)
{
    struct copy *c = *at;
    *at = c->chain;
    leave_order(r, c);
    r->counters.bytes -= c->place.bytes;
    r->counters.records--;
    release(c);
}

void record_ram_destroy(struct record_ram **at)
{
    struct record_ram *r = *at;
    *at = NULL;
    if (!r)
        return;
    while (r->oldest)
        remove_at(r, find(r, &r->oldest->key, &r->oldest->place));
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static struct copy *make(const struct prompt_key *key, const struct stored_place *place,
                         const void *record)
{
    struct copy *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct copy){.key = *key, .place = *place, .references = 1};
    c->data = mmap(NULL, place->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->data == MAP_FAILED) {
        free(c);
        return NULL;
    }
    memcpy(c->data, record, place->bytes);
    return c;
}

void record_ram_put(struct record_ram *r, const struct prompt_key *key,
                    const struct stored_place *place, const void *record)
{
    if (place->bytes > r->counters.budget || record_ram_has(r, key, place))
        return;
    struct copy *c = make(key, place, record);
    if (!c)
        return;
    pthread_mutex_lock(&r->lock);
    if (*find(r, key, place)) { /* another thread was first */
        release(c);
        c = NULL;
    }
    while (c &&
           (r->counters.bytes + place->bytes > r->counters.budget || r->counters.records >= MOST))
        remove_at(r, find(r, &r->oldest->key, &r->oldest->place));
    if (c) {
        c->chain = *slot_of(r, key);
        *slot_of(r, key) = c;
        enter_order(r, c);
        r->counters.bytes += place->bytes;
        r->counters.records++;
    }
    pthread_mutex_unlock(&r->lock);
}

bool record_ram_has(struct record_ram *r, const struct prompt_key *key,
                    const struct stored_place *place)
{
    pthread_mutex_lock(&r->lock);
    const bool has = *find(r, key, place) != NULL;
    pthread_mutex_unlock(&r->lock);
    return has;
}

bool record_ram_get(struct record_ram *r, const struct prompt_key *key,
                    const struct stored_place *place, void *record)
{
    pthread_mutex_lock(&r->lock);
    struct copy *c = *find(r, key, place);
    if (c) {
        c->references++;
        leave_order(r, c);
        enter_order(r, c);
        r->counters.read++;
    }
    pthread_mutex_unlock(&r->lock);
    if (!c)
        return false;
    memcpy(record, c->data, place->bytes);
    pthread_mutex_lock(&r->lock);
    release(c);
    pthread_mutex_unlock(&r->lock);
    return true;
}

void record_ram_drop(struct record_ram *r, const struct prompt_key *key,
                     const struct stored_place *place)
{
    pthread_mutex_lock(&r->lock);
    struct copy **at = find(r, key, place);
    if (*at)
        remove_at(r, at);
    pthread_mutex_unlock(&r->lock);
}

void record_ram_counters(struct record_ram *r, struct record_ram_counters *out)
{
    pthread_mutex_lock(&r->lock);
    *out = r->counters;
    pthread_mutex_unlock(&r->lock);
}
