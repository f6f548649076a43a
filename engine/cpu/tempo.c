/* See tempo.h. */
#include "engine/cpu/tempo.h"

#include <stddef.h>

#define FIRST_INTERVAL 24
#define LAST_INTERVAL 1536
#define BETTER 0.9 /* a switch must gain a tenth */

static struct tempo_class *class_of(struct tempo *t, int32_t rows)
{
    return rows == 1 ? &t->classes[0] : rows <= 4 ? &t->classes[1] : rows <= 16 ? &t->classes[2] : NULL;
}

bool tempo_alone(struct tempo *t, int32_t rows)
{
    struct tempo_class *c = class_of(t, rows);
    if (!c)
        return false;
    if (!c->interval)
        c->interval = FIRST_INTERVAL;
    return ++c->steps > c->interval ? !c->alone : c->alone;
}

void tempo_note(struct tempo *t, int32_t rows, bool alone, uint64_t ns)
{
    struct tempo_class *c = class_of(t, rows);
    if (!c)
        return;
    double *mean = &c->ns[alone], row = (double)ns / (double)rows;
    bool trial = alone != c->alone;
    /* A trial stands for itself: what it was long ago says nothing. */
    *mean = trial || *mean <= 0 ? row : *mean + (row - *mean) / 8;
    if (!trial)
        return;
    c->steps = 0;
    if (row < BETTER * c->ns[c->alone]) {
        c->alone = alone;
        c->interval = FIRST_INTERVAL;
    } else if (c->interval < LAST_INTERVAL) {
        c->interval *= 2;
    }
}
