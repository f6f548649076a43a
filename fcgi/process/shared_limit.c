/* shared.h: the limits of keys and users. */
#include "fcgi/process/shared.h"

#include <stddef.h>

#define MINUTE_US ((int64_t)60 * 1000 * 1000)
#define HOUR_US (60 * MINUTE_US)
#define PROBES 8
#define DRAWING 1 /* a ticket that is being drawn: earlier than any */

struct shared_limit *shared_limit_row(struct shared *s, int64_t key_id)
{
    struct shared_limit *stalest = NULL;
    int64_t stalest_at = 0;
    uint64_t home = (uint64_t)key_id * 0x9E3779B97F4A7C15u >> 40;
    for (uint64_t i = 0; i < PROBES; i++) {
        struct shared_limit *l = &s->limit[(home + i) % SHARED_LIMITS];
        int64_t owner = 0;
        if (l->key_id == key_id || atomic_compare_exchange_strong(&l->key_id, &owner, key_id) ||
            owner == key_id)
            return l;
        int64_t at =
            l->requests_full_us > l->tokens_full_us ? l->requests_full_us : l->tokens_full_us;
        if (!stalest || at < stalest_at) {
            stalest = l;
            stalest_at = at;
        }
    }
    /* Thousands of keys with limits at once: the one that was idle longest starts anew. */
    stalest->key_id = key_id;
    stalest->requests_full_us = stalest->tokens_full_us = 0;
    return stalest;
}

bool shared_minute_take(_Atomic int64_t *full_us, const struct shared_minute_units *u,
                        int64_t now_us, struct shared_minute *out)
{
    const int64_t per_minute = u->per_minute, cost_us = u->n * MINUTE_US / per_minute;
    int64_t stored = *full_us, at, next;
    bool taken;
    do {
        at = stored < now_us ? now_us : stored > now_us + HOUR_US ? now_us + HOUR_US : stored;
        next = at + cost_us;
        if (next > now_us + HOUR_US)
            next = now_us + HOUR_US;
        taken = u->force || next <= now_us + MINUTE_US || at == now_us;
        if (!taken)
            next = at;
    } while (!atomic_compare_exchange_weak(full_us, &stored, next));
    int64_t room = now_us + MINUTE_US - next, wait = at + cost_us - now_us - MINUTE_US;
    out->remaining = room > 0 ? room * per_minute / MINUTE_US : 0;
    out->reset_us = next > now_us ? next - now_us : 0;
    out->wait_us = taken ? 0 : wait > at - now_us ? at - now_us : wait;
    return taken;
}

/* Jobs of the key (user_id 0), or of the user, in other processes whose ticket is older. A slot
 * without a process holds nothing. */
static int64_t older_jobs(struct shared *s, const struct shared_child *mine, int64_t key_id,
                          int64_t user_id)
{
    const uint64_t ticket = mine->ticket;
    int64_t sum = 0;
    for (int i = 0; i < s->pool[POOL_STREAM].n_rows; i++) {
        struct shared_child *c = &s->pool[POOL_STREAM].child[i];
        uint64_t other = c->ticket;
        bool same = user_id ? c->jobs_user == user_id : c->key_id == key_id;
        if (c != mine && other && other < ticket && same && (c->state != CHILD_NONE || c->orphan))
            sum += c->jobs;
    }
    return sum;
}

/* Is an aside of the user's, which claims no job, under way in another process that came before? */
static bool has_aside(struct shared *s, const struct shared_child *mine)
{
    const uint64_t ticket = mine->ticket;
    for (int i = 0; i < s->pool[POOL_STREAM].n_rows; i++) {
        struct shared_child *c = &s->pool[POOL_STREAM].child[i];
        uint64_t other = c->ticket;
        if (c != mine && other && other < ticket && c->jobs_user == mine->jobs_user && !c->jobs &&
            (c->state != CHILD_NONE || c->orphan))
            return true;
    }
    return false;
}

/* Lamport's bakery: who draws a ticket at the same time is seen by one of the two at least, so the
 * limit is never passed, and of those who come at once the first ones get in. */
bool shared_jobs_enter(struct shared *s, struct shared_child *mine,
                       const struct shared_jobs_claim *c)
{
    mine->key_id = c->key_id;
    mine->jobs_user = c->user_id;
    mine->jobs = c->jobs;
    mine->ticket = DRAWING;
    mine->ticket = atomic_fetch_add(&s->next_ticket, 1) + DRAWING + 1;
    if (c->jobs ? !c->key_max || older_jobs(s, mine, c->key_id, 0) + c->jobs <= c->key_max
                : !has_aside(s, mine))
        return true;
    shared_jobs_leave(mine);
    return false;
}

int64_t shared_jobs_of_user(struct shared *s, const struct shared_child *mine)
{
    return older_jobs(s, mine, 0, mine->jobs_user);
}

void shared_jobs_leave(struct shared_child *mine)
{
    mine->ticket = 0;
    mine->jobs = 0;
}
