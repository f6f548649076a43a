/* Hands jobs from the I/O thread to the loop thread, after checking them against the limits of
 * the loaded model. */
#include "engine/sched/inbox.h"

#include <time.h>

#include "engine/base/clock.h"
#include "engine/grammar/program.h"

#define MIN_USER_SHARE 8

void inbox_init(struct inbox *in)
{
    pthread_condattr_t attributes;
    *in = (struct inbox){.state = INBOX_LOADING};
    pthread_mutex_init(&in->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&in->more, &attributes);
    pthread_condattr_destroy(&attributes);
    err_set(&in->refusal, ERR_UNAVAILABLE, "the engine is loading the model");
}

void inbox_fini(struct inbox *in)
{
    while (in->first) {
        struct job *j = in->first;
        in->first = j->next;
        job_unref(&j);
    }
    pthread_cond_destroy(&in->more);
    pthread_mutex_destroy(&in->lock);
}

static bool check_ids(const struct inbox_limits *l, const struct engine_job_params *p,
                      struct err *e)
{
    for (int32_t i = 0; i < p->n_prompt; i++)
        if (p->prompt[i] < 0 || p->prompt[i] >= l->n_vocab)
            return err_field(e, ERR_INPUT, "prompt", "token %d is %d, outside the vocabulary of %d",
                             i, p->prompt[i], l->n_vocab);
    for (int32_t i = 0; i < p->sampling.n_bias; i++)
        if (p->sampling.bias[i].id >= l->n_vocab)
            return err_field(e, ERR_INPUT, "logit_bias", "token %d is outside the vocabulary of %d",
                             p->sampling.bias[i].id, l->n_vocab);
    return true;
}

static bool check_experts(const struct inbox_limits *l, const struct engine_job_params *p,
                          struct err *e)
{
    if (p->experts_per_token <= l->trained_top_k)
        return true;
    if (!l->trained_top_k)
        return err_field(e, ERR_INPUT, "experts_per_token",
                         "%d is asked for, but the model has no experts", p->experts_per_token);
    return err_field(e, ERR_INPUT, "experts_per_token",
                     "%d is asked for, the model uses %d: want 1 to %d", p->experts_per_token,
                     l->trained_top_k, l->trained_top_k);
}

/* A request chooses among what the engine does; "auto" and "off" it may always say. */
static bool check_speculate(const struct inbox_limits *l, const struct engine_job_params *p,
                            struct err *e)
{
    static const char *const needs[ENGINE_SPECULATE__N] = {
        [ENGINE_SPECULATE_DRAFT] = "a draft model",
        [ENGINE_SPECULATE_MTP] = "the model's next-token layer",
        [ENGINE_SPECULATE_DFLASH] = "a DFlash drafter"};
    for (int32_t i = 0; i < p->n_prediction; i++)
        if (p->prediction[i] < 0 || p->prediction[i] >= l->n_vocab)
            return err_field(e, ERR_INPUT, "prediction",
                             "token %d is %d, outside the vocabulary of %d", i, p->prediction[i],
                             l->n_vocab);
    if (l->speculate.applied != ENGINE_SPECULATE_OFF && p->speculate != l->speculate.by &&
        needs[p->speculate])
        return err_field(e, ERR_INPUT, "speculate",
                         "%s is asked for, but the server runs without %s",
                         engine_speculate_name(p->speculate), needs[p->speculate]);
    if (p->speculate <= ENGINE_SPECULATE_OFF || l->speculate.applied != ENGINE_SPECULATE_OFF)
        return true;
    return err_field(
        e, ERR_INPUT, "speculate", "%s is asked for, but %s", engine_speculate_name(p->speculate),
        l->speculate.why[0] ? l->speculate.why : "the server runs with --speculate off");
}

/* A model does one thing. */
static bool check_task(const struct inbox_limits *l, const struct engine_job_params *p,
                       struct err *e)
{
    static const char *const makes[] = {[ENGINE_TASK_TEXT] = "writes text",
                                        [ENGINE_TASK_EMBED] = "makes embeddings",
                                        [ENGINE_TASK_SCORE] = "scores documents"};
    if (p->task != l->task)
        return err_field(e, ERR_INPUT, "model", "this model %s and does nothing else",
                         makes[l->task]);
    if (p->dimensions > l->dimensions)
        return err_field(e, ERR_INPUT, "dimensions", "%d, this model's vectors have %d",
                         p->dimensions, l->dimensions);
    return true;
}

static bool check_texts(const struct inbox_limits *l, const struct engine_job_params *p,
                        struct err *e)
{
    for (int32_t i = 0, from = 0; i < p->n_texts; from = p->text_ends[i++])
        if (p->text_ends[i] - from > l->n_ctx)
            return err_field(e, ERR_LIMIT, "input", "text %d has %d tokens, the model takes %d", i,
                             p->text_ends[i] - from, l->n_ctx);
    return true;
}

static bool check_length(const struct inbox_limits *l, struct engine_job_params *p, struct err *e)
{
    int32_t room = l->n_ctx - p->n_prompt;
    if (p->n_texts)
        return check_texts(l, p, e);
    if (room < 0 || (room == 0 && p->max_tokens > 0))
        return err_field(e, ERR_LIMIT, "prompt", "the prompt has %d tokens, the context holds %d%s",
                         p->n_prompt, l->n_ctx, room == 0 ? " and needs room for an answer" : "");
    if (p->max_tokens > room)
        p->max_tokens = room;
    return true;
}

static bool check_grammar(const struct inbox_limits *l, const struct engine_job_params *p,
                          struct err *e)
{
    struct program program;
    return !p->n_grammar || program_open(&program, p->grammar, p->n_grammar, l->n_vocab, e);
}

/* A user's part of the queue: a quarter, so that others find room beside one who takes it all. */
static int32_t user_share(int32_t max_queue)
{
    int32_t share = max_queue / 4 > MIN_USER_SHARE ? max_queue / 4 : MIN_USER_SHARE;
    return share < max_queue ? share : max_queue;
}

/* Beside how many jobs wait: how many tokens. A job that is alone is taken, however long it is. */
static bool check_room(const struct engine_job_params *p, const struct jobs_waiting *w,
                       double wait_s, struct err *e)
{
    if (!p->n_texts)
        return true;
    if (w->text_tokens + p->n_prompt > INBOX_TEXT_TOKENS)
        return err_set(e, ERR_BUSY,
                       "texts of %lld tokens are waiting already; try again in about %.0f s",
                       (long long)w->text_tokens, wait_s);
    if (w->own_text_tokens && w->own_text_tokens + p->n_prompt > INBOX_TEXT_TOKENS / 4)
        return err_field(e, ERR_BUSY, ENGINE_OWN_JOBS,
                         "texts of yours of %lld tokens are waiting already, and one user may have "
                         "%lld; try again in about %.0f s",
                         (long long)w->own_text_tokens, (long long)INBOX_TEXT_TOKENS / 4, wait_s);
    return true;
}

bool inbox_check(struct inbox *in, struct engine_job_params *p, const struct jobs_waiting *w,
                 int32_t *position, struct err *e)
{
    bool ok = false;
    pthread_mutex_lock(&in->lock);
    struct inbox_limits limits = in->limits;
    const int32_t waiting = in->n_waiting + in->n_pending;
    const double wait_s = in->expected_wait_s < 1 ? 1 : in->expected_wait_s;
    if (in->state != INBOX_OPEN)
        *e = in->refusal;
    else if (waiting >= limits.max_queue)
        err_set(e, ERR_BUSY, "%d jobs are waiting already; try again in about %.0f s", waiting,
                wait_s);
    else if (w->own >= user_share(limits.max_queue))
        err_field(
            e, ERR_BUSY, ENGINE_OWN_JOBS,
            "%d of your jobs are waiting already, which is one user's share of the queue; try "
            "again in about %.0f s",
            w->own, wait_s);
    else
        ok = check_room(p, w, wait_s, e);
    pthread_mutex_unlock(&in->lock);
    *position = waiting;
    return ok && check_task(&limits, p, e) && check_ids(&limits, p, e) &&
           check_experts(&limits, p, e) && check_speculate(&limits, p, e) &&
           check_length(&limits, p, e) && check_grammar(&limits, p, e);
}

void inbox_push(struct inbox *in, struct job *j)
{
    j->next = NULL;
    pthread_mutex_lock(&in->lock);
    *(in->first ? &in->last->next : &in->first) = j;
    in->last = j;
    in->n_pending++;
    pthread_cond_signal(&in->more);
    pthread_mutex_unlock(&in->lock);
}

void inbox_wake(struct inbox *in)
{
    pthread_mutex_lock(&in->lock);
    in->woken = true;
    pthread_cond_signal(&in->more);
    pthread_mutex_unlock(&in->lock);
}

void inbox_stop(struct inbox *in)
{
    pthread_mutex_lock(&in->lock);
    in->stop = true;
    pthread_cond_signal(&in->more);
    pthread_mutex_unlock(&in->lock);
}

void inbox_open(struct inbox *in, const struct inbox_limits *limits)
{
    pthread_mutex_lock(&in->lock);
    if (in->state == INBOX_LOADING) {
        in->limits = *limits;
        in->state = INBOX_OPEN;
    }
    pthread_mutex_unlock(&in->lock);
}

void inbox_close(struct inbox *in, const struct err *why)
{
    pthread_mutex_lock(&in->lock);
    in->state = INBOX_CLOSED;
    in->refusal = *why;
    pthread_mutex_unlock(&in->lock);
}

struct job *inbox_take(struct inbox *in, int timeout_ms, bool *stop)
{
    const struct timespec until = clock_deadline(CLOCK_MONOTONIC, timeout_ms);
    pthread_mutex_lock(&in->lock);
    while (timeout_ms && !in->first && !in->woken && !in->stop)
        if (pthread_cond_timedwait(&in->more, &in->lock, &until) != 0)
            break;
    struct job *list = in->first;
    in->first = in->last = NULL;
    in->n_waiting += in->n_pending; /* until the next report of the loop */
    in->n_pending = 0;
    in->woken = false;
    *stop = in->stop;
    pthread_mutex_unlock(&in->lock);
    return list;
}

void inbox_report(struct inbox *in, int32_t n_waiting, double expected_wait_s)
{
    pthread_mutex_lock(&in->lock);
    in->n_waiting = n_waiting;
    in->expected_wait_s = expected_wait_s;
    pthread_mutex_unlock(&in->lock);
}
