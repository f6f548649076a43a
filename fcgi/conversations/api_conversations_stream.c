/* An answer as a stream of events: start, progress, delta, done or error. The text comes from the
 * engine's job, which gives it from its first token to everyone who attaches; the last event shows
 * the row as the recorder wrote it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "answers"
#include "engine/base/log.h"
#include "fcgi/auth/limits.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/sse.h"
#include "fcgi/inference/stored_answer.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/inference/watch.h"
#include "fcgi/process/worker.h"
#include "sql/chats/store_conversations.h"

/* After the job's end the recorder has written within milliseconds, unless it is just being started
 * again. */
#define RECORD_MS 3000.0
/* The connection broke before that: the recorder gives an engine that went away 3 s to come back,
 * and then writes why. */
#define BROKEN_MS 6000.0
/* A row that runs but whose job can't be reached: the recorder gives it up after 15 s
 * (recorder_answer.c). */
#define UNREACHED_MS 20000.0
#define ATTACH_RETRY_MS 150

struct follow {
    struct request *r;
    struct sse sse;
    struct generation g;
    cJSON *tree;
    struct buf reasoning, content; /* of the delta to be sent */
    struct buf json;
    int64_t user_message_id, message_id;
    bool left; /* the client or this worker is going: end without a last event, the page comes back
                */
};

static void take_delta(void *context, const struct generation *g, const struct chat_delta *d)
{
    struct follow *f = context;
    (void)g;
    if (d->type == CHAT_REASONING)
        buf_append(&f->reasoning, d->text, d->len);
    else if (d->type == CHAT_CONTENT)
        buf_append(&f->content, d->text, d->len);
}

static void put_member(struct buf *out, const char *name, struct buf *text)
{
    if (!text->len)
        return;
    buf_printf(out, "\"%s\":", name);
    buf_json_string(out, text->data, text->len);
    buf_putc(out, ',');
    buf_clear(text);
}

/* All that came since the last event, as one. */
static void send_delta(struct follow *f)
{
    if (!f->reasoning.len && !f->content.len)
        return;
    buf_clear(&f->json);
    buf_putc(&f->json, '{');
    put_member(&f->json, "reasoning", &f->reasoning);
    put_member(&f->json, "content", &f->content);
    buf_printf(&f->json, "\"n\":%d,\"tokens_per_second\":", f->g.earlier_tokens + f->g.n_tokens);
    buf_json_number(&f->json, generation_rate(&f->g));
    if (f->g.reasoning.len) {
        buf_puts(&f->json, ",\"reasoning_ms\":");
        buf_json_number(&f->json, f->g.earlier_reasoning_ms + f->g.reasoning_ms);
    }
    buf_putc(&f->json, '}');
    sse_event(&f->sse, "delta", f->json.data, f->json.len);
}

static void send_progress(struct follow *f)
{
    buf_clear(&f->json);
    buf_printf(&f->json, "{\"done\":%d,\"total\":%d,\"cached\":%d,\"queue_position\":%d}",
               f->g.done, f->g.total, f->g.cached,
               f->g.state == GENERATION_QUEUED ? f->g.queue_position : 0);
    sse_event(&f->sse, "progress", f->json.data, f->json.len);
}

static bool get_row(struct follow *f, int64_t id, struct store_message *m)
{
    struct err e = {0};
    return store_message_get(f->r->store, f->r->arena,
                             &(struct store_ref){.user_id = f->r->who.user_id, .id = id}, m, &e);
}

/* An answer whose text is still to be sent, as it was when it began: its row may have ended by now,
 * and an answer that is said to have ended without a text looks as if the model had said nothing.
 */
static void as_begun(struct store_message *m)
{
    m->status = MESSAGE_RUNNING;
    m->content = m->reasoning = "";
    m->tool_calls = m->runs = m->error = m->error_detail = m->timings = NULL;
    m->has_usage = false;
    m->finished_at = 0;
}

static bool send_start(struct follow *f, bool text_follows)
{
    struct store_message m;
    buf_clear(&f->json);
    buf_puts(&f->json, "{\"user_message\":");
    if (f->user_message_id && get_row(f, f->user_message_id, &m))
        conversation_message_json(&f->json, &m);
    else
        buf_puts(&f->json, "null");
    if (!get_row(f, f->message_id, &m))
        return false;
    if (text_follows)
        as_begun(&m);
    buf_puts(&f->json, ",\"message\":");
    conversation_message_json(&f->json, &m);
    buf_putc(&f->json, '}');
    sse_event(&f->sse, "start", f->json.data, f->json.len);
    return sse_flush(&f->sse);
}

/* Sleeps until the job (or NULL) has something; false when the client or this worker is going. */
static bool nap_for(struct follow *f, struct engine_job *job, int ms)
{
    int which, idle = sse_idle_ms(&f->sse);
    if (idle == 0)
        sse_comment(&f->sse, "waiting");
    sse_flush(&f->sse);
    enum watch_result w = watch_jobs(f->r, &job, 1, ms, &which);
    f->left = w == WATCH_GONE || w == WATCH_SHUTDOWN || f->r->client_gone;
    return !f->left;
}

static bool nap(struct follow *f, int ms)
{
    return nap_for(f, NULL, ms);
}

/* Waits until the row has ended. A row that was deleted meanwhile counts as ended. */
static bool wait_row(struct follow *f, double ms)
{
    double until = clock_ms() + ms;
    for (int pause = 5;; pause = pause < 100 ? pause * 2 : 100) {
        enum store_status status;
        struct err e = {0};
        if (!store_message_status(f->r->store, f->r->who.user_id, f->message_id, &status, &e))
            return e.code == ERR_NOTFOUND;
        if (status != MESSAGE_RUNNING)
            return true;
        if (clock_ms() > until || !nap(f, pause))
            return false;
    }
}

static void send_last(struct follow *f, const struct store_message *m, const struct err *why)
{
    struct err e = {.code = ERR_UNAVAILABLE};
    bool failed = m->status == MESSAGE_ERROR || m->status == MESSAGE_RUNNING;
    buf_clear(&f->json);
    if (failed) {
        if (why && why->code)
            e = *why;
        else
            snprintf(e.text, sizeof e.text, "%s",
                     m->error ? m->error : "the answer could not be followed to its end");
        reply_error_object(&f->json, f->r, &e);
        f->json.len--; /* its closing brace: the message goes into the same object */
    } else {
        buf_putc(&f->json, '{');
    }
    buf_printf(&f->json, "%s\"message\":", failed ? "," : "");
    conversation_message_json(&f->json, m);
    buf_putc(&f->json, '}');
    sse_event(&f->sse, failed ? "error" : "done", f->json.data, f->json.len);
    sse_flush(&f->sse);
}

/* The recorder is late (it may be starting again): what was seen here is written in its place,
 * since the last event says what is on the disk. Whichever comes second finds that the row has
 * ended. */
static void record(struct follow *f)
{
    struct stored_answer_texts texts = {0};
    struct store_answer row;
    struct err e = {0};
    struct store *s = f->r->store;
    bool gone = true;
    if (stored_answer_row(&f->g, f->message_id, &texts, &row, &e) &&
        store_record_begin(s, true, &e)) {
        row.count_for = f->r->who.user_id;
        if (!store_record_write(s, &row, &gone, &e) || !store_record_end(s, &e)) {
            store_record_undo(s);
            gone = true;
        }
    }
    if (!gone)
        limits_spend_user(f->r->worker->shared, s, row.count_for, generation_spent(&f->g));
    if (e.code != ERR_NONE)
        log_error("message=%lld can't be written: %s", (long long)f->message_id, e.text);
    stored_answer_texts_fini(&texts);
}

static void end_stream(struct follow *f, double wait_ms, const struct err *why)
{
    struct store_message m;
    bool ended = wait_row(f, wait_ms);
    if (f->left)
        return;
    if (!ended && f->g.state >= GENERATION_DONE)
        record(f);
    if (get_row(f, f->message_id, &m))
        send_last(f, &m, why); /* else the conversation was deleted under the stream */
}

static double record_ms(const struct follow *f)
{
    return f->g.state >= GENERATION_DONE ? RECORD_MS : BROKEN_MS;
}

/* Sends the events that are available. False if the job or its connection has ended. */
static bool read_events(struct follow *f, struct engine_job *job)
{
    struct engine_event ev;
    struct err e = {0};
    for (;;) {
        int got = engine_next(job, &ev, 0, &e);
        if (got == 0)
            return true;
        if (got < 0 || !generation_event(&f->g, &ev, &e))
            return false;
        if (ev.type == ENGINE_ACCEPTED || ev.type == ENGINE_PROGRESS)
            send_progress(f);
        if (f->g.state >= GENERATION_DONE)
            return false;
    }
}

static void follow_job(struct follow *f, struct engine_job *job)
{
    int which = 0;
    bool more = read_events(f, job);
    for (;;) {
        send_delta(f);
        if (!sse_flush(&f->sse))
            f->left = true;
        if (!more || f->left)
            break;
        switch (watch_jobs(f->r, &job, 1, sse_idle_ms(&f->sse), &which)) {
        case WATCH_EVENT:
            more = read_events(f, job);
            break;
        case WATCH_TIMEOUT:
            if (sse_idle_ms(&f->sse) == 0)
                send_progress(f); /* keeps the connection alive and says something */
            break;
        case WATCH_GONE:
        case WATCH_SHUTDOWN:
            f->left = true;
            break;
        }
    }
    f->r->prompt_tokens = f->g.usage.prompt_tokens;
    f->r->completion_tokens = f->g.n_tokens;
}

/* Is it of use to wait for who carries the job? */
static bool answers(const struct request *r, const char *key, struct err *e)
{
    return worker_job_relayed(key) || model_gate_answers(r, key, e);
}

/* Attaches to the job, and waits as long as the engine's heartbeat is fresh. */
static struct engine_job *ask(struct follow *f, const char *key)
{
    struct err e = {0};
    int attached = -1;
    char socket[WORKER_SOCKET_BYTES];
    struct engine_job *job =
        engine_attach_async(worker_job_socket(f->r->worker, key, socket), key, &e);
    while (job && (attached = engine_attach_poll(job, &e)) == 0)
        if (!answers(f->r, key, &e) || !nap_for(f, job, ATTACH_RETRY_MS))
            break;
    if (attached <= 0)
        engine_close(&job);
    return job;
}

/* The row runs, but its job is not there (yet): the worker that posted it may be about to submit
 * it, or the engine has lost it, and the recorder will say so. An engine that hangs is not waited
 * for. */
static struct engine_job *attach(struct follow *f, const char *key, struct err *hung)
{
    double until = clock_ms() + UNREACHED_MS;
    enum store_status status = MESSAGE_RUNNING;
    for (;;) {
        struct err e = {0};
        struct engine_job *job = ask(f, key);
        if (job || f->left || !answers(f->r, key, hung))
            return job;
        if (!store_message_status(f->r->store, f->r->who.user_id, f->message_id, &status, &e) ||
            status != MESSAGE_RUNNING || clock_ms() > until || !nap(f, ATTACH_RETRY_MS))
            return NULL;
    }
}

static void show_row(struct follow *f)
{
    struct store_message m;
    if (!get_row(f, f->message_id, &m))
        return;
    buf_puts(&f->content, m.content);
    buf_puts(&f->reasoning, m.reasoning);
    send_delta(f);
}

static bool begin(struct follow *f, const char *parser, struct err *e)
{
    const struct generation_params listener = {.on_delta = take_delta, .context = f};
    return stored_answer_begin(&f->g, &f->tree, parser, &listener, e);
}

static void fini(struct follow *f)
{
    sse_end(&f->sse);
    generation_fini(&f->g);
    cJSON_Delete(f->tree);
    buf_fini(&f->reasoning);
    buf_fini(&f->content);
    buf_fini(&f->json);
}

bool conversation_follow(struct request *r, const struct conversation_begun *b,
                         struct engine_job **job)
{
    struct follow f = {.r = r, .user_message_id = b->user_message_id, .message_id = b->message_id};
    struct err e = {0};
    r->job = *job ? engine_job_id(*job) : 0;
    if (sse_start(&f.sse, r) && send_start(&f, true)) {
        if (*job && begin(&f, b->parser, &e))
            follow_job(&f, *job);
        if (!f.left)
            end_stream(&f, record_ms(&f), b->failed);
    }
    engine_close(job); /* The job is detached, so the answer continues. */
    fini(&f);
    return true;
}

bool conversation_stream(struct request *r, struct err *e)
{
    struct follow f = {.r = r};
    struct store_message m;
    struct engine_job *job = NULL;
    struct err hung = {0};
    if (!path_id_param(r, "id", &f.message_id, e) ||
        !store_message_get(r->store, r->arena,
                           &(struct store_ref){.user_id = r->who.user_id, .id = f.message_id}, &m,
                           e))
        return false;
    bool running = m.status == MESSAGE_RUNNING;
    if (running && !answers(r, m.job_key, e))
        return false;
    if (sse_start(&f.sse, r) && send_start(&f, running)) {
        if (running && (job = attach(&f, m.job_key, &hung)) && begin(&f, m.parser, e))
            follow_job(&f, job);
        else if (running && !f.left)
            show_row(&f);
        if (!f.left)
            end_stream(&f, hung.code ? 0 : record_ms(&f), &hung);
    }
    engine_close(&job);
    fini(&f);
    return true;
}
