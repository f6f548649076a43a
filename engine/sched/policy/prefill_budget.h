/* The prompt rows that a step may take without delaying running answers, or a cancellation, for
 * long. It is learnt from previous steps. Pure arithmetic; owner: the loop thread.
 *
 * With experts on disk, a step with few prompt rows waits for nearly as many experts as one with
 * many. So time spent waiting for the disk is not attributed to rows, and a chunk may compute for
 * as long as the disk reads anyway: smaller chunks would read the same experts again and again, and
 * no answer would come sooner. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct prefill_budget {
    double row_ms;     /* smoothed: computing of one prompt row; 0: not measured yet */
    double reading_ms; /* smoothed: time with expert reads in flight, of a step with prompt rows */
};

struct prefill_budget_step { /* one that ran; milliseconds */
    double ms;
    double waited_ms;  /* of `ms`: waiting for experts with nothing to compute */
    double reading_ms; /* of `ms`: with expert reads in flight */
    int32_t prefill_rows;
};

#define PREFILL_BUDGET_MIN_ROWS                                                                    \
    8 /* steps with fewer rows are too noisy to learn from; a slow device makes progress */

void prefill_budget_note(struct prefill_budget *p, const struct prefill_budget_step *s);
/* The prompt rows of the next step, at least 1. The caller applies limits of its own. */
int32_t prefill_budget_rows(const struct prefill_budget *p, bool beside_answers);
