/* usage.h: figures go to shared memory while a job runs and to the database when it has ended. */
#define LOG_MODULE "usage"
#include "fcgi/inference/usage.h"

#include <unistd.h>

#include "engine/base/log.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/inference.h"
#include "fcgi/process/shared.h"
#include "sql/core/store.h"

struct engine_usage usage_so_far(const struct inference *x)
{
    struct engine_usage sum = {0};
    for (int i = 0; i < x->n; i++) {
        const struct generation *g = &x->generations[i];
        bool done = g->state == GENERATION_DONE;
        const bool relayed = x->relayed && generation_was_asked(g);
        int read = g->n_tokens || relayed ? x->n_prompt[i] : g->done;
        sum.completion_tokens += done ? g->usage.completion_tokens : g->n_tokens;
        if (i % x->per_prompt == 0) {
            sum.prompt_tokens += done ? g->usage.prompt_tokens : read;
            sum.cached_tokens += done               ? g->usage.cached_tokens
                                 : g->cached < read ? g->cached
                                                    : read;
        }
    }
    return sum;
}

void usage_track(const struct inference *x)
{
    struct shared_child *slot = x->r->slot;
    if (!slot)
        return;
    struct engine_usage u = usage_so_far(x);
    if (!slot->user_id || slot->usage_pid != getpid()) /* else it is the same one, further on */
        slot->answer++;
    slot->prompt_tokens = u.prompt_tokens;
    slot->cached_tokens = u.cached_tokens;
    slot->completion_tokens = u.completion_tokens;
    slot->key_id = x->r->who.key_id;
    slot->usage_pid = getpid();
    slot->usage_born = slot->born;
    slot->user_id = x->r->who.user_id; /* last: now it counts */
}

void usage_note(struct inference *x)
{
    struct request *r = x->r;
    struct err e = {0};
    if (!x->started || x->noted)
        return;
    x->noted = true;
    struct engine_usage u = usage_so_far(x);
    r->prompt_tokens = u.prompt_tokens;
    r->completion_tokens = u.completion_tokens;
    struct store_usage row = {.user_id = r->who.user_id,
                              .key_id = r->who.key_id,
                              .requests = 1,
                              .prompt_tokens = u.prompt_tokens,
                              .cached_tokens = u.cached_tokens,
                              .completion_tokens = u.completion_tokens};
    if (r->store && !usage_ledger_add(r->slot, r->store, &row, &e))
        log_warn("id=%s not counted: %s", r->id, e.text);
    if (r->slot)
        r->slot->user_id = 0;
}

void usage_note_texts(struct request *r, int64_t tokens)
{
    struct err e = {0};
    const struct store_usage row = {
        .user_id = r->who.user_id, .key_id = r->who.key_id, .requests = 1, .prompt_tokens = tokens};
    r->prompt_tokens = (int)tokens;
    if (r->store && !usage_ledger_add(r->slot, r->store, &row, &e))
        log_warn("id=%s not counted: %s", r->id, e.text);
}

static void sweep_slot(struct shared_child *c, struct store *store)
{
    struct err e = {0};
    const uint64_t answer = c->answer; /* first: it changes before the figures do */
    struct store_usage row = {.user_id = c->user_id,
                              .key_id = c->key_id,
                              .requests = 1,
                              .prompt_tokens = c->prompt_tokens,
                              .cached_tokens = c->cached_tokens,
                              .completion_tokens = c->completion_tokens};
    const bool added = usage_ledger_has(c); /* and was killed before it could say so */
    if (!row.user_id || (!added && usage_ledger_adopt(c, answer, &row)) ||
        !usage_ledger_is_left(c, answer))
        return;
    row.user_id = atomic_exchange(&c->user_id, 0);
    if (row.user_id && !added && !store_usage_add(store, &row, &e))
        log_warn("user=%lld prompt=%lld completion=%lld of a dead process not counted: %s",
                 (long long)row.user_id, (long long)row.prompt_tokens,
                 (long long)row.completion_tokens, e.text);
}

void usage_sweep(struct shared *s, struct store *store)
{
    struct err e = {0};
    usage_sweep_dead(s, store);
    usage_ledger_count(s, store, &e); /* the recorder says so where it fails */
}

void usage_sweep_dead(struct shared *s, struct store *store)
{
    for (int i = 0; store && i < SHARED_CHILDREN; i++) {
        struct shared_child *c = &s->pool[POOL_STREAM].child[i];
        if (c->user_id &&
            shared_process_gone(c->usage_pid,
                                c->usage_born)) /* not the slot's, which may have a new one */
            sweep_slot(c, store);
    }
}
