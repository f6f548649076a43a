/* speculation.h: drafts of the running answers, and what came of them. */
#include "engine/sched/speculation.h"

#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/sched/scheduler_state.h"

#define MOST_DRAFTING 16 /* beside more answers a step is full enough: no drafts are made */

void speculation_apply(enum engine_speculate asked, const struct backend_ops *ops,
                       const struct model_plan *plan, struct speculation_applied *out)
{
    *out = (struct speculation_applied){.applied = asked};
    if (asked == ENGINE_SPECULATE_OFF || !plan->n_recurrent || ops->keep_rows)
        return;
    out->applied = ENGINE_SPECULATE_OFF;
    snprintf(out->why, sizeof out->why,
             "the %s backend cannot take back the state of recurrent layers yet", ops->name);
}

void speculation_begin(struct scheduler *s, struct job *j)
{
    enum engine_speculate wanted = j->params.speculate;
    if (s->params.speculate == ENGINE_SPECULATE_OFF || !wanted)
        wanted = s->params.speculate;
    j->drafts.drafter = drafter_for(wanted);
    j->drafts.used.applied = j->drafts.drafter ? wanted : ENGINE_SPECULATE_OFF;
}

void speculation_clear(struct job_drafts *d)
{
    d->next.n = d->n_rows = d->n_taken = 0;
}

void speculation_end(struct job_drafts *d)
{
    if (d->state)
        d->drafter->destroy(d->state);
    d->state = NULL;
}

/* Tokens that the job could still take in one step. */
static int32_t most_drafts(const struct scheduler *s, const struct job *j)
{
    int32_t most = j->params.max_tokens - j->n_generated - 1;
    if (most > DRAFT_MAX)
        most = DRAFT_MAX;
    /* Rows that the rules touch need other candidates than those that they do not. */
    if (j->n_generated < j->params.min_tokens && most > j->params.min_tokens - j->n_generated - 1)
        most = j->params.min_tokens - j->n_generated - 1;
    /* A recurrent state is copied at the end of a block, so no step goes past one. */
    int32_t to_block = BACKEND_BLOCK_TOKENS - 1 - j->n_computed % BACKEND_BLOCK_TOKENS;
    if (s->params.n_recurrent && most > to_block)
        most = to_block;
    return most;
}

/* How many drafted tokens the grammar allows, of the first `most`. A mask that is not known would
 * have to be made while others wait, so the draft ends before it unless nobody does. */
static int32_t cut_by_grammar(const struct scheduler *s, const struct job *j, int32_t most)
{
    const struct draft *d = &j->drafts.next;
    struct err e = {0};
    struct grammar_run *run = grammar_run_fork(j->grammar, &e);
    int32_t n = 0;
    while (run && n < most && grammar_run_push(run, d->ids[n], &e) && !grammar_run_must_end(run) &&
           (s->n_running == 1 || grammar_run_knows(run)))
        n++;
    grammar_run_destroy(&run);
    return n;
}

static void make_draft(struct scheduler *s, struct job *j)
{
    struct job_drafts *d = &j->drafts;
    struct err e = {0};
    const double start = clock_ms();
    const int32_t most = most_drafts(s, j);
    const struct draft_text text = {.tokens = j->tokens,
                                    .n_tokens = j->n_tokens,
                                    .n_prompt = j->params.n_prompt,
                                    .prediction = j->params.prediction,
                                    .n_prediction = j->params.n_prediction};
    if (most <= 0)
        return;
    if (!d->state && !(d->state = d->drafter->create(&e))) {
        d->drafter = NULL;
        return;
    }
    if (!d->drafter->draft(d->state, &text, most, &d->next)) {
        d->next.n = 0;
        speculation_end(d);
        d->drafter = NULL; /* no memory: the answer goes on without */
    }
    d->used.draft_ms += clock_ms() - start;
}

static void offer(const struct scheduler *s, const struct job *j, struct draft_offer *o)
{
    const struct job_drafts *d = &j->drafts;
    o->n = d->next.n;
    for (int32_t i = 0; i < o->n; i++)
        o->share[i] = draft_habit_share(&d->habit, &s->draft_habit, d->next.ground[i]);
}

static int32_t clamp(int32_t v, int32_t most)
{
    return v < most ? v : most;
}

/* The job's tokens are followed by the drafted ones, which do not count among them. */
static int32_t place(struct scheduler *s, struct job *j, int32_t n)
{
    const struct job_drafts *d = &j->drafts;
    if (j->grammar)
        n = cut_by_grammar(s, j, n);
    if (!n || !job_reserve_tokens(j, j->n_tokens + n) ||
        !admission_spare_blocks(s, j, j->n_tokens + n))
        return 0;
    for (int32_t i = 0; i < n; i++)
        j->tokens[j->n_tokens + i] = d->next.ids[i];
    return n;
}

void speculation_plan(struct scheduler *s, struct job *const *members, int32_t n, bool alone)
{
    struct draft_offer offers[MOST_DRAFTING];
    int32_t most = clamp(s->params.max_rows - BACKEND_BLOCK_TOKENS - n, DRAFT_ROWS_MAX);
    const bool forced = s->params.forced_drafts > 0;
    for (int32_t i = 0; i < n; i++)
        speculation_clear(&members[i]->drafts);
    if (n > MOST_DRAFTING)
        return;
    for (int32_t i = 0; i < n; i++) {
        struct job *j = members[i];
        if (j->drafts.drafter)
            make_draft(s, j);
        offer(s, j, &offers[i]);
        offers[i].taken = 0;
    }
    if (forced)
        for (int32_t i = 0; i < n; i++)
            offers[i].taken = clamp(offers[i].n, s->params.forced_drafts);
    else if (alone && most > 0)
        draft_choice_make(&s->draft_costs, n, offers, n, most);
    int32_t held = s->params.provisional_rows;
    for (int32_t i = 0; i < n; i++) {
        int32_t rows = clamp(offers[i].taken, most);
        if (s->params.n_recurrent)
            rows = clamp(rows, held - 1);
        rows = rows > 0 ? place(s, members[i], rows) : 0;
        members[i]->drafts.n_rows = rows;
        most -= rows;
        held -= rows ? rows + 1 : 0;
    }
}

bool speculation_note(struct scheduler *s, struct job *j, int32_t token)
{
    struct job_drafts *d = &j->drafts;
    struct engine_speculation *used = &d->used;
    const int32_t at = d->n_taken++;
    if (!at && d->n_rows) {
        used->steps++;
        used->drafted += d->n_rows;
        s->stats.drafted_tokens += (uint64_t)d->n_rows;
        s->stats.draft_steps++;
        used->prediction_rejected += d->next.predicted ? d->n_rows : 0;
        for (int32_t i = 0; i < d->n_rows; i++)
            used->drafted_at[i]++;
    }
    if (at >= d->next.n)
        return false;
    const bool right = d->next.ids[at] == token;
    draft_habit_note(&d->habit, d->next.ground[at], right);
    draft_habit_note(&s->draft_habit, d->next.ground[at], right);
    if (!right || at >= d->n_rows)
        return false;
    used->accepted++;
    used->accepted_at[at]++;
    s->stats.accepted_tokens++;
    used->prediction_accepted += d->next.predicted;
    used->prediction_rejected -= d->next.predicted;
    return true;
}

void speculation_drop(struct scheduler *s, int32_t member)
{
    struct job_drafts *d = &s->members[member]->drafts;
    s->sequences[member].n_tokens -= d->n_rows;
    s->sequences[member].n_out -= d->n_rows;
    d->n_rows = 0;
}

void speculation_note_step(struct scheduler *s, int32_t first, int32_t n, double ms)
{
    struct draft_step step = {.rows = n, .ms = ms};
    for (int32_t i = first; i < first + n; i++) {
        const struct job_drafts *d = &s->members[i]->drafts;
        step.drafted += d->n_rows;
        step.tokens += d->n_taken;
    }
    const double plain = draft_costs_ms(&s->draft_costs, n, 0);
    for (int32_t i = first; i < first + n && step.drafted && ms > plain; i++) {
        struct job_drafts *d = &s->members[i]->drafts;
        d->used.verify_ms += (ms - plain) * d->n_rows / step.drafted;
    }
    draft_costs_note(&s->draft_costs, &step);
}
