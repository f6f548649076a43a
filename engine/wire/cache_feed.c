/* The client of the cache feed (prompt_cache.h): one connection to the engine that follows what
 * happens to stored blocks, and says which are to be forgotten. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/wire/cache_message.h"
#include "engine/wire/message.h"
#include "engine/wire/peer.h"
#include "engine/wire/prompt_cache.h"

#define CONNECT_MS 2000.0
#define REPLY_MS 10000.0
#define ASYNC_SEND_MS 200.0 /* of a feed that must not wait for an engine that hangs */
#define REFS_PER_FRAME 4096

struct cache_feed {
    struct peer peer;
    uint64_t given; /* number of the last event that was returned */
    double send_ms; /* how long a request may wait until the engine reads it */
};

static struct cache_feed *fail(struct cache_feed *f)
{
    cache_feed_close(&f);
    return NULL;
}

/* A refusal, in place of FOLLOW. */
static int refused(const struct frame *frame, struct err *e)
{
    struct event_box box = {0};
    struct engine_event ev;
    if (message_get_event(frame, &ev, &box, e)) {
        if (ev.type == ENGINE_FAILED && e)
            *e = ev.error;
        else
            err_set(e, ERR_FORMAT, "frame of type %d in place of the cache feed", (int)frame->type);
    }
    event_box_fini(&box);
    return -1;
}

/* HELLO, then FOLLOW as the reply. 1: it follows; 0: no reply until the deadline; -1: *e. */
static int greet(struct cache_feed *f, double deadline, struct err *e)
{
    struct frame frame;
    size_t used;
    for (;;) {
        int got = peer_next(&f->peer, &frame, &used, deadline, e);
        if (got <= 0)
            return got;
        f->peer.in_pos += used;
        if (frame.type == FRAME_CACHE_FOLLOW)
            return 1;
        if (frame.type != FRAME_HELLO)
            return refused(&frame, e);
        if (!message_get_hello(&frame, e))
            return -1;
    }
}

static bool send_frames(struct cache_feed *f, struct buf *b, struct err *e)
{
    bool ok = !b->failed || err_set(e, ERR_NOMEM, "no memory for a request");
    ok = ok && peer_send(&f->peer, b, clock_ms() + f->send_ms, e);
    buf_fini(b);
    return ok;
}

static struct cache_feed *begin(const char *socket_path, double connect_ms, double send_ms,
                                struct err *e)
{
    struct buf out = {0};
    struct cache_feed *f = calloc(1, sizeof *f);
    if (!f) {
        err_set(e, ERR_NOMEM, "no memory for the cache feed");
        return NULL;
    }
    f->send_ms = send_ms;
    if (!peer_connect(&f->peer, socket_path, clock_ms() + connect_ms, e))
        return fail(f);
    message_put_hello(&out, "recorder");
    cache_message_put_empty(&out, FRAME_CACHE_FOLLOW);
    return send_frames(f, &out, e) ? f : fail(f);
}

struct cache_feed *cache_feed_open(const char *socket_path, struct err *e)
{
    struct cache_feed *f = begin(socket_path, CONNECT_MS, REPLY_MS, e);
    if (!f)
        return NULL;
    const int greeted = greet(f, clock_ms() + REPLY_MS, e);
    if (greeted == 0)
        err_set(e, ERR_UNAVAILABLE, "the engine does not answer");
    return greeted == 1 ? f : fail(f);
}

struct cache_feed *cache_feed_open_async(const char *socket_path, struct err *e)
{
    return begin(socket_path, 0, ASYNC_SEND_MS, e);
}

int cache_feed_open_poll(struct cache_feed *f, struct err *e)
{
    return greet(f, clock_ms(), e);
}

int cache_feed_fd(const struct cache_feed *f)
{
    return f->peer.fd;
}

bool cache_feed_pending(const struct cache_feed *f)
{
    struct frame frame;
    size_t used;
    struct err e;
    return peer_peek(&f->peer, &frame, &used, &e) != 0;
}

int cache_feed_next(struct cache_feed *f, struct cache_event *ev, int timeout_ms, struct err *e)
{
    struct frame frame;
    size_t used;
    int got = peer_next(&f->peer, &frame, &used, timeout_ms < 0 ? -1 : clock_ms() + timeout_ms, e);
    if (got <= 0)
        return got;
    f->peer.in_pos += used;
    return cache_message_get_event(&frame, &f->given, ev, e) ? 1 : -1;
}

bool cache_feed_acknowledge(struct cache_feed *f, struct err *e)
{
    struct buf out = {0};
    cache_message_put_acknowledge(&out, f->given);
    return send_frames(f, &out, e);
}

static bool send_list(struct cache_feed *f, enum frame_type type, const struct stored_ref *refs,
                      int32_t n, struct err *e)
{
    for (int32_t at = 0; at < n; at += REFS_PER_FRAME) {
        struct buf out = {0};
        int32_t left = n - at;
        cache_message_put_list(&out, type, refs + at,
                               left < REFS_PER_FRAME ? left : REFS_PER_FRAME);
        if (!send_frames(f, &out, e))
            return false;
    }
    return true;
}

static bool send_empty(struct cache_feed *f, enum frame_type type, struct err *e)
{
    struct buf out = {0};
    cache_message_put_empty(&out, type);
    return send_frames(f, &out, e);
}

bool cache_feed_forget(struct cache_feed *f, const struct stored_ref *refs, int32_t n,
                       struct err *e)
{
    return send_list(f, FRAME_CACHE_FORGET, refs, n, e);
}

bool cache_feed_forget_of(struct cache_feed *f, int64_t model, const struct stored_ref *refs,
                          int32_t n, struct err *e)
{
    for (int32_t at = 0; at < n; at += REFS_PER_FRAME) {
        struct buf out = {0};
        const int32_t left = n - at;
        cache_message_put_list_of(&out, model, refs + at,
                                  left < REFS_PER_FRAME ? left : REFS_PER_FRAME);
        if (!send_frames(f, &out, e))
            return false;
    }
    return true;
}

bool cache_feed_reconcile_begin(struct cache_feed *f, struct err *e)
{
    return send_empty(f, FRAME_CACHE_RECONCILE_BEGIN, e);
}

bool cache_feed_reconcile(struct cache_feed *f, const struct stored_ref *refs, int32_t n,
                          struct err *e)
{
    return send_list(f, FRAME_CACHE_RECONCILE, refs, n, e);
}

bool cache_feed_reconcile_end(struct cache_feed *f, struct err *e)
{
    return send_empty(f, FRAME_CACHE_RECONCILE_END, e);
}

void cache_feed_close(struct cache_feed **f)
{
    if (!*f)
        return;
    peer_close(&(*f)->peer);
    free(*f);
    *f = NULL;
}
