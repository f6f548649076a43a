/* Prefetches experts for the next MoE layer: see expert_cache_prefetch(). Prefetching pays only
 * when most of what is read is used. A router's first prediction comes true far more often than
 * its last one, so predictions are scored by rank, whether they were read or not, and ranks that
 * were mostly wrong lately are not read. When even the first rank is wrong, or what was read was
 * not used, prefetching is suspended for a while and then tried again.
 *
 * Whether it pays, and how much of it, is measured in time: where the disk is the bottleneck,
 * reads that turn out useless cost more than shorter waits gain. So some tokens are computed
 * with all predictions read, some with the first record only and some with none, in turns, and
 * the fastest mode stays for a while, longer each time it wins again. A cache that is still
 * filling is not judged: touching its memory for the first time costs more than any mode gains. */
#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/experts/cache/expert_cache_internal.h"

#define TRIAL_TOKENS 2 /* of each phase; short, because the speed of a shared machine varies */
#define CHOSEN_FIRST                                                                               \
    64 /* tokens after a trial; doubled each time that the same mode wins again                    \
        */
#define CHOSEN_MOST 512
#define PAUSE_NS 500000000u /* a longer gap between two layers means that no step was running */

#define WINDOW 64        /* records per judgement */
#define SURE_ENOUGH 0.5  /* share of its predictions that must come true */
#define RANK_RIGHT 3.0   /* the prior of a rank: as many right predictions ... */
#define RANK_MADE 4.0    /* ... out of this many */
#define RANK_KEPT 0.99   /* decay of a rank's counts with each new prediction */
#define FIRST_PAUSE 1024 /* layers */
#define LAST_PAUSE 65536

static struct prefetch_rank *rank_of(struct expert_cache *s, int32_t rank)
{
    return &s->prefetch.ranks[rank < PREFETCH_RANKS ? rank : PREFETCH_RANKS - 1];
}

static bool is_reliable(struct expert_cache *s, int32_t rank)
{
    const struct prefetch_rank *r = rank_of(s, rank);
    return r->right + RANK_RIGHT >= SURE_ENOUGH * (r->made + RANK_MADE);
}

static void suspend(struct prefetch *a)
{
    a->pause = a->pause ? a->pause < LAST_PAUSE ? a->pause * 2 : LAST_PAUSE : FIRST_PAUSE;
    a->suspended_layers = a->pause;
    memset(a->ranks, 0, sizeof a->ranks);
}

void expert_prefetch_count(struct expert_cache *s, const struct expert_slot *slot, bool useful)
{
    struct prefetch *a = &s->prefetch;
    *(useful ? &s->counters.prefetch_useful_bytes : &s->counters.prefetch_wasted_bytes) +=
        expert_record_read_bytes(slot->job.record);
    *(useful ? &a->useful : &a->wasted) += 1;
    if (a->useful + a->wasted < WINDOW)
        return;
    if (a->useful < a->wasted)
        suspend(a);
    else
        a->pause = 0;
    a->useful = a->wasted = 0;
}

static bool is_wanted(const struct expert_cache *s, int32_t expert)
{
    for (int32_t i = 0; i < s->session.n; i++)
        if (s->session.wants[i].expert == expert)
            return true;
    return false;
}

/* The predicted layer has begun: scores the predictions by rank. */
static void score_predictions(struct expert_cache *s, int32_t layer)
{
    struct prefetch *a = &s->prefetch;
    for (int32_t i = 0; i < a->n_predictions && a->predicted_layer == layer; i++) {
        struct prefetch_rank *r = rank_of(s, a->predictions[i].rank);
        r->made = r->made * RANK_KEPT + 1;
        r->right = r->right * RANK_KEPT + is_wanted(s, a->predictions[i].expert);
    }
    if (a->n_predictions && !is_reliable(s, 0))
        suspend(a);
    a->n_predictions = 0;
}

static double time_per_expert(const struct prefetch_trial *t, enum prefetch_mode mode)
{
    return t->asked[mode] ? (double)t->ns[mode] / (double)t->asked[mode] : INFINITY;
}

static enum prefetch_mode fastest_mode(const struct prefetch_trial *t)
{
    enum prefetch_mode best = PREFETCH_ALL;
    for (enum prefetch_mode mode = 0; mode < PREFETCH__N; mode++)
        if (time_per_expert(t, mode) < time_per_expert(t, best))
            best = mode;
    return best;
}

/* Chooses the fastest mode; returns for how many tokens it stays. */
static int32_t choose_mode(struct prefetch_trial *t)
{
    const enum prefetch_mode best = fastest_mode(t);
    if (!t->chosen_tokens || best != t->chosen)
        t->chosen_tokens = CHOSEN_FIRST;
    else if (t->chosen_tokens < CHOSEN_MOST)
        t->chosen_tokens *= 2;
    t->mode = t->chosen = best;
    return t->chosen_tokens;
}

static void next_phase(struct expert_cache *s)
{
    struct prefetch_trial *t = &s->prefetch.trial;
    int32_t tokens = TRIAL_TOKENS;
    t->phase = t->phase > PREFETCH_PHASES ? 1 : t->phase + 1;
    for (int mode = 0; t->phase == 1 && mode < PREFETCH__N;
         mode++) { /* earlier measurements count half */
        t->ns[mode] /= 2;
        t->asked[mode] /= 2;
    }
    if (t->phase > PREFETCH_PHASES)
        tokens = choose_mode(t);
    else
        t->mode = (enum prefetch_mode)((t->phase - 1) % PREFETCH__N);
    t->layers = tokens * s->params.layout->n_layers;
}

static bool is_full(const struct expert_cache *s)
{
    return s->slots.bytes + s->params.layout->record_bytes_max > s->budget;
}

/* Measures the previous layer and advances the trial. Called when a layer of few rows begins. */
static void run_trial(struct expert_cache *s)
{
    struct prefetch_trial *t = &s->prefetch.trial;
    const uint64_t now = clock_ns();
    const bool counts = t->last_ns && t->last_asked && now - t->last_ns < PAUSE_NS;
    if (counts && t->phase >= 1 && t->phase <= PREFETCH_PHASES) {
        t->ns[t->mode] += now - t->last_ns;
        t->asked[t->mode] += (uint64_t)t->last_asked;
    }
    t->last_ns = now;
    t->last_asked = s->session.n;
    if ((t->phase || is_full(s)) && t->layers-- <= 0)
        next_phase(s);
}

void expert_prefetch_settle(struct expert_cache *s, int32_t layer)
{
    if (!s->params.no_prefetch && !s->params.no_trial && !s->prefetch.suspended_layers &&
        !s->session.in_order)
        run_trial(s);
    else
        s->prefetch.trial.last_ns = 0;
    if (s->prefetch.suspended_layers)
        s->prefetch.suspended_layers--;
    score_predictions(s, layer);
    int32_t kept = 0;
    for (int32_t i = 0; i < s->prefetch.n; i++) {
        struct expert_slot *slot = &s->slots.slots[s->prefetch.slots[i]];
        if (!slot->prefetched)
            continue;
        if (slot->layer != layer) { /* the step ended before it reached that layer */
            s->prefetch.slots[kept++] = s->prefetch.slots[i];
            continue;
        }
        slot->prefetched = false;
        expert_cache_update_evictable(s, slot);
        if (slot->state == SLOT_READING && expert_reader_cancel(s->reader, &slot->job))
            expert_cache_make_spare(s, slot); /* none of it was read yet */
        else
            expert_prefetch_count(s, slot, false);
    }
    s->prefetch.n = kept;
}

bool expert_prefetch_enabled(const struct expert_cache *s)
{
    return !s->params.no_prefetch && !s->prefetch.suspended_layers &&
           s->prefetch.trial.mode != PREFETCH_NONE;
}

bool expert_cache_prefetching(const struct expert_cache *s)
{
    struct expert_cache *open = (struct expert_cache *)s; /* for the lock alone */
    pthread_mutex_lock(&open->lock);
    bool on = expert_prefetch_enabled(s);
    pthread_mutex_unlock(&open->lock);
    return on;
}

void expert_cache_prefetch(struct expert_cache *s, int32_t layer,
                           const struct expert_prediction *predictions, int32_t n)
{
    pthread_mutex_lock(&s->lock);
    int32_t next = s->layer_of[layer] + 1;
    int32_t room = next < s->params.layout->n_layers && expert_prefetch_enabled(s)
                       ? PREFETCH_SLOTS - s->prefetch.n
                       : 0;
    if (s->prefetch.trial.mode == PREFETCH_FIRST && !s->session.in_order && s->session.rows < room)
        room = s->session.rows;
    s->prefetch.predicted_layer = next;
    s->prefetch.n_predictions = 0;
    for (int32_t i = 0; i < n && next < s->params.layout->n_layers; i++) {
        if (*expert_cache_slot_of(s, next, predictions[i].expert) >= 0)
            continue;
        if (s->prefetch.n_predictions < PREFETCH_SLOTS)
            s->prefetch.predictions[s->prefetch.n_predictions++] = predictions[i];
        if (!room || !is_reliable(s, predictions[i].rank))
            continue;
        struct expert_slot *slot = expert_cache_acquire(s, next, predictions[i].expert);
        if (!slot)
            break;
        room--;
        slot->prefetched = true;
        s->prefetch.slots[s->prefetch.n++] = (int32_t)(slot - s->slots.slots);
        expert_cache_start_read(s, slot, false);
    }
    pthread_mutex_unlock(&s->lock);
}
