/* cache_followers.h: which engines there are, one follower each, and removals for those that are
 * not there. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/cache_followers.h"

#include <poll.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/process/local_model.h"
#include "sql/prompts/store_prompt_cache.h"

#define REMOVALS_MS 500.0 /* between looks, and until one without an answer is asked for again */
#define MORE_MS 50.0      /* where more wait than one request takes */
#define BATCH 1024

struct cache_beside {
    int64_t id;       /* row of the model */
    int64_t since_ms; /* when its engine became ready */
    char socket[WORKER_SOCKET_BYTES], status[WORKER_SOCKET_BYTES];
    struct cache_follower follower;
};

void cache_followers_init(struct cache_followers *c, const struct cache_followers_params *p)
{
    *c = (struct cache_followers){
        .store = p->store, .shared = p->shared, .engine_run = p->engine_run};
    cache_follower_init(&c->first, p->store, p->engine_socket, p->status_path);
}

static void begin_follower(struct cache_followers *c, int i, int64_t id)
{
    const int64_t since_ms = c->shared->local[i].since_ms;
    struct cache_beside *b = calloc(1, sizeof *b);
    if (!b)
        return; /* the next turn tries again */
    b->id = id;
    b->since_ms = since_ms;
    local_model_socket(b->socket, c->engine_run, id);
    local_model_status(b->status, c->engine_run, id);
    cache_follower_init(&b->follower, c->store, b->socket, b->status);
    b->follower.model_id = id;
    b->follower.first_status = c->first.status_path;
    c->beside[i] = b;
}

static void end_follower(struct cache_followers *c, int i)
{
    if (!c->beside[i])
        return;
    cache_follower_fini(&c->beside[i]->follower);
    free(c->beside[i]);
    c->beside[i] = NULL;
}

/* An engine that ends writes what it has before, so that it is followed to its end. One that has
 * been loaded anew since is another, which may end soon too: it is not to wait for the next try
 * after the last one was lost. */
static void look(struct cache_followers *c, int i)
{
    const struct shared_local *slot = &c->shared->local[i];
    const int64_t id = slot->id;
    const int state = slot->state;
    const struct cache_beside *b = c->beside[i];
    if (b && (b->id != id ||
              (!b->follower.feed && (state != LOCAL_READY || b->since_ms != slot->since_ms))))
        end_follower(c, i);
    if (id && state == LOCAL_READY && !c->beside[i])
        begin_follower(c, i, id);
}

static bool is_followed(const struct cache_followers *c, int64_t id)
{
    for (int i = 0; i < SHARED_LOCALS; i++)
        if (c->beside[i] && c->beside[i]->id == id && c->beside[i]->follower.feed)
            return true;
    return false;
}

/* An engine that does it in the place of those that are not there: the first one may be loading, or
 * may keep nothing on the disk itself. NULL: none is followed. */
static const struct cache_follower *helper(const struct cache_followers *c)
{
    if (cache_follower_ready(&c->first))
        return &c->first;
    for (int i = 0; i < SHARED_LOCALS; i++)
        if (c->beside[i] && cache_follower_ready(&c->beside[i]->follower))
            return &c->beside[i]->follower;
    return NULL;
}

/* False: the connection of `by` broke. */
static bool ask_for(struct cache_followers *c, const struct cache_follower *by, int64_t model,
                    bool *more, struct err *e)
{
    static struct store_block_ref rows[BATCH]; /* the only thread */
    static struct stored_ref refs[BATCH];
    const struct store_block_page page = {.model_id = model, .refs = rows, .n = BATCH};
    struct err why = {0};
    int64_t after = 0;
    const int32_t n = store_removals(c->store, &after, &page, &why);
    if (n < 0)
        log_error("the prompt cache's removals can't be read: %s", why.text);
    *more |= n == BATCH;
    return n <= 0 ||
           cache_feed_forget_of(by->feed, model, refs, cache_follower_take_refs(refs, rows, n), e);
}

/* What is removed of models that are not loaded. An engine that is just being loaded has its folder
 * already; it is not followed yet, and no answer comes. */
static void ask_for_others(struct cache_followers *c, double now)
{
    struct err e = {0};
    int64_t model = 0;
    bool ok = true, more = false;
    const struct cache_follower *by = helper(c);
    if (now < c->next_removals || !by)
        return;
    while (ok && store_removals_next(c->store, model, &model, &e))
        ok = is_followed(c, model) || ask_for(c, by, model, &more, &e);
    if (!ok) /* its follower finds that out, too */
        log_debug("removals of other models are not asked for: %s", e.text);
    c->next_removals = now + (more ? MORE_MS : REMOVALS_MS);
}

void cache_followers_run(struct cache_followers *c, double now)
{
    cache_follower_run(&c->first, now);
    for (int i = 0; c->shared && i < SHARED_LOCALS; i++) {
        look(c, i);
        if (c->beside[i])
            cache_follower_run(&c->beside[i]->follower, now);
    }
    ask_for_others(c, now);
}

double cache_followers_next(const struct cache_followers *c)
{
    double until = cache_follower_next(&c->first);
    for (int i = 0; i < SHARED_LOCALS; i++)
        if (c->beside[i] && cache_follower_next(&c->beside[i]->follower) < until)
            until = cache_follower_next(&c->beside[i]->follower);
    return until;
}

void cache_followers_poll(const struct cache_followers *c, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = cache_follower_fd(&c->first), .events = POLLIN};
    for (int i = 0; i < SHARED_LOCALS; i++)
        fds[1 + i] = (struct pollfd){
            .fd = c->beside[i] ? cache_follower_fd(&c->beside[i]->follower) : -1, .events = POLLIN};
}

void cache_followers_request(struct cache_followers *c)
{
    c->next_removals = 0;
    cache_follower_request(&c->first);
    for (int i = 0; i < SHARED_LOCALS; i++)
        if (c->beside[i])
            cache_follower_request(&c->beside[i]->follower);
}

void cache_followers_fini(struct cache_followers *c)
{
    cache_follower_fini(&c->first);
    for (int i = 0; i < SHARED_LOCALS; i++)
        end_follower(c, i);
}
