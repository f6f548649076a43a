/* Moves frames between a client and the engine over one connection. The descriptor is non-blocking
 * and every wait is a poll with a deadline, so that a stuck or dying engine costs the caller a
 * bounded time. */
#include "engine/wire/peer.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"

#define READ_BYTES ((size_t)64 << 10)

/* Waits for `events`; false at the deadline (ERR_UNAVAILABLE). deadline < 0: without limit. */
static bool wait_for(int fd, short events, double deadline, const char *doing, struct err *e)
{
    for (;;) {
        int timeout = -1;
        if (deadline >= 0) {
            double left = deadline - clock_ms();
            timeout = left > 0 ? (int)left + 1 : 0;
        }
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, timeout);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return err_errno(e, "poll");
        if (n == 0)
            return err_set(e, ERR_UNAVAILABLE, "the engine does not answer (%s)", doing);
    }
}

static bool unavailable(struct err *e, const char *doing)
{
    return err_set(e, ERR_UNAVAILABLE, "the engine is not running (%s: %s)", doing,
                   strerror(errno));
}

bool peer_connect(struct peer *p, const char *path, double deadline, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *p = (struct peer){.fd = -1};
    if (strlen(path) >= sizeof address.sun_path)
        return err_set(e, ERR_INPUT, "socket path is longer than %zu bytes",
                       sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return err_errno(e, "socket");
    while (connect(p->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        if (errno == EISCONN)
            return true;
        /* A full backlog of a unix socket is EAGAIN at once, not a connection in progress, so
         * retry. */
        if ((errno != EAGAIN && errno != EINTR) || clock_ms() >= deadline) {
            unavailable(e, "connect");
            peer_close(p);
            return false;
        }
        poll(NULL, 0, 5);
    }
    return true;
}

bool peer_send(struct peer *p, const struct buf *b, double deadline, struct err *e)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = send(p->fd, b->data + at, b->len - at, MSG_NOSIGNAL);
        if (n > 0) {
            at += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            if (!wait_for(p->fd, POLLOUT, deadline, "sending", e))
                return false;
        } else if (n < 0 && errno != EINTR) {
            p->unread |= errno == EPIPE || errno == ECONNRESET;
            return unavailable(e, "send");
        }
    }
    return true;
}

int peer_peek(const struct peer *p, struct frame *f, size_t *used, struct err *e)
{
    return frame_parse(p->in.data + p->in_pos, p->in.len - p->in_pos, f, used, e);
}

/* Reads once. 1: data was received; 0: there is none; -1: the connection is closed. */
static int receive(struct peer *p, struct err *e)
{
    if (p->in_pos) {
        buf_consume(&p->in, p->in_pos);
        p->in_pos = 0;
    }
    if (!buf_reserve(&p->in, READ_BYTES + 1)) {
        err_set(e, ERR_NOMEM, "no memory for the engine's answer");
        return -1;
    }
    ssize_t n = recv(p->fd, p->in.data + p->in.len, READ_BYTES, 0);
    if (n > 0) {
        p->in.len += (size_t)n;
        p->in.data[p->in.len] = 0;
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    /* Unix sockets tell one from the other: who closes with bytes unread resets the connection. */
    p->unread |= n < 0 && errno == ECONNRESET;
    if (n == 0)
        err_set(e, ERR_UNAVAILABLE, "the engine closed the connection before the job was over");
    else
        unavailable(e, "receive");
    return -1;
}

int peer_next(struct peer *p, struct frame *f, size_t *used, double deadline, struct err *e)
{
    for (;;) {
        int found = peer_peek(p, f, used, e);
        if (found)
            return found;
        int got = receive(p, e);
        if (got < 0)
            return -1;
        if (got == 0) {
            struct err late = {0};
            if (wait_for(p->fd, POLLIN, deadline, "reading", &late))
                continue;
            if (late.code == ERR_UNAVAILABLE)
                return 0;
            *e = late;
            return -1;
        }
    }
}

bool peer_poll_busily(const struct peer *p, double us)
{
    const double until = clock_ms() + us / 1e3;
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};
    do {
        if (poll(&fd, 1, 0) > 0)
            return true;
        sched_yield();
    } while (clock_ms() < until);
    return false;
}

void peer_close(struct peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    buf_fini(&p->in);
    *p = (struct peer){.fd = -1};
}
