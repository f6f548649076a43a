/* How many drafted tokens the next step verifies: as many as let the most tokens come out per
 * millisecond, by what was measured (utility as in Cascade, arXiv 2506.20675).
 *
 * What a row more costs depends on the model, the device and the number of rows that are there
 * anyway, so steps are timed by both numbers: the union of experts that the rows touch, and reads
 * of those that are on disk, are part of what is measured. Plain steps are timed for each number of
 * answers, because what drafted rows add is less than one answer more does. How often drafts come
 * true is learnt by what they rest on, for each job and over all; a draft that was not verified is
 * compared with what came all the same, so learning costs nothing.
 *
 * What drafts have won or lost against plain steps is kept as a balance, and below a small loss
 * there are none until plain steps have paid for another try. Pure arithmetic; owner: the loop
 * thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/draft/drafter.h"

#define DRAFT_ROWS_MAX 32 /* drafted tokens of a step, of all jobs */
#define DRAFT_LOADS 5     /* steps with 1, 2, 3 to 4, 5 to 8, 9 to 16 answers */
#define DRAFT_JOBS_MAX 16 /* beside more answers a step is full enough: no drafts are made */

struct draft_habit { /* zeroed: nothing is known; decayed counts */
    double right[DRAFT_GROUND__N], tried[DRAFT_GROUND__N];
    double often[DRAFT_GROUND__N]; /* of a draft model's tokens: how many rested on each */
};

void draft_habit_note(struct draft_habit *h, enum draft_ground g, bool right);
/* The share of such drafts that is expected to come true: the job's own, which counts more the more
 * there is of it, and that of all jobs. */
double draft_habit_share(const struct draft_habit *own, const struct draft_habit *all,
                         enum draft_ground g);

struct draft_cost { /* of steps with so many rows */
    double ms;      /* smoothed */
    uint64_t at;    /* note in which it was last measured */
    int32_t n;      /* measurements, up to where it no longer matters; 0: unknown */
};

struct draft_late { /* decayed sums */
    double late_ms; /* what steps took beyond what is believed of them, because of disturbances */
    double ms;      /* what is believed of them */
};

struct draft_costs {                             /* zeroed: nothing is measured */
    struct draft_cost plain[DRAFT_JOBS_MAX + 1]; /* [answers] */
    /* What so many drafted rows add to a plain step with as many answers. */
    struct draft_cost more[DRAFT_LOADS][DRAFT_ROWS_MAX + 1];
    uint64_t n_notes;
    bool after_drafts;                         /* the last step had some */
    double balance;                            /* plain steps, won (a few at most) or lost */
    struct draft_late late_plain, late_drafts; /* the latter with the plain step behind drafts */
    double late_prior_ms; /* of undisturbed steps, with which each of both begins */
};

struct draft_step {  /* one that ran, without rows of prompts */
    int32_t rows;    /* answers in it, one row each without drafts */
    int32_t drafted; /* rows beside them */
    int32_t tokens;  /* that came out */
    double ms;
    double draft_ms;      /* asking a draft model took before it, */
    double draft_late_ms; /* beside what disturbed that, */
    double free_ms;       /* and the drafts that are made for every step */
};
void draft_costs_note(struct draft_costs *c, const struct draft_step *s);
/* Are drafts to be verified in such a step at all? Not before plain ones were timed, and not while
 * drafts have lost more than plain steps have paid for. */
bool draft_costs_may_try(const struct draft_costs *c, int32_t rows);
/* How many times as long as is believed of them steps with drafts take, where plain ones do not: at
 * least 1. On a processor that others use, threads that slept while a draft was made come late. */
double draft_costs_late(const struct draft_costs *c);
/* The expected time of a step; 0: a plain one has not been measured yet. */
double draft_costs_ms(const struct draft_costs *c, int32_t rows, int32_t drafted);

struct draft_offer {         /* of one job */
    int32_t n;               /* tokens that could be verified */
    double share[DRAFT_MAX]; /* [n] expected share of each, if those before it come true */
    int32_t taken;           /* the answer: 0 .. n */
};
/* `rows`: answers in the step. `most`: rows that it may have beside them. */
void draft_choice_make(const struct draft_costs *c, int32_t rows, struct draft_offer *offers,
                       int32_t n_offers, int32_t most);
