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
#define REFS_PER_FRAME 4096

struct cache_feed {
    struct peer peer;
    uint64_t given; /* number of the last event that was returned */
};

static struct cache_feed *fail(struct cache_feed *f)
{
    cache_feed_close(&f);
    return NULL;
}

/* HELLO, then FOLLOW as the reply, or a refusal. */
static bool greet(struct cache_feed *f, struct err *e)
{
    const double deadline = clock_ms() + REPLY_MS;
    struct event_box box = {0};
    struct engine_event ev;
    struct frame frame;
    size_t used;
    for (;;) {
        int got = peer_next(&f->peer, &frame, &used, deadline, e);
        if (got == 0)
            err_set(e, ERR_UNAVAILABLE, "the engine does not answer");
        if (got <= 0)
            return false;
        f->peer.in_pos += used;
        if (frame.type == FRAME_CACHE_FOLLOW)
            return true;
        if (frame.type != FRAME_HELLO)
            break;
        if (!message_get_hello(&frame, e))
            return false;
    }
    if (message_get_event(&frame, &ev, &box, e)) {
        if (ev.type == ENGINE_FAILED && e)
            *e = ev.error;
        else
            err_set(e, ERR_FORMAT, "frame of type %d in place of the cache feed", (int)frame.type);
    }
    event_box_fini(&box);
    return false;
}

static bool send_frames(struct cache_feed *f, struct buf *b, struct err *e)
{
    bool ok = !b->failed || err_set(e, ERR_NOMEM, "no memory for a request");
    ok = ok && peer_send(&f->peer, b, clock_ms() + REPLY_MS, e);
    buf_fini(b);
    return ok;
}

struct cache_feed *cache_feed_open(const char *socket_path, struct err *e)
{
    struct buf out = {0};
    struct cache_feed *f = calloc(1, sizeof *f);
    if (!f) {
        err_set(e, ERR_NOMEM, "no memory for the cache feed");
        return NULL;
    }
    if (!peer_connect(&f->peer, socket_path, clock_ms() + CONNECT_MS, e))
        return fail(f);
    message_put_hello(&out, "recorder");
    cache_message_put_empty(&out, FRAME_CACHE_FOLLOW);
    if (!send_frames(f, &out, e) || !greet(f, e))
        return fail(f);
    return f;
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
