/* work_gate.h: counters under one lock, which nobody holds while the work goes on. */
#include "fcgi/process/work_gate.h"

#include "engine/base/clock.h"

/* Two cores' worth of each kind runs; one password at a time, since each takes 64 MiB. Places add
 * up to WORK_THREADS. */
static const struct {
    const char *name;
    int running, held, held_by_one;
    int reserved; /* beyond `held`, for owners who are known; one to each */
} shares[WORK__N] = {
    [WORK_PASSWORD] = {"password", 1, 3, 2, 2}, [WORK_TEXT] = {"text", 2, 3, 2, 0},
    [WORK_FILE] = {"file", 2, 5, 3, 0},         [WORK_SHARE] = {"share", 2, 3, 2, 0},
    [WORK_SIGN_IN] = {"sign_in", 2, 4, 3, 0},   [WORK_TOOL] = {"tool", 5, 5, 2, 0},
};

const char *work_kind_name(enum work_kind kind)
{
    return shares[kind].name;
}

/* Strangers ask for the first two, under as many names as they have addresses; tools only wait. */
static bool is_apart(enum work_kind kind)
{
    return kind == WORK_PASSWORD || kind == WORK_SIGN_IN || kind == WORK_TOOL;
}

static bool is_heavy(const struct work_gate *g, int64_t owner, double now)
{
    double running = 0;
    for (int k = 0; k < WORK__N; k++)
        for (int i = 0; i < WORK_HELD_MAX; i++) {
            const struct work_holder *h = &g->holders[k][i];
            if (h->owner == owner && h->began_ms > 0 && !is_apart((enum work_kind)k))
                running += now - h->began_ms;
        }
    return running > WORK_USE_HEAVY_MS || work_use_heavy(&g->use, owner, now);
}

/* Turns of this owner's, and of heavy owners. */
static void count_turns(const struct work_gate *g, enum work_kind kind, int64_t owner, double now,
                        int *own, int *heavy)
{
    *own = *heavy = 0;
    for (int i = 0; i < WORK_HELD_MAX; i++) {
        const struct work_holder *h = &g->holders[kind][i];
        if (h->owner && h->began_ms > 0) {
            *own += h->owner == owner;
            *heavy += h->owner != owner && is_heavy(g, h->owner, now);
        }
    }
}

static enum work_answer judge(const struct work_gate *g, enum work_kind kind,
                              const struct work_owner *o)
{
    int own = 0;
    for (int i = 0; i < WORK_HELD_MAX; i++)
        own += g->holders[kind][i].owner == o->id;
    if (own >= shares[kind].held_by_one)
        return WORK_FULL_OWNER;
    const int places = shares[kind].held + (o->known && !own ? shares[kind].reserved : 0),
              left = places - g->held[kind];
    if (left <= 0)
        return WORK_FULL;
    if (is_apart(kind))
        return WORK_TAKEN;
    const bool heavy = is_heavy(g, o->id, clock_ms());
    if (own && (heavy || left <= shares[kind].held / 2))
        return WORK_FULL_OWNER;
    return heavy && left == 1 ? WORK_FULL : WORK_TAKEN;
}

/* One turn is left for those who are not heavy and have none yet. */
static bool may_run(const struct work_gate *g, enum work_kind kind, int64_t owner)
{
    const double now = clock_ms();
    int own, heavy;
    if (g->running[kind] >= shares[kind].running)
        return false;
    if (is_apart(kind))
        return true;
    count_turns(g, kind, owner, now, &own, &heavy);
    return (!own && !is_heavy(g, owner, now)) || own + heavy < shares[kind].running - 1;
}

/* A place of the owner's, or with owner 0 a free one; ran: one whose turn has come. */
static struct work_holder *find_holder(struct work_gate *g, enum work_kind kind, int64_t owner,
                                       bool ran)
{
    for (int i = 0; i < WORK_HELD_MAX; i++) {
        struct work_holder *h = &g->holders[kind][i];
        if (h->owner == owner && (h->began_ms > 0) == ran)
            return h;
    }
    return NULL;
}

enum work_answer work_gate_take(struct work_gate *g, enum work_kind kind,
                                const struct work_owner *o)
{
    pthread_mutex_lock(&g->lock);
    enum work_answer answer = judge(g, kind, o);
    struct work_holder *place = answer == WORK_TAKEN ? find_holder(g, kind, 0, false) : NULL;
    if (place) {
        g->held[kind]++;
        place->owner = o->id;
    }
    pthread_mutex_unlock(&g->lock);
    return answer;
}

bool work_gate_turn(struct work_gate *g, enum work_kind kind, int64_t owner, int wait_ms)
{
    const struct timespec until = clock_deadline(CLOCK_REALTIME, wait_ms);
    bool may;
    int rc = 0;
    pthread_mutex_lock(&g->lock);
    while (!(may = may_run(g, kind, owner)) && rc == 0)
        rc = pthread_cond_timedwait(&g->ended, &g->lock, &until);
    struct work_holder *mine = may ? find_holder(g, kind, owner, false) : NULL;
    if (mine) {
        mine->began_ms = clock_ms();
        g->running[kind]++;
    }
    pthread_mutex_unlock(&g->lock);
    return mine != NULL;
}

void work_gate_give(struct work_gate *g, enum work_kind kind, int64_t owner, bool ran)
{
    pthread_mutex_lock(&g->lock);
    struct work_holder *place = find_holder(g, kind, owner, ran);
    if (place) {
        const double now = clock_ms();
        if (ran && !is_apart(kind))
            work_use_add(&g->use, owner, now - place->began_ms, now);
        g->held[kind]--;
        g->running[kind] -= ran;
        *place = (struct work_holder){0};
    }
    pthread_cond_broadcast(&g->ended);
    pthread_mutex_unlock(&g->lock);
}
