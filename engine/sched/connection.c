/* Moves bytes for one client: requests in, its job's events out, and the check of who is
 * connecting. */
#include "engine/sched/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/wire/message.h"

#define READ_BYTES ((size_t)64 << 10)
#define SEND_BYTES ((size_t)32 << 10)
#define MAX_GROUPS 256
/* The send buffer of a peer that does not read; the rest waits in its job's log, which is bounded
 * too. */
#define SOCKET_BYTES (64 << 10)

struct connection *connection_create(int fd)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return NULL;
    }
    c->fd = fd;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SOCKET_BYTES}, sizeof(int));
    c->opened_ms = clock_ms();
    message_put_hello(&c->out, "sluice-engine");
    return c;
}

int connection_read(struct connection *c)
{
    if (!buf_reserve(&c->in, READ_BYTES + 1))
        return -1;
    ssize_t n = recv(c->fd, c->in.data + c->in.len, READ_BYTES, MSG_DONTWAIT);
    if (n > 0) {
        c->in.len += (size_t)n;
        c->in.data[c->in.len] = 0;
        return 1;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

bool connection_left(const struct connection *c)
{
    struct pollfd p = {.fd = c->fd};
    return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

/* Bytes sent; 0: the peer is slow; -1: gone. */
static ssize_t send_some(struct connection *c, const char *data, size_t len)
{
    for (;;) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno == EAGAIN)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

int connection_send(struct connection *c)
{
    char piece[SEND_BYTES];
    c->blocked = false;
    while (c->out.len) {
        ssize_t n = send_some(c, c->out.data, c->out.len);
        if (n < 0)
            return -1;
        buf_consume(&c->out, (size_t)n);
        c->blocked = n == 0;
        if (c->blocked)
            return 0;
    }
    if (c->closing)
        return -1;
    while (c->job) {
        bool end;
        size_t have = event_log_read(&c->job->log, c->position, piece, sizeof piece, &end);
        if (!have)
            return end ? -1 : 1;
        ssize_t n = send_some(c, piece, have);
        if (n < 0)
            return -1;
        c->position += (uint64_t)n;
        event_log_forget(&c->job->log, c->position);
        c->blocked = n == 0;
        if (c->blocked)
            return 0;
    }
    return 1;
}

void connection_refuse(struct connection *c, const struct err *e)
{
    struct engine_event ev = {.type = ENGINE_FAILED, .error = *e};
    message_put_event(&c->out, &ev);
    c->closing = true;
}

void connection_destroy(struct connection **c)
{
    if (!*c)
        return;
    close((*c)->fd);
    buf_fini(&(*c)->in);
    buf_fini(&(*c)->out);
    job_unref(&(*c)->job);
    free(*c);
    *c = NULL;
}

bool connection_peer_allowed(int fd, uid_t peer, gid_t group)
{
    struct ucred other;
    socklen_t len = sizeof other;
    gid_t groups[MAX_GROUPS];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &len) != 0)
        return false;
    if (other.uid == geteuid() || other.uid == 0 || (peer != (uid_t)-1 && other.uid == peer))
        return true;
    if (group == (gid_t)-1)
        return false;
    if (other.gid == group)
        return true;
    len = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0)
        return false;
    for (size_t i = 0; i < len / sizeof *groups; i++)
        if (groups[i] == group)
            return true;
    return false;
}
