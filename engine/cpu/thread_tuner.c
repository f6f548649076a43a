/* Keeps a moving mean of both ways for each class of steps, and tries the other way at intervals
 * that double. */
#include "engine/cpu/thread_tuner.h"

#include <stddef.h>

#define FIRST_INTERVAL 24
#define LAST_INTERVAL 1536
#define BETTER 0.9 /* a switch must gain a tenth */
/* Steps of a try, of which the last counts: threads that slept through the steps before are woken
 * by the first. One thread wakes nobody, and each step of its try takes nearly as many times longer
 * as there are threads, so the first that is slower ends it. */
#define TRIES 3
#define STALE 2 /* a mean that is so many times a step is of steps that found cold caches */

static struct thread_tuner_class *class_of(struct thread_tuner *t, int32_t rows)
{
    return rows == 1    ? &t->classes[0]
           : rows <= 4  ? &t->classes[1]
           : rows <= 16 ? &t->classes[2]
                        : NULL;
}

bool thread_tuner_single(struct thread_tuner *t, int32_t rows)
{
    struct thread_tuner_class *c = class_of(t, rows);
    if (!c)
        return false;
    if (!c->interval)
        c->interval = FIRST_INTERVAL;
    return ++c->steps > c->interval ? !c->single : c->single;
}

void thread_tuner_record(struct thread_tuner *t, int32_t rows, bool single, uint64_t ns)
{
    struct thread_tuner_class *c = class_of(t, rows);
    if (!c)
        return;
    double *mean = &c->ns[single], row = (double)ns / (double)rows;
    bool trial = single != c->single;
    /* A trial stands for itself: what it was long ago says nothing. */
    *mean = trial || *mean <= 0 || *mean > STALE * row ? row : *mean + (row - *mean) / 8;
    const bool shown = single && row >= c->ns[false];
    if (!trial || (++c->tried < TRIES && !shown))
        return;
    c->steps = c->tried = 0;
    if (row < BETTER * c->ns[c->single]) {
        c->single = single;
        c->interval = FIRST_INTERVAL;
    } else if (c->interval < LAST_INTERVAL) {
        c->interval *= 2;
    }
}
