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
#include "engine/cache/disk/record_feed.h"
#include "engine/sched/server_state.h"
#include "engine/wire/message.h"

#define MAX_CONNECTIONS 1024
#define NO_JOB_MS 30000.0 /* a connection that asks for nothing is closed */
#define TELL_MS 2000.0    /* at the end: for the recorder to read what was stored */
#define FLUSH_MS 1000.0   /* at the end: for clients to read the last events */

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
    s->n_without_job -= !c->job;
    if (s->follower == c)
        s->follower = NULL;
    connection_destroy(&c);
    count_connections(s);
}

/* Sends what can be sent. False: the connection is gone. */
static bool flush(struct server *s, struct connection *c)
{
    bool was_blocked = c->blocked;
    int sent;
    do
        sent = connection_send(c);
    while (sent > 0 && c == s->follower && server_feed_fill(s));
    if (sent < 0) {
        drop(s, c);
        return false;
    }
    if (c->blocked != was_blocked)
        watch(s, c->fd, c, EPOLLIN | EPOLLRDHUP | (c->blocked ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
    return true;
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
            if (server_handle_frame(s, c, &f, &e))
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
    return flush(s, c);
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
        flush(s, c);
}

/* Sends the reason, as far as the socket takes it at once, and closes. */
static void refuse_connection(struct connection *c)
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
        refuse_connection(c);
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
    s->n_without_job++;
    count_connections(s);
    /* HELLO, which fits. A peer that has closed gets none, but its buffered frames (a CANCEL that
     * could not wait) are still read. */
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

static void flush_all(struct server *s)
{
    uint64_t count;
    /* The counter is read before the logs, so an event that arrives in between wakes us again. */
    if (read(s->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        log_warn("eventfd: %s", strerror(errno));
    for (struct connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if ((c->job || c == s->follower || c->closing) && !c->blocked)
            flush(s, c);
    }
    job_table_sweep(&s->jobs, clock_ms());
}

static void close_without_job(struct server *s, double now)
{
    for (struct connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (!c->job && c != s->follower && now - c->opened_ms > NO_JOB_MS)
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

/* True when the recorder knows what was stored of the last answers, or takes too long. Without it
 * nobody would know of those records, and they would be lost. */
static bool told_all(struct server *s, double now)
{
    if (s->ended_ms <= 0)
        s->ended_ms = now;
    return !s->follower || now >= s->ended_ms + TELL_MS || record_feed_settled(s->params.feed);
}

/* True when every job has ended, or the wait for them is over. */
static bool stopped(struct server *s, double now)
{
    if (s->stop_at_ms <= 0)
        return false;
    if (!job_table_running(&s->jobs))
        return told_all(s, now);
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
    return s->n_without_job > (s->follower != NULL) || job_table_kept(&s->jobs) ? 1000 : -1;
}

static void dispatch(struct server *s, int timeout)
{
    /* One event a round: handling one may drop the connection that another event of the same round
     * points to. */
    struct epoll_event ev;
    if (epoll_wait(s->epoll_fd, &ev, 1, timeout) != 1)
        return;
    if (ev.data.ptr == &s->listener)
        accept_all(s);
    else if (ev.data.ptr == &s->event_fd)
        flush_all(s);
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
            close_without_job(s, now);
            job_table_sweep(&s->jobs, now);
        }
        if (stopped(s, now))
            server_quit(s, 0);
    }
    for (double end = clock_ms() + FLUSH_MS;
         s->n_connections > s->n_without_job && clock_ms() < end;) {
        flush_all(s);
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
