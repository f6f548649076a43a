/* Drafts of the running answers: has them made (drafting.h), cuts them to what grammar, limits and
 * blocks allow, chooses how many the step verifies (policy/draft_choice.h), and keeps the books.
 * Verification itself is in batch.c: each row's token is picked as it is without drafts, from the
 * same random position, and the next row counts only where that token is the drafted one. So an
 * answer is, token for token, the one without drafts. Loop thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/draft/drafter.h"
#include "engine/engine.h"
#include "engine/sched/policy/draft_choice.h"

struct backend_ops;
struct job;
struct model_plan;
struct scheduler;
struct step_sequence;

struct made_draft { /* by one of a job's drafters */
    const struct drafter *by;
    void *state;       /* the drafter's; made with the first draft */
    struct draft next; /* for the step that is being built or runs */
    bool fits;         /* what the job took so far of the step is what it says */
    bool gone;         /* the drafter failed for this job */
};

struct job_drafts { /* of one job */
    struct made_draft made[DRAFTERS_MAX];
    int32_t n_made;  /* 0: it has no drafts */
    int32_t chosen;  /* whose draft the step verifies, of which */
    int32_t n_rows;  /* tokens */
    int32_t n_taken; /* tokens that the job got from the step */
    bool goes_on;    /* the last of them is the one that the next row was made for */
    int32_t n_idle;  /* steps since a draft last promised to win anything */
    struct draft_habit habit;
    struct engine_speculation used;
};

static inline const struct draft *drafts_chosen(const struct job_drafts *d)
{
    return &d->made[d->chosen].next;
}

struct speculation_applied {
    enum engine_speculate applied;
    enum engine_speculate by; /* the drafter that computes; SERVER: there is none */
    char why[128];            /* why it is off although it was asked for; else empty */
};

/* What becomes of --speculate with this backend and model. */
void speculation_apply(enum engine_speculate asked, const struct backend_ops *ops,
                       const struct model_plan *plan, struct speculation_applied *out);
/* Once, when the job is admitted for the first time. */
void speculation_begin(struct scheduler *s, struct job *j);
void speculation_clear(struct job_drafts *d); /* the next step has no drafts of the job */
void speculation_leave(struct job_drafts *d); /* it stops running: its seats are free again */
void speculation_end(struct job_drafts *d);   /* frees; any thread, accepts a zeroed struct */
/* What a draft of the job is expected to give. */
void speculation_offer(const struct scheduler *s, const struct job *j, const struct draft *d,
                       struct draft_offer *o);
/* The step leaves hidden states of the job's rows where its drafter wants them. */
void speculation_hand_hidden(struct scheduler *s, struct job *j, struct step_sequence *q);
/* Before decoding jobs become members: sets n_rows of each, and puts the drafted tokens behind the
 * job's own. `members`: how many decode in this step; `alone`: no prompt is read in it. */
void speculation_plan(struct scheduler *s, struct job *const *members, int32_t n, bool alone);
/* Others of its user may draft by its text. Not by what is to be stored nowhere, as temporary
 * chats. */
bool speculation_may_remember(const struct job *j);
/* The job has ended: others of its user may draft by the end of its text, too. */
void speculation_remember(struct scheduler *s, const struct job *j);
/* The step gave the job this token; before it is accepted. True: it was drafted, and the next row
 * goes on from it. */
bool speculation_note(struct scheduler *s, struct job *j, int32_t token);
/* Takes the drafts of a member out of the step. */
void speculation_drop(struct scheduler *s, int32_t member);
/* After a step without rows of prompts, of members first .. first + n - 1. */
void speculation_note_step(struct scheduler *s, int32_t first, int32_t n, double ms);
