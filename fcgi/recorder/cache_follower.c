/* cache_follower.h: connect, reconcile, then read, write, acknowledge, ask for removals, evict. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/cache_follower.h"

#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/wire/status.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/inference/stored_prompt.h"
#include "sql/prompts/store_prompt_cache.h"

#define CONNECT_MS 1000.0
#define UNSUPPORTED_MS 30000.0 /* an engine without a cache on disk: until it is started anew */
#define RETRY_MS 1000.0        /* after a write that failed */
#define SETTLE_MS 200.0        /* events that waited for a follower are read before reconciling */
#define TURN_MS 500.0          /* between looks for removals */
#define EVICT_MS 2000.0
#define BATCH 1024 /* references in one request */
#define ROOM_BYTES ((uint64_t)64 << 20)
/* the rest is what the engine may write before rows go */

/* ---- the connection ---- */

static void lose(struct cache_follower *c, const struct err *e, double now)
{
    if (c->model_id) /* it was unloaded, mostly */
        log_info("the prompt cache's feed of model %lld ended", (long long)c->model_id);
    else
        log_warn("the prompt cache's feed broke: %s", e->text);
    cache_feed_close(&c->feed);
    c->n_events = 0; /* not acknowledged: they come again */
    c->next_connect = now + CONNECT_MS;
}

/* It never waits, because answers have to be written meanwhile. */
static void connect_feed(struct cache_follower *c, double now)
{
    struct err e = {0};
    c->feed = cache_feed_open_async(c->engine_socket, &e);
    c->next_connect = now + CONNECT_MS;
    c->state = CACHE_FOLLOWER_ASKED;
    c->any_reconciled = false;
    c->asked_removal = 0;
    c->n_events = 0;
}

static void see_reply(struct cache_follower *c, double now)
{
    struct err e = {0};
    const int rc = cache_feed_open_poll(c->feed, &e);
    if (rc == 1) {
        c->state = CACHE_FOLLOWER_SETTLING;
        c->followed_at = now;
        c->next_turn = now;
    }
    if (rc < 0) {
        cache_feed_close(&c->feed);
        c->next_connect = now + (e.code == ERR_UNSUPPORTED ? UNSUPPORTED_MS : CONNECT_MS);
    }
}

int32_t cache_follower_take_refs(struct stored_ref *out, const struct store_block_ref *in,
                                 int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i].place =
            (struct stored_place){in[i].place.segment, in[i].place.bytes, in[i].place.offset};
        memcpy(out[i].key.bytes, in[i].key, sizeof out[i].key.bytes);
    }
    return n;
}

/* One batch of rows a turn, so that answers do not wait. */
static bool reconcile(struct cache_follower *c, struct err *e)
{
    static struct store_block_ref rows[BATCH]; /* the only thread */
    static struct stored_ref refs[BATCH];
    const struct store_block_page page = {.model_id = c->model_id, .refs = rows, .n = BATCH};
    const int32_t n =
        store_block_places(c->store, c->any_reconciled ? c->reconciled.bytes : NULL, &page, e);
    if (n < 0)
        return false;
    if (n == 0) {
        c->state = CACHE_FOLLOWER_FOLLOWING;
        return cache_feed_reconcile_end(c->feed, e);
    }
    memcpy(c->reconciled.bytes, rows[n - 1].key, sizeof c->reconciled.bytes);
    c->any_reconciled = true;
    return cache_feed_reconcile(c->feed, refs, cache_follower_take_refs(refs, rows, n), e);
}

static bool begin_reconciling(struct cache_follower *c, struct err *e)
{
    c->state = CACHE_FOLLOWER_RECONCILING;
    return cache_feed_reconcile_begin(c->feed, e);
}

/* ---- events ---- */

static struct store_block_ref ref_of(const struct cache_follower *c, const struct cache_event *ev)
{
    struct store_block_ref ref = {
        .place = {ev->place.segment, ev->place.bytes, ev->place.offset},
        .model_id = ev->type == CACHE_FORGOTTEN && ev->model ? ev->model : c->model_id};
    memcpy(ref.key, ev->key.bytes, sizeof ref.key);
    return ref;
}

static struct store_block block_of(const struct cache_follower *c, const struct cache_event *ev)
{
    struct store_block b = {.ref = ref_of(c, ev),
                            .user_id = (int64_t)ev->user,
                            .conversation_id = stored_prompt_conversation(ev->owner),
                            .identity = ev->identity,
                            .end_tokens = ev->end,
                            .state_bytes = ev->state_bytes,
                            .keep_seconds = ev->keep_seconds > 0 ? ev->keep_seconds : 0,
                            .forgets_seen = ev->forgets_seen,
                            .compute_ms = ev->compute_ms};
    b.label = b.conversation_id ? "" : ev->owner;
    memcpy(b.parent, ev->parent.bytes, sizeof b.parent);
    return b;
}

static bool write_event(struct cache_follower *c, const struct cache_event *ev, struct err *e)
{
    const struct store_block_ref ref = ref_of(c, ev);
    struct store_block block;
    switch (ev->type) {
    case CACHE_STORED:
        block = block_of(c, ev);
        return store_block_add(c->store, &block, e);
    case CACHE_USED:
        return store_block_use(c->store, ref.key, e);
    case CACHE_GONE:
        return store_block_gone(c->store, &ref, e);
    case CACHE_FORGOTTEN:
        return store_block_forgotten(c->store, &ref, e);
    case CACHE_RECONCILED:
        log_info("the prompt cache's records and rows are reconciled");
        return true;
    }
    return true;
}

static bool write_events(struct cache_follower *c, struct err *e)
{
    bool ok = store_blocks_begin(c->store, e);
    if (!ok)
        return false;
    for (int i = 0; i < c->n_events && ok; i++)
        ok = write_event(c, &c->events[i], e);
    return store_blocks_end(c->store, ok, e);
}

/* What has arrived, as much as one turn takes. False: the connection broke. */
static bool read_events(struct cache_follower *c, struct err *e)
{
    int rc = 1;
    while (c->n_events < CACHE_FOLLOWER_EVENTS && rc == 1) {
        rc = cache_feed_next(c->feed, &c->events[c->n_events], 0, e);
        c->n_events += rc == 1;
    }
    c->more_to_read = rc == 1;
    return rc >= 0;
}

/* False: the connection broke. A database that can't be written is tried again. */
static bool take_events(struct cache_follower *c, double now, struct err *e)
{
    struct err why = {0};
    if (now < c->retry_at || !read_events(c, e))
        return now < c->retry_at;
    if (!c->n_events)
        return true;
    if (!write_events(c, &why)) {
        if (!c->failing)
            log_error("the prompt cache's rows can't be written, trying on: %s", why.text);
        c->failing = true;
        c->retry_at = now + RETRY_MS;
        return true;
    }
    if (c->failing)
        log_info("the prompt cache's rows are written again");
    c->failing = false;
    c->n_events = 0;
    c->next_evict = c->next_turn = now; /* the engine stores nothing more when there is no room */
    return cache_feed_acknowledge(c->feed, e);
}

/* ---- removals and eviction ---- */

static bool ask_for_removals(struct cache_follower *c, struct err *e)
{
    static struct store_block_ref rows[BATCH]; /* the only thread */
    static struct stored_ref refs[BATCH];
    struct err why = {0};
    const struct store_block_page page = {.model_id = c->model_id, .refs = rows, .n = BATCH};
    const int32_t n = store_removals(c->store, &c->asked_removal, &page, &why);
    if (n < 0)
        log_error("the prompt cache's removals can't be read: %s", why.text);
    if (n == BATCH)
        c->next_turn = 0;
    return n <= 0 || cache_feed_forget(c->feed, refs, cache_follower_take_refs(refs, rows, n), e);
}

/* What rows may take: the rest is what the engine may write before the next rows go, a twentieth,
 * and of a small budget more, up to a quarter. */
static int64_t rows_budget(uint64_t bytes)
{
    const uint64_t small = bytes / 4 < ROOM_BYTES ? bytes / 4 : ROOM_BYTES;
    return (int64_t)(bytes - (bytes / 20 > small ? bytes / 20 : small));
}

/* One budget is that of all: the first model's engine's, or where that has none, one's own. */
static bool read_budget(const struct cache_follower *c, struct status_page *page)
{
    struct err e = {0};
    return (c->first_status && status_read(c->first_status, page, &e) && page->cache_disk_budget) ||
           (status_read(c->status_path, page, &e) && page->cache_disk_budget);
}

static void evict(struct cache_follower *c, double now)
{
    static struct status_page page; /* some 25 KiB; the only thread */
    struct err e = {0};
    struct store_prompt_budget budget;
    int64_t freed = 0;
    c->next_evict = now + EVICT_MS;
    if (!read_budget(c, &page))
        return;
    budget.bytes = rows_budget(page.cache_disk_budget);
    if (!server_stored_setting_int(c->store, SETTING_USER_PROMPT_CACHE_BYTES, &budget.user_bytes,
                                   &e) ||
        !store_prompts_evict(c->store, &budget, &freed, &e))
        log_error("the prompt cache's rows can't be evicted: %s", e.text);
    if (freed) { /* there may be more to do: soon again, after the others had their turn */
        c->next_evict = c->next_turn = now;
        log_debug("prompt cache: evicted %lld bytes", (long long)freed);
    }
}

/* ---- turns ---- */

static bool turn(struct cache_follower *c, double now, struct err *e)
{
    if (!take_events(c, now, e))
        return false;
    if (now < c->next_turn && c->state == CACHE_FOLLOWER_FOLLOWING)
        return true;
    c->next_turn = now + TURN_MS;
    if (c->state == CACHE_FOLLOWER_SETTLING && !c->more_to_read && !c->n_events &&
        now >= c->followed_at + SETTLE_MS && !begin_reconciling(c, e))
        return false;
    if (c->state == CACHE_FOLLOWER_RECONCILING && !reconcile(c, e))
        return false;
    if (now >= c->next_evict)
        evict(c, now);
    return ask_for_removals(c, e);
}

void cache_follower_init(struct cache_follower *c, struct store *s, const char *engine_socket,
                         const char *status_path)
{
    *c = (struct cache_follower){
        .store = s, .engine_socket = engine_socket, .status_path = status_path};
}

void cache_follower_run(struct cache_follower *c, double now)
{
    struct err e = {0};
    if (!c->feed && now >= c->next_connect)
        connect_feed(c, now);
    if (c->feed && c->state == CACHE_FOLLOWER_ASKED)
        see_reply(c, now);
    c->more_to_read = false;
    if (c->feed && c->state != CACHE_FOLLOWER_ASKED && !turn(c, now, &e))
        lose(c, &e, now);
}

bool cache_follower_ready(const struct cache_follower *c)
{
    return c->feed && c->state == CACHE_FOLLOWER_FOLLOWING;
}

double cache_follower_next(const struct cache_follower *c)
{
    if (!c->feed)
        return c->next_connect;
    if (c->state == CACHE_FOLLOWER_ASKED)
        return INFINITY; /* the descriptor tells */
    if (c->retry_at > clock_ms())
        return c->retry_at;
    if (c->more_to_read || c->state == CACHE_FOLLOWER_RECONCILING || cache_feed_pending(c->feed))
        return 0;
    return c->next_evict < c->next_turn ? c->next_evict : c->next_turn;
}

int cache_follower_fd(const struct cache_follower *c)
{
    /* While the database refuses, what has arrived must not keep the loop awake. */
    return c->feed && c->retry_at <= clock_ms() ? cache_feed_fd(c->feed) : -1;
}

void cache_follower_request(struct cache_follower *c)
{
    c->next_turn = 0;
}

void cache_follower_fini(struct cache_follower *c)
{
    cache_feed_close(&c->feed);
}
