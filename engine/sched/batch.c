/* Builds a step from the running jobs, runs it, and turns its rows into tokens and events. */
#include <assert.h>

#include "engine/base/clock.h"
#include "engine/sched/scheduler_state.h"

/* The weight of an output token in the fair shares; a prompt token weighs 1. 2 is the value of VTC
 * (Sheng et al., OSDI 2024; see fair_queue.h). */
#define DECODE_COST 2.0

static bool normal_runs(const struct scheduler *s)
{
    for (int32_t i = 0; i < s->n_running; i++)
        if (!s->running[i]->params.priority)
            return true;
    return false;
}

/* `drafts` tokens follow the job's own ones. */
static void add_member(struct scheduler *s, struct job *j, int32_t n_tokens, int32_t drafts)
{
    bool last = j->n_computed + n_tokens == j->n_tokens;
    bool sample = last && j->params.max_tokens > 0;
    int32_t scored = j->state == JOB_PREFILL ? prompt_scores_rows(j, n_tokens) : 0;
    s->scored_rows += scored;
    token_rules_set_answer(&j->rules, j->tokens + j->params.n_prompt,
                           j->n_tokens - j->params.n_prompt);
    s->members[s->n_members] = j;
    s->sequences[s->n_members++] = (struct step_sequence){
        .tokens = j->tokens + j->n_computed,
        .n_tokens = n_tokens + drafts,
        .start = j->n_computed,
        .blocks = j->blocks,
        .state = s->params.n_recurrent ? j->slot : -1,
        .n_out = scored   ? scored
                 : sample ? 1 + drafts
                          : 0,
        .n_experts = j->n_experts,
        .provisional = drafts && s->params.n_recurrent,
        .want_logits = scored || (sample && (j->grammar || sampler_wants_logits(j->sampler))),
    };
    speculation_hand_hidden(s, j, &s->sequences[s->n_members - 1]);
    if (j->state == JOB_DECODE)
        s->decode_rows += n_tokens + drafts;
    if (j->times.first_row <= 0)
        j->times.first_row = clock_ms();
}

static bool may_run(const struct job *j, bool background)
{
    return background || !j->params.priority;
}

/* Will it take a token that its grammar has a say in, if it is in this step? */
static bool wants_mask(const struct scheduler *s, const struct job *j)
{
    return j->grammar &&
           (j->state == JOB_DECODE || j->n_tokens - j->n_computed <= s->params.prefill_chunk);
}

/* A mask that takes long would make everyone wait: it is made beside the steps, and its job sits
 * out until it is there. */
static void prepare_masks(struct scheduler *s, bool background)
{
    grammar_pass_begin(s->grammars, s->n_running == 1);
    for (int32_t i = 0; i < s->n_running; i++)
        if (may_run(s->running[i], background) && wants_mask(s, s->running[i]))
            grammar_run_prepare(s->running[i]->grammar);
    grammar_pass_end(s->grammars);
    s->n_held = 0;
    for (int32_t i = 0; i < s->n_running; i++) {
        struct job *j = s->running[i];
        j->held = may_run(j, background) && wants_mask(s, j) && !grammar_run_ready(j->grammar);
        s->n_held += j->held;
    }
    s->stats.grammar_waits += (uint64_t)s->n_held;
}

static void add_decodes(struct scheduler *s, bool background)
{
    /* Blocks come first: getting them may preempt jobs anywhere in the list. Rows are added
     * afterwards. */
    for (int32_t i = 0; i < s->n_running;) {
        struct job *j = s->running[i];
        if (j->state == JOB_DECODE && may_run(j, background) && !j->held)
            admission_ensure_blocks(s, j, j->n_tokens);
        for (i = 0; i < s->n_running && s->running[i]->admission <= j->admission; i++)
            ;
    }
    int32_t n = 0;
    bool alone = true;
    for (int32_t i = 0; i < s->n_running; i++) {
        struct job *j = s->running[i];
        if (j->state == JOB_DECODE && may_run(j, background) && !j->held)
            s->members[n++] = j;
        alone = alone && j->state != JOB_PREFILL;
    }
    speculation_plan(s, s->members, n, alone);
    for (int32_t i = 0; i < n; i++)
        add_member(s, s->members[i], 1, s->members[i]->drafts.n_rows);
}

/* The prefilling job whose user was served least; among equals the one admitted first. NULL: none
 * is left. */
static struct job *next_prefill(const struct scheduler *s, bool background)
{
    struct job *best = NULL;
    double least = 0;
    for (int32_t i = 0; i < s->n_running; i++) {
        struct job *j = s->running[i];
        if (j->state != JOB_PREFILL || !may_run(j, background) || j->held)
            continue;
        if (s->scored_rows == PROMPT_SCORE_ROWS && prompt_scores_wanted(j))
            continue; /* the next step scores it */
        bool taken = false;
        for (int32_t k = 0; k < s->n_members && !taken; k++)
            taken = s->members[k] == j;
        double served = fair_queue_served(s->queue, j);
        if (!taken && (!best || served < least)) {
            best = j;
            least = served;
        }
    }
    return best;
}

static int32_t prefill_rows(const struct scheduler *s)
{
    int32_t rows = s->params.max_rows - s->decode_rows;
    if (rows > s->params.prefill_chunk)
        rows = s->params.prefill_chunk;
    int32_t most = prefill_budget_rows(&s->prefill_budget, s->decode_rows > 0);
    if (most < rows)
        rows = most;
    int32_t least = s->decode_rows ? PREFILL_BUDGET_MIN_ROWS : BACKEND_BLOCK_TOKENS;
    return rows > least ? rows : least;
}

static void add_prefills(struct scheduler *s, bool background)
{
    int32_t budget = prefill_rows(s);
    struct job *j;
    while (budget > 0 && (j = next_prefill(s, background)) != NULL) {
        int32_t rest = j->n_tokens - j->n_computed, most = budget;
        if (prompt_scores_wanted(j) && most > PROMPT_SCORE_ROWS - s->scored_rows)
            most = PROMPT_SCORE_ROWS - s->scored_rows;
        int32_t n = rest;
        if (rest > most) { /* a chunk ends on a block boundary if it can: the next one then starts
                              with whole tiles */
            n = (j->n_computed + most) / BACKEND_BLOCK_TOKENS * BACKEND_BLOCK_TOKENS -
                j->n_computed;
            n = n > 0 ? n : most;
        }
        int32_t stop = admission_next_checkpoint(j);
        if (stop && n > stop - j->n_computed)
            n = stop - j->n_computed;
        speculation_clear(&j->drafts);
        add_member(s, j, n, 0);
        budget -= n;
    }
}

void batch_build(struct scheduler *s)
{
    bool background = !normal_runs(s);
    s->n_members = s->decode_rows = s->scored_rows = 0;
    prepare_masks(s, background);
    add_decodes(s, background);
    add_prefills(s, background);
}

static bool is_eos(const struct scheduler *s, const struct job *j, int32_t id)
{
    /* The end of a grammar ends the answer even where the job ignores end-of-sequence tokens. */
    for (int32_t i = 0; (j->grammar || !j->params.ignore_eos) && i < s->params.n_eos; i++)
        if (s->params.eos[i] == id)
            return true;
    return false;
}

static void record_token(struct scheduler *s, struct job *j, double now)
{
    struct job_times *t = &j->times;
    j->n_generated++;
    s->stats.completion_tokens++;
    if (t->first_token <= 0) {
        t->first_token = now;
        status_histogram_add(&s->stats.time_to_first_token, (now - t->submitted) * 1e-3);
    } else {
        status_histogram_add(&s->stats.time_per_output_token, (now - t->last_token) * 1e-3);
    }
    t->last_token = now;
}

/* The token's text for the readers, in s->text; the index of the stop string that it completes, or
 * -1. `sent`: it is part of the answer; `over`: it is the last one. */
static int32_t append_text(struct scheduler *s, struct job *j, int32_t id, bool sent, bool over)
{
    int32_t met = -1;
    j->output.ignore_stops = j->n_generated <= j->params.min_tokens;
    if (sent)
        met = text_output_push(&j->output, id, &s->text);
    if (met < 0 && over)
        met = text_output_flush(&j->output, &s->text);
    if (met >= 0 && j->params.keep_stop)
        buf_puts(&s->text, j->params.stop[met]);
    return met;
}

/* One sampled token: to text, to the readers, and to the end of the job if it is one. The token
 * that ends the answer by being an end-of-sequence is counted but not sent, one of stop_ids only
 * where it is to be kept. */
static void accept_token(struct scheduler *s, struct job *j, const struct engine_token *token,
                         double now)
{
    struct engine_event ev = {.type = ENGINE_TOKENS, .job = j->id, .tokens = token, .n_tokens = 1};
    bool eos = is_eos(s, j, token->id), stops = token_rules_stops(&j->params, token->id);
    buf_clear(&s->text);
    record_token(s, j, now);
    ev.decode_ms = job_decode_ms(j);
    bool full = j->n_generated >= j->params.max_tokens;
    bool over = eos || stops || (j->grammar && grammar_run_must_end(j->grammar));
    if (eos || (stops && !j->params.keep_stop))
        ev.n_tokens = 0;
    int32_t met = append_text(s, j, token->id, ev.n_tokens > 0, over || full);
    ev.text = s->text.data;
    ev.text_len = s->text.len;
    struct err e = {0};
    if (s->text.failed || !job_push_token(j, token->id)) {
        err_set(&e, ERR_NOMEM, "no memory for the answer");
        scheduler_fail_job(s, j, &e);
    } else if ((ev.n_tokens || ev.text_len) && !scheduler_emit(s, j, &ev)) {
        err_set(&e, ERR_LIMIT, "the answer's events are not read: more than %zu MiB are waiting",
                j->log.limit >> 20);
        scheduler_fail_job(s, j, &e);
    } else if (met >= 0) {
        scheduler_finish_job(s, j, ENGINE_STOP_STRING, j->params.stop[met]);
    } else if (over) {
        scheduler_finish_job(s, j, ENGINE_STOP_EOS, NULL);
    } else if (full) {
        scheduler_finish_job(s, j, ENGINE_LENGTH, NULL);
    } else {
        j->state = JOB_DECODE;
    }
}

static bool at_checkpoint(const struct job *j)
{
    return j->n_computed == j->branch_at || j->n_computed == j->prompt_end_at;
}

/* Picks among the tokens that the job's grammar allows, if it has one. */
static bool pick_token(struct scheduler *s, struct job *j, struct sampler_input in,
                       struct engine_token *token, struct err *e)
{
    struct grammar_mask allowed;
    if (j->grammar && !grammar_run_mask(j->grammar, &allowed, e))
        return false;
    in.top_logprobs = j->params.top_logprobs;
    in.allowed = j->grammar ? &allowed : NULL;
    token_rules_set_answer(&j->rules, j->tokens + j->params.n_prompt,
                           j->n_tokens - j->params.n_prompt);
    sampler_pick(j->sampler, s->work, &in, token);
    return !j->grammar || grammar_run_push(j->grammar, token->id, e);
}

/* `n` more tokens of the job were computed: their KV exists. */
static void note_computed(struct scheduler *s, struct job *j, int32_t n)
{
    const bool prefill = j->state == JOB_PREFILL;
    const double cost = prefill ? 1 : DECODE_COST;
    admission_index_blocks(s, j);
    if (s->checkpoints && j->n_computed % BACKEND_BLOCK_TOKENS == 0 &&
        (!prefill || at_checkpoint(j)))
        admission_save_checkpoint(s, j);
    fair_queue_charge(s->queue, j, n * cost);
    slot_turn_note(&j->turn, j->n_computed, cost);
}

/* False: the job ended. */
static bool take_token(struct scheduler *s, struct job *j, struct sampler_input in,
                       struct engine_token *token, double now)
{
    struct err e = {0};
    if (pick_token(s, j, in, token, &e)) {
        j->drafts.goes_on = speculation_note(s, j, token->id);
        accept_token(s, j, token, now);
    } else {
        scheduler_fail_job(s, j, &e);
    }
    return j->state != JOB_OVER;
}

/* The recurrent state of a member with drafts goes on by its first rows. */
static bool keep_rows(struct scheduler *s, int32_t member, int32_t rows)
{
    struct err e = {0};
    if (!s->sequences[member].provisional)
        return true;
    s->sequences[member].provisional = false; /* once */
    if (s->params.ops->keep_rows(s->params.backend, member, rows, &e))
        return true;
    scheduler_fail_job(s, s->members[member], &e);
    return false;
}

/* Takes a token from each row of a decoding member, as long as it is the one that the next row was
 * computed for. The other rows leave nothing behind: their KV is written again before it is read.
 */
static void handle_decode(struct scheduler *s, int32_t member, const struct step_row *rows,
                          int32_t n_top, double now)
{
    struct job *j = s->members[member];
    struct engine_token token;
    int32_t n = 0;
    do {
        j->n_computed++;
        /* its state is copied at the end of a block, behind which no draft reaches */
        if (j->n_computed % BACKEND_BLOCK_TOKENS == 0 && !keep_rows(s, member, n + 1))
            return;
        note_computed(s, j, 1);
        if (!take_token(s, j, (struct sampler_input){.row = &rows[n++], .n_top = n_top}, &token,
                        now))
            return;
    } while (j->drafts.goes_on);
    keep_rows(s, member, n);
}

/* The last row may give the answer's first token. */
static void handle_prefill(struct scheduler *s, int32_t member, const struct step_row *rows,
                           int32_t n_top, double now)
{
    struct job *j = s->members[member];
    const struct step_sequence *q = &s->sequences[member];
    struct engine_token token;
    j->n_computed += q->n_tokens;
    note_computed(s, j, q->n_tokens);
    if (!j->n_generated)
        scheduler_emit_progress(s, j);
    if (q->n_out)
        prompt_scores_take(s, j, q, rows, n_top);
    if (j->state == JOB_OVER || j->n_computed < j->n_tokens)
        return;
    if (q->n_out && j->params.max_tokens > 0) {
        take_token(s, j, (struct sampler_input){.row = &rows[q->n_out - 1], .n_top = n_top}, &token,
                   now);
    } else { /* max_tokens 0: only the prompt was to be read */
        j->times.first_token = j->times.last_token = now;
        scheduler_finish_job(s, j, ENGINE_LENGTH, NULL);
    }
}

/* The result takes only a few values, because a device may keep a recorded step for each. */
static int32_t candidates_wanted(const struct scheduler *s)
{
    int32_t n = 1;
    for (int32_t i = 0; i < s->n_members; i++) {
        const struct job *j = s->members[i];
        int32_t own = s->sequences[i].n_out ? sampler_n_top(j->sampler, j->params.top_logprobs) : 1;
        if (s->sequences[i].n_out && j->state == JOB_PREFILL && j->params.prompt_scores - 1 > own)
            own = j->params.prompt_scores - 1;
        if (own > n)
            n = own;
    }
    n = n <= 1 ? 1 : n <= 32 ? 32 : BACKEND_MAX_TOP;
    return n < s->params.n_vocab ? n : s->params.n_vocab;
}

/* Members first .. first + n - 1. */
static bool run_members(struct scheduler *s, int32_t first, int32_t n, struct err *e)
{
    struct step step = {
        .sequences = s->sequences + first, .n_sequences = n, .n_top = candidates_wanted(s)};
    double start = clock_ms();
    bool ok = s->params.ops->step(s->params.backend, &step, s->rows, e);
    struct expert_stats totals;
    scheduler_count_experts(s, &totals);
    expert_stats_step(&s->expert_stats, &totals, s->members + first, step.sequences, n);
    if (!ok)
        return false;
    double now = clock_ms();
    int32_t prefill = 0, decoded = 0, n_rows = 0;
    for (int32_t i = first; i < first + n; i++)
        prefill += s->members[i]->state == JOB_PREFILL ? s->sequences[i].n_tokens : 0;
    prefill_budget_note(&s->prefill_budget,
                        &(struct prefill_budget_step){.ms = now - start,
                                                      .waited_ms = s->expert_stats.waited_ms,
                                                      .reading_ms = s->expert_stats.reading_ms,
                                                      .prefill_rows = prefill});
    for (int32_t i = first; i < first + n; i++) {
        const bool decodes = s->members[i]->state == JOB_DECODE;
        (decodes ? handle_decode : handle_prefill)(s, i, &s->rows[n_rows], step.n_top, now);
        decoded += decodes ? s->members[i]->drafts.n_taken : 0;
        n_rows += s->sequences[i].n_out;
    }
    stats_step(&s->stats, (now - start) * 1e-3, prefill, decoded);
    if (!prefill)
        speculation_note_step(s, first, n, now - start);
    return true;
}

/* Runs each sequence of a failed step alone and without drafts, so that only those that need the
 * unreadable expert fail. Their KV is written again. Recurrent models cannot do this: their state
 * has already advanced. */
static bool run_each(struct scheduler *s, struct err *e)
{
    for (int32_t i = 0; i < s->n_members; i++) {
        struct err own = {0};
        speculation_drop(s, i);
        if (run_members(s, i, 1, &own))
            continue;
        if (own.code == ERR_DEVICE) {
            *e = own;
            return false;
        }
        scheduler_fail_job(s, s->members[i], &own);
    }
    return true;
}

bool batch_run(struct scheduler *s, struct err *e)
{
    if (run_members(s, 0, s->n_members, e))
        return true;
    return e->code == ERR_IO && (s->n_members > 1 || s->members[0]->drafts.n_rows) &&
           !s->params.n_recurrent && run_each(s, e);
}
