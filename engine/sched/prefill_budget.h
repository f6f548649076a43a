/* How many rows of prompts a step takes, so that it does not hold up running answers, or a cancellation, for long. Learnt
 * from the steps that ran. Pure arithmetic; owner: the loop thread.
 *
 * With experts on disk, a step that reads few rows of a prompt waits for nearly as many experts as one that reads many. So
 * time that a step waited for the disk is not laid to its rows, and a prompt's part may compute for as long as the disk reads
 * in any case: smaller parts would read the same experts again and again, and nobody would get an answer sooner. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct prefill_budget {
    double row_ms;     /* smoothed: computing of one prompt row; 0: not measured yet */
    double reading_ms; /* smoothed: of a step with prompt rows, the time with reads of experts under way */
};

struct prefill_budget_step { /* one that ran; milliseconds */
    double ms;
    double waited_ms;  /* of these, nothing could be computed before an expert came */
    double reading_ms; /* a read was under way */
    int32_t prefill_rows;
};

#define PREFILL_BUDGET_MIN_ROWS 8 /* steps of fewer prompt rows tell nothing; and a very slow device still gets its prompts read */

void prefill_budget_note(struct prefill_budget *p, const struct prefill_budget_step *s);
/* Prompt rows of the next step, 1 or more; the caller has limits of its own. */
int32_t prefill_budget_rows(const struct prefill_budget *p, bool beside_answers);
