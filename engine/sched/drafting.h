/* Asks the drafters of the running answers what may come next: those that cost next to nothing for
 * every step, a draft model only where that is worth it (policy/draft_worth.h), for all such
 * answers at once. Of two drafts of an answer the one is chosen that is expected to win more. Loop
 * thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/draft/drafter.h"

struct job;
struct scheduler;

/* Tokens that the job could take beside its own in one step; not above 0: none. */
int32_t drafting_most(const struct scheduler *s, const struct job *j);
/* Prompt and answer so far, and where else drafts may look. */
struct draft_text drafting_text(const struct scheduler *s, const struct job *j);
struct made_draft;
/* False: it has no state and can't have one now. */
bool drafting_state(struct scheduler *s, struct made_draft *m);
/* Fills job.drafts of each member; `alone`: no prompt is read in the step. */
void drafting_make(struct scheduler *s, struct job *const *members, int32_t n, bool alone);
