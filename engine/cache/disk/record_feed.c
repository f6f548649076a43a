/* Keeps events in a ring that grows, and requests in a list. */
#include "engine/cache/disk/record_feed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Records that may be announced to nobody. One event is some 200 bytes. */
#define FULL_EVENTS 16384u
#define MAX_REQUEST_REFS ((int64_t)4 << 20) /* that wait */

struct record_feed {
    pthread_mutex_t lock; /* guards all below */
    bool open, busy;
    struct err why;             /* while not open */
    struct cache_event *events; /* [cap], a power of two; event n lies at n & (cap - 1) */
    uint64_t first, next;       /* numbers: the first that is kept; of the next one to come */
    uint64_t cap;
    struct record_request *oldest, *newest;
    int64_t waiting_refs;
    void (*on_events)(void *context); /* set before there are events */
    void *events_context;
    /* Guards on_requests, also while it runs, so that what it is called with outlives it. */
    pthread_mutex_t callbacks;
    void (*on_requests)(void *context);
    void *requests_context;
};

struct record_feed *record_feed_create(struct err *e)
{
    struct record_feed *f = calloc(1, sizeof *f);
    if (!f) {
        err_set(e, ERR_NOMEM, "no memory for the cache feed");
        return NULL;
    }
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->callbacks, NULL);
    f->first = f->next = 1;
    err_set(&f->why, ERR_UNAVAILABLE, "the engine is loading the model");
    return f;
}

void record_feed_destroy(struct record_feed **at)
{
    struct record_feed *f = *at;
    *at = NULL;
    if (!f)
        return;
    for (struct record_request *r = f->oldest, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->callbacks);
    free(f->events);
    free(f);
}

void record_feed_open(struct record_feed *f)
{
    pthread_mutex_lock(&f->lock);
    f->open = true;
    pthread_mutex_unlock(&f->lock);
}

void record_feed_close(struct record_feed *f, const struct err *why)
{
    pthread_mutex_lock(&f->lock);
    f->open = false;
    f->why = *why;
    pthread_mutex_unlock(&f->lock);
}

bool record_feed_may_follow(struct record_feed *f, struct err *e)
{
    pthread_mutex_lock(&f->lock);
    bool open = f->open;
    if (!open)
        *e = f->why;
    pthread_mutex_unlock(&f->lock);
    return open;
}

void record_feed_on_events(struct record_feed *f, void (*wake)(void *context), void *context)
{
    pthread_mutex_lock(&f->lock);
    f->on_events = wake;
    f->events_context = context;
    pthread_mutex_unlock(&f->lock);
}

void record_feed_on_requests(struct record_feed *f, void (*wake)(void *context), void *context)
{
    pthread_mutex_lock(&f->callbacks);
    f->on_requests = wake;
    f->requests_context = context;
    pthread_mutex_unlock(&f->callbacks);
}

uint64_t record_feed_next(struct record_feed *f, uint64_t after, struct cache_event *ev)
{
    pthread_mutex_lock(&f->lock);
    uint64_t number = after + 1 > f->first ? after + 1 : f->first;
    if (number >= f->next)
        number = 0;
    else
        *ev = f->events[number & (f->cap - 1)];
    pthread_mutex_unlock(&f->lock);
    return number;
}

void record_feed_acknowledge(struct record_feed *f, uint64_t number)
{
    pthread_mutex_lock(&f->lock);
    if (number >= f->next) /* a number that was never given out: the sender's mistake */
        number = f->next - 1;
    if (number >= f->first)
        f->first = number + 1;
    pthread_mutex_unlock(&f->lock);
}

bool record_feed_settled(struct record_feed *f)
{
    pthread_mutex_lock(&f->lock);
    bool settled = !f->busy && f->first == f->next;
    pthread_mutex_unlock(&f->lock);
    return settled;
}

void record_feed_set_busy(struct record_feed *f, bool busy)
{
    pthread_mutex_lock(&f->lock);
    f->busy = busy;
    pthread_mutex_unlock(&f->lock);
}

bool record_feed_full(struct record_feed *f)
{
    pthread_mutex_lock(&f->lock);
    bool full = f->next - f->first >= FULL_EVENTS;
    pthread_mutex_unlock(&f->lock);
    return full;
}

/* Room for one more event. */
static bool grow(struct record_feed *f)
{
    if (f->next - f->first < f->cap)
        return true;
    uint64_t cap = f->cap ? f->cap * 2 : 64;
    struct cache_event *events = malloc(cap * sizeof *events);
    if (!events)
        return false;
    for (uint64_t n = f->first; n < f->next; n++)
        events[n & (cap - 1)] = f->events[n & (f->cap - 1)];
    free(f->events);
    f->events = events;
    f->cap = cap;
    return true;
}

uint64_t record_feed_put(struct record_feed *f, const struct cache_event *ev)
{
    pthread_mutex_lock(&f->lock);
    uint64_t number = grow(f) ? f->next++ : 0;
    if (number)
        f->events[number & (f->cap - 1)] = *ev;
    void (*wake)(void *) = f->on_events;
    void *context = f->events_context;
    pthread_mutex_unlock(&f->lock);
    if (number && wake)
        wake(context);
    return number;
}

static struct record_request *make_request(enum record_request_type type,
                                           const struct stored_ref *refs, int32_t n)
{
    struct record_request *r = malloc(sizeof *r + (size_t)n * sizeof *r->refs);
    if (!r)
        return NULL;
    *r = (struct record_request){.type = type, .n = n};
    if (n)
        memcpy(r->refs, refs, (size_t)n * sizeof *refs);
    return r;
}

/* Takes the request, or frees it. */
static bool hand_over(struct record_feed *f, struct record_request *r)
{
    if (!r)
        return false;
    const int32_t n = r->n;
    pthread_mutex_lock(&f->lock);
    bool ok = f->waiting_refs + n <= MAX_REQUEST_REFS;
    r->acknowledged = f->first - 1;
    if (ok) {
        *(f->newest ? &f->newest->next : &f->oldest) = r;
        f->newest = r;
        f->waiting_refs += n;
    }
    pthread_mutex_unlock(&f->lock);
    if (!ok)
        free(r);
    pthread_mutex_lock(&f->callbacks);
    if (ok && f->on_requests)
        f->on_requests(f->requests_context);
    pthread_mutex_unlock(&f->callbacks);
    return ok;
}

bool record_feed_ask(struct record_feed *f, enum record_request_type type,
                     const struct stored_ref *refs, int32_t n)
{
    return hand_over(f, make_request(type, refs, n));
}

bool record_feed_ask_of(struct record_feed *f, int64_t model, const struct stored_ref *refs,
                        int32_t n)
{
    struct record_request *r = make_request(RECORD_FORGET, refs, n);
    if (r)
        r->model = model;
    return hand_over(f, r);
}

struct record_request *record_feed_take(struct record_feed *f)
{
    pthread_mutex_lock(&f->lock);
    struct record_request *r = f->oldest;
    if (r) {
        f->oldest = r->next;
        if (!f->oldest)
            f->newest = NULL;
        f->waiting_refs -= r->n;
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}
