/* engine/engine.h over the socket: one connection, one job. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/busy_poll.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/wire/message.h"
#include "engine/wire/peer.h"

#define CONNECT_MS 2000.0
/* The engine's I/O thread replies whatever the device does, so a longer silence means that it
 * hangs. */
#define REPLY_MS 10000.0
/* The relay closes a connection that has no job for half as long again. */
#define KEPT_MS 20000.0
/* A relay that is renewed stops listening a moment before its successor begins. */
#define SUCCESSOR_MS 1000.0
#define SUCCESSOR_STEP_US 10000
#define CANCEL_MS                                                                                  \
    2000.0 /* a client that cancels need not wait: a hung engine reads the request when it         \
              continues */

struct engine_job {
    struct peer peer;
    uint64_t id;
    bool greeted;             /* HELLO was received */
    bool over;                /* DONE or FAILED was given out */
    bool done;                /* DONE: the peer may take another job */
    bool cancelled;           /* the relay may answer that after the job's end */
    struct engine_job **kept; /* where its connection goes; NULL: it is closed */
    double kept_ms;           /* clock_ms */
    struct busy_poll first;   /* first words on this connection */
    struct event_box box;
};

/* Reads HELLO and the first answer, which stays in the buffer when it is an event of a job. 1, 0
 * (deadline), -1. */
static int greet(struct engine_job *j, double deadline, struct err *e)
{
    struct engine_event ev;
    struct frame f;
    size_t used;
    for (;;) {
        int got = peer_next(&j->peer, &f, &used, deadline, e);
        if (got <= 0)
            return got;
        if (j->greeted || f.type != FRAME_HELLO)
            break;
        if (!message_get_hello(&f, e))
            return -1;
        j->greeted = true;
        j->peer.in_pos += used;
    }
    if (!message_get_event(&f, &ev, &j->box, e))
        return -1;
    if (ev.type == ENGINE_FAILED && ev.job == 0) { /* refused: no job was made */
        if (e)
            *e = ev.error;
        return -1;
    }
    j->id = ev.job;
    return 1;
}

static struct engine_job *connect_job(const char *socket_path, double timeout_ms, struct err *e)
{
    struct engine_job *j = calloc(1, sizeof *j);
    if (!j) {
        err_set(e, ERR_NOMEM, "no memory for a job");
        return NULL;
    }
    if (!peer_connect(&j->peer, socket_path, clock_ms() + timeout_ms, e))
        engine_close(&j);
    return j;
}

/* Sends HELLO and the request in `out`, reads the first answer; what greet says. */
static int ask(struct engine_job *j, const struct buf *out, double reply_ms, struct err *e)
{
    struct err sending = {0};
    bool sent = peer_send(&j->peer, out, clock_ms() + reply_ms, &sending);
    const double began = clock_ms();
    const bool awake = sent && busy_poll_begin(&j->first, began);
    if (!awake || !peer_poll_busily(&j->peer, BUSY_POLL_US))
        log_flush(); /* a long wait */
    /* An engine that refuses may close before it has read everything; its reason can still be read.
     */
    int greeted = greet(j, clock_ms() + reply_ms, e);
    busy_poll_end(&j->first, awake, (clock_ms() - began) * 1e3);
    if (greeted == 0)
        err_set(e, ERR_UNAVAILABLE, "the engine does not answer");
    if (greeted <= 0 && !sent && e && e->code == ERR_UNAVAILABLE)
        *e = sending;
    return greeted;
}

static struct engine_job *start(const char *socket_path, const struct buf *out, double reply_ms,
                                struct err *e)
{
    struct engine_job *j = connect_job(socket_path, CONNECT_MS, e);
    if (j && ask(j, out, reply_ms, e) <= 0)
        engine_close(&j);
    return j;
}

static struct engine_job *start_relayed(const char *socket_path, const struct buf *out,
                                        struct err *e)
{
    const double until = clock_ms() + SUCCESSOR_MS;
    struct err why = {0};
    struct engine_job *j;
    while (!(j = connect_job(socket_path, CONNECT_MS, &why)) && why.code == ERR_UNAVAILABLE &&
           clock_ms() < until) {
        log_flush();
        clock_sleep_us(SUCCESSOR_STEP_US);
    }
    if (!j && e)
        *e = why;
    if (j && ask(j, out, REPLY_MS, e) <= 0)
        engine_close(&j);
    return j;
}

/* The peer closed without an answer and without having read the whole request: it has not begun.
 * One that had read it may have passed it on, so that it must not be sent again. */
static bool is_lost(const struct engine_job *j, int greeted)
{
    return greeted < 0 && j->peer.unread && j->peer.in.len == j->peer.in_pos;
}

/* On the connection of a job that is over. NULL and *lost: its peer has closed it, and has not
 * begun this job: another connection may ask for it. */
static struct engine_job *start_kept(struct engine_job **kept, const struct buf *out, bool *lost,
                                     struct err *e)
{
    struct engine_job *j = *kept;
    *kept = NULL;
    *lost = !j || clock_ms() - j->kept_ms > KEPT_MS;
    if (j)
        j->kept = NULL; /* else engine_close would store it back as if its job were just over */
    if (*lost) {
        engine_close(&j);
        return NULL;
    }
    j->id = 0;
    j->over = j->done = false;
    const int greeted = ask(j, out, REPLY_MS, e);
    *lost = is_lost(j, greeted);
    if (greeted <= 0)
        engine_close(&j);
    return j;
}

struct engine_job *engine_submit(const char *socket_path, const struct engine_job_params *p,
                                 struct err *e)
{
    struct buf out = {0};
    struct engine_job *j = NULL;
    message_put_hello(&out, "client");
    if (message_put_submit(&out, p, e))
        j = start(socket_path, &out, REPLY_MS, e);
    buf_fini(&out);
    return j;
}

struct engine_job *engine_relay(const char *socket_path, const struct engine_relay *p,
                                struct engine_job **kept, struct err *e)
{
    struct buf out = {0};
    struct err why = {0};
    struct engine_job *j = NULL;
    bool lost = true;
    message_put_hello(&out, "client");
    if (!message_put_relay(&out, p, e)) {
        buf_fini(&out);
        return NULL;
    }
    if (kept)
        j = start_kept(kept, &out, &lost, &why);
    if (lost)
        j = start_relayed(socket_path, &out, e);
    else if (!j && e)
        *e = why;
    if (j)
        j->kept = kept;
    buf_fini(&out);
    return j;
}

/* HELLO and a frame that holds a key. */
static bool put_key(struct buf *out, enum frame_type type, const char *key, struct err *e)
{
    if (!key[0] || strlen(key) >= ENGINE_KEY_SIZE)
        return err_field(e, ERR_INPUT, "key", "a key has 1 to %d characters", ENGINE_KEY_SIZE - 1);
    message_put_hello(out, "client");
    message_put_key(out, type, key);
    return !out->failed || err_set(e, ERR_NOMEM, "no memory for a request");
}

static struct engine_job *start_with_key(const char *socket_path, enum frame_type type,
                                         const char *key, struct err *e)
{
    const double reply_ms = type == FRAME_CANCEL ? CANCEL_MS : REPLY_MS;
    struct buf out = {0};
    struct engine_job *j =
        put_key(&out, type, key, e) ? start(socket_path, &out, reply_ms, e) : NULL;
    buf_fini(&out);
    return j;
}

struct engine_job *engine_attach(const char *socket_path, const char *key, struct err *e)
{
    return start_with_key(socket_path, FRAME_ATTACH, key, e);
}

/* Sends a request without reading the reply. */
static struct engine_job *send_only(const char *socket_path, enum frame_type type, const char *key,
                                    struct err *e)
{
    struct buf out = {0};
    struct engine_job *j = put_key(&out, type, key, e) ? connect_job(socket_path, 0, e) : NULL;
    if (j && !peer_send(&j->peer, &out, clock_ms(),
                        e)) /* a request this small fits into any socket buffer */
        engine_close(&j);
    buf_fini(&out);
    return j;
}

struct engine_job *engine_attach_async(const char *socket_path, const char *key, struct err *e)
{
    return send_only(socket_path, FRAME_ATTACH, key, e);
}

int engine_attach_poll(struct engine_job *j, struct err *e)
{
    return greet(j, clock_ms(), e);
}

bool engine_cancel_key(const char *socket_path, const char *key, struct err *e)
{
    struct engine_job *j = start_with_key(socket_path, FRAME_CANCEL, key, e);
    bool found = j != NULL;
    engine_close(&j);
    return found;
}

bool engine_cancel_async(const char *socket_path, const char *key, struct err *e)
{
    struct engine_job *j = send_only(socket_path, FRAME_CANCEL, key, e);
    bool told = j != NULL;
    engine_close(&j);
    return told;
}

int engine_next(struct engine_job *j, struct engine_event *ev, int timeout_ms, struct err *e)
{
    struct frame f;
    size_t used;
    if (j->over) {
        err_set(e, ERR_UNAVAILABLE, "the job is over");
        return -1;
    }
    int got = peer_next(&j->peer, &f, &used, timeout_ms < 0 ? -1 : clock_ms() + timeout_ms, e);
    if (got <= 0)
        return got;
    if (!message_get_event(&f, ev, &j->box, e))
        return -1;
    j->peer.in_pos += used; /* the bytes stay where they are until the next call */
    j->done = ev->type == ENGINE_DONE;
    j->over = j->done || ev->type == ENGINE_FAILED;
    return 1;
}

bool engine_pending(const struct engine_job *j)
{
    struct frame f;
    size_t used;
    struct err e;
    /* A malformed frame is pending too: engine_next reports it. */
    return !j->over && peer_peek(&j->peer, &f, &used, &e) != 0;
}

int engine_job_fd(const struct engine_job *j)
{
    return j->peer.fd;
}

uint64_t engine_job_id(const struct engine_job *j)
{
    return j->id;
}

bool engine_cancel(struct engine_job *j, struct err *e)
{
    struct buf out = {0};
    struct err failed = {0};
    if (j->over)
        return true;
    j->cancelled = true;
    message_put_key(&out, FRAME_CANCEL, NULL);
    if (!out.failed)
        peer_send(&j->peer, &out, clock_ms() + CONNECT_MS, &failed);
    else
        err_set(&failed, ERR_NOMEM, "no memory for a request");
    buf_fini(&out);
    /* If the engine closed the connection, the last event is in flight: engine_next returns it or
     * the error. */
    if (failed.code == ERR_NONE || failed.code == ERR_UNAVAILABLE)
        return true;
    if (e)
        *e = failed;
    return false;
}

static bool keeps(const struct engine_job *j)
{
    return j->kept && !*j->kept && j->done && !j->cancelled && j->peer.in.len == j->peer.in_pos;
}

void engine_kept_close(struct engine_job **kept)
{
    if (*kept)
        (*kept)->kept = NULL;
    engine_close(kept);
}

void engine_close(struct engine_job **j)
{
    if (!*j)
        return;
    if (keeps(*j)) {
        (*j)->kept_ms = clock_ms();
        *(*j)->kept = *j;
        *j = NULL;
        return;
    }
    peer_close(&(*j)->peer); /* a job that is not detached ends with its connection */
    event_box_fini(&(*j)->box);
    free(*j);
    *j = NULL;
}

const char *engine_finish_name(enum engine_finish f)
{
    static const char *const names[] = {
        [ENGINE_STOP_EOS] = "stop",
        [ENGINE_STOP_STRING] = "stop",
        [ENGINE_LENGTH] = "length",
        [ENGINE_CANCELLED] = "cancelled",
    };
    return (unsigned)f < ENGINE_FINISH__N ? names[f] : "unknown";
}
