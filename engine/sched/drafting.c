/* drafting.h: who is asked for a draft, and whose is taken. */
#include "engine/sched/drafting.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/draft/draft_model.h"
#include "engine/sched/policy/draft_worth.h"
#include "engine/sched/scheduler_state.h"

#define FEW_STEPS 16 /* in which an answer that has just begun is expected to go on at least */

/* Which token the job would take if a row of the draft model's were its own model's. */
struct foresight {
    struct scheduler *s;
    const struct job *j;
    struct grammar_run *run; /* NULL: no grammar; otherwise it stands behind the draft */
    bool ended;              /* by a token that ends answers */
};

struct round { /* of asking a draft model */
    struct draft_ask asks[DRAFT_SEATS];
    struct foresight sights[DRAFT_SEATS];
    struct job *jobs[DRAFT_SEATS];
    struct made_draft *made[DRAFT_SEATS];
    double shares[DRAFT_SEATS][DRAFT_GROUND__N];
    int32_t n;
    bool tried;
};

int32_t drafting_most(const struct scheduler *s, const struct job *j)
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

struct draft_text drafting_text(const struct scheduler *s, const struct job *j)
{
    return (struct draft_text){.tokens = j->tokens,
                               .n_tokens = j->n_tokens,
                               .n_prompt = j->params.n_prompt,
                               .prediction = j->params.prediction,
                               .n_prediction = j->params.n_prediction,
                               .scope = j->params.scope,
                               .recall = s->recall};
}

bool drafting_state(struct scheduler *s, struct made_draft *m)
{
    struct err e = {0};
    if (!m->state)
        m->state = m->by->create(s->params.draft_model, &e);
    if (!m->state && e.code != ERR_LIMIT)
        m->gone = true;
    return m->state != NULL;
}

/* After a call: the draft, or the end of the drafter for this job. */
static void take_draft(struct made_draft *m, const struct draft_ask *ask)
{
    m->next = ask->out;
    m->fits = true;
    if (!ask->failed)
        return;
    m->next.n = 0;
    m->by->destroy(m->state);
    m->state = NULL;
    m->gone = true; /* the answer goes on without */
}

static void fill_shares(const struct scheduler *s, const struct job *j,
                        double share[DRAFT_GROUND__N])
{
    for (int g = 0; g < DRAFT_GROUND__N; g++)
        share[g] = draft_habit_share(&j->drafts.habit, &s->draft_habit, (enum draft_ground)g);
}

/* What the best draft that is there would win. */
static double won_already(const struct scheduler *s, const struct job *j, int32_t rows)
{
    double best = 0;
    for (int32_t k = 0; k < j->drafts.n_made; k++) {
        struct draft_offer o;
        speculation_offer(s, j, &j->drafts.made[k].next, &o);
        const double ms = draft_offer_ms(&s->draft_costs, rows, &o);
        best = ms > best ? ms : best;
    }
    return best;
}

/* The tokens that may follow the draft. False: none, or they are not known and would have to be
 * made while others wait. */
static bool may_follow(const struct foresight *f, struct grammar_mask *allowed)
{
    struct err e = {0};
    return !grammar_run_must_end(f->run) && (f->s->n_running == 1 || grammar_run_knows(f->run)) &&
           grammar_run_mask(f->run, allowed, &e);
}

static bool see(void *context, const struct step_row *row, int32_t n_top, int32_t ahead,
                struct engine_token *out)
{
    struct foresight *f = context;
    struct grammar_mask allowed;
    struct err e = {0};
    if (f->ended || (f->run && !may_follow(f, &allowed)))
        return false;
    sampler_foresee(
        f->j->sampler, f->s->work,
        &(struct sampler_input){
            .row = row, .n_top = n_top, .top_logprobs = -1, .allowed = f->run ? &allowed : NULL},
        ahead, out);
    for (int32_t i = 0; i < f->s->params.n_eos; i++)
        f->ended = f->ended || f->s->params.eos[i] == out->id;
    return !f->run || grammar_run_push(f->run, out->id, &e);
}

/* The longest of the tokens, if all others are its beginnings; -1: they part. */
static int32_t longest_of(const struct vocab *v, const struct grammar_mask *m)
{
    size_t most = 0, len;
    int32_t longest = -1;
    for (int32_t i = 0; i < m->n; i++)
        if (vocab_bytes(v, m->list[i], &len) && len > most) {
            most = len;
            longest = m->list[i];
        }
    const char *whole = longest < 0 ? NULL : vocab_bytes(v, longest, &most);
    for (int32_t i = 0; i < m->n && whole; i++) {
        const char *bytes = vocab_bytes(v, m->list[i], &len);
        if (!bytes || memcmp(bytes, whole, len) != 0)
            return -1;
    }
    return longest;
}

static bool force(void *context, int32_t *id, bool *only)
{
    struct foresight *f = context;
    struct grammar_mask allowed;
    struct err e = {0};
    if (!may_follow(f, &allowed) || !allowed.list)
        return false;
    *only = allowed.n == 1;
    *id = longest_of(f->s->params.vocab, &allowed);
    return *id >= 0 && grammar_run_push(f->run, *id, &e);
}

/* False: no memory. */
static bool look_ahead(struct scheduler *s, struct job *j, struct foresight *f,
                       struct draft_picker *out)
{
    struct err e = {0};
    *f = (struct foresight){.s = s, .j = j};
    if (j->grammar && !(f->run = grammar_run_fork(j->grammar, &e)))
        return false;
    token_rules_set_answer(&j->rules, j->tokens + j->params.n_prompt,
                           j->n_tokens - j->params.n_prompt);
    *out = (struct draft_picker){.pick = see,
                                 .forced = j->grammar ? force : NULL,
                                 .context = f,
                                 .n_top = sampler_n_top(j->sampler, -1),
                                 .want_logits = j->grammar || sampler_wants_logits(j->sampler)};
    return true;
}

static void ask_freely(struct scheduler *s, struct job *j, struct made_draft *m, int32_t most)
{
    struct draft_ask ask = {.state = m->state, .text = drafting_text(s, j), .most = most};
    struct foresight f = {0};
    if (!m->by->foresees || look_ahead(s, j, &f, &ask.picker))
        m->by->draft(s->params.draft_model, &ask, 1);
    take_draft(m, &ask);
    grammar_run_destroy(&f.run);
}

/* Of drafters without a price. */
static void make_free_drafts(struct scheduler *s, struct job *j, int32_t rows)
{
    const double start = clock_ms();
    const int32_t most = drafting_most(s, j);
    const bool due = s->params.forced_drafts || draft_look_due(j->drafts.n_idle, rows);
    for (int32_t k = 0; k < j->drafts.n_made && most > 0 && due; k++) {
        struct made_draft *m = &j->drafts.made[k];
        if (!m->by->price && !m->gone && drafting_state(s, m))
            ask_freely(s, j, m, most);
    }
    j->drafts.used.draft_ms += clock_ms() - start;
}

/* How many steps the answer may go on. */
static double expected_steps(const struct job *j)
{
    const int32_t left = j->params.max_tokens - j->n_generated;
    const int32_t as_long = j->n_generated < FEW_STEPS ? FEW_STEPS : j->n_generated;
    return left < as_long ? left : as_long;
}

/* Sets how far the draft model is to go. False: it is not to be asked. */
static bool is_worth_it(struct scheduler *s, struct job *j, const struct made_draft *m,
                        int32_t rows, struct round *r, struct draft_ask *ask)
{
    if (s->params.forced_drafts) {
        ask->most = ask->most < s->params.forced_drafts ? ask->most : s->params.forced_drafts;
        ask->least = 0;
        return true;
    }
    struct draft_price price = m->by->price(s->params.draft_model, m->state, &ask->text);
    if (!price.most || price.most > ask->most)
        price.most = ask->most;
    const struct draft_worth w = draft_worth_of(&j->drafts.habit, &s->draft_habit, &s->draft_costs,
                                                rows, expected_steps(j), &price);
    if (w.ms > 0) {
        draft_trials_won(&s->draft_trials);
        ask->least = w.least;
        return w.ms > won_already(s, j, rows);
    }
    if (r->tried || !draft_trials_take(&s->draft_trials, &s->draft_costs, rows, &price))
        return false;
    r->tried = true;
    ask->most = 1;
    return true;
}

static void join(struct scheduler *s, struct job *j, struct made_draft *m, int32_t rows,
                 struct round *r)
{
    struct draft_ask *ask = &r->asks[r->n];
    *ask = (struct draft_ask){.text = drafting_text(s, j), .most = drafting_most(s, j)};
    if (ask->most <= 0 || !is_worth_it(s, j, m, rows, r, ask) || !drafting_state(s, m) ||
        !look_ahead(s, j, &r->sights[r->n], &ask->picker))
        return;
    fill_shares(s, j, r->shares[r->n]);
    ask->state = m->state;
    ask->share = r->shares[r->n];
    r->jobs[r->n] = j;
    r->made[r->n++] = m;
}

static void ask_model(struct scheduler *s, struct job *const *members, int32_t n)
{
    struct round r;
    r.n = 0;
    r.tried = false;
    if (!s->params.forced_drafts && !draft_costs_may_try(&s->draft_costs, n))
        return;
    for (int32_t i = 0; i < n && r.n < DRAFT_SEATS; i++)
        for (int32_t k = 0; k < members[i]->drafts.n_made && r.n < DRAFT_SEATS; k++) {
            struct made_draft *m = &members[i]->drafts.made[k];
            if (m->by->price && !m->gone)
                join(s, members[i], m, n, &r);
        }
    if (!r.n)
        return;
    const double start = clock_ms();
    r.made[0]->by->draft(s->params.draft_model, r.asks, r.n);
    const double each = (clock_ms() - start) / r.n;
    for (int32_t i = 0; i < r.n; i++) {
        take_draft(r.made[i], &r.asks[i]);
        r.jobs[i]->drafts.used.draft_ms += each;
        grammar_run_destroy(&r.sights[i].run);
    }
}

static void choose(const struct scheduler *s, struct job *j, int32_t rows)
{
    struct job_drafts *d = &j->drafts;
    double best = -1;
    d->chosen = 0;
    for (int32_t k = 0; k < d->n_made; k++) {
        struct draft_offer o;
        speculation_offer(s, j, &d->made[k].next, &o);
        const double ms =
            s->params.forced_drafts ? o.n > 0 : draft_offer_ms(&s->draft_costs, rows, &o);
        if (o.n && ms > best) {
            best = ms;
            d->chosen = k;
        }
    }
    d->n_idle = best > 0 ? 0 : d->n_idle + 1;
}

void drafting_make(struct scheduler *s, struct job *const *members, int32_t n, bool alone)
{
    const double start = clock_ms();
    for (int32_t i = 0; i < n; i++)
        make_free_drafts(s, members[i], n);
    const double asked = clock_ms();
    s->free_drafts_ms = asked - start;
    if (s->params.draft_model && (alone || s->params.forced_drafts)) {
        const double late = draft_model_counts(s->params.draft_model).late_ms;
        ask_model(s, members, n);
        s->drafts_late_ms = draft_model_counts(s->params.draft_model).late_ms - late;
    }
    for (int32_t i = 0; i < n; i++)
        choose(s, members[i], n);
    s->drafting_ms = clock_ms() - asked - s->drafts_late_ms;
}
