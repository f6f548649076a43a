/* Puts whole texts of many jobs into steps and sends their vectors or scores as they are made. */
#include "engine/sched/embedder.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#define LOG_MODULE "embed"
#include "engine/base/log.h"
#include "engine/sched/embed/text_vector.h"
#include "engine/sched/fair_queue.h"
#include "engine/sched/stats.h"
#include "engine/wire/message.h"

#define EVENT_BYTES 256 /* of vectors, without their values: more than enough */

struct member { /* a text of the step that is being made */
    struct job *job;
    int32_t text, n_tokens;
};

struct embedder {
    struct embedder_params params;
    struct text_vector vector;
    struct fair_queue *queue; /* jobs with texts that no step has taken yet */
    struct job *leaving;      /* jobs all of whose texts are in this step, by next */
    int32_t n_leaving;
    struct job *ended; /* with their last event, which is sent once it is counted */
    struct stats stats;
    struct buf frames;
    /* of a step */
    struct step_sequence *sequences; /* [max_sequences] */
    struct member *members;          /* [max_sequences] */
    struct step_row *rows;           /* [max_rows] */
    int32_t *blocks;                 /* [n_blocks]: 0, 1, ...; a text has the next ones */
    int32_t n_members, n_rows, n_blocks_used;
    float *values; /* [max_sequences, d] */
};

static int32_t blocks_for(int32_t tokens)
{
    return (tokens + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS;
}

struct embedder *embedder_create(const struct embedder_params *p, struct err *e)
{
    struct embedder *m = calloc(1, sizeof *m);
    const size_t n = (size_t)p->max_sequences;
    if (!m) {
        err_set(e, ERR_NOMEM, "no memory for the embedder");
        return NULL;
    }
    m->params = *p;
    m->sequences = calloc(n, sizeof *m->sequences);
    m->members = calloc(n, sizeof *m->members);
    m->rows = calloc((size_t)p->max_rows, sizeof *m->rows);
    m->blocks = calloc((size_t)p->n_blocks, sizeof *m->blocks);
    m->values = calloc(n * (size_t)p->plan->d_model, sizeof *m->values);
    bool ok = m->sequences && m->members && m->rows && m->blocks && m->values;
    if (!ok)
        err_set(e, ERR_NOMEM, "no memory for the embedder");
    for (int32_t i = 0; ok && i < p->n_blocks; i++)
        m->blocks[i] = i;
    stats_init(&m->stats);
    if (!ok || !text_vector_init(&m->vector, p->plan, e) || !(m->queue = fair_queue_create(e)))
        embedder_destroy(&m);
    if (m) {
        m->vector.yes = p->yes;
        m->vector.no = p->no;
    }
    return m;
}

static void end_job(struct embedder *m, struct job *j, const struct engine_event *last,
                    enum job_outcome outcome)
{
    j->state = JOB_OVER;
    atomic_store(&j->queued, false);
    message_put_event(&j->last_event, last);
    j->next = m->ended;
    m->ended = j;
    m->stats.jobs_done[outcome]++;
    status_histogram_add(&m->stats.job_time, (clock_ms() - j->times.submitted) * 1e-3);
}

static struct engine_usage usage_of(const struct job *j)
{
    const double now = clock_ms(), began = j->times.first_row > 0 ? j->times.first_row : now;
    struct engine_usage u = {.prompt_tokens = j->n_computed,
                             .queue_ms = began - j->times.submitted,
                             .prefill_ms = now - began};
    if (u.prefill_ms > 0)
        u.prefill_tokens_per_s = u.prompt_tokens / u.prefill_ms * 1e3;
    return u;
}

static void finish_job(struct embedder *m, struct job *j, enum engine_finish finish)
{
    struct engine_event ev = {
        .type = ENGINE_DONE, .job = j->id, .finish = finish, .usage = usage_of(j)};
    log_info("job=%llu request=%s task=%s finish=%s texts=%d tokens=%d queue_ms=%.1f ms=%.1f",
             (unsigned long long)j->id, j->params.request_id, engine_task_name(j->params.task),
             engine_finish_name(finish), j->n_texts_done, j->n_computed, ev.usage.queue_ms,
             ev.usage.prefill_ms);
    end_job(m, j, &ev, (enum job_outcome)finish);
}

static void fail_job(struct embedder *m, struct job *j, const struct err *e)
{
    struct engine_event ev = {.type = ENGINE_FAILED, .job = j->id, .error = *e};
    log_warn("job=%llu request=%s failed: %s: %s", (unsigned long long)j->id, j->params.request_id,
             err_code_name(e->code), e->text);
    end_job(m, j, &ev, OUTCOME_FAILED);
}

static int32_t dimensions_of(const struct embedder *m, const struct job *j)
{
    if (m->params.task == ENGINE_TASK_SCORE)
        return 1;
    return j->params.dimensions ? j->params.dimensions : m->params.plan->d_model;
}

void embedder_add(struct embedder *m, struct job *j)
{
    struct err e = {0};
    /* All vectors may be there before the reader takes the first. */
    event_log_allow(&j->log, (size_t)j->params.n_texts *
                                 ((size_t)dimensions_of(m, j) * sizeof(float) + EVENT_BYTES));
    if (fair_queue_push(m->queue, j, false))
        return;
    err_set(&e, ERR_NOMEM, "no memory to queue the job");
    fail_job(m, j, &e);
}

static void cancel_if_requested(void *context, struct job *j)
{
    struct embedder *m = context;
    if (!atomic_load(&j->cancel))
        return;
    fair_queue_remove(m->queue, j);
    finish_job(m, j, ENGINE_CANCELLED);
}

/* The next text of the job whose turn it is, if the step has room for it. */
static bool take_text(struct embedder *m)
{
    const struct embedder_params *p = &m->params;
    struct job *j = fair_queue_first(m->queue);
    if (!j || m->n_members == p->max_sequences)
        return false;
    const int32_t i = j->n_texts_begun, from = i ? j->params.text_ends[i - 1] : 0,
                  n = j->params.text_ends[i] - from;
    if (n > p->max_rows - m->n_rows || blocks_for(n) > p->n_blocks - m->n_blocks_used)
        return false;
    m->members[m->n_members] = (struct member){j, i, n};
    m->sequences[m->n_members++] = (struct step_sequence){.tokens = j->params.prompt + from,
                                                          .n_tokens = n,
                                                          .blocks = m->blocks + m->n_blocks_used,
                                                          .state = -1,
                                                          .n_first = j->params.text_firsts[i],
                                                          .n_out = text_vector_rows(&m->vector, n)};
    m->n_rows += n;
    m->n_blocks_used += blocks_for(n);
    if (j->times.first_row <= 0) {
        j->times.first_row = clock_ms();
        atomic_store(&j->queued, false);
        status_histogram_add(&m->stats.queue_time,
                             (j->times.first_row - j->times.submitted) * 1e-3);
    }
    j->state = JOB_PREFILL;
    fair_queue_charge(m->queue, j, n);
    if (++j->n_texts_begun < j->params.n_texts)
        return true;
    fair_queue_enter(m->queue, j); /* its user stays known until the job has ended */
    fair_queue_remove(m->queue, j);
    j->next = m->leaving;
    m->leaving = j;
    m->n_leaving++;
    return true;
}

/* Values of members first .. end - 1, successive texts of one job, as one event. */
static void send_vectors(struct embedder *m, int32_t first, int32_t end, const float *values)
{
    struct job *j = m->members[first].job;
    buf_clear(&m->frames);
    message_put_event(&m->frames, &(struct engine_event){.type = ENGINE_VECTORS,
                                                         .job = j->id,
                                                         .done = m->members[first].text,
                                                         .n_vectors = end - first,
                                                         .dimensions = dimensions_of(m, j),
                                                         .values = values});
    if (!event_log_append(&j->log, &m->frames, false)) /* a reader that does not read */
        atomic_store(&j->cancel, true);
}

static void read_results(struct embedder *m)
{
    const struct step_row *rows = m->rows;
    float *values = m->values, *from = values;
    for (int32_t i = 0, first = 0; i < m->n_members; i++) {
        struct member *at = &m->members[i];
        struct job *j = at->job;
        const int32_t n = dimensions_of(m, j), n_out = m->sequences[i].n_out;
        if (m->params.task == ENGINE_TASK_SCORE)
            values[0] = text_vector_score(&m->vector, rows);
        else
            text_vector_embed(&m->vector, rows, n_out, n, values);
        values += n;
        rows += n_out;
        j->n_texts_done++;
        j->n_computed += at->n_tokens;
        m->stats.prompt_tokens += (uint64_t)at->n_tokens;
        const struct member *next = i + 1 < m->n_members ? at + 1 : NULL;
        if (next && next->job == j && next->text == at->text + 1)
            continue;
        send_vectors(m, first, i + 1, from);
        first = i + 1;
        from = values;
    }
}

/* Jobs whose last texts this step had. */
static void end_leaving(struct embedder *m, const struct err *failed)
{
    while (m->leaving) {
        struct job *j = m->leaving;
        m->leaving = j->next;
        fair_queue_leave(m->queue, j);
        if (failed)
            fail_job(m, j, failed);
        else
            finish_job(m, j,
                       j->n_texts_done == j->params.n_texts && !atomic_load(&j->cancel)
                           ? ENGINE_STOP_EOS
                           : ENGINE_CANCELLED);
    }
    m->n_leaving = 0;
}

struct failure {
    struct embedder *m;
    const struct err *e;
    bool all;
};

/* Jobs that are queued still, though the step that failed had texts of theirs; or all. */
static void fail_queued(void *context, struct job *j)
{
    struct failure *f = context;
    if (!f->all && j->n_texts_begun == j->n_texts_done)
        return;
    fair_queue_remove(f->m->queue, j);
    fail_job(f->m, j, f->e);
}

static void fail(struct embedder *m, const struct err *e, bool all)
{
    struct failure f = {m, e, all};
    end_leaving(m, e);
    fair_queue_each(m->queue, fail_queued, &f);
}

static void send_last_events(struct embedder *m)
{
    while (m->ended) {
        struct job *j = m->ended;
        m->ended = j->next;
        event_log_append(&j->log, &j->last_event, true);
        atomic_store(&j->over, true);
        job_unref(&j);
    }
}

static bool run(struct embedder *m, struct err *e)
{
    const struct step step = {
        .sequences = m->sequences, .n_sequences = m->n_members, .hidden = true};
    const double began = clock_ms();
    if (!m->params.ops->step(m->params.backend, &step, m->rows, e))
        return false;
    stats_step(&m->stats, (clock_ms() - began) * 1e-3, m->n_rows, 0);
    read_results(m);
    end_leaving(m, NULL);
    return true;
}

bool embedder_step(struct embedder *m, struct err *e)
{
    bool ok = true;
    fair_queue_each(m->queue, cancel_if_requested, m);
    m->n_members = m->n_rows = m->n_blocks_used = 0;
    while (take_text(m))
        ;
    if (m->n_members) {
        embedder_publish(m); /* while it runs: who is in it */
        if (!run(m, e)) {
            ok = e->code != ERR_DEVICE;
            fail(m, e, !ok);
        }
    }
    embedder_publish(m);
    send_last_events(m);
    return ok;
}

bool embedder_idle(const struct embedder *m)
{
    return !fair_queue_count(m->queue) && !m->ended;
}

static void list_job(void *context, struct job *j)
{
    struct status_page *page = context;
    page->jobs_running += j->state == JOB_PREFILL;
    if (page->n_jobs == STATUS_JOBS)
        return;
    struct status_job *out = &page->jobs[page->n_jobs++];
    *out = (struct status_job){.id = j->id,
                               .user = j->params.user,
                               .state = (int32_t)j->state,
                               .prompt_tokens = j->params.n_prompt,
                               .done_tokens = j->n_computed,
                               .started_s = (double)j->submitted_wall_ms * 1e-3};
    snprintf(out->request_id, sizeof out->request_id, "%s", j->params.request_id);
}

void embedder_publish(struct embedder *m)
{
    struct backend_counters c = {0};
    if (!m->params.status)
        return;
    m->params.ops->counters(m->params.backend, &c);
    struct status_page *page = status_begin(m->params.status);
    stats_publish(&m->stats, page);
    page->steps = c.steps;
    page->rows = c.rows;
    page->weight_bytes_read = c.weight_bytes_read;
    page->kv_bytes_read = c.kv_bytes_read;
    page->n_jobs = page->jobs_running = 0;
    fair_queue_each(m->queue, list_job, page);
    for (struct job *j = m->leaving; j; j = j->next)
        list_job(page, j);
    /* Jobs that were accepted but are still in the inbox count as waiting. */
    page->jobs_waiting = (int32_t)(page->jobs_accepted - status_jobs_succeeded(page->jobs_done) -
                                   page->jobs_done[OUTCOME_FAILED]) -
                         page->jobs_running;
    status_end(m->params.status);
}

void embedder_note_idle(struct embedder *m, double seconds)
{
    m->stats.idle_seconds += seconds;
}

int32_t embedder_waiting(const struct embedder *m)
{
    return fair_queue_count(m->queue);
}

double embedder_expected_wait(const struct embedder *m)
{
    const struct status_histogram *h = &m->stats.job_time;
    return h->total ? h->sum / (double)h->total : 0;
}

void embedder_destroy(struct embedder **at)
{
    struct embedder *m = *at;
    struct err gone = {0};
    if (!m)
        return;
    if (m->queue) {
        err_set(&gone, ERR_UNAVAILABLE, "the engine is stopping");
        fail(m, &gone, true);
        embedder_publish(m);
        send_last_events(m);
    }
    fair_queue_destroy(&m->queue);
    text_vector_fini(&m->vector);
    buf_fini(&m->frames);
    free(m->sequences);
    free(m->members);
    free(m->rows);
    free(m->blocks);
    free(m->values);
    free(m);
    *at = NULL;
}
