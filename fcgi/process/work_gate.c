/* work_gate.h: counters under one lock, which nobody holds while the work goes on. */
#include "fcgi/process/work_gate.h"

#include <time.h>

/* Two cores' worth of each kind runs; one password at a time, since each takes 64 MiB. Sign-ins
 * wait for another server: they have threads of their own. */
static const struct {
    const char *name;
    int running, held, held_by_one;
    int reserved; /* beyond `held`, for owners who are known; one to each */
} shares[WORK__N] = {
    [WORK_PASSWORD] = {"password", 1, 3, 2, 2}, [WORK_TEXT] = {"text", 2, 3, 2, 0},
    [WORK_FILE] = {"file", 2, 4, 3, 0},         [WORK_SHARE] = {"share", 2, 4, 3, 0},
    [WORK_SIGN_IN] = {"sign_in", 2, 4, 3, 0},
};

const char *work_kind_name(enum work_kind kind)
{
    return shares[kind].name;
}

static bool is_apart(enum work_kind kind)
{
    return kind == WORK_PASSWORD || kind == WORK_SIGN_IN;
}

static int count_slow(const struct work_gate *g)
{
    int n = 0;
    for (int k = 0; k < WORK__N; k++)
        n += is_apart((enum work_kind)k) ? 0 : g->held[k];
    return n;
}

static enum work_answer judge(const struct work_gate *g, enum work_kind kind,
                              const struct work_owner *o)
{
    int own = 0;
    for (int i = 0; i < WORK_HELD_MAX; i++)
        own += g->holder[kind][i] == o->id;
    if (own >= shares[kind].held_by_one)
        return WORK_FULL_OWNER;
    const int places = shares[kind].held + (o->known && !own ? shares[kind].reserved : 0);
    if (g->held[kind] >= places || (!is_apart(kind) && count_slow(g) >= WORK_SLOW_MAX))
        return WORK_FULL;
    return WORK_TAKEN;
}

static void replace_holder(struct work_gate *g, enum work_kind kind, int64_t from, int64_t to)
{
    int i = 0;
    while (i < WORK_HELD_MAX && g->holder[kind][i] != from)
        i++;
    if (i < WORK_HELD_MAX)
        g->holder[kind][i] = to;
}

enum work_answer work_gate_take(struct work_gate *g, enum work_kind kind,
                                const struct work_owner *o)
{
    pthread_mutex_lock(&g->lock);
    enum work_answer answer = judge(g, kind, o);
    if (answer == WORK_TAKEN) {
        g->held[kind]++;
        replace_holder(g, kind, 0, o->id);
    }
    pthread_mutex_unlock(&g->lock);
    return answer;
}

bool work_gate_turn(struct work_gate *g, enum work_kind kind, int wait_ms)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&g->lock);
    while (g->running[kind] >= shares[kind].running && rc == 0)
        rc = pthread_cond_timedwait(&g->ended, &g->lock, &until);
    bool mine = g->running[kind] < shares[kind].running;
    g->running[kind] += mine;
    pthread_mutex_unlock(&g->lock);
    return mine;
}

void work_gate_give(struct work_gate *g, enum work_kind kind, int64_t owner, bool ran)
{
    pthread_mutex_lock(&g->lock);
    g->held[kind]--;
    g->running[kind] -= ran;
    replace_holder(g, kind, owner, 0);
    pthread_cond_broadcast(&g->ended);
    pthread_mutex_unlock(&g->lock);
}
