/* relay_job.h: a job asks one upstream after the other until one has begun to answer. */
#define LOG_MODULE "relay"
#include "fcgi/relay/relay_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/wire/message.h"
#include "fcgi/relay/relay.h"
#include "fcgi/process/relay_estimate.h"
#include "fcgi/process/relay_via.h"

#define KEEP_MS 300000.0              /* a detached job's events, after its end */
#define KEEP_BYTES ((size_t)64 << 20) /* of all of them */
#define LOG_BYTES ((size_t)16 << 20)  /* that a reader who is slow may leave unread */
#define PROMPT_EXTRA 65536 /* tokens that templates and images add: a byte is one at most */

static void accept_job(struct relay_job *j)
{
    if (j->accepted)
        return;
    j->accepted = true;
    struct buf events = {0};
    message_put_event(&events, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = j->id});
    buf_append(&events, j->log.data, j->log.len); /* what the answer has put there meanwhile */
    buf_fini(&j->log);
    j->log = events;
}

static void release(struct relay_job *j)
{
    relay_call_end(&j->call);
    if (j->to && j->trial)
        j->to->trying = false; /* another one may try */
    if (j->to)
        upstream_release(&j->relay->upstreams, j->to);
    j->to = NULL;
    j->trial = false;
    j->relay->attend |= j->relay->n_waiting > 0; /* there is room now */
}

static void stop_waiting(struct relay_job *j)
{
    j->relay->n_waiting -= j->waiting;
    j->waiting = false;
}

/* The request is sent to nobody any more. */
static void let_go(struct relay_job *j)
{
    free(j->chat);
    j->chat = NULL;
    j->held = 0;
}

static void note_ended(struct relay_job *j)
{
    j->over = true;
    j->over_ms = clock_ms();
    j->next_ended = j->relay->ended;
    j->relay->ended = j;
}

static void finish(struct relay_job *j)
{
    stop_waiting(j);
    note_ended(j);
    let_go(j);
    relay_answer_fini(&j->answer);
    relay_server_send(j);
}

static void count_tokens(struct relay_job *j)
{
    struct upstream *u = j->to;
    const struct relay_answer *a = &j->answer;
    u->prompt_tokens += (uint64_t)(a->prompt_tokens ? a->prompt_tokens : j->estimate);
    u->completion_tokens += (uint64_t)(a->has_usage ? a->completion_tokens : a->counted);
    if (a->first_ms) {
        const double ms = a->first_ms - a->asked_ms;
        busy_poll_end(&u->first, j->awake, ms * 1e3);
        u->first_ms = u->first_ms > 0 ? 0.9 * u->first_ms + 0.1 * ms : ms;
    }
}

static void fail(struct relay_job *j, const struct err *why)
{
    if (j->accepted)
        relay_answer_fail(&j->answer, why); /* bounds the figures */
    if (j->to && j->answer.any)
        count_tokens(j);
    release(j);
    if (!j->accepted) {
        stop_waiting(j);
        let_go(j);
        note_ended(j);
        relay_server_refuse(j, why);
        return;
    }
    finish(j);
}

static void refuse(struct err *e, enum err_code code, const char *reason, const char *text)
{
    char field[64];
    snprintf(field, sizeof field, ENGINE_RELAY_REASON "%s", reason);
    err_field(e, code, field, "%s", text);
}

/* ---- the next upstream */

static void see_progress(void *context)
{
    struct relay_job *j = context;
    accept_job(j);
    j->relay->awake_until = 0; /* what comes next takes its time, or lies there already */
    if (j->trial) {
        upstream_answers(&j->relay->upstreams, j->to);
        j->trial = false;
        j->relay->attend = true;
    }
    if (j->answer.any && j->held && relay_call_forget_sent(j->call))
        let_go(j);
    if (j->log.len > (j->detached ? KEEP_BYTES : LOG_BYTES))
        relay_job_cancel(j);
    if (j->unsent)
        return;
    j->unsent = true;
    j->next_unsent = j->relay->unsent;
    j->relay->unsent = j;
}

void relay_jobs_send(struct relay *r)
{
    while (r->unsent) {
        struct relay_job *j = r->unsent;
        r->unsent = j->next_unsent;
        j->unsent = false;
        relay_server_send(j);
    }
}

static bool begin(struct relay_job *j, struct upstream_route *route, struct err *e)
{
    const struct relay_call_params p = {.multi = j->relay->multi,
                                        .to = route->to,
                                        .remote = route->remote,
                                        .text = j->text,
                                        .chat = j->chat,
                                        .n_chat = j->held,
                                        .via = j->via[0] ? j->via : NULL,
                                        .answer = &j->answer,
                                        .progress = see_progress,
                                        .context = j};
    j->call = relay_call_begin(&p, e);
    if (!j->call)
        return false;
    j->to = route->to;
    j->to->in_flight++;
    j->to->requests++;
    j->awake = relay_wait_awake(j->relay, &j->to->first);
    j->trial = j->to->open_until > 0;
    j->to->trying |= j->trial;
    j->relay->upstreams.changed = true;
    stop_waiting(j);
    return true;
}

static bool wait_for_room(struct relay_job *j, struct err *e)
{
    if (j->waiting)
        return true;
    if (j->relay->n_waiting >= RELAY_QUEUE_MAX) {
        refuse(e, ERR_BUSY, "upstream_busy", "too many answers wait for the upstreams already");
        return false;
    }
    j->waiting = true;
    j->relay->n_waiting++;
    if (!j->wait_until)
        j->wait_until = clock_ms() + RELAY_QUEUE_MS;
    return true;
}

/* Begins, or waits. False: *e, and where `before` says why the last one failed, that. */
static bool choose(struct relay_job *j, const struct err *before, struct err *e)
{
    struct upstream_route *route;
    const struct upstream_wish wish = {.model = j->model,
                                       .only = j->only,
                                       .affinity = j->affinity,
                                       .tried = j->tried,
                                       .n_tried = j->n_tried,
                                       .now = clock_ms()};
    switch (upstreams_choose(&j->relay->upstreams, &wish, &route)) {
    case UPSTREAM_CHOSEN:
        return begin(j, route, e);
    case UPSTREAM_FULL:
        return wait_for_room(j, e);
    case UPSTREAM_DOWN:
        refuse(e, ERR_UNAVAILABLE, "upstream_down", "none of the model's upstreams can be reached");
        break;
    case UPSTREAM_NONE:
        refuse(e, ERR_UNAVAILABLE, "upstream_none", "no upstream answers for this model now");
        break;
    }
    if (before && before->code)
        *e = *before;
    return false;
}

/* ---- a job's life */

static struct relay_job *create(struct relay *r, const struct engine_relay *p, struct err *e)
{
    struct relay_job *j = calloc(1, sizeof *j);
    char *chat = j ? malloc(p->n_request) : NULL;
    if (!chat) {
        err_set(e, ERR_NOMEM, "no memory for a job");
        free(j);
        return NULL;
    }
    memcpy(chat, p->request, p->n_request);
    *j = (struct relay_job){.relay = r,
                            .id = ENGINE_RELAYED_JOBS + ++r->last_id,
                            .user = p->user,
                            .affinity = p->affinity,
                            .model = p->model,
                            .only = p->upstream,
                            .detached = p->detached,
                            .text = p->text,
                            .chat = chat,
                            .held = p->n_request,
                            .estimate = relay_estimate(p->request, p->n_request),
                            .asked_ms = clock_ms()};
    memcpy(j->key, p->key, sizeof j->key);
    memcpy(j->request_id, p->request_id, sizeof j->request_id);
    relay_via_put(j->via, p->via, r->w->shared);
    j->answer = (struct relay_answer){.job = j->id,
                                      .events = &j->log,
                                      .most_tokens =
                                          p->most_tokens <= RELAY_MOST_TOKENS ? p->most_tokens : 0,
                                      .wants_logprobs = p->logprobs,
                                      .most_prompt = (int64_t)p->n_request + PROMPT_EXTRA};
    return j;
}

static void destroy(struct relay_job *j)
{
    free(j->chat);
    relay_answer_fini(&j->answer);
    buf_fini(&j->log);
    free(j);
}

/* Requests are kept in memory until their answers begin, which an upstream that hangs puts off. */
static bool has_memory(const struct relay *r, const struct engine_relay *p, struct err *e)
{
    size_t all = p->n_request, own = p->n_request;
    for (const struct relay_job *j = r->jobs; j; j = j->next) {
        const size_t held = j->held + (j->call ? relay_call_held(j->call) : 0);
        all += held;
        own += j->user == p->user ? held : 0;
    }
    if (all <= RELAY_HELD_BYTES && own <= RELAY_HELD_SHARE)
        return true;
    refuse(e, ERR_BUSY, "upstream_busy",
           own > RELAY_HELD_SHARE
               ? "your requests that wait for the upstreams are too large together"
               : "the requests that wait for the upstreams are too large together");
    return false;
}

struct relay_job *relay_job_submit(struct relay *r, const struct engine_relay *p, struct err *e)
{
    if (r->stopping) {
        refuse(e, ERR_UNAVAILABLE, "server_restarting", "the server is restarting");
        return NULL;
    }
    const struct relay_job *same = p->detached ? relay_job_find(r, p->key) : NULL;
    if (same && !same->over) {
        err_field(e, ERR_CONFLICT, "key", "a job with this key is running");
        return NULL;
    }
    struct relay_job *j = has_memory(r, p, e) ? create(r, p, e) : NULL;
    if (!j)
        return NULL;
    if (!choose(j, NULL, e)) {
        destroy(j);
        return NULL;
    }
    *(r->last_job ? &r->last_job->next : &r->jobs) = j;
    j->before = r->last_job;
    r->last_job = j;
    if (j->detached)
        accept_job(j);
    return j;
}

struct relay_job *relay_job_find(struct relay *r, const char *key)
{
    struct relay_job *found = NULL;
    unsigned long long id = 0;
    const bool by_id = sscanf(key, "#%llu", &id) == 1;
    for (struct relay_job *j = r->jobs; j; j = j->next)
        if (by_id ? j->id == id && !j->over : j->detached && !strcmp(j->key, key))
            found = j;
    return found;
}

void relay_job_cancel(struct relay_job *j)
{
    j->cancelled = true;
    j->relay->attend = true;
}

void relay_jobs_cancel_user(struct relay *r, uint64_t user)
{
    for (struct relay_job *j = r->jobs; j; j = j->next)
        if (j->user == user && !j->over)
            relay_job_cancel(j);
}

/* The attempt gave nothing that was shown: the next one. */
static void again(struct relay_job *j, const struct err *why)
{
    struct err e = {0};
    if (j->answer.any) {
        fail(j, why);
        return;
    }
    release(j);
    relay_answer_again(&j->answer);
    if (!choose(j, why, &e))
        fail(j, &e);
}

static void note_tried(struct relay_job *j)
{
    if (j->n_tried < RELAY_MAX_TRIED)
        j->tried[j->n_tried++] = j->to->id;
    else
        j->only = -1; /* enough */
}

static void judge(struct relay_job *j, CURLcode rc, const char *late)
{
    struct err why = {0};
    double wait_ms = 0;
    struct upstreams *all = &j->relay->upstreams;
    const enum relay_verdict v = relay_call_verdict(j->call, rc, late, &wait_ms, &why);
    const char *detail = relay_call_detail(j->call);
    if (v != RELAY_WHOLE)
        log_warn("id=%s upstream=%s: %s", j->request_id, j->to->name,
                 detail[0] ? detail : why.text);
    switch (v) {
    case RELAY_WHOLE:
        upstream_succeeded(all, j->to);
        relay_answer_done(&j->answer, j->estimate);
        count_tokens(j);
        accept_job(j);
        finish(j); /* first: whoever reads it need not wait until libcurl has tidied up */
        release(j);
        break;
    case RELAY_REFUSED:
        upstream_succeeded(all, j->to);
        fail(j, &why);
        break;
    case RELAY_BUSY:
        upstream_is_busy(all, j->to, wait_ms);
        again(j, &why);
        break;
    case RELAY_MISSING:
        note_tried(j);
        again(j, &why);
        break;
    case RELAY_DOWN:
    case RELAY_FAILED:
        note_tried(j);
        upstream_failed(all, j->to, v == RELAY_DOWN, detail[0] ? detail : why.text);
        again(j, &why);
        break;
    }
}

void relay_job_ended(struct relay_job *j, CURLcode rc)
{
    judge(j, rc, NULL);
}

/* A cancelled answer ends as an engine's does: with what there is, and its count. */
static void end_cancelled(struct relay_job *j)
{
    relay_answer_finish(&j->answer, ENGINE_CANCELLED);
    accept_job(j);
    relay_answer_done(&j->answer, j->to ? j->estimate : 0);
    if (j->to)
        count_tokens(j);
    release(j);
    finish(j);
}

void relay_jobs_attend(struct relay *r)
{
    r->attend = false;
    for (struct relay_job *j = r->jobs; j; j = j->next) {
        struct err e = {0};
        if (!j->over && j->cancelled)
            end_cancelled(j);
        else if (!j->over && j->waiting && !choose(j, NULL, &e))
            fail(j, &e);
    }
}

static void look_after(struct relay_job *j, double now)
{
    struct err e = {0};
    const char *late = j->call ? relay_call_late(j->call, now) : NULL;
    if (late)
        judge(j, CURLE_OK, late);
    else if (j->call && relay_call_lingers(j->call, now))
        judge(j, CURLE_OK, NULL);
    else if (j->waiting && now > j->wait_until) {
        refuse(&e, ERR_BUSY, "upstream_queue", "no upstream had room for the answer in time");
        fail(j, &e);
    }
    if (!j->over && !j->accepted && now - j->asked_ms > RELAY_FIRST_WORD_MS) {
        accept_job(j);
        relay_server_send(j);
    }
}

static void remove_job(struct relay_job *j)
{
    struct relay *r = j->relay;
    *(j->before ? &j->before->next : &r->jobs) = j->next;
    *(j->next ? &j->next->before : &r->last_job) = j->before;
    destroy(j);
}

void relay_jobs_forget_ended(struct relay *r)
{
    while (r->ended) {
        struct relay_job *j = r->ended;
        r->ended = j->next_ended;
        if (!j->detached && !j->readers)
            remove_job(j);
    }
}

/* Ended jobs that nobody reads, by age and by the bytes of their events. */
static void forget(struct relay *r, double now)
{
    size_t kept = 0;
    relay_jobs_forget_ended(r); /* or that list would hold what goes here */
    for (struct relay_job *j = r->jobs; j; j = j->next)
        kept += j->over ? j->log.len : 0;
    for (struct relay_job *j = r->jobs, *next; j; j = next) {
        next = j->next;
        const bool old = !j->detached || now - j->over_ms > KEEP_MS || kept > KEEP_BYTES;
        if (!j->over || j->readers || !old)
            continue;
        kept -= j->log.len;
        remove_job(j);
    }
}

void relay_jobs_tick(struct relay *r, double now)
{
    for (struct relay_job *j = r->jobs; j; j = j->next)
        if (!j->over)
            look_after(j, now);
    if (r->n_waiting)
        r->attend = true; /* an upstream that was busy may not be so any more */
    forget(r, now);
}

void relay_jobs_fail_all(struct relay *r)
{
    struct err e = {0};
    refuse(&e, ERR_UNAVAILABLE, "server_restarting", "the server is restarting");
    for (struct relay_job *j = r->jobs; j; j = j->next)
        if (!j->over)
            fail(j, &e);
}

void relay_jobs_fini(struct relay *r)
{
    while (r->jobs) {
        struct relay_job *j = r->jobs;
        r->jobs = j->next;
        if (!j->over)
            release(j);
        destroy(j);
    }
}
