/* The mailbox between the engine's I/O thread, which has the recorder's connection, and the threads
 * of the disk cache: events go out, requests come in (prompt_cache.h says what they mean).
 *
 * Events are kept until they are acknowledged, so that a recorder that was killed in between reads
 * them again. Their number is bounded: while record_feed_full, nothing may be stored. Callbacks
 * may use anything but the setting of callbacks, which waits for one that runs. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/wire/prompt_cache.h"

struct record_feed;

enum record_request_type {
    RECORD_FORGET,
    RECORD_RECONCILE_BEGIN,
    RECORD_RECONCILE,
    RECORD_RECONCILE_END
};

struct record_request {
    enum record_request_type type;
    int32_t n;
    int64_t model;         /* FORGET: in whose folder they lie; 0: in this engine's own */
    uint64_t acknowledged; /* number of the last event that was acknowledged before it; 0: none */
    struct record_request *next;
    struct stored_ref refs[]; /* [n] */
};

/* Closed at first: followers are refused with ERR_UNAVAILABLE. */
struct record_feed *record_feed_create(struct err *e);
void record_feed_destroy(struct record_feed **f);
/* Followers are accepted from now on; or refused with `why`. Any thread. */
void record_feed_open(struct record_feed *f);
void record_feed_close(struct record_feed *f, const struct err *why);

/* The I/O thread. */
void record_feed_on_events(struct record_feed *f, void (*wake)(void *context), void *context);
bool record_feed_may_follow(struct record_feed *f, struct err *e);
/* The event that follows number `after`, counted from 1; 0: none yet. Those before the first that
 * was not acknowledged are gone, and what follows them is given. */
uint64_t record_feed_next(struct record_feed *f, uint64_t after, struct cache_event *ev);
void record_feed_acknowledge(struct record_feed *f, uint64_t number);
/* True if every event was acknowledged, and none will come by itself. */
bool record_feed_settled(struct record_feed *f);
/* Hands a request over. False: no memory, or more references wait than are taken. */
bool record_feed_ask(struct record_feed *f, enum record_request_type type,
                     const struct stored_ref *refs, int32_t n);

/* FORGET in the folder of another model, whose engine does not run. */
bool record_feed_ask_of(struct record_feed *f, int64_t model, const struct stored_ref *refs,
                        int32_t n);

/* Whoever keeps the records. */
void record_feed_on_requests(struct record_feed *f, void (*wake)(void *context), void *context);
/* The oldest request, or NULL; the caller frees it with free(). */
struct record_request *record_feed_take(struct record_feed *f);
bool record_feed_full(struct record_feed *f);
/* Busy: events will come by themselves. */
void record_feed_set_busy(struct record_feed *f, bool busy);
/* Numbers and keeps an event; its number, or 0: no memory for it. */
uint64_t record_feed_put(struct record_feed *f, const struct cache_event *ev);
