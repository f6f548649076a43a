/* speculation.h: drafts of the running answers, and what came of them. */
#include "engine/sched/speculation.h"

#include <stdio.h>

#include "engine/sched/drafting.h"
#include "engine/sched/scheduler_state.h"

void speculation_apply(enum engine_speculate asked, const struct backend_ops *ops,
                       const struct model_plan *plan, struct speculation_applied *out)
{
    *out = (struct speculation_applied){.applied = asked};
    if (asked == ENGINE_SPECULATE_OFF || backend_verifies(ops, plan->n_recurrent))
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
    const struct drafter *by[DRAFTERS_MAX];
    struct job_drafts *d = &j->drafts;
    d->n_made = drafter_list(wanted, j->grammar != NULL, s->params.draft_model, by);
    for (int32_t k = 0; k < d->n_made; k++)
        d->made[k].by = by[k];
    d->used.applied = d->n_made ? wanted : ENGINE_SPECULATE_OFF;
}

void speculation_clear(struct job_drafts *d)
{
    for (int32_t k = 0; k < d->n_made; k++)
        d->made[k].next.n = 0;
    d->n_rows = d->n_taken = 0;
}

void speculation_hand_hidden(struct scheduler *s, struct job *j, struct step_sequence *q)
{
    for (int32_t k = 0; k < j->drafts.n_made; k++) {
        struct made_draft *m = &j->drafts.made[k];
        const int32_t end = q->start + q->n_tokens;
        const int32_t first = j->n_tokens - DRAFT_HIDDEN_MOST; /* the text's end is enough */
        const int32_t from = first > q->start ? first : q->start;
        if (!m->by->hidden || m->gone || from >= end || !drafting_state(s, m))
            continue;
        q->n_hidden = end - from;
        q->hidden = m->by->hidden(m->state, from, q->n_hidden);
    }
}

static void end_states(struct job_drafts *d, bool seated)
{
    for (int32_t k = 0; k < d->n_made; k++)
        if (d->made[k].state && (!seated || d->made[k].by->seated)) {
            d->made[k].by->destroy(d->made[k].state);
            d->made[k].state = NULL;
        }
}

void speculation_leave(struct job_drafts *d)
{
    end_states(d, true);
}

void speculation_end(struct job_drafts *d)
{
    end_states(d, false);
}

/* How many drafted tokens the grammar allows, of the first `most`. A mask that is not known would
 * have to be made while others wait, so the draft ends before it unless nobody does. */
static int32_t cut_by_grammar(const struct scheduler *s, const struct job *j, int32_t most)
{
    const struct draft *d = drafts_chosen(&j->drafts);
    struct err e = {0};
    struct grammar_run *run = grammar_run_fork(j->grammar, &e);
    int32_t n = 0;
    while (run && n < most && grammar_run_push(run, d->ids[n], &e) && !grammar_run_must_end(run) &&
           (s->n_running == 1 || grammar_run_knows(run)))
        n++;
    grammar_run_destroy(&run);
    return n;
}

void speculation_offer(const struct scheduler *s, const struct job *j, const struct draft *d,
                       struct draft_offer *o)
{
    o->n = d->n;
    for (int32_t i = 0; i < o->n; i++)
        o->share[i] = draft_habit_share(&j->drafts.habit, &s->draft_habit, d->ground[i]);
}

bool speculation_may_remember(const struct job *j)
{
    return j->params.cache_keep_seconds >= 0;
}

void speculation_remember(struct scheduler *s, const struct job *j)
{
    const struct draft_text text = drafting_text(s, j);
    const int32_t at = j->n_indexed * BACKEND_BLOCK_TOKENS;
    /* A block of nothing but prompt may be other texts' too, and stay when this one is deleted. */
    if (s->recall && speculation_may_remember(j) && at > j->params.n_prompt)
        recall_end(s->recall, &text, at, j->blocks[j->n_indexed - 1]);
}

static int32_t clamp(int32_t v, int32_t most)
{
    return v < most ? v : most;
}

/* The job's tokens are followed by the drafted ones, which do not count among them. */
static int32_t place(struct scheduler *s, struct job *j, int32_t n)
{
    const struct draft *d = drafts_chosen(&j->drafts);
    if (j->grammar)
        n = cut_by_grammar(s, j, n);
    if (!n || !job_reserve_tokens(j, j->n_tokens + n) ||
        !admission_spare_blocks(s, j, j->n_tokens + n))
        return 0;
    for (int32_t i = 0; i < n; i++)
        j->tokens[j->n_tokens + i] = d->ids[i];
    return n;
}

void speculation_plan(struct scheduler *s, struct job *const *members, int32_t n, bool alone)
{
    struct draft_offer offers[DRAFT_JOBS_MAX];
    int32_t most = clamp(s->params.max_rows - BACKEND_BLOCK_TOKENS - n, DRAFT_ROWS_MAX);
    const bool forced = s->params.forced_drafts > 0;
    s->drafting_ms = s->drafts_late_ms = s->free_drafts_ms = 0;
    for (int32_t i = 0; i < n; i++)
        speculation_clear(&members[i]->drafts);
    if (!n || n > DRAFT_JOBS_MAX)
        return;
    drafting_make(s, members, n, alone);
    for (int32_t i = 0; i < n; i++) {
        speculation_offer(s, members[i], drafts_chosen(&members[i]->drafts), &offers[i]);
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

/* Every drafter learns from what came, whose draft was verified or not. */
static void learn(struct scheduler *s, struct job_drafts *d, int32_t at, int32_t token)
{
    for (int32_t k = 0; k < d->n_made; k++) {
        struct made_draft *m = &d->made[k];
        if (!m->fits || at >= m->next.n)
            continue;
        m->fits = m->next.ids[at] == token;
        draft_habit_note(&d->habit, m->next.ground[at], m->fits);
        draft_habit_note(&s->draft_habit, m->next.ground[at], m->fits);
    }
}

bool speculation_note(struct scheduler *s, struct job *j, int32_t token)
{
    struct job_drafts *d = &j->drafts;
    const struct draft *next = drafts_chosen(d);
    struct engine_speculation *used = &d->used;
    const int32_t at = d->n_taken++;
    if (!at && d->n_rows) {
        used->steps++;
        used->drafted += d->n_rows;
        s->stats.drafted_tokens += (uint64_t)d->n_rows;
        s->stats.draft_steps++;
        used->prediction_rejected += next->predicted ? d->n_rows : 0;
        for (int32_t i = 0; i < d->n_rows; i++)
            used->drafted_at[i]++;
    }
    learn(s, d, at, token);
    if (at >= d->n_rows || next->ids[at] != token)
        return false;
    used->accepted++;
    used->accepted_at[at]++;
    s->stats.accepted_tokens++;
    used->prediction_accepted += next->predicted;
    used->prediction_rejected -= next->predicted;
    return true;
}

void speculation_drop(struct scheduler *s, int32_t member)
{
    struct job_drafts *d = &s->members[member]->drafts;
    s->sequences[member].n_tokens -= d->n_rows;
    s->sequences[member].n_out -= d->n_rows;
    s->sequences[member].n_hidden -= s->sequences[member].hidden ? d->n_rows : 0;
    d->n_rows = 0;
}

void speculation_note_step(struct scheduler *s, int32_t first, int32_t n, double ms)
{
    struct draft_step step = {.rows = n,
                              .ms = ms,
                              .draft_ms = s->drafting_ms,
                              .draft_late_ms = s->drafts_late_ms,
                              .free_ms = s->free_drafts_ms};
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
