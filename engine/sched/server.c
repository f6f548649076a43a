/* Runs the I/O thread: it accepts connections, reads requests, sends events and stops the
 * engine. */
#include "engine/sched/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#define LOG_MODULE "server"
#include "engine/base/log.h"
#include "engine/sched/connection.h"
#include "engine/sched/job_table.h"
#include "engine/sched/listener.h"
#include "engine/wire/message.h"

#define MAX_CONNECTIONS 1024
#define SILENT_MS 30000.0 /* a connection that asks for nothing is closed */
#define FLUSH_MS 1000.0   /* at the end: for clients to read the last events */

struct server {
    struct server_params params;
    struct listener listener;
    bool paused; /* the listener is not watched: see listener_accept */
    int epoll_fd, event_fd, signal_fd;
    struct connection *connections;
    int32_t n_connections, n_silent; /* silent: without a job */
    struct job_table jobs;
    double stop_at_ms;  /* > 0: stopping; when the grace is over */
    bool cancelled_all;
    atomic_int quit_status; /* set by server_quit; -1: not set */
};

static bool watch(struct server *s, int fd, void *tag, uint32_t events, int operation)
{
    struct epoll_event ev = {.events = events, .data.ptr = tag};
    return epoll_ctl(s->epoll_fd, operation, fd, &ev) == 0;
}

struct server *server_open(const struct server_params *p, struct err *e)
{
    sigset_t signals;
    struct server *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "no memory for the server");
        return NULL;
    }
    s->params = *p;
    s->listener.fd = s->epoll_fd = s->event_fd = s->signal_fd = -1;
    atomic_init(&s->quit_status, -1);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->epoll_fd < 0 || s->event_fd < 0 || s->signal_fd < 0) {
        err_errno(e, "epoll, eventfd or signalfd");
        goto fail;
    }
    if (!listener_open(&s->listener, p->socket_path, p->group, MAX_CONNECTIONS, e))
        goto fail;
    /* Tags of events that belong to no connection are addresses of our own members. */
    if (!watch(s, s->listener.fd, &s->listener, EPOLLIN, EPOLL_CTL_ADD) ||
        !watch(s, s->event_fd, &s->event_fd, EPOLLIN, EPOLL_CTL_ADD) ||
        !watch(s, s->signal_fd, &s->signal_fd, EPOLLIN, EPOLL_CTL_ADD)) {
        err_errno(e, "epoll_ctl");
        goto fail;
    }
    return s;
fail:
    server_close(&s);
    return NULL;
}

static void count_connections(struct server *s)
{
    struct status_page *page = status_begin(s->params.status);
    page->connections = s->n_connections;
    status_end(s->params.status);
}

static void drop(struct server *s, struct connection *c)
{
    if (c->job && c->owner && !c->job->params.detached && !atomic_load(&c->job->over)) {
        atomic_store(&c->job->cancel, true);
        inbox_wake(s->params.inbox);
    }
    *(c->previous ? &c->previous->next : &s->connections) = c->next;
    if (c->next)
        c->next->previous = c->previous;
    s->n_connections--;
    s->n_silent -= !c->job;
    connection_destroy(&c);
    count_connections(s);
}

/* Sends what can be sent. False: the connection is gone. */
static bool pump(struct server *s, struct connection *c)
{
    bool was_blocked = c->blocked;
    if (connection_send(c) < 0) {
        drop(s, c);
        return false;
    }
    if (c->blocked != was_blocked)
        watch(s, c->fd, c, EPOLLIN | EPOLLRDHUP | (c->blocked ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
    return true;
}

static void follow(struct server *s, struct connection *c, struct job *j, bool owner)
{
    job_ref(j);
    c->job = j;
    c->owner = owner;
    s->n_silent--;
}

static void note_submission(struct server *s, bool accepted)
{
    struct status_page *page = status_begin(s->params.status);
    page->jobs_accepted += accepted;
    page->jobs_waiting += accepted; /* until the loop publishes its own count */
    page->jobs_refused += !accepted;
    status_end(s->params.status);
}

struct submission { /* a checked SUBMIT frame */
    struct arena *arena; /* params point into it */
    struct engine_job_params params;
    int32_t position; /* in the queue */
};

/* The job is in the table, and its ACCEPTED event in its log, before the loop can touch it. Takes the
 * arena, whatever happens. */
static bool accept_job(struct server *s, struct connection *c, const struct submission *from, struct err *e)
{
    struct buf frames = {0};
    struct job *j = job_create(job_table_next_id(&s->jobs), from->arena, &from->params, e);
    if (!j)
        return false;
    message_put_event(&frames, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = j->id, .queue_position = from->position});
    bool ok = event_log_append(&j->log, &frames, false) && job_table_add(&s->jobs, j);
    buf_fini(&frames);
    if (!ok) {
        job_unref(&j);
        return err_set(e, ERR_NOMEM, "no memory for a job");
    }
    follow(s, c, j, true);
    note_submission(s, true); /* before the loop can count its end */
    inbox_push(s->params.inbox, j);
    return true;
}

static bool submit(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    struct submission to;
    struct engine_job_params *p = &to.params;
    if (connection_left(c)) /* the client gave up waiting, so nobody wants the answer */
        return err_set(e, ERR_CANCELLED, "the client has left");
    to.arena = arena_create((size_t)f->len * 2 + ((size_t)64 << 10));
    if (!to.arena)
        return err_set(e, ERR_NOMEM, "no memory for a job");
    if (!message_get_submit(f, p, to.arena, e) || !inbox_check(s->params.inbox, p, &to.position, e))
        goto refuse;
    struct job *same = p->detached ? job_table_find(&s->jobs, p->key) : NULL;
    if (same && !atomic_load(&same->over)) {
        err_field(e, ERR_CONFLICT, "key", "a job with this key is running");
        goto refuse;
    }
    return accept_job(s, c, &to, e);
refuse:
    arena_destroy(&to.arena);
    return false;
}

static bool attach(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    if (!message_get_key(f, key, e))
        return false;
    struct job *j = job_table_find(&s->jobs, key);
    if (!j || !j->params.detached)
        return err_field(e, ERR_NOTFOUND, "key", "no such job, or forgotten since");
    follow(s, c, j, false);
    return true;
}

static bool cancel(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    if (!message_get_key(f, key, e))
        return false;
    struct job *j = key[0] ? job_table_find(&s->jobs, key) : c->job;
    if (!j)
        return err_field(e, ERR_NOTFOUND, "key", "no such job, or forgotten since");
    atomic_store(&j->cancel, true);
    inbox_wake(s->params.inbox);
    if (key[0]) {
        message_put_event(&c->out, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = j->id});
        c->closing = true;
    }
    return true;
}

static bool handle(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    if (!c->greeted && f->type != FRAME_HELLO)
        return err_set(e, ERR_FORMAT, "HELLO must come first");
    if (f->type == FRAME_HELLO) {
        c->greeted = true;
        return message_get_hello(f, e);
    }
    if (f->type == FRAME_CANCEL)
        return cancel(s, c, f, e);
    if (c->job)
        return err_set(e, ERR_FORMAT, "one connection is one job");
    if (f->type == FRAME_SUBMIT) {
        if (submit(s, c, f, e))
            return true;
        note_submission(s, false);
        return false;
    }
    if (f->type == FRAME_ATTACH)
        return attach(s, c, f, e);
    return err_set(e, ERR_FORMAT, "unexpected frame of type %d", (int)f->type);
}

/* Handles whole frames in c->in. False: the connection was dropped. */
static bool handle_input(struct server *s, struct connection *c)
{
    struct err e = {0};
    size_t at = 0;
    while (!c->closing) {
        struct frame f;
        size_t used;
        int found = frame_parse(c->in.data + at, c->in.len - at, &f, &used, &e);
        if (found == 0 && c->in.len - at > MESSAGE_MAX_SUBMIT + FRAME_HEADER_BYTES) {
            err_set(&e, ERR_LIMIT, "frame over %u bytes", MESSAGE_MAX_SUBMIT);
            found = -1;
        }
        if (found == 0)
            break;
        if (found > 0) {
            at += used;
            if (handle(s, c, &f, &e))
                continue;
        }
        if (c->job) { /* a refusal must not be inserted into the event stream */
            log_warn("job=%llu connection dropped: %s", (unsigned long long)c->job->id, e.text);
            drop(s, c);
            return false;
        }
        connection_refuse(c, &e);
    }
    if (c->closing)
        buf_clear(&c->in);
    else
        buf_consume(&c->in, at);
    return pump(s, c);
}

static void serve(struct server *s, struct connection *c, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        /* One read per round, so that a peer that sends much does not starve the others. */
        int got = connection_read(c);
        if (got < 0) {
            drop(s, c);
            return;
        }
        if (got > 0 && !handle_input(s, c))
            return;
    }
    if (events & EPOLLOUT)
        pump(s, c);
}

/* Sends the reason, as far as the socket takes it at once, and closes. */
static void turn_away(struct connection *c)
{
    struct err e = {0};
    err_set(&e, ERR_BUSY, "%d connections are open already", MAX_CONNECTIONS);
    log_warn("connection refused: %s", e.text);
    connection_refuse(c, &e);
    connection_send(c);
    connection_destroy(&c);
}

static void take_connection(struct server *s, int fd)
{
    if (!connection_peer_allowed(fd, s->params.group)) {
        log_warn("connection refused: neither our user nor of the group");
        close(fd);
        return;
    }
    struct connection *c = connection_create(fd);
    if (!c)
        return;
    if (s->n_connections >= MAX_CONNECTIONS) {
        turn_away(c);
        return;
    }
    if (!watch(s, fd, c, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD)) {
        connection_destroy(&c);
        return;
    }
    c->next = s->connections;
    if (c->next)
        c->next->previous = c;
    s->connections = c;
    s->n_connections++;
    s->n_silent++;
    count_connections(s);
    /* HELLO, which fits. A peer that has closed gets none, but its buffered frames (a CANCEL that could not wait) are
     * still read. */
    connection_send(c);
}

static void accept_all(struct server *s)
{
    int fd;
    while ((fd = listener_accept(&s->listener)) >= 0)
        take_connection(s, fd);
    if (s->listener.retry_at)
        s->paused = watch(s, s->listener.fd, &s->listener, 0, EPOLL_CTL_MOD);
}

/* Accepts connections again after descriptors or memory had run out. */
static void resume_accepting(struct server *s, double now)
{
    if (!s->paused || s->listener.fd < 0 || now < s->listener.retry_at)
        return;
    s->paused = !watch(s, s->listener.fd, &s->listener, EPOLLIN, EPOLL_CTL_MOD);
}

static void pump_all(struct server *s)
{
    uint64_t count;
    /* The counter is read before the logs, so an event that arrives in between wakes us again. */
    if (read(s->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        log_warn("eventfd: %s", strerror(errno));
    for (struct connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (c->job && !c->blocked)
            pump(s, c);
    }
    job_table_sweep(&s->jobs, clock_ms());
}

static void close_silent(struct server *s, double now)
{
    for (struct connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (!c->job && now - c->opened_ms > SILENT_MS)
            drop(s, c);
    }
}

static void stop_accepting(struct server *s)
{
    struct err why = {0};
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) > 0)
        ;
    if (s->stop_at_ms > 0) { /* a second signal ends the grace period */
        s->stop_at_ms = clock_ms();
        return;
    }
    log_info("stopping running=%d grace_ms=%d", job_table_running(&s->jobs), s->params.grace_ms);
    s->stop_at_ms = clock_ms() + s->params.grace_ms;
    err_set(&why, ERR_UNAVAILABLE, "the engine is stopping");
    inbox_close(s->params.inbox, &why);
    struct status_page *page = status_begin(s->params.status);
    page->state = ENGINE_STOPPING;
    status_end(s->params.status);
    listener_close(&s->listener, s->params.socket_path);
}

/* True when every job has ended, or the wait for them is over. */
static bool stopped(struct server *s, double now)
{
    if (s->stop_at_ms <= 0)
        return false;
    if (!job_table_running(&s->jobs))
        return true;
    if (now >= s->stop_at_ms && !s->cancelled_all) {
        s->cancelled_all = true;
        job_table_cancel_all(&s->jobs);
        inbox_wake(s->params.inbox);
    }
    /* The wait is bounded, because a step on a hung device never ends. */
    return now >= s->stop_at_ms + 5 * FLUSH_MS;
}

static int wait_ms(const struct server *s)
{
    if (s->stop_at_ms > 0)
        return 50;
    if (s->paused)
        return 100;
    return s->n_silent || job_table_kept(&s->jobs) ? 1000 : -1;
}

static void dispatch(struct server *s, int timeout)
{
    /* One event a round: handling one may drop the connection that another event of the same round points to. */
    struct epoll_event ev;
    if (epoll_wait(s->epoll_fd, &ev, 1, timeout) != 1)
        return;
    if (ev.data.ptr == &s->listener)
        accept_all(s);
    else if (ev.data.ptr == &s->event_fd)
        pump_all(s);
    else if (ev.data.ptr == &s->signal_fd)
        stop_accepting(s);
    else
        serve(s, ev.data.ptr, ev.events);
}

int server_run(struct server *s)
{
    double swept = clock_ms();
    while (atomic_load(&s->quit_status) < 0) {
        dispatch(s, wait_ms(s));
        double now = clock_ms();
        resume_accepting(s, now);
        if (now - swept >= 1000) {
            swept = now;
            close_silent(s, now);
            job_table_sweep(&s->jobs, now);
        }
        if (stopped(s, now))
            server_quit(s, 0);
    }
    for (double end = clock_ms() + FLUSH_MS; s->n_connections > s->n_silent && clock_ms() < end;) {
        pump_all(s);
        dispatch(s, 10);
    }
    return atomic_load(&s->quit_status);
}

void server_wake(struct server *s)
{
    uint64_t one = 1;
    if (write(s->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_warn("eventfd: %s", strerror(errno));
}

void server_quit(struct server *s, int exit_status)
{
    int none = -1;
    atomic_compare_exchange_strong(&s->quit_status, &none, exit_status);
    server_wake(s);
}

void server_close(struct server **s)
{
    if (!*s)
        return;
    while ((*s)->connections)
        drop(*s, (*s)->connections);
    job_table_fini(&(*s)->jobs);
    listener_close(&(*s)->listener, (*s)->params.socket_path);
    if ((*s)->epoll_fd >= 0)
        close((*s)->epoll_fd);
    if ((*s)->event_fd >= 0)
        close((*s)->event_fd);
    if ((*s)->signal_fd >= 0)
        close((*s)->signal_fd);
    free(*s);
    *s = NULL;
}
