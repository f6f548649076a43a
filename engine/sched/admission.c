/* Decides which waiting jobs get a slot and KV blocks, and which running job is preempted when
 * blocks run out. */
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "sched"
#include "engine/base/log.h"
#include "engine/sched/drafting.h"
#include "engine/sched/scheduler_state.h"

/* A preempted job is readmitted only when this many blocks would stay free, so that it is not
 * preempted again at once. */
#define PREEMPTED_RESERVE 4

static int32_t available(const struct scheduler *s)
{
    struct block_counts c = block_pool_counts(s->pool);
    return c.free + c.idle;
}

static void give_blocks(struct scheduler *s, struct job *j)
{
    while (j->n_blocks)
        block_pool_give(s->pool, j->blocks[--j->n_blocks]);
    j->n_indexed = 0;
    j->n_computed = 0;
    j->rolling_block = -1;
}

void admission_release(struct scheduler *s, struct job *j)
{
    int32_t at = 0;
    prompt_disk_cancel(j);
    speculation_leave(&j->drafts);
    give_blocks(s, j);
    s->free_slots[s->n_free_slots++] = j->slot;
    j->slot = -1;
    while (s->running[at] != j)
        at++;
    s->n_running--;
    memmove(&s->running[at], &s->running[at + 1], (size_t)(s->n_running - at) * sizeof *s->running);
    s->blocked_id = 0;
}

static bool queue_job(struct scheduler *s, struct job *j, bool front)
{
    if (!fair_queue_push(s->queue, j, front))
        return false;
    slot_turn_wait(&j->turn, s->n_rounds, ++s->n_waits);
    j->state = JOB_WAITING;
    atomic_store(&j->queued, true);
    return true;
}

bool admission_queue(struct scheduler *s, struct job *j)
{
    return queue_job(s, j, false);
}

void admission_unqueue(struct scheduler *s, struct job *j)
{
    fair_queue_remove(s->queue, j);
    atomic_store(&j->queued, false);
    if (s->favoured == j)
        s->favoured = NULL;
}

/* Its sampler, grammar and text output stay as they are, so it goes on as if never interrupted. */
static void preempt_job(struct scheduler *s, struct job *j)
{
    log_debug("job=%llu preempted tokens=%d", (unsigned long long)j->id, j->n_tokens);
    prompt_disk_save(s, j); /* whoever needs its blocks may have them before it is back */
    admission_release(s, j);
    j->preempted = true;
    j->times.paused = clock_ms();
    s->n_preempted++;
    /* The user is still registered as running, so this push needs no memory. */
    queue_job(s, j, true);
    fair_queue_leave(s->queue, j);
}

/* The job to preempt first: background before normal, then one of the user with the most running
 * jobs, then the one admitted last. It is the oldest of all only if it runs alone: a user with two
 * jobs loses the later one. */
static struct job *preemption_victim(const struct scheduler *s)
{
    struct job *worst = NULL;
    int32_t most = 0;
    for (int32_t i = 0; i < s->n_running; i++) { /* in order of admission: later ones replace */
        struct job *j = s->running[i];
        int32_t running = fair_queue_running(s->queue, j);
        if (worst && j->params.priority < worst->params.priority)
            continue;
        if (worst && j->params.priority == worst->params.priority && running < most)
            continue;
        worst = j;
        most = running;
    }
    return worst;
}

/* The job to preempt so that `waiter`, of another user, gets its share; NULL: none now. */
static struct job *turn_victim(const struct scheduler *s, const struct job *waiter)
{
    struct job *victim = NULL;
    int32_t holds = fair_queue_running(s->queue, waiter), most = holds;
    for (int32_t i = 0; i < s->n_running; i++) { /* in order of admission */
        struct job *j = s->running[i];
        int32_t running = fair_queue_running(s->queue, j);
        bool in_turn = running == holds + 1;
        if (j->params.user == waiter->params.user || running <= holds || running < most ||
            j->params.priority != waiter->params.priority)
            continue;
        if (in_turn && !slot_turn_due(&waiter->turn, s->n_rounds, waiter->preempted, holds))
            continue;
        if (!slot_turn_over(&j->turn, running - holds) || (in_turn && victim && running == most))
            continue; /* in turn the first of equals gives way, else the last */
        victim = j;
        most = running;
    }
    return victim;
}

bool admission_ensure_blocks(struct scheduler *s, struct job *j, int32_t n_tokens)
{
    int32_t n = blocks_for(n_tokens);
    if (!job_reserve_blocks(j, n)) {
        struct err e = {0};
        err_set(&e, ERR_NOMEM, "no memory for a block table");
        scheduler_fail_job(s, j, &e);
        return false;
    }
    while (j->n_blocks < n) {
        int32_t block = block_pool_take(s->pool);
        if (block >= 0) {
            j->blocks[j->n_blocks++] = block;
            continue;
        }
        struct job *other = preemption_victim(s);
        preempt_job(s, other);
        if (other == j)
            return false;
    }
    return true;
}

bool admission_spare_blocks(struct scheduler *s, struct job *j, int32_t n_tokens)
{
    int32_t n = blocks_for(n_tokens);
    if (n - j->n_blocks > available(s) - s->n_running || !job_reserve_blocks(j, n))
        return n <= j->n_blocks;
    while (j->n_blocks < n)
        j->blocks[j->n_blocks++] = block_pool_take(s->pool);
    return true;
}

void admission_index_blocks(struct scheduler *s, struct job *j)
{
    if (!s->reuse)
        return;
    const struct draft_text text = drafting_text(s, j);
    for (; (j->n_indexed + 1) * BACKEND_BLOCK_TOKENS <= j->n_computed; j->n_indexed++) {
        const int32_t i = j->n_indexed, at = i * BACKEND_BLOCK_TOKENS;
        j->blocks[i] = prefix_index_add(s->index, &j->chain, j->tokens + at, j->blocks[i]);
        if (s->recall && speculation_may_remember(j))
            recall_add(s->recall, &text, at, j->blocks[i], i ? j->blocks[i - 1] : -1);
    }
}

int32_t admission_next_checkpoint(const struct job *j)
{
    if (j->branch_at > j->n_computed)
        return j->branch_at;
    return j->prompt_end_at > j->n_computed ? j->prompt_end_at : 0;
}

void admission_save_checkpoint(struct scheduler *s, struct job *j)
{
    struct err e = {0};
    int32_t block = j->blocks[j->n_computed / BACKEND_BLOCK_TOKENS - 1];
    int32_t state = checkpoints_take(s->checkpoints, block);
    if (state < 0)
        return;
    if (!s->params.ops->copy_state(s->params.backend, j->slot, state, &e)) {
        checkpoints_drop(s->checkpoints, block);
        log_warn("job=%llu no checkpoint: %s", (unsigned long long)j->id, e.text);
        return;
    }
    if (j->state != JOB_DECODE)
        return;
    /* Only the latest checkpoint of an answer is kept, because the next turn continues from there.
     */
    if (j->rolling_block >= 0)
        checkpoints_drop(s->checkpoints, j->rolling_block);
    j->rolling_block = block;
}

/* Takes references to the longest known prefix of the job, at most `most` blocks, and leaves the
 * chain behind them. */
static void take_known_blocks(struct scheduler *s, struct job *j, int32_t most)
{
    prefix_chain_begin(s->index, j->params.scope, j->n_experts, &j->chain);
    while (j->n_blocks < most) {
        int32_t block =
            prefix_index_find(s->index, &j->chain, j->tokens + j->n_blocks * BACKEND_BLOCK_TOKENS);
        if (block < 0)
            break;
        j->blocks[j->n_blocks++] = block;
    }
}

/* A recurrent model can resume only where a copy of its state exists, so the prefix that was found
 * is cut back to the last such block. */
static void cut_to_checkpoint(struct scheduler *s, struct job *j)
{
    int32_t known = j->n_blocks;
    j->resume_state = -1;
    while (j->n_blocks &&
           (j->resume_state = checkpoints_find(s->checkpoints, j->blocks[j->n_blocks - 1])) < 0)
        block_pool_give(s->pool, j->blocks[--j->n_blocks]);
    int32_t kept = j->n_blocks;
    j->branch_at = known > kept ? known * BACKEND_BLOCK_TOKENS : 0;
    j->prompt_end_at = (j->params.n_prompt - 1) / BACKEND_BLOCK_TOKENS * BACKEND_BLOCK_TOKENS;
    while (j->n_blocks) /* a chain cannot go backwards, so it is walked again from its beginning */
        block_pool_give(s->pool, j->blocks[--j->n_blocks]);
    take_known_blocks(s, j, kept);
}

/* Reuses what the prefix cache has of the job's tokens. The last token is always computed, because
 * the next one is drawn from its row. */
static void find_prefix(struct scheduler *s, struct job *j)
{
    take_known_blocks(
        s, j, s->reuse && !prompt_scores_wanted(j) ? (j->n_tokens - 1) / BACKEND_BLOCK_TOKENS : 0);
    if (s->checkpoints)
        cut_to_checkpoint(s, j);
    j->n_indexed = j->n_blocks;
    j->n_computed = j->n_blocks * BACKEND_BLOCK_TOKENS;
}

/* Takes all blocks that the job's tokens need, or none. */
static bool take_blocks(struct scheduler *s, struct job *j)
{
    int32_t n_tokens = j->n_tokens < s->params.n_ctx ? j->n_tokens + 1 : j->n_tokens;
    int32_t n = blocks_for(n_tokens);
    /* Every running answer may need a block soon. A job that would run alone needs no reserve. */
    int32_t reserve = s->n_running ? s->n_running + (j->preempted ? PREEMPTED_RESERVE : 0) : 0;
    find_prefix(s, j);
    if (n - j->n_blocks + reserve > available(s)) {
        give_blocks(s, j);
        return false;
    }
    while (j->n_blocks < n)
        j->blocks[j->n_blocks++] = block_pool_take(s->pool);
    return true;
}

/* Allocates what only an admitted job needs. It is done this late so that a long queue costs
 * little. */
static bool prepare_job(struct scheduler *s, struct job *j, struct err *e)
{
    const struct engine_job_params *p = &j->params;
    if (!job_reserve_blocks(j, blocks_for(j->n_tokens + 1)))
        return err_set(e, ERR_NOMEM, "no memory for a block table");
    if (j->sampler)
        return true;
    const struct text_output_params output = {.vocab = s->params.vocab,
                                              .special_text = p->special_text,
                                              .stops = p->stop,
                                              .n_stops = p->n_stop};
    const struct token_rules_vocab vocab = {
        .eos = s->params.eos, .n_eos = s->params.n_eos, .n_vocab = s->params.n_vocab};
    if (!text_output_init(&j->output, &output, e))
        return false;
    content_gate_init(&j->output.gate, p->answer_format, (enum content_begin)p->answer_begins);
    if (p->n_grammar &&
        !(j->grammar = grammar_run_create(s->grammars, p->grammar, p->n_grammar, e)))
        return false;
    if (!token_rules_init(&j->rules, p, &vocab, e) ||
        !(j->sampler = sampler_create(&p->sampling, s->params.n_vocab, e)))
        return false;
    sampler_set_rules(j->sampler, &j->rules);
    sampler_add_prompt(j->sampler, p->prompt, p->n_prompt);
    speculation_begin(s, j);
    return true;
}

static void record_admission(struct scheduler *s, struct job *j)
{
    struct stats *t = &s->stats;
    if (j->preempted) {
        double paused = clock_ms() - j->times.paused;
        *(j->times.first_token > 0 ? &j->times.paused_decode : &j->times.paused_prefill) +=
            j->times.first_row > 0 ? paused : 0;
    } else { /* a preempted job finds its own blocks, which is no hit of the cache */
        j->times.admitted = clock_ms();
        j->n_cached = j->n_computed;
        t->prompt_tokens += (uint64_t)j->params.n_prompt;
        t->cached_tokens += (uint64_t)j->n_cached;
        t->prefix_queries += (uint64_t)j->params.n_prompt;
        t->prefix_hits += (uint64_t)j->n_cached;
        status_histogram_add(&t->queue_time, (j->times.admitted - j->times.submitted) * 1e-3);
    }
    if (!j->n_generated)
        scheduler_emit_progress(s, j);
}

static void count_found(struct scheduler *s, struct job *j, int32_t tokens)
{
    if (j->preempted)
        return;
    j->n_cached += tokens;
    s->stats.cached_tokens += (uint64_t)tokens;
    s->stats.prefix_hits += (uint64_t)tokens;
}

static bool copy_resume_state(struct scheduler *s, struct job *j)
{
    struct err e = {0};
    if (!j->n_computed || !s->checkpoints ||
        s->params.ops->copy_state(s->params.backend, j->resume_state, j->slot, &e))
        return true;
    scheduler_fail_job(s, j, &e);
    return false;
}

void admission_look_again(struct scheduler *s, struct job *j)
{
    const int32_t before = j->n_computed;
    give_blocks(s, j);
    j->state = JOB_PREFILL;
    if (!take_blocks(s, j)) { /* more running answers, so a larger reserve: it waits its turn */
        preempt_job(s, j);
        return;
    }
    count_found(s, j, j->n_computed - before);
    slot_turn_begin(&j->turn, j->n_computed);
    if (copy_resume_state(s, j))
        prompt_disk_begin(s, j);
    if (j->state == JOB_PREFILL && !j->n_generated)
        scheduler_emit_progress(s, j);
}

/* True: the job was admitted, or it failed. False: there are no blocks for it now. */
static bool admit(struct scheduler *s, struct job *j)
{
    struct err e = {0};
    if (!prepare_job(s, j, &e)) {
        scheduler_fail_job(s, j, &e);
        return true;
    }
    if (s->blocked_id == j->id && available(s) <= s->blocked_available)
        return false;
    if (!take_blocks(s, j)) {
        s->blocked_id = j->id;
        s->blocked_available = available(s);
        return false;
    }
    fair_queue_enter(s->queue, j);
    admission_unqueue(s, j);
    slot_turn_begin(&j->turn, j->n_computed);
    j->state = JOB_PREFILL;
    j->slot = s->free_slots[--s->n_free_slots];
    j->admission = ++s->n_admissions;
    s->running[s->n_running++] = j;
    record_admission(s, j);
    if (copy_resume_state(s, j))
        prompt_disk_begin(s, j);
    return true;
}

static struct job *next_waiting(struct scheduler *s)
{
    struct job *first = fair_queue_first(s->queue);
    if (s->favoured && s->favoured->params.priority > first->params.priority)
        s->favoured = NULL; /* a normal job has come, which goes before a background job */
    return s->favoured ? s->favoured : first;
}

/* Preempts a job so that one that waits can have its place; false: none may be. */
static bool make_room(struct scheduler *s, const struct job *first)
{
    /* A normal job preempts background jobs instead of waiting for them. */
    struct job *victim = preemption_victim(s);
    if (victim && victim->params.priority > first->params.priority) {
        preempt_job(s, victim);
        return true;
    }
    struct job *waiter = s->favoured ? s->favoured : fair_queue_neediest(s->queue);
    victim = turn_victim(s, waiter);
    if (!victim)
        return false;
    preempt_job(s, victim);
    s->favoured = waiter;
    return true;
}

void admission_admit_waiting(struct scheduler *s)
{
    struct job *j;
    while ((j = next_waiting(s)) != NULL)
        if (!(s->n_free_slots && admit(s, j)) && !make_room(s, j))
            return;
}
