/* The relay's socket: what workers and the recorder ask, in the engine's frames. */
#define LOG_MODULE "relay"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/wire/message.h"
#include "fcgi/process/listen.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "fcgi/relay/relay_job.h"

#define MAX_CONNECTIONS 4096
#define KEPT_BYTES ((size_t)4 << 10)    /* of what was read, while a job runs */
#define SUBMIT_BYTES ((size_t)49 << 20) /* of a frame */
#define NO_JOB_MS 30000.0               /* a connection that asks for nothing is closed */
#define FORGET_STEP ((size_t)64 << 10)  /* dropping the front of a log moves the rest down */

bool relay_server_open(struct relay *r, struct err *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", r->w->run_dir, STATE_RELAY_SOCKET);
    if (!(r->scratch = malloc(RELAY_READ_BYTES)))
        return err_set(e, ERR_NOMEM, "no memory to read with");
    r->listen_fd = listen_unix(path, NULL, e);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &r->listen_fd};
    return r->listen_fd >= 0 && (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->listen_fd, &ev) == 0 ||
                                 err_errno(e, "epoll_ctl"));
}

static void leave_job(struct relay_connection *c)
{
    struct relay_job *j = c->job;
    if (!j)
        return;
    for (struct relay_connection **at = &j->readers; *at; at = &(*at)->next_reader)
        if (*at == c) {
            *at = c->next_reader;
            break;
        }
    if (c->owner && !j->detached && !j->over)
        relay_job_cancel(j);
    c->job = NULL;
    c->owner = false;
    c->idle_ms = clock_ms();
    c->relay->n_read--;
}

/* Nothing more comes from it or goes to it. */
static void drop(struct relay_connection *c)
{
    if (c->dead)
        return;
    leave_job(c);
    close(c->fd);
    c->dead = true;
}

static void watch(struct relay_connection *c, int operation)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | (c->blocked ? EPOLLOUT : 0u),
                             .data.ptr = c};
    epoll_ctl(c->relay->epoll_fd, operation, c->fd, &ev);
}

/* Bytes sent; 0: the peer is slow; -1: gone. */
static ssize_t send_some(struct relay_connection *c, const struct iovec parts[2])
{
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = 2};
    for (;;) {
        ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno == EAGAIN)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

/* What every reader has, of a job whose events are not kept. */
static void forget_sent(struct relay_job *j)
{
    uint64_t least = j->base + j->log.len;
    if (j->detached || !j->readers)
        return;
    for (const struct relay_connection *c = j->readers; c; c = c->next_reader)
        if (c->position < least)
            least = c->position;
    const size_t n = (size_t)(least - j->base);
    if (n == j->log.len || n >= FORGET_STEP) {
        buf_consume(&j->log, n);
        j->base += n;
    }
}

static void note_sent(struct relay_connection *c, size_t n)
{
    const size_t own = n < c->out.len ? n : c->out.len;
    buf_consume(&c->out, own);
    c->position += n - own;
}

/* None is running: the next one may be a moment away. */
static void await_job(struct relay *r, double asked_ms)
{
    r->idle_ms = clock_ms();
    r->next_awake = r->idle_ms - asked_ms < BUSY_POLL_AFTER_MS && relay_wait_awake(r, &r->next_job);
}

/* What is said before a job's first event, HELLO, waits for that event: its reader would be woken
 * for nothing. False: the connection is gone. */
static bool flush(struct relay_connection *c)
{
    const bool was_blocked = c->blocked;
    const struct relay_job *j = c->job;
    ssize_t n = 1;
    if (j && !j->accepted && !c->closing)
        return true;
    while (n > 0) {
        const size_t at = j ? (size_t)(c->position - j->base) : 0;
        const struct iovec parts[2] = {
            {c->out.data, c->out.len},
            {j ? j->log.data + at : NULL, j ? j->log.len - at : 0},
        };
        if (!parts[0].iov_len && !parts[1].iov_len)
            break;
        n = send_some(c, parts);
        if (n > 0)
            note_sent(c, (size_t)n);
    }
    const bool all = n > 0 && !c->out.len,
               told = all && j && j->over && c->position == j->base + j->log.len,
               next = c->owner && !c->closing && !c->relay->stopping;
    if (n < 0 || (all && c->closing) || (told && !next)) {
        drop(c);
        return false;
    }
    if (told) { /* whoever has asked for a job may ask for the next one */
        leave_job(c);
        c->again = true;
        if (!c->relay->n_read)
            await_job(c->relay, j->asked_ms);
    }
    c->blocked = n == 0;
    if (c->blocked != was_blocked)
        watch(c, EPOLL_CTL_MOD);
    return true;
}

void relay_server_send(struct relay_job *j)
{
    for (struct relay_connection *c = j->readers, *next; c; c = next) {
        next = c->next_reader;
        if (!c->blocked)
            flush(c);
    }
    forget_sent(j);
}

static void refuse(struct relay_connection *c, const struct err *e)
{
    message_put_event(&c->out, &(struct engine_event){.type = ENGINE_FAILED, .error = *e});
    c->closing = true;
    flush(c);
}

void relay_server_refuse(struct relay_job *j, const struct err *why)
{
    struct relay_connection *c = j->readers;
    if (!c)
        return;
    leave_job(c);
    refuse(c, why);
}

static void follow(struct relay_connection *c, struct relay_job *j, bool owner)
{
    c->job = j;
    c->owner = owner;
    c->position = j->base;
    c->next_reader = j->readers;
    j->readers = c;
    c->relay->n_read++;
}

static void note_job(struct relay *r)
{
    if (r->idle_ms > 0) {
        busy_poll_end(&r->next_job, r->next_awake, (clock_ms() - r->idle_ms) * 1e3);
        r->awake_until = 0;
    }
    r->idle_ms = 0;
}

static bool submit(struct relay_connection *c, const struct frame *f, struct err *e)
{
    struct engine_relay p;
    note_job(c->relay);
    if (!message_get_relay(f, &p, e))
        return false;
    struct relay_job *j = relay_job_submit(c->relay, &p, e);
    if (j)
        follow(c, j, true);
    return j != NULL;
}

static bool attach(struct relay_connection *c, const struct frame *f, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    if (!message_get_key(f, key, e))
        return false;
    struct relay_job *j = relay_job_find(c->relay, key);
    if (!j)
        return err_field(e, ERR_NOTFOUND, "key", "no such job, or forgotten since");
    follow(c, j, false);
    return true;
}

static bool cancel(struct relay_connection *c, const struct frame *f, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    if (!message_get_key(f, key, e))
        return false;
    unsigned long long user;
    if (sscanf(key, WORKER_USER_KEY "%llu", &user) == 1) {
        relay_jobs_cancel_user(c->relay, user);
        c->closing = true;
        return true;
    }
    struct relay_job *j = key[0] ? relay_job_find(c->relay, key) : c->job;
    if (!j)
        return err_field(e, ERR_NOTFOUND, "key", "no such job, or forgotten since");
    if (!j->over)
        relay_job_cancel(j);
    if (key[0]) {
        message_put_event(&c->out, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = j->id});
        c->closing = true;
    }
    return true;
}

static bool handle(struct relay_connection *c, const struct frame *f, struct err *e)
{
    if (!c->greeted && f->type != FRAME_HELLO)
        return err_set(e, ERR_FORMAT, "HELLO must come first");
    if (f->type == FRAME_HELLO) {
        c->greeted = true;
        return message_get_hello(f, e);
    }
    if (f->type == FRAME_CANCEL)
        return cancel(c, f, e);
    if (c->job)
        return err_set(e, ERR_FORMAT, "one connection is one job");
    if (f->type == FRAME_RELAY)
        return submit(c, f, e);
    if (f->type == FRAME_ATTACH)
        return attach(c, f, e);
    return err_set(e, ERR_FORMAT, "unexpected frame of type %d", (int)f->type);
}

static void handle_input(struct relay_connection *c)
{
    size_t at = 0;
    while (!c->closing && !c->dead) {
        struct err e = {0};
        struct frame f;
        size_t used;
        int found = frame_parse(c->in.data + at, c->in.len - at, &f, &used, &e);
        if (found == 0 && c->in.len - at > SUBMIT_BYTES)
            found = err_set(&e, ERR_LIMIT, "a frame is too long") - 1;
        if (found == 0)
            break;
        at += found > 0 ? used : 0;
        if (found > 0 && handle(c, &f, &e))
            continue;
        if (c->job)
            drop(c); /* a refusal must not stand in the middle of events */
        else
            refuse(c, &e);
    }
    if (c->dead)
        return;
    buf_consume(&c->in, at);
    if (!c->in.len && c->in.cap > KEPT_BYTES)
        buf_fini(&c->in); /* a request of megabytes came, and nothing like it follows */
    flush(c);
}

void relay_server_serve(struct relay_connection *c, uint32_t events)
{
    if (c->dead)
        return;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ssize_t n = recv(c->fd, c->relay->scratch, RELAY_READ_BYTES, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
            (n > 0 && !buf_append(&c->in, c->relay->scratch, (size_t)n))) {
            drop(c);
            return;
        }
        if (n > 0)
            handle_input(c);
    }
    if (!c->dead && events & EPOLLOUT)
        flush(c);
}

static void take(struct relay *r, int fd)
{
    struct relay_connection *c = r->n_connections < MAX_CONNECTIONS ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    c->relay = r;
    c->fd = fd;
    c->idle_ms = clock_ms();
    c->next = r->connections;
    r->connections = c;
    r->n_connections++;
    message_put_hello(&c->out, "sluice-relay");
    watch(c, EPOLL_CTL_ADD);
    relay_server_serve(c, EPOLLIN); /* whoever connects has something to ask */
}

/* The socket is 0660 in a folder of ours: whoever can connect is our user or of its group. */
void relay_server_accept(struct relay *r)
{
    for (;;) {
        int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            take(r, fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            break;
    }
}

void relay_server_stop(struct relay *r)
{
    for (struct relay_connection *c = r->connections; c; c = c->next)
        if (!c->job && c->again)
            drop(c);
}

void relay_server_sweep(struct relay *r, double now)
{
    for (struct relay_connection **at = &r->connections; *at;) {
        struct relay_connection *c = *at;
        if (!c->dead && !c->job && now - c->idle_ms > NO_JOB_MS)
            drop(c);
        if (!c->dead) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        buf_fini(&c->in);
        buf_fini(&c->out);
        free(c);
        r->n_connections--;
    }
}

void relay_server_close(struct relay *r)
{
    for (struct relay_connection *c = r->connections; c; c = c->next)
        drop(c);
    relay_server_sweep(r, clock_ms());
    free(r->scratch);
    if (r->listen_fd >= 0)
        close(r->listen_fd);
}
