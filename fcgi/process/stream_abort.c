/* stream_abort.h: descriptors travel over a socket pair, and the end of a stream is four FastCGI
 * records. */
#define LOG_MODULE "pool"
#include "fcgi/process/stream_abort.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/log.h"

#define FCGI_END_REQUEST 3
#define FCGI_STDOUT 6

struct handover {
    int32_t slot, request;
};

union control { /* room for one descriptor, aligned */
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
};

bool stream_abort_init(struct stream_abort *a, struct err *e)
{
    int fd[2];
    for (int i = 0; i < SHARED_CHILDREN; i++)
        a->connections[i].fd = -1;
    a->master_fd = a->child_fd = -1;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) != 0)
        return err_errno(e, "socketpair");
    a->master_fd = fd[0];
    a->child_fd = fd[1];
    return true;
}

void stream_abort_fini(struct stream_abort *a)
{
    for (int i = 0; i < SHARED_CHILDREN; i++)
        stream_abort_end(a, i, STREAM_NONE, NULL);
    close(a->master_fd);
    close(a->child_fd);
}

void stream_abort_forget(struct stream_abort *a)
{
    for (int i = 0; i < SHARED_CHILDREN; i++)
        stream_abort_end(a, i, STREAM_NONE, NULL);
    close(a->master_fd);
    a->master_fd = -1;
}

bool stream_abort_hand_over(int child_fd, int slot, int connection, int request)
{
    struct handover h = {.slot = slot, .request = request};
    struct iovec iov = {.iov_base = &h, .iov_len = sizeof h};
    union control control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                      .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS}};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.head), &connection, sizeof connection);
    return sendmsg(child_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof h;
}

static bool receive(int fd, struct handover *h, int *connection)
{
    struct iovec iov = {.iov_base = h, .iov_len = sizeof *h};
    union control control = {0};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    if (recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *h)
        return false;
    *connection = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(connection, CMSG_DATA(c), sizeof *connection);
    return true;
}

void stream_abort_collect(struct stream_abort *a)
{
    struct handover h;
    int connection;
    while (receive(a->master_fd, &h, &connection)) {
        if (h.slot < 0 || h.slot >= SHARED_CHILDREN || connection < 0) {
            if (connection >= 0)
                close(connection);
            continue;
        }
        stream_abort_end(a, h.slot, STREAM_NONE, NULL); /* the connection before: long finished */
        a->connections[h.slot] =
            (struct stream_abort_connection){.fd = connection, .request = (uint16_t)h.request};
    }
}

static size_t put_record(unsigned char *out, int type, uint16_t request, const void *data,
                         size_t len)
{
    const unsigned char head[8] = {1,
                                   (unsigned char)type,
                                   (unsigned char)(request >> 8),
                                   (unsigned char)request,
                                   (unsigned char)(len >> 8),
                                   (unsigned char)len,
                                   0,
                                   0};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, data, len);
    return sizeof head + len;
}

void stream_abort_end(struct stream_abort *a, int slot, enum stream_state state,
                      const struct stream_abort_text *text)
{
    struct stream_abort_connection *s = &a->connections[slot];
    if (s->fd < 0)
        return;
    if (state != STREAM_NONE) {
        unsigned char out[STREAM_ABORT_BYTES + 64];
        const unsigned char end[8] = {0};
        size_t n = 0;
        if (state == STREAM_WRITING && text->close_event)
            n = put_record(out, FCGI_STDOUT, s->request, text->close_event,
                           strlen(text->close_event));
        n += put_record(out + n, FCGI_STDOUT, s->request, text->error_event,
                        strnlen(text->error_event, STREAM_ABORT_BYTES));
        n += put_record(out + n, FCGI_STDOUT, s->request, "", 0);
        n += put_record(out + n, FCGI_END_REQUEST, s->request, end, sizeof end);
        bool sent = send(s->fd, out, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n;
        log_warn("slot=%d sent=%d: ended the stream of a process that died", slot, sent);
        shutdown(s->fd, SHUT_WR);
    }
    close(s->fd);
    s->fd = -1;
}
