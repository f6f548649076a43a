/* recorder_answer.h: attaches to a running job, reads its events from the first one on, and says
 * when the row is due. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/recorder_answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/wire/status.h"
#include "fcgi/inference/stored_answer.h"
#include "fcgi/process/worker.h"

/* A worker commits the row before it submits the job; this is the longest time between the two. */
#define SUBMIT_MS 15000
/* An engine that stopped has lost its jobs. Attaching is still retried for this long, since a full
 * backlog refuses connections too and must not end an answer that still runs. */
#define LOST_MS 3000.0
#define ATTACH_RETRY_MS 100.0
/* An attachment that breaks is made again. Those that bring nothing new for this long end the
 * answer, or it would run for ever and refuse each further message of its conversation. */
#define BROKEN_MS 5000.0
#define ANSWER_MS 10000.0 /* an engine that takes longer to say whether it knows a job hangs */
#define STARTED_SLACK_MS                                                                           \
    1000.0 /* a row is made that long before its job at most, while the engine just starts */
#define WRITE_MS 250.0
#define WRITE_TOKENS 32
#define LONG_BYTES ((size_t)64 << 10)

bool recorder_answer_open(struct recorder_answer *r, const struct store_running *row)
{
    *r = (struct recorder_answer){.id = row->id,
                                  .user_id = row->user_id,
                                  .created_at = row->created_at,
                                  .written = row->written};
    snprintf(r->key, sizeof r->key, "%s", row->job_key);
    if (row->parser && !(r->parser = strdup(row->parser)))
        return false;
    return true;
}

static void drop_generation(struct recorder_answer *r)
{
    generation_fini(&r->g);
    cJSON_Delete(r->tree);
    r->tree = NULL;
    memset(&r->g, 0, sizeof r->g);
    buf_clear(&r->tokens);
}

void recorder_answer_close(struct recorder_answer *r)
{
    engine_close(&r->job);
    drop_generation(r);
    buf_fini(&r->tokens);
    free(r->parser);
    r->parser = NULL;
}

bool recorder_answer_final(const struct recorder_answer *r)
{
    return r->g.state == GENERATION_DONE || r->g.state == GENERATION_FAILED;
}

static void fail(struct recorder_answer *r, const struct err *why)
{
    engine_close(&r->job);
    generation_break(&r->g, why);
    r->dirty = true;
    log_warn("message=%lld tokens=%d: %s", (long long)r->id, r->g.n_tokens, why->text);
}

static void fail_because(struct recorder_answer *r, const char *reason, const char *text)
{
    struct err why = {0};
    err_set(&why, ERR_UNAVAILABLE, "%s", text);
    err_reason(&why, reason);
    fail(r, &why);
}

/* An engine that started after the row was made does not have the job: its predecessor had it. */
static bool engine_is_younger(const struct recorder_answer *r, const char *status_path)
{
    static struct status_page page; /* the recorder's only thread */
    return status_read(status_path, &page, NULL) &&
           page.started * 1000 > (double)r->created_at + STARTED_SLACK_MS;
}

static void not_attached(struct recorder_answer *r, const struct err *why, const char *status_path,
                         double now)
{
    const bool late = clock_wall_ms() - r->created_at > SUBMIT_MS;
    if (r->lost_since == 0)
        r->lost_since = now;
    r->next_attach = now + ATTACH_RETRY_MS;
    if (why->code == ERR_NOTFOUND) {
        const bool relayed = worker_job_relayed(r->key); /* the status is the engine's */
        if (r->attached_once || (!relayed && engine_is_younger(r, status_path)))
            fail_because(r, "engine_restarted", "the engine restarted in the middle of the answer");
        else if (late)
            fail_because(r, "answer_lost",
                         "the answer was never begun, or the engine has forgotten it");
    } else if (now - r->lost_since > LOST_MS && (r->attached_once || late)) {
        if (r->attached_once)
            fail_because(r, "engine_stopped", "the engine stopped in the middle of the answer");
        else
            fail(r, why);
    }
}

void recorder_answer_attach(struct recorder_answer *r, const char *engine_socket,
                            const char *status_path, double now)
{
    struct err e = {0};
    if (recorder_answer_final(r) || (r->job && !r->asked) || (!r->job && now < r->next_attach))
        return;
    if (!r->job) {
        r->job = engine_attach_async(engine_socket, r->key, &e);
        r->asked = r->job != NULL;
        r->asked_at = now;
    }
    int attached = r->job ? engine_attach_poll(r->job, &e) : -1;
    if (attached == 0 && now - r->asked_at < ANSWER_MS)
        return;
    if (attached == 0)
        err_set(&e, ERR_UNAVAILABLE, "the engine does not answer");
    r->asked = false;
    if (attached <= 0) {
        engine_close(&r->job);
        not_attached(r, &e, status_path, now);
        return;
    }
    /* Each attachment replays the job from its first event, so what was read before is dropped. */
    drop_generation(r);
    r->attached_once = true;
    r->lost_since = 0;
    if (!stored_answer_begin(&r->g, &r->tree, r->parser, NULL, &e)) {
        engine_close(&r->job);
        engine_cancel_key(engine_socket, r->key, NULL);
        fail(r, &e);
    }
}

/* If memory runs out, the answer can later be resumed from its text alone, so it does not fail. */
static void note_tokens(struct recorder_answer *r, const struct engine_event *ev)
{
    for (int32_t i = 0; ev->type == ENGINE_TOKENS && i < ev->n_tokens; i++)
        if (ev->tokens[i].id >= 0) /* another server's are not known */
            buf_append(&r->tokens, &ev->tokens[i].id, sizeof ev->tokens[i].id);
}

/* The connection broke: the text is kept as it is until the next attachment, or the end. */
static void broken(struct recorder_answer *r)
{
    const double now = clock_ms();
    engine_close(&r->job);
    r->next_attach = now + ATTACH_RETRY_MS;
    if (r->broken_since == 0 || r->g.n_tokens > r->tokens_at_break) {
        r->broken_since = now;
        r->tokens_at_break = r->g.n_tokens;
    } else if (now - r->broken_since > BROKEN_MS) {
        fail_because(r, "engine_connection", "the connection to the engine keeps breaking");
    }
}

bool recorder_answer_read(struct recorder_answer *r, int max)
{
    struct engine_event ev;
    struct err e = {0};
    for (int i = 0; i < max; i++) {
        if (!r->job || r->asked || recorder_answer_final(r))
            return false;
        int got = engine_next(r->job, &ev, 0, &e);
        if (got == 0)
            return false;
        if (got < 0) {
            broken(r);
            return false;
        }
        note_tokens(r, &ev);
        if (!generation_event(&r->g, &ev, &e))
            fail(r, &e);
        else if (ev.type != ENGINE_ACCEPTED && ev.type != ENGINE_PROGRESS)
            r->dirty = true;
    }
    return true;
}

static size_t text_bytes(const struct recorder_answer *r)
{
    return r->g.content.len + r->g.reasoning.len;
}

double recorder_answer_due(const struct recorder_answer *r)
{
    if (!r->dirty || (!recorder_answer_final(r) && text_bytes(r) < r->written))
        return INFINITY;
    bool many = r->g.n_tokens - r->tokens_written >= WRITE_TOKENS;
    return recorder_answer_final(r) || many ? 0 : r->next_write;
}

bool recorder_answer_write(const struct recorder_answer *r, struct store *s, bool *gone,
                           struct err *e)
{
    struct stored_answer_texts texts = {0};
    struct store_answer row;
    bool ok = stored_answer_row(&r->g, r->id, &texts, &row, e);
    if (ok) {
        row.keep_text = text_bytes(r) < r->written;
        row.count_for = r->user_id;
        row.tokens = r->tokens.failed ? NULL : (const int32_t *)(const void *)r->tokens.data;
        row.n_tokens = r->tokens.len / sizeof *row.tokens;
        ok = store_record_write(s, &row, gone, e);
    }
    stored_answer_texts_fini(&texts);
    return ok;
}

void recorder_answer_written(struct recorder_answer *r, double now)
{
    r->dirty = false;
    r->written = text_bytes(r);
    r->tokens_written = r->g.n_tokens;
    r->next_write = now + WRITE_MS * (1 + (double)(r->written / LONG_BYTES));
}
