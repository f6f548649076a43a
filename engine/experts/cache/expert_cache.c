/* Opens and closes the expert cache and owns its memory: which record is evicted for a new one,
 * and which experts are read in advance at the start. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "experts"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/experts/cache/expert_cache_internal.h"

#define SMALLEST_RECORDS 4 /* one being computed, the others in flight */
#define LEARN_AT_CLOSE_NS 500000000u

uint64_t expert_cache_min_bytes(const struct expert_layout *l)
{
    return l->record_bytes_max * SMALLEST_RECORDS;
}

int32_t *expert_cache_slot_of(struct expert_cache *s, int32_t layer, int32_t expert)
{
    return &s->slot_of[s->history.first[layer] + expert];
}

struct weight_planes *expert_cache_table_entry(struct expert_cache *s, int32_t layer, int matrix,
                                               int32_t expert)
{
    int32_t n = s->params.layout->layers[layer].n_expert;
    return &s->tables[(size_t)s->history.first[layer] * EXPERT_MATRIX__N +
                      (size_t)(matrix * n + expert)];
}

/* --- memory --- */

static void forget(struct expert_cache *s, struct expert_slot *slot)
{
    if (slot->state == SLOT_SPARE) {
        expert_slots_unspare(&s->slots, slot);
        return;
    }
    if (slot->state == SLOT_READY)
        s->counters.evictions++;
    if (slot->prefetched)
        expert_prefetch_count(s, slot, false);
    slot->prefetched = slot->checksum_pending = false;
    expert_eviction_allow(&s->eviction, slot->layer, slot->expert, false);
    *expert_cache_slot_of(s, slot->layer, slot->expert) = -1;
    for (int m = 0; m < EXPERT_MATRIX__N; m++)
        *expert_cache_table_entry(s, slot->layer, m, slot->expert) = (struct weight_planes){0};
}

void expert_cache_evict(struct expert_cache *s, struct expert_slot *slot)
{
    forget(s, slot);
    expert_slots_release(&s->slots, slot);
}

#define ANY_SIZE (-1)

void expert_cache_make_spare(struct expert_cache *s, struct expert_slot *slot)
{
    forget(s, slot);
    expert_slots_spare(&s->slots, slot);
}

void expert_cache_update_evictable(struct expert_cache *s, const struct expert_slot *slot)
{
    expert_eviction_allow(&s->eviction, slot->layer, slot->expert,
                          slot->state == SLOT_READY && !slot->pins && !slot->prefetched);
}

void expert_cache_record_use(struct expert_cache *s, int32_t layer, const struct expert_want *wants,
                             int32_t n, int32_t rows)
{
    for (int32_t i = 0; i < n; i++) {
        expert_history_touch(&s->history, layer, wants[i].expert, wants[i].rows, rows);
        expert_eviction_wanted(&s->eviction, layer, wants[i].expert);
    }
}

/* A prefetched expert whose layer has not come yet. */
static struct expert_slot *find_prefetched(struct expert_cache *s)
{
    for (int32_t i = 0; i < s->prefetch.n; i++) {
        struct expert_slot *slot = &s->slots.slots[s->prefetch.slots[i]];
        if (slot->prefetched && slot->state == SLOT_READY && !slot->pins)
            return slot;
    }
    return NULL;
}

/* The least valuable record that is not pinned, of all or of one size. */
static struct expert_slot *least_valuable(struct expert_cache *s, int32_t size_class)
{
    struct expert_slot *spare = expert_slots_find_spare(&s->slots, size_class);
    if (spare)
        return spare;
    const struct eviction_choice c =
        expert_eviction_choose(&s->eviction, s->slots.class_of, size_class);
    if (c.layer < 0)
        return NULL;
    expert_eviction_done(&s->eviction, &c);
    return &s->slots.slots[*expert_cache_slot_of(s, c.layer, c.expert)];
}

/* Prefetched records are evicted only when nothing else can be. */
static struct expert_slot *victim_of_any_size(struct expert_cache *s)
{
    struct expert_slot *slot = least_valuable(s, ANY_SIZE);
    return slot ? slot : find_prefetched(s);
}

/* Chooses what to evict for a record of this layer. One of the same size is preferred while that
 * size has its share of the cache, because its memory can be reused: returning memory to the system
 * and populating it again costs as much as reading does. */
static struct expert_slot *victim_for(struct expert_cache *s, int32_t layer)
{
    const int32_t size_class = s->slots.class_of[layer];
    struct expert_slot *slot =
        expert_slots_has_share(&s->slots, size_class) ? least_valuable(s, size_class) : NULL;
    return slot ? slot : victim_of_any_size(s);
}

void expert_cache_shrink(struct expert_cache *s)
{
    while (s->slots.bytes > s->budget) {
        struct expert_slot *slot = victim_of_any_size(s);
        if (!slot)
            return;
        expert_cache_evict(s, slot);
    }
}

struct expert_slot *expert_cache_acquire(struct expert_cache *s, int32_t layer, int32_t expert)
{
    struct expert_slot *slot =
        s->slots.bytes <= s->budget ? expert_slots_reuse(&s->slots, layer) : NULL;
    uint32_t bytes = s->params.layout->layers[layer].record_bytes;
    while (!slot && s->slots.bytes + bytes > s->budget) {
        struct expert_slot *old = victim_for(s, layer);
        if (!old)
            return NULL;
        /* Memory of the same size is reused: it is neither zeroed nor populated again. */
        if (s->slots.bytes <= s->budget && old->size_class == s->slots.class_of[layer])
            forget(s, slot = old);
        else
            expert_cache_evict(s, old);
    }
    if (!slot)
        slot = expert_slots_take(&s->slots, layer);
    for (struct expert_slot *old;
         !slot &&
         (old = victim_for(s, layer));) { /* the system has less memory than the budget allows */
        if (old->size_class == s->slots.class_of[layer]) {
            forget(s, slot = old);
        } else {
            expert_cache_evict(s, old);
            slot = expert_slots_take(&s->slots, layer);
        }
    }
    if (!slot)
        return NULL;
    slot->layer = layer;
    slot->expert = expert;
    slot->state = SLOT_READING;
    slot->want = -1;
    slot->pins = 0;
    slot->prefetched = false;
    *expert_cache_slot_of(s, layer, expert) = (int32_t)(slot - s->slots.slots);
    return slot;
}

void expert_cache_start_read(struct expert_cache *s, struct expert_slot *slot, bool urgent)
{
    slot->job =
        (struct expert_job){.record = &s->params.layout->layers[slot->layer].records[slot->expert],
                            .memory = slot->memory,
                            .owner = slot};
    expert_reader_add(s->reader, &slot->job, urgent);
}

/* --- warming --- */

static int hotter(const void *a, const void *b)
{
    const struct hot_expert *x = a, *y = b;
    return x->rank < y->rank ? 1 : x->rank > y->rank ? -1 : 0;
}

int32_t expert_cache_list_hottest(struct expert_cache *s, struct hot_expert *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->history.n_layers; i++)
        for (int32_t x = 0; x < s->params.layout->layers[i].n_expert; x++) {
            double rank = expert_history_long_term(&s->history, i, x);
            if (isfinite(rank))
                list[n++] = (struct hot_expert){i, x, rank};
        }
    qsort(list, (size_t)n, sizeof *list, hotter);
    return n;
}

/* Reads the most used experts, as many as fit. A record that cannot be read is left to the step
 * that wants it, which reports the error. */
static void warm(struct expert_cache *s)
{
    struct hot_expert *list = malloc((size_t)s->history.n * sizeof *list);
    uint64_t began = clock_ns();
    int32_t n = list ? expert_cache_list_hottest(s, list) : 0, read = 0;
    struct expert_job *job;
    for (int32_t i = 0; i < n; i++) {
        if (s->slots.bytes + s->params.layout->layers[list[i].layer].record_bytes > s->budget)
            break;
        struct expert_slot *slot = expert_cache_acquire(s, list[i].layer, list[i].expert);
        if (!slot)
            break;
        expert_cache_start_read(s, slot, false);
    }
    while ((job = expert_reader_take(s->reader, true, NULL))) {
        uint64_t bytes = expert_record_read_bytes(job->record);
        if (!expert_cache_enter(s, job, NULL))
            continue;
        s->counters.warm_bytes += bytes;
        read++;
    }
    if (read)
        log_info("experts that earlier runs used most were read: n=%d bytes=%" PRIu64 " ms=%.0f",
                 read, s->counters.warm_bytes, (double)(clock_ns() - began) * 1e-6);
    free(list);
}

/* --- plan --- */

static bool make_plan(struct expert_cache *s, struct err *e)
{
    const struct expert_layout *l = s->params.layout;
    const struct model_plan *from = s->params.plan;
    s->plan = *from;
    s->plan.layers = calloc((size_t)from->n_layer, sizeof *s->plan.layers);
    s->layer_of = calloc((size_t)from->n_layer, sizeof *s->layer_of);
    s->tables = calloc((size_t)s->history.n * EXPERT_MATRIX__N, sizeof *s->tables);
    s->slot_of = calloc((size_t)s->history.n, sizeof *s->slot_of);
    if (!s->plan.layers || !s->layer_of || !s->tables || !s->slot_of)
        return err_set(e, ERR_NOMEM, "no memory for the expert cache");
    memcpy(s->plan.layers, from->layers, (size_t)from->n_layer * sizeof *from->layers);
    for (int32_t i = 0; i < from->n_layer; i++)
        s->layer_of[i] = -1;
    for (int32_t i = 0; i < s->history.n; i++)
        s->slot_of[i] = -1;
    for (int32_t i = 0; i < l->n_layers; i++) {
        struct moe_plan *m = &s->plan.layers[l->layers[i].layer].moe;
        struct weight *to[] = {&m->gate, &m->up, &m->down};
        s->layer_of[l->layers[i].layer] = i;
        for (int x = 0; x < EXPERT_MATRIX__N; x++) {
            *to[x] = l->layers[i].weights[x];
            to[x]->table = expert_cache_table_entry(s, i, x, 0);
        }
    }
    return true;
}

/* --- interface --- */

/* When memory is short, the device's share shrinks first. Call under the lock, or before there are
 * other threads. */
static void set_budget(struct expert_cache *s, uint64_t bytes)
{
    const uint64_t device_share = s->params.device_share,
                   own = s->params.budget > s->smallest + device_share
                             ? s->params.budget - device_share
                             : s->smallest;
    if (device_share) {
        s->budget = own;
        s->device_share = bytes > own ? bytes - own : 0;
        s->device_share = s->device_share < device_share ? s->device_share : device_share;
    } else {
        s->budget = bytes > s->smallest ? bytes : s->smallest;
    }
}

static bool open_parts(struct expert_cache *s, struct err *e)
{
    const struct expert_cache_params *p = &s->params;
    if (!expert_history_init(&s->history, p->layout, p->plan->fingerprint, e) ||
        !expert_eviction_init(&s->eviction, &s->history, e) || !make_plan(s, e))
        return false;
    s->reader = expert_reader_open(&(struct expert_reader_params){.files = p->layout->files,
                                                                  .n_files = p->layout->n_files,
                                                                  .depth = p->depth,
                                                                  .chunk = p->chunk,
                                                                  .no_uring = p->no_uring,
                                                                  .no_direct = p->no_direct},
                                   e);
    if (!s->reader || !expert_slots_init(&s->slots, p->layout, e))
        return false;
    s->unverified = malloc((size_t)s->slots.n * sizeof *s->unverified);
    return s->unverified || err_set(e, ERR_NOMEM, "no memory for the expert cache");
}

struct expert_cache *expert_cache_open(const struct expert_cache_params *p, struct err *e)
{
    struct expert_cache *s = calloc(1, sizeof *s);
    struct err none = {0};
    if (!s) {
        err_set(e, ERR_NOMEM, "no memory for the expert cache");
        return NULL;
    }
    s->params = *p;
    s->session.layer = -1;
    s->smallest = expert_cache_min_bytes(p->layout);
    set_budget(s, p->budget);
    s->saved_ns = clock_ns();
    pthread_mutex_init(&s->lock, NULL);
    if (!open_parts(s, e)) {
        s->params.state_dir = NULL; /* there is no history to save */
        expert_cache_close(&s);
        return NULL;
    }
    if (p->state_dir && expert_history_load(&s->history, p->state_dir, &none)) {
        if (!p->device_share)
            warm(s);
    } else if (p->state_dir && none.code != ERR_NOTFOUND)
        log_warn("what was learnt about experts is not used: %s", none.text);
    return s;
}

void expert_cache_close(struct expert_cache **ps)
{
    struct expert_cache *s = *ps;
    struct err e = {0};
    *ps = NULL;
    if (!s)
        return;
    for (uint64_t end = clock_ns() + LEARN_AT_CLOSE_NS;
         s->params.state_dir && clock_ns() < end && expert_cache_checksum_one(s);) {
    }
    if (s->params.state_dir && !expert_cache_save(s, &e))
        log_warn("what was learnt about experts is not kept: %s", e.text);
    expert_reader_close(&s->reader);
    expert_slots_fini(&s->slots);
    expert_eviction_fini(&s->eviction);
    expert_history_fini(&s->history);
    free(s->unverified);
    free(s->session.wants);
    free(s->session.order);
    free(s->plan.layers);
    free(s->layer_of);
    free(s->tables);
    free(s->slot_of);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const struct model_plan *expert_cache_plan(const struct expert_cache *s)
{
    return &s->plan;
}

const char *expert_cache_read_method(const struct expert_cache *s)
{
    return expert_reader_method(s->reader);
}

void expert_cache_set_budget(struct expert_cache *s, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    set_budget(s, bytes);
    expert_cache_shrink(s);
    pthread_mutex_unlock(&s->lock);
}

void expert_cache_counters(const struct expert_cache *s, struct expert_counters *c)
{
    struct expert_cache *open = (struct expert_cache *)s; /* for the lock alone */
    pthread_mutex_lock(&open->lock);
    *c = s->counters;
    c->budget_bytes = s->budget + s->device_share;
    c->resident_bytes = s->slots.bytes + s->device_resident.bytes;
    c->locked_bytes = s->slots.locked_bytes;
    c->resident_experts =
        s->device_resident.experts + (uint64_t)(s->slots.n_taken - s->slots.n_spare);
    c->evictions = s->params.device_share
                       ? s->device_resident.evictions
                       : c->evictions; /* records on their way to the device are no evictions */
    c->prefetching = expert_prefetch_enabled(s);
    expert_reader_counters(s->reader, &c->disk);
    pthread_mutex_unlock(&open->lock);
}

bool expert_cache_save(struct expert_cache *s, struct err *e)
{
    if (!s->params.state_dir)
        return true;
    pthread_mutex_lock(&s->lock);
    bool ok = expert_history_save(&s->history, s->params.state_dir, e);
    s->saved_ns = clock_ns();
    pthread_mutex_unlock(&s->lock);
    return ok;
}
