/* Reading ahead for the next layer: see expert_store_prefetch(). It can pay only when most of it is wanted. A router's first
 * guess comes true far oftener than its last one, so guesses are judged by their rank, read or not, and those of a rank that
 * was rather wrong lately are not read. Where even the first are wrong, or what was read was not wanted, it rests for a while
 * and is tried again.
 *
 * Whether it does pay, and how much of it, is a matter of time: where the disk is what bounds, the part that is read in vain
 * costs more than waiting less gains. So some tokens are computed with all of it, some with the first record only and some
 * without, by turns, and what took least time for an expert goes on for a while, longer each time that it wins again. A cache
 * that still fills is not judged: its memory is taken for the first time, which costs more than any way gains. */
#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/experts/cache/expert_store_internal.h"

#define TRIAL_TOKENS 2    /* of each phase: short ones, since a machine that others share is faster now and slower then */
#define CHOSEN_FIRST 64   /* tokens after the last one; twice as many where the same way wins as the time before */
#define CHOSEN_MOST 512
#define PAUSE_NS 500000000u /* so long between two layers: no step was running */

#define WINDOW 64        /* records by which it is judged */
#define SURE_ENOUGH 0.5  /* share of right ones that a rank must have */
#define RANK_RIGHT 3.0   /* at first as if of so many guesses ... */
#define RANK_MADE 4.0    /* ... these had been right */
#define RANK_KEPT 0.99   /* of what a rank's guesses count, with each new one */
#define FIRST_PAUSE 1024 /* layers */
#define LAST_PAUSE 65536

static struct ahead_rank *rank_of(struct expert_store *s, int32_t rank)
{
    return &s->ahead.ranks[rank < AHEAD_RANKS ? rank : AHEAD_RANKS - 1];
}

static bool is_sure(struct expert_store *s, int32_t rank)
{
    const struct ahead_rank *r = rank_of(s, rank);
    return r->right + RANK_RIGHT >= SURE_ENOUGH * (r->made + RANK_MADE);
}

static void rest(struct ahead *a)
{
    a->pause = a->pause ? a->pause < LAST_PAUSE ? a->pause * 2 : LAST_PAUSE : FIRST_PAUSE;
    a->rest = a->pause;
    memset(a->ranks, 0, sizeof a->ranks);
}

void ahead_count(struct expert_store *s, const struct expert_slot *slot, bool useful)
{
    struct ahead *a = &s->ahead;
    *(useful ? &s->counters.prefetch_useful_bytes : &s->counters.prefetch_wasted_bytes) += expert_read_bytes(slot->job.record);
    *(useful ? &a->useful : &a->wasted) += 1;
    if (a->useful + a->wasted < WINDOW)
        return;
    if (a->useful < a->wasted)
        rest(a);
    else
        a->pause = 0;
    a->useful = a->wasted = 0;
}

static bool is_wanted(const struct expert_store *s, int32_t expert)
{
    for (int32_t i = 0; i < s->session.n; i++)
        if (s->session.wants[i].expert == expert)
            return true;
    return false;
}

/* The layer that was guessed has come. */
static void learn(struct expert_store *s, int32_t layer)
{
    struct ahead *a = &s->ahead;
    for (int32_t i = 0; i < a->n_guesses && a->guessed == layer; i++) {
        struct ahead_rank *r = rank_of(s, a->guesses[i].rank);
        r->made = r->made * RANK_KEPT + 1;
        r->right = r->right * RANK_KEPT + is_wanted(s, a->guesses[i].expert);
    }
    if (a->n_guesses && !is_sure(s, 0))
        rest(a);
    a->n_guesses = 0;
}

static double time_each(const struct ahead_trial *t, enum ahead_way way)
{
    return t->asked[way] ? (double)t->ns[way] / (double)t->asked[way] : INFINITY;
}

static enum ahead_way quickest(const struct ahead_trial *t)
{
    enum ahead_way best = AHEAD_ALL;
    for (enum ahead_way way = 0; way < AHEAD__N; way++)
        if (time_each(t, way) < time_each(t, best))
            best = way;
    return best;
}

/* Tokens for which the quickest way goes on. */
static int32_t choose(struct ahead_trial *t)
{
    const enum ahead_way best = quickest(t);
    if (!t->chosen_tokens || best != t->chosen)
        t->chosen_tokens = CHOSEN_FIRST;
    else if (t->chosen_tokens < CHOSEN_MOST)
        t->chosen_tokens *= 2;
    t->way = t->chosen = best;
    return t->chosen_tokens;
}

static void next_phase(struct expert_store *s)
{
    struct ahead_trial *t = &s->ahead.trial;
    int32_t tokens = TRIAL_TOKENS;
    t->phase = t->phase > AHEAD_PHASES ? 1 : t->phase + 1;
    for (int way = 0; t->phase == 1 && way < AHEAD__N; way++) { /* what was seen before counts for half */
        t->ns[way] /= 2;
        t->asked[way] /= 2;
    }
    if (t->phase > AHEAD_PHASES)
        tokens = choose(t);
    else
        t->way = (enum ahead_way)((t->phase - 1) % AHEAD__N);
    t->layers = tokens * s->set.layout->n_layers;
}

static bool is_full(const struct expert_store *s)
{
    return s->slots.bytes + s->set.layout->record_bytes_max > s->budget;
}

/* A layer of few rows begins. */
static void try_ways(struct expert_store *s)
{
    struct ahead_trial *t = &s->ahead.trial;
    const uint64_t now = clock_ns();
    const bool counts = t->last_ns && t->last_asked && now - t->last_ns < PAUSE_NS;
    if (counts && t->phase >= 1 && t->phase <= AHEAD_PHASES) {
        t->ns[t->way] += now - t->last_ns;
        t->asked[t->way] += (uint64_t)t->last_asked;
    }
    t->last_ns = now;
    t->last_asked = s->session.n;
    if ((t->phase || is_full(s)) && t->layers-- <= 0)
        next_phase(s);
}

void ahead_settle(struct expert_store *s, int32_t layer)
{
    if (!s->set.no_prefetch && !s->set.no_trial && !s->ahead.rest && !s->session.in_order)
        try_ways(s);
    else
        s->ahead.trial.last_ns = 0;
    if (s->ahead.rest)
        s->ahead.rest--;
    learn(s, layer);
    int32_t kept = 0;
    for (int32_t i = 0; i < s->ahead.n; i++) {
        struct expert_slot *slot = &s->slots.slots[s->ahead.slots[i]];
        if (!slot->ahead)
            continue;
        if (slot->layer != layer) { /* a step ended before it came to that layer */
            s->ahead.slots[kept++] = s->ahead.slots[i];
            continue;
        }
        slot->ahead = false;
        store_note(s, slot);
        if (slot->state == SLOT_READING && expert_reader_drop(s->reader, &slot->job))
            store_spare(s, slot); /* nothing was read of it */
        else
            ahead_count(s, slot, false);
    }
    s->ahead.n = kept;
}

bool ahead_is_on(const struct expert_store *s)
{
    return !s->set.no_prefetch && !s->ahead.rest && s->ahead.trial.way != AHEAD_NONE;
}

bool expert_store_prefetching(const struct expert_store *s)
{
    struct expert_store *open = (struct expert_store *)s; /* for the lock alone */
    pthread_mutex_lock(&open->lock);
    bool on = ahead_is_on(s);
    pthread_mutex_unlock(&open->lock);
    return on;
}

void expert_store_prefetch(struct expert_store *s, int32_t layer, const struct expert_guess *guesses, int32_t n)
{
    pthread_mutex_lock(&s->lock);
    int32_t next = s->layer_of[layer] + 1;
    int32_t room = next < s->set.layout->n_layers && ahead_is_on(s) ? AHEAD_SLOTS - s->ahead.n : 0;
    if (s->ahead.trial.way == AHEAD_FIRST && !s->session.in_order && s->session.rows < room)
        room = s->session.rows;
    s->ahead.guessed = next;
    s->ahead.n_guesses = 0;
    for (int32_t i = 0; i < n && next < s->set.layout->n_layers; i++) {
        if (*store_slot_of(s, next, guesses[i].expert) >= 0)
            continue;
        if (s->ahead.n_guesses < AHEAD_SLOTS)
            s->ahead.guesses[s->ahead.n_guesses++] = guesses[i];
        if (!room || !is_sure(s, guesses[i].rank))
            continue;
        struct expert_slot *slot = store_acquire(s, next, guesses[i].expert);
        if (!slot)
            break;
        room--;
        slot->ahead = true;
        s->ahead.slots[s->ahead.n++] = (int32_t)(slot - s->slots.slots);
        store_read(s, slot, false);
    }
    pthread_mutex_unlock(&s->lock);
}
