/* Manages the life of a job: it is added, cancelled, finished and counted here. Slots and blocks
 * are in admission.c, steps in batch.c. */
#include "engine/sched/scheduler.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "sched"
#include "engine/base/log.h"
#include "engine/sched/scheduler_state.h"
#include "engine/wire/message.h"

#define MASK_WAIT_MS 10.0 /* then new jobs are looked for */
#define STORE_AT_END_MS 2000.0

/* Drops what is kept beside a block's content. */
static void forget_block(void *context, int32_t block)
{
    struct scheduler *s = context;
    if (s->checkpoints)
        checkpoints_drop(s->checkpoints, block);
    if (s->recall)
        recall_forget(s->recall, block);
    if (s->disk)
        prompt_disk_drop(s->disk, block);
}

void scheduler_count_experts(const struct scheduler *s, struct expert_stats *now)
{
    struct backend_counters c = {0};
    s->params.ops->counters(s->params.backend, &c);
    expert_stats_read(now, s->params.experts, &c);
}

struct scheduler *scheduler_create(const struct scheduler_params *p, struct err *e)
{
    struct scheduler *s = calloc(1, sizeof *s);
    size_t n = (size_t)p->n_slots;
    /* A step must hold a row for every running answer, and one block of a prompt beside them. */
    assert(p->n_slots > 0 && p->max_rows >= p->n_slots + BACKEND_BLOCK_TOKENS);
    assert(p->n_blocks >= blocks_for(p->n_ctx));
    if (!s)
        goto nomem;
    s->params = *p;
    if (!s->params.speculate || (p->n_recurrent && !p->ops->keep_rows))
        s->params.speculate = ENGINE_SPECULATE_OFF;
    if (!s->params.prefill_chunk || s->params.prefill_chunk > p->max_rows)
        s->params.prefill_chunk = p->max_rows;
    if (s->params.prefill_chunk < BACKEND_BLOCK_TOKENS)
        s->params.prefill_chunk = BACKEND_BLOCK_TOKENS;
    s->running = calloc(n, sizeof *s->running);
    s->free_slots = calloc(n, sizeof *s->free_slots);
    s->sequences = calloc(n, sizeof *s->sequences);
    s->members = calloc(n, sizeof *s->members);
    s->rows = calloc(n + PROMPT_SCORE_ROWS + DRAFT_ROWS_MAX, sizeof *s->rows);
    if (!s->running || !s->free_slots || !s->sequences || !s->members || !s->rows)
        goto nomem;
    for (int32_t i = 0; i < p->n_slots; i++)
        s->free_slots[s->n_free_slots++] = p->n_slots - 1 - i;
    stats_init(&s->stats);
    s->index = prefix_index_create(p->n_blocks, p->fingerprint, e);
    s->queue = s->index ? fair_queue_create(e) : NULL;
    s->trie = s->queue ? token_trie_create(p->vocab, p->n_vocab, p->eos, p->n_eos, e) : NULL;
    s->grammars = s->trie ? grammar_cache_create(s->trie, 0, e) : NULL;
    s->work = s->grammars ? sampler_workspace_create(p->n_vocab, e) : NULL;
    if (!s->work)
        goto fail;
    s->pool = prefix_index_pool(s->index);
    s->reuse = !p->no_prefix_cache && (!p->n_recurrent || p->n_checkpoints > 0);
    if (s->reuse && p->n_recurrent) {
        s->checkpoints = checkpoints_create(p->n_blocks, p->n_slots, p->n_checkpoints, e);
        if (!s->checkpoints)
            goto fail;
    }
    if (s->reuse && p->disk &&
        !(s->disk = prompt_disk_create(p->disk, p->cache_identity, p->n_blocks, e)))
        goto fail;
    if (s->reuse && drafter_recalls(s->params.speculate) &&
        !(s->recall = recall_create(p->n_blocks, e)))
        goto fail;
    prefix_index_on_forget(s->index, forget_block, s);
    scheduler_count_experts(s, &s->expert_stats); /* reads during the load belong to no job */
    return s;
nomem:
    err_set(e, ERR_NOMEM, "no memory for the scheduler");
fail:
    scheduler_destroy(&s);
    return NULL;
}

bool scheduler_emit(struct scheduler *s, struct job *j, const struct engine_event *ev)
{
    buf_clear(&s->frames);
    message_put_event(&s->frames, ev);
    return event_log_append(&j->log, &s->frames, false);
}

void scheduler_emit_progress(struct scheduler *s, struct job *j)
{
    scheduler_emit(s, j,
                   &(struct engine_event){.type = ENGINE_PROGRESS,
                                          .job = j->id,
                                          .done = j->n_computed,
                                          .total = j->params.n_prompt,
                                          .cached = j->n_cached});
}

/* Takes the job out of the engine; its reference moves to the list of ended jobs. */
static void end_job(struct scheduler *s, struct job *j, const struct engine_event *last,
                    enum job_outcome outcome)
{
    if (j->state == JOB_WAITING) {
        admission_unqueue(s, j);
    } else {
        admission_release(s, j);
        fair_queue_leave(s->queue, j);
    }
    j->state = JOB_OVER;
    grammar_run_destroy(
        &j->grammar); /* here, because readers may release the job on another thread */
    message_put_event(&j->last_event, last);
    j->next = s->ended;
    s->ended = j;
    s->stats.jobs_done[outcome]++;
    status_histogram_add(&s->stats.job_time, (clock_ms() - j->times.submitted) * 1e-3);
}

static struct engine_memory current_memory(const struct scheduler *s)
{
    struct engine_memory m = {0};
    if (!s->params.status)
        return m;
    struct status_page *page = status_begin(s->params.status);
    if (s->params.experts)
        expert_stats_publish(s->params.experts, page);
    m = (struct engine_memory){.resident = page->resident_bytes,
                               .anonymous = page->anonymous_bytes,
                               .mapped = page->mapped_bytes,
                               .locked = status_locked_bytes(page),
                               .device = page->device_bytes};
    status_end(s->params.status);
    return m;
}

static struct engine_usage usage_of(const struct scheduler *s, const struct job *j)
{
    const struct job_times *t = &j->times;
    struct engine_usage u = {
        .prompt_tokens = j->params.n_prompt,
        .cached_tokens = j->n_cached,
        .completion_tokens = j->n_generated,
        .cached_from_disk = j->cache.from_disk,
        .cached_from_ram = j->cache.from_ram,
        .cache_bytes = j->cache.bytes,
        .cache_ms = j->cache.ms,
    };
    snprintf(u.cache_miss, sizeof u.cache_miss, "%s", j->cache.miss ? j->cache.miss : "");
    double now = clock_ms();
    double first_row = t->first_row > 0 ? t->first_row : now;
    double first_token = t->first_token > 0 ? t->first_token : now;
    double paused = t->paused_prefill;
    if (j->state == JOB_WAITING && t->first_row > 0 && t->first_token <= 0)
        paused += now - t->paused;
    u.queue_ms = first_row - t->submitted + paused + t->paused_decode;
    u.prefill_ms = t->first_row > 0 ? first_token - first_row - paused : 0;
    u.decode_ms = job_decode_ms(j);
    int32_t computed = j->params.n_prompt - j->n_cached;
    if (t->first_token > 0 && u.prefill_ms > 0)
        u.prefill_tokens_per_s = computed / u.prefill_ms * 1e3;
    if (u.decode_ms > 0)
        u.decode_tokens_per_s = (j->n_generated - 1) / u.decode_ms * 1e3;
    u.speculation = j->drafts.used;
    memcpy(u.experts, j->experts, sizeof u.experts);
    u.memory = current_memory(s);
    int32_t experts = j->n_experts ? j->n_experts : s->params.experts_per_token;
    u.reduced_top_k = experts < s->params.trained_top_k ? experts : 0;
    u.trained_top_k = s->params.trained_top_k;
    return u;
}

void scheduler_finish_job(struct scheduler *s, struct job *j, enum engine_finish finish,
                          const char *stop_string)
{
    struct engine_event ev = {.type = ENGINE_DONE,
                              .job = j->id,
                              .finish = finish,
                              .stop_string = stop_string,
                              .usage = usage_of(s, j)};
    log_info("job=%llu request=%s finish=%s prompt=%d cached=%d tokens=%d queue_ms=%.1f "
             "prefill_ms=%.1f decode_ms=%.1f from_disk=%d disk_ms=%.1f",
             (unsigned long long)j->id, j->params.request_id, engine_finish_name(finish),
             ev.usage.prompt_tokens, ev.usage.cached_tokens, ev.usage.completion_tokens,
             ev.usage.queue_ms, ev.usage.prefill_ms, ev.usage.decode_ms, ev.usage.cached_from_disk,
             ev.usage.cache_ms);
    s->stats.jobs_lossy += ev.usage.reduced_top_k > 0;
    if (j->state != JOB_WAITING) {
        prompt_disk_save(s, j);
        speculation_remember(s, j);
    }
    end_job(s, j, &ev, (enum job_outcome)finish);
}

void scheduler_fail_job(struct scheduler *s, struct job *j, const struct err *e)
{
    struct engine_event ev = {.type = ENGINE_FAILED, .job = j->id, .error = *e};
    log_warn("job=%llu request=%s failed: %s: %s", (unsigned long long)j->id, j->params.request_id,
             err_code_name(e->code), e->text);
    end_job(s, j, &ev, OUTCOME_FAILED);
}

void scheduler_add(struct scheduler *s, struct job *j)
{
    /* Asking for as many as the backend uses anyway changes nothing: such a job shares KV with
     * others. */
    if (j->params.experts_per_token < s->params.experts_per_token)
        j->n_experts = j->params.experts_per_token;
    if (admission_queue(s, j))
        return;
    struct engine_event ev = {.type = ENGINE_FAILED, .job = j->id};
    err_set(&ev.error, ERR_NOMEM, "no memory to queue the job");
    message_put_event(&j->last_event, &ev);
    j->state = JOB_OVER;
    atomic_store(&j->queued, false);
    j->next = s->ended;
    s->ended = j;
    s->stats.jobs_done[OUTCOME_FAILED]++;
}

static void cancel(struct scheduler *s, struct job *j)
{
    struct engine_event ev = {.type = ENGINE_TOKENS, .job = j->id, .decode_ms = job_decode_ms(j)};
    buf_clear(&s->text);
    if (j->sampler) { /* text held back as a possible stop string was generated, so it is sent */
        text_output_flush(&j->output, &s->text);
        ev.text = s->text.data;
        ev.text_len = s->text.len;
        if (ev.text_len)
            scheduler_emit(s, j, &ev);
    }
    scheduler_finish_job(s, j, ENGINE_CANCELLED, NULL);
}

static void cancel_if_requested(void *context, struct job *j)
{
    if (atomic_load(&j->cancel))
        cancel(context, j);
}

static void apply_cancellations(struct scheduler *s)
{
    for (int32_t i = s->n_running - 1; i >= 0; i--) /* finishing takes it off the list */
        cancel_if_requested(s, s->running[i]);
    fair_queue_each(s->queue, cancel_if_requested, s);
}

struct failure {
    struct scheduler *s;
    const struct err *e;
};

static void fail_one(void *context, struct job *j)
{
    struct failure *f = context;
    scheduler_fail_job(f->s, j, f->e);
}

static void fail_all(struct scheduler *s, const struct err *e)
{
    struct failure f = {s, e};
    while (s->n_running)
        scheduler_fail_job(s, s->running[s->n_running - 1], e);
    fair_queue_each(s->queue, fail_one, &f);
}

/* Last events are sent after the status page has counted them, so a client that sees its job end
 * also finds it in the metrics. */
static void send_last_events(struct scheduler *s)
{
    while (s->ended) {
        struct job *j = s->ended;
        s->ended = j->next;
        event_log_append(&j->log, &j->last_event, true);
        atomic_store(&j->over, true);
        job_unref(&j);
    }
}

bool scheduler_step(struct scheduler *s, struct err *e)
{
    bool ok = true;
    s->n_rounds++;
    apply_cancellations(s);
    prompt_disk_poll(s);
    admission_admit_waiting(s);
    batch_build(s);
    if (!s->n_members && s->n_held)
        grammar_pass_wait(s->grammars, MASK_WAIT_MS);
    if (s->n_members && !batch_run(s, e)) {
        struct err failed = *e;
        if (failed.code == ERR_DEVICE) {
            ok = false;
            fail_all(s, &failed);
        } else {
            for (int32_t i = 0; i < s->n_members; i++)
                scheduler_fail_job(s, s->members[i], &failed);
        }
    }
    if (ok)
        prompt_disk_copy(s);
    scheduler_publish(s);
    send_last_events(s);
    return ok;
}

/* What ended just before the engine is stored too, as far as that is quickly done. */
static void store_the_rest(struct scheduler *s)
{
    for (double end = clock_ms() + STORE_AT_END_MS; prompt_disk_busy(s) && clock_ms() < end;) {
        prompt_disk_copy(s);
        if (prompt_disk_busy(s))
            clock_sleep_us(1000);
    }
}

void scheduler_destroy(struct scheduler **at)
{
    struct scheduler *s = *at;
    if (!s)
        return;
    if (s->work) {
        struct err gone = {0};
        store_the_rest(s);
        err_set(&gone, ERR_UNAVAILABLE, "the engine is stopping");
        fail_all(s, &gone);
        scheduler_publish(s);
        send_last_events(s);
    }
    prompt_disk_destroy(&s->disk);
    sampler_workspace_destroy(&s->work);
    grammar_cache_destroy(&s->grammars);
    token_trie_destroy(&s->trie);
    fair_queue_destroy(&s->queue);
    prefix_index_destroy(&s->index);
    recall_destroy(&s->recall);
    checkpoints_destroy(&s->checkpoints);
    buf_fini(&s->frames);
    buf_fini(&s->text);
    free(s->running);
    free(s->free_slots);
    free(s->sequences);
    free(s->members);
    free(s->rows);
    free(s);
    *at = NULL;
}

bool scheduler_idle(const struct scheduler *s)
{
    return !s->n_running && !s->ended && !fair_queue_count(s->queue);
}

bool scheduler_stores(const struct scheduler *s)
{
    return prompt_disk_busy(s);
}

bool scheduler_waits_for_disk(const struct scheduler *s)
{
    return !s->n_members && prompt_disk_waits(s);
}

static void mark_cancelled(void *context, struct job *j)
{
    atomic_store(&j->cancel, true);
}

void scheduler_cancel_all(struct scheduler *s)
{
    for (int32_t i = 0; i < s->n_running; i++)
        mark_cancelled(NULL, s->running[i]);
    fair_queue_each(s->queue, mark_cancelled, NULL);
}

void scheduler_note_idle(struct scheduler *s, double seconds)
{
    s->stats.idle_seconds += seconds;
}

static void list_job(void *context, struct job *j)
{
    struct status_page *page = context;
    if (page->n_jobs == STATUS_JOBS)
        return;
    struct status_job *out = &page->jobs[page->n_jobs++];
    *out = (struct status_job){
        .id = j->id,
        .user = j->params.user,
        .state = j->state == JOB_LOADING ? JOB_PREFILL : (int32_t)j->state,
        .prompt_tokens = j->params.n_prompt,
        .done_tokens = j->n_computed < j->params.n_prompt ? j->n_computed : j->params.n_prompt,
        .completion_tokens = j->n_generated,
        .started_s = (double)j->submitted_wall_ms * 1e-3,
    };
    snprintf(out->request_id, sizeof out->request_id, "%s", j->params.request_id);
}

static uint64_t jobs_ended(const struct stats *t)
{
    return status_jobs_succeeded(t->jobs_done) + t->jobs_done[OUTCOME_FAILED];
}

void scheduler_publish(struct scheduler *s)
{
    struct backend_counters c = {0};
    if (!s->params.status)
        return;
    s->params.ops->counters(s->params.backend, &c);
    struct block_counts blocks = block_pool_counts(s->pool);
    struct status_page *page = status_begin(s->params.status);
    stats_publish(&s->stats, page);
    page->steps = c.steps;
    page->rows = c.rows;
    page->weight_bytes_read = c.weight_bytes_read;
    page->kv_bytes_read = c.kv_bytes_read;
    page->expert_device_hits = c.expert_hits;
    page->expert_device_misses = c.expert_misses;
    page->expert_device_evictions = c.expert_evictions;
    page->expert_bus_bytes = c.expert_bus_bytes;
    page->expert_copied_bytes = c.expert_copied_bytes;
    page->expert_on_cpu = c.expert_on_cpu;
    if (s->params.experts)
        expert_stats_publish(s->params.experts, page);
    page->jobs_running = s->n_running;
    page->preemptions = s->n_preempted;
    /* Jobs that were accepted but are still in the inbox count as waiting. */
    page->jobs_waiting = (int32_t)(page->jobs_accepted - jobs_ended(&s->stats)) - s->n_running;
    page->blocks_used = blocks.used;
    page->blocks_cached = blocks.idle;
    prompt_disk_publish(s, page);
    page->n_jobs = 0;
    for (int32_t i = 0; i < s->n_running; i++)
        list_job(page, s->running[i]);
    fair_queue_each(s->queue, list_job, page);
    status_end(s->params.status);
}

void scheduler_rest(struct scheduler *s)
{
    prompt_disk_poll(s);
    scheduler_publish(s);
}

struct scheduler_counts scheduler_counts(const struct scheduler *s)
{
    struct backend_counters c = {0};
    s->params.ops->counters(s->params.backend, &c);
    return (struct scheduler_counts){
        .running = s->n_running,
        .waiting = fair_queue_count(s->queue),
        .blocks = block_pool_counts(s->pool),
        .free_slots = s->n_free_slots,
        .steps = c.steps,
        .rows = c.rows,
        .preempted = s->n_preempted,
    };
}

double scheduler_expected_wait(const struct scheduler *s)
{
    const struct status_histogram *h = &s->stats.job_time;
    if (!h->total)
        return 0;
    /* job_time includes the time in the queue, so under load this is an upper estimate, as it
     * should be. */
    return h->sum / (double)h->total * (fair_queue_count(s->queue) + 1) / s->params.n_slots;
}
