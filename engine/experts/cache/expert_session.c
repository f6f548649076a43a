/* Serves one MoE layer of a step, from expert_cache_begin() to expert_cache_end(): it orders the
 * missing reads by their place on disk and hands experts out as they arrive. */
#include <stdlib.h>

#define LOG_MODULE "experts"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/experts/cache/expert_cache_internal.h"

/* How far a step that takes its experts in order reads ahead. Reading earlier would only evict what
 * other layers use. */
#define READ_AHEAD_BYTES (64u << 20)
#define SAVE_EVERY_NS 120000000000u

static bool reserve(struct session *q, int32_t n)
{
    if (n <= q->cap)
        return true;
    struct want *wants = realloc(q->wants, (size_t)n * sizeof *wants);
    if (wants)
        q->wants = wants;
    int32_t *order = realloc(q->order, (size_t)n * sizeof *order);
    if (order)
        q->order = order;
    if (!wants || !order)
        return false;
    q->cap = n;
    return true;
}

static const struct expert_part *first_part(const struct expert_cache *s, int32_t want)
{
    const struct expert_layer *layer = &s->params.layout->layers[s->session.layer];
    return &layer->records[s->session.wants[want].expert].parts[0];
}

static bool lies_before(const struct expert_cache *s, int32_t a, int32_t b)
{
    const struct expert_part *x = first_part(s, a), *y = first_part(s, b);
    return x->file != y->file ? x->file < y->file : x->offset < y->offset;
}

static void sort_by_offset(struct expert_cache *s, int32_t *list, int32_t n)
{
    for (int32_t i = 1; i < n;
         i++) { /* insertion sort: the list is nearly sorted, since ids follow the disk */
        int32_t one = list[i], j = i;
        for (; j && lies_before(s, one, list[j - 1]); j--)
            list[j] = list[j - 1];
        list[j] = one;
    }
}

static void enter_want(struct expert_cache *s, int32_t i)
{
    struct session *q = &s->session;
    struct want *w = &q->wants[i];
    *w = (struct want){.expert = w->expert,
                       .slot = *expert_cache_slot_of(s, q->layer, w->expert),
                       .state = WANT_MISSING};
    s->counters.asked++;
    if (w->slot < 0)
        return;
    struct expert_slot *slot = &s->slots.slots[w->slot];
    slot->want = i;
    slot->pins = 1;
    w->state = slot->state == SLOT_READY ? WANT_READY : WANT_READING;
    *(w->state == WANT_READY ? &s->counters.hits : &s->counters.late) += 1;
    if (slot->prefetched)
        expert_prefetch_count(s, slot, true);
    slot->prefetched = false;
    expert_cache_update_evictable(s, slot);
    if (w->state == WANT_READING)
        expert_reader_make_urgent(s->reader, &slot->job);
}

/* Bytes of the reads in flight. */
static uint64_t bytes_in_flight(const struct expert_cache *s)
{
    const struct session *q = &s->session;
    uint64_t n = 0;
    for (int32_t i = 0; i < q->n; i++)
        n += q->wants[i].state == WANT_READING;
    return n * s->params.layout->layers[q->layer].record_bytes;
}

/* Starts to read missing experts as far as there is room, each batch in the order of the disk. */
static void pump(struct expert_cache *s)
{
    enum { BATCH = 64 };
    struct session *q = &s->session;
    uint32_t bytes = s->params.layout->layers[q->layer].record_bytes;
    uint64_t before = q->in_order ? bytes_in_flight(s) : 0;
    int32_t batch[BATCH], n = 0;
    for (; q->next < q->n && n < BATCH; q->next++) {
        struct want *w = &q->wants[q->order[q->next]];
        if (w->state != WANT_MISSING)
            continue;
        if (q->in_order && before && before + bytes > READ_AHEAD_BYTES)
            break;
        struct expert_slot *slot = expert_cache_acquire(s, q->layer, w->expert);
        if (!slot)
            break;
        w->slot = (int32_t)(slot - s->slots.slots);
        w->state = WANT_READING;
        slot->want = q->order[q->next];
        slot->pins = 1;
        before += bytes;
        batch[n++] = q->order[q->next];
    }
    sort_by_offset(s, batch, n);
    for (int32_t i = 0; i < n; i++) {
        s->counters.misses++;
        s->counters.miss_bytes += expert_record_read_bytes(
            &s->params.layout->layers[q->layer].records[q->wants[batch[i]].expert]);
        expert_cache_start_read(s, &s->slots.slots[q->wants[batch[i]].slot], true);
    }
}

/* Gate and up of a record have arrived. Only the running layer can use them. */
static void enter_gate_up(struct expert_cache *s, const struct expert_job *job)
{
    const struct expert_slot *slot = job->owner;
    if (slot->want < 0)
        return;
    expert_cache_enter_gate_up(s, job);
    s->session.wants[slot->want].gate_up_ready = true;
}

/* A read has finished: one of this layer, or one that was prefetched for the next. */
static void finish(struct expert_cache *s, struct expert_job *job)
{
    struct session *q = &s->session;
    struct expert_slot *slot = job->owner;
    struct err why = {0};
    int32_t want = slot->want;
    bool prefetched = slot->prefetched, ok = expert_cache_enter(s, job, &why);
    if (want < 0) {
        if (!ok && !prefetched)
            log_warn("%s", why.text);
        return; /* the failure is reported again if its layer wants the expert */
    }
    if (ok) {
        q->wants[want].state = WANT_READY;
    } else if (!q->failed) {
        q->failed = true;
        q->failure = why;
    }
}

void expert_cache_begin(struct expert_cache *s, const struct expert_layer_request *request)
{
    const struct expert_want *wants = request->wants;
    const int32_t n = request->n, rows = request->rows;
    struct session *q = &s->session;
    struct expert_job *job;
    pthread_mutex_lock(&s->lock);
    while (
        (job = expert_reader_take(
             s->reader, false, NULL))) /* finished prefetches; the disk continues with the next */
        finish(s, job);
    q->layer = s->layer_of[request->layer];
    q->in_order = request->in_order;
    q->rows = rows;
    q->failed = !reserve(q, n);
    q->n = q->failed ? 0 : n;
    q->next = q->n_out = 0;
    if (q->failed)
        err_set(&q->failure, ERR_NOMEM, "no memory for %d wanted experts", n);
    expert_history_advance(&s->history, q->layer, rows);
    expert_eviction_advance(&s->eviction, q->layer, rows);
    expert_cache_record_use(s, q->layer, wants, q->n, rows);
    for (int32_t i = 0; i < q->n; i++) {
        q->wants[i].expert = wants[i].expert;
        q->order[i] = i;
        enter_want(s, i);
    }
    expert_prefetch_settle(s, q->layer);
    if (!q->in_order)
        sort_by_offset(s, q->order, q->n);
    if (q->n)
        pump(s);
    pthread_mutex_unlock(&s->lock);
}

static void hand_out(struct expert_cache *s, struct expert_taken *t, int32_t max)
{
    struct session *q = &s->session;
    t->n = t->n_gate_up_ready = 0;
    for (int32_t i = 0; i < q->n && t->n < max && t->n_gate_up_ready < max; i++) {
        struct want *w = &q->wants[i];
        if (w->state == WANT_READY) {
            w->state = WANT_OUT;
            t->ids[t->n++] = w->expert;
        } else if (t->gate_up_ready && w->gate_up_ready && !w->gate_up_taken &&
                   w->state == WANT_READING) {
            w->gate_up_taken = true;
            t->gate_up_ready[t->n_gate_up_ready++] = w->expert;
        } else if (q->in_order && w->state != WANT_OUT && w->state != WANT_GIVEN) {
            break;
        }
    }
    q->n_out += t->n;
}

/* Evicts the last resident want of the layer, to be read again later. It is needed when wants
 * further back hold all memory and none can be handed out in order. */
static bool evict_last_want(struct expert_cache *s)
{
    struct session *q = &s->session;
    for (int32_t i = q->n - 1; i > 0; i--) {
        struct want *w = &q->wants[i];
        if (w->state != WANT_READY)
            continue;
        struct expert_slot *slot = &s->slots.slots[w->slot];
        slot->pins = 0;
        slot->want = -1;
        expert_cache_evict(s, slot);
        w->slot = -1;
        w->state = WANT_MISSING;
        w->gate_up_ready = false;
        s->counters
            .asked++; /* it was counted as a hit, and will be counted again when it is read */
        q->next = 0;
        return true;
    }
    return false;
}

/* Computes pending checksums while the disk works, then waits without the lock. False: no read is
 * in flight. */
static bool wait_for_one(struct expert_cache *s, bool gate_up_too)
{
    uint64_t began = clock_ns();
    struct expert_job *job;
    bool gate_up = false;
    do {
        job = expert_reader_take(s->reader, false, gate_up_too ? &gate_up : NULL);
    } while (!job && expert_cache_checksum_one(s));
    if (!job) {
        pthread_mutex_unlock(&s->lock);
        job = expert_reader_take(s->reader, true, gate_up_too ? &gate_up : NULL);
        pthread_mutex_lock(&s->lock);
    }
    s->counters.wait_ns += clock_ns() - began;
    if (job && gate_up)
        enter_gate_up(s, job);
    else if (job)
        finish(s, job);
    return job != NULL;
}

bool expert_cache_take_gate_up(struct expert_cache *s, struct expert_taken *t, int32_t max,
                               bool wait, struct err *e)
{
    struct session *q = &s->session;
    struct expert_job *job;
    bool gate_up = false;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while ((job = expert_reader_take(s->reader, false, t->gate_up_ready ? &gate_up : NULL)))
            gate_up ? enter_gate_up(s, job) : finish(s, job);
        if (q->failed)
            break;
        hand_out(s, t, max);
        if (t->n || t->n_gate_up_ready || !wait || q->n_out == q->n)
            break;
        pump(s);
        if (!wait_for_one(s, t->gate_up_ready) && !evict_last_want(s)) {
            err_set(&q->failure, ERR_INTERNAL, "no room for an expert in a budget of %llu bytes",
                    (unsigned long long)s->budget);
            q->failed = true;
        }
    }
    if (q->failed)
        *e = q->failure;
    pthread_mutex_unlock(&s->lock);
    return !q->failed;
}

int32_t expert_cache_take(struct expert_cache *s, int32_t *ids, int32_t max, bool wait,
                          struct err *e)
{
    struct expert_taken t = {.ids = ids};
    return expert_cache_take_gate_up(s, &t, max, wait, e) ? t.n : -1;
}

static void unpin(struct expert_cache *s, struct want *w)
{
    struct expert_slot *slot = &s->slots.slots[w->slot];
    slot->pins = 0;
    slot->want = -1;
    expert_cache_update_evictable(s, slot);
}

void expert_cache_give(struct expert_cache *s, const int32_t *ids, int32_t n)
{
    struct session *q = &s->session;
    pthread_mutex_lock(&s->lock);
    for (int32_t i = 0, k = 0; i < q->n && k < n; i++) {
        struct want *w = &q->wants[i];
        if (w->state != WANT_OUT || w->expert != ids[k])
            continue;
        unpin(s, w);
        w->state = WANT_GIVEN;
        k++;
    }
    expert_cache_shrink(s);
    if (!q->failed && q->next < q->n)
        pump(s);
    pthread_mutex_unlock(&s->lock);
}

void expert_cache_end(struct expert_cache *s)
{
    struct session *q = &s->session;
    struct err e = {0};
    pthread_mutex_lock(&s->lock);
    bool save = s->params.state_dir && clock_ns() - s->saved_ns > SAVE_EVERY_NS;
    for (int32_t i = 0; i < q->n; i++)
        if (q->wants[i].slot >= 0 && s->slots.slots[q->wants[i].slot].want == i)
            unpin(s, &q->wants[i]);
    q->layer = -1;
    q->n = 0;
    expert_cache_shrink(s);
    pthread_mutex_unlock(&s->lock);
    if (save && !expert_cache_save(s, &e))
        log_warn("what was learnt about experts is not kept: %s", e.text);
}
