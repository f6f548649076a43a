/* The recorder's connection: what happens to the prompt cache's records goes out, and which are to
 * be forgotten comes in. Both go through the record feed, so neither thread waits for the other. */
#include "engine/cache/disk/record_feed.h"
#include "engine/sched/server_state.h"
#include "engine/wire/cache_message.h"

#define SEND_AHEAD ((size_t)64 << 10) /* bytes that wait for a follower that is slow */

/* A newer follower replaces the one there is: a recorder that was killed may still look
 * connected. */
static bool follow(struct server *s, struct connection *c, struct err *e)
{
    if (!s->params.feed)
        return err_set(e, ERR_UNSUPPORTED, "this engine keeps no prompt cache on disk");
    if (!record_feed_may_follow(s->params.feed, e))
        return false;
    if (s->follower && s->follower != c) {
        s->follower->closing = true;
        server_wake(s); /* so that this thread drops it, once it is done with c */
    }
    s->follower = c;
    s->followed = 0;
    cache_message_put_empty(&c->out, FRAME_CACHE_FOLLOW);
    return true;
}

static bool ask(struct server *s, const struct frame *f, enum record_request_type type,
                struct err *e)
{
    const struct stored_ref *refs = NULL;
    int32_t n = 0;
    int64_t model = 0;
    struct arena *a = NULL;
    bool ok = true;
    if (type == RECORD_FORGET || type == RECORD_RECONCILE) {
        a = arena_create((size_t)f->len * 2 + ((size_t)4 << 10));
        ok = !a ? err_set(e, ERR_NOMEM, "no memory for a list of stored blocks")
             : f->type == FRAME_CACHE_FORGET_OF
                 ? cache_message_get_list_of(f, &model, &refs, &n, a, e)
                 : cache_message_get_list(f, &refs, &n, a, e);
    }
    if (ok && !(model ? record_feed_ask_of(s->params.feed, model, refs, n)
                      : record_feed_ask(s->params.feed, type, refs, n)))
        ok = err_set(e, ERR_NOMEM, "too many stored blocks wait to be dealt with");
    arena_destroy(&a);
    return ok;
}

bool server_feed_frame(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    uint64_t number;
    if (f->type == FRAME_CACHE_FOLLOW)
        return follow(s, c, e);
    if (c != s->follower)
        return err_set(e, ERR_FORMAT, "this connection does not follow the cache feed");
    switch (f->type) {
    case FRAME_CACHE_ACKNOWLEDGE:
        if (!cache_message_get_acknowledge(f, &number, e))
            return false;
        record_feed_acknowledge(s->params.feed, number);
        return true;
    case FRAME_CACHE_FORGET:
    case FRAME_CACHE_FORGET_OF:
        return ask(s, f, RECORD_FORGET, e);
    case FRAME_CACHE_RECONCILE_BEGIN:
        return ask(s, f, RECORD_RECONCILE_BEGIN, e);
    case FRAME_CACHE_RECONCILE:
        return ask(s, f, RECORD_RECONCILE, e);
    case FRAME_CACHE_RECONCILE_END:
        return ask(s, f, RECORD_RECONCILE_END, e);
    default:
        return err_set(e, ERR_FORMAT, "unexpected frame of type %d", (int)f->type);
    }
}

bool server_feed_fill(struct server *s)
{
    struct connection *c = s->follower;
    struct cache_event ev;
    uint64_t number;
    size_t before = c ? c->out.len : 0;
    while (c && !c->closing && c->out.len < SEND_AHEAD &&
           (number = record_feed_next(s->params.feed, s->followed, &ev)) > 0) {
        cache_message_put_event(&c->out, number, &ev);
        s->followed = number;
    }
    return c && c->out.len > before;
}
