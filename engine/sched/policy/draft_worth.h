/* Whether a draft that has to be computed is worth asking for, before its tokens are known: what it
 * is expected to win against what making and verifying it take, all in milliseconds that were
 * measured. How sure the drafter usually is, and how often it is right when it is, are known from
 * the drafts before (struct draft_habit).
 *
 * Where it is not worth it, one token is asked for now and then, at growing distances, so that a
 * change of text or load is noticed. Pure arithmetic; owner: the loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/draft/drafter.h"
#include "engine/sched/policy/draft_choice.h"

struct draft_trials { /* zeroed: nothing was tried */
    uint64_t next;    /* draft_costs.n_notes from which on the next one may be made */
    uint64_t pause;   /* notes between the last two */
};

struct draft_worth {
    double ms;    /* expected to be won; not above 0: it is not worth it */
    double least; /* chance of a draft below which no further token is worth asking for */
};

/* `rows`: answers in the step. `steps`: in which the job is expected to go on, over which what must
 * be read first is spread. */
struct draft_worth draft_worth_of(const struct draft_habit *own, const struct draft_habit *all,
                                  const struct draft_costs *c, int32_t rows, double steps,
                                  const struct draft_price *price);
/* May one token be asked for although it is not worth it? Counts as made. The dearer it is beside a
 * plain step, the rarer. */
bool draft_trials_take(struct draft_trials *t, const struct draft_costs *c, int32_t rows,
                       const struct draft_price *price);
/* It was worth it: the next trial after a change comes sooner. */
void draft_trials_won(struct draft_trials *t);
/* What verifying the first tokens of an offer would win, at best. */
double draft_offer_ms(const struct draft_costs *c, int32_t rows, const struct draft_offer *o);
/* Is a draft that costs next to nothing looked for, so many steps after one last promised to win
 * anything? In every step at first, later in fewer, and the sooner the more answers are in a step:
 * looks in all of them would take up to a hundredth of its time. A text that begins to repeat is
 * noticed up to 8 steps later. */
bool draft_look_due(int32_t idle, int32_t rows);
