/* Reading ahead for the next layer: see expert_store_prefetch(). It pays when most of it is wanted; where it is not, it
 * rests for a while and is tried again. */
#include "engine/experts/expert_store_internal.h"

#define WINDOW 64        /* records by which it is judged */
#define FIRST_PAUSE 1024 /* layers */
#define LAST_PAUSE 65536

void ahead_count(struct expert_store *s, const struct expert_slot *slot, bool useful)
{
    struct ahead *a = &s->ahead;
    *(useful ? &s->counters.prefetch_useful_bytes : &s->counters.prefetch_wasted_bytes) += expert_read_bytes(slot->job.record);
    *(useful ? &a->useful : &a->wasted) += 1;
    if (a->useful + a->wasted < WINDOW)
        return;
    if (a->useful < a->wasted) {
        a->pause = a->pause ? a->pause < LAST_PAUSE ? a->pause * 2 : LAST_PAUSE : FIRST_PAUSE;
        a->rest = a->pause;
    } else {
        a->pause = 0;
    }
    a->useful = a->wasted = 0;
}

void ahead_settle(struct expert_store *s, int32_t layer)
{
    if (s->ahead.rest)
        s->ahead.rest--;
    for (int32_t i = s->slots.n_taken; i-- > 0;) { /* backwards: releasing moves the last one here */
        struct expert_slot *slot = &s->slots.slots[s->slots.taken[i]];
        if (!slot->ahead || slot->layer != layer)
            continue;
        if (slot->state == SLOT_READING && expert_reader_drop(s->reader, &slot->job)) {
            slot->ahead = false; /* nothing was read of it */
            store_evict(s, slot);
            continue;
        }
        ahead_count(s, slot, false);
        slot->ahead = false;
    }
}

bool expert_store_prefetching(const struct expert_store *s)
{
    return !s->set.no_prefetch && !s->ahead.rest;
}

void expert_store_prefetch(struct expert_store *s, int32_t layer, const int32_t *ids, int32_t n)
{
    pthread_mutex_lock(&s->lock);
    int32_t next = s->layer_of[layer] + 1;
    bool there = next < s->set.layout->n_layers && expert_store_prefetching(s);
    for (int32_t i = 0; there && i < n; i++) {
        if (*store_slot_of(s, next, ids[i]) >= 0)
            continue;
        struct expert_slot *slot = store_acquire(s, next, ids[i]);
        if (!slot)
            break;
        slot->ahead = true;
        store_read(s, slot, false);
    }
    pthread_mutex_unlock(&s->lock);
}
