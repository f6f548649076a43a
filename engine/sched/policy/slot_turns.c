/* slot_turns.h: what a job has done since it got its slot, and how long it has waited for one. */
#include "engine/sched/policy/slot_turns.h"

void slot_turn_wait(struct slot_turn *t, uint64_t step, uint64_t order)
{
    t->since = step;
    t->order = order;
}

void slot_turn_begin(struct slot_turn *t, int32_t n_computed)
{
    t->again = t->reached > n_computed ? t->reached - n_computed : 0;
    t->work = 0;
    t->begun = false;
}

void slot_turn_note(struct slot_turn *t, int32_t n_computed, double cost)
{
    t->begun = true;
    if (n_computed <= t->reached)
        return;
    t->work += (n_computed - t->reached) * cost;
    t->reached = n_computed;
}

bool slot_turn_waits_longer(const struct slot_turn *t, const struct slot_turn *than)
{
    return t->order < than->order;
}

bool slot_turn_over(const struct slot_turn *t, int32_t fewer)
{
    if (!t->begun) /* it would lose nothing, but its user must keep a slot in which to begin */
        return fewer > 1;
    return t->work >= SLOT_TURN_COST && t->work >= t->again;
}

bool slot_turn_due(const struct slot_turn *t, uint64_t step, bool preempted, int32_t holds)
{
    return (!preempted && !holds) || step - t->since >= SLOT_TURN_STEPS;
}
