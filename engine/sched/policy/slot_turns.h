/* Shares the slots between users by time. While a user's job waits, a job of the user who holds the
 * most slots is preempted for it:
 * - at once, where that user holds at least two more than the waiting one, so that the numbers
 *   become equal;
 * - where it holds one more, in turns: the job that has held its slot longest gives way to a user
 *   who holds none and has just come, or who has waited for SLOT_TURN_STEPS.
 * A job that has begun is left alone until it has done SLOT_TURN_COST of new work, and at least as
 * much as it had to compute again after its last pause. So pauses cost at most half of the device,
 * even where the prompt cache is off; usually they cost nearly nothing, because the job finds its
 * own blocks there. A user who is alone is never preempted for this.
 *
 * Time is counted in steps and tokens, not by the clock, so that a test sees what a server does.
 * Pure arithmetic; owner: the loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define SLOT_TURN_COST 128.0 /* in the units of fair_queue_charge: 64 tokens of an answer */
#define SLOT_TURN_STEPS 64

struct slot_turn {   /* a job's */
    uint64_t since;  /* the step at which it began to wait */
    uint64_t order;  /* of all that began to wait */
    int32_t reached; /* tokens that were computed at any time */
    int32_t again;   /* of them, those to be computed again since it got its slot */
    double work;     /* new work since then */
    bool begun;      /* a step had rows of it since then */
};

void slot_turn_wait(struct slot_turn *t, uint64_t step, uint64_t order);
void slot_turn_begin(struct slot_turn *t, int32_t n_computed); /* it got a slot */
/* A step computed its tokens up to n_computed; a new one costs `cost`. */
void slot_turn_note(struct slot_turn *t, int32_t n_computed, double cost);
bool slot_turn_waits_longer(const struct slot_turn *t, const struct slot_turn *than);
/* May a job be preempted for one whose user holds `fewer` slots less? */
bool slot_turn_over(const struct slot_turn *t, int32_t fewer);
/* May a job that waits take its turn where slots are shared as equally as they can be? `holds`: its
 * user's slots. */
bool slot_turn_due(const struct slot_turn *t, uint64_t step, bool preempted, int32_t holds);
