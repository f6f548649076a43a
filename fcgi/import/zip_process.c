/* zip_process.h: orders to the process, one at a time, and its replies, each within its bounds. */
#include "fcgi/import/zip_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "fcgi/process/reader_program.h"
#include "reader/unzip.h"

#define REPLY_MS 120000.0 /* for the longest: a list of 250000 entries, on a busy machine */
#define WHY_BYTES 240

struct zip_process {
    int socket;
    pid_t pid; /* 0: not ours */
    int64_t at;
    bool ended;       /* this entry: nothing is left of it */
    size_t have, off; /* of block */
    char name[UNZIP_NAME + 1];
    char block[UNZIP_BLOCK];
};

static bool gone(struct err *e)
{
    return err_set(e, ERR_INPUT,
                   "the archive is refused: it can't be unpacked within the limits, or is damaged");
}

static bool receive(struct zip_process *z, void *to, size_t len, double until, struct err *e)
{
    for (char *at = to; len;) {
        struct pollfd p = {.fd = z->socket, .events = POLLIN};
        const double left = until - clock_ms();
        if (left <= 0)
            return err_set(e, ERR_LIMIT, "the archive is refused: it takes too long to unpack");
        if (poll(&p, 1, (int)left + 1) <= 0)
            continue;
        const ssize_t n = recv(z->socket, at, len, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return gone(e);
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool damaged(struct zip_process *z, const struct unzip_frame *f, double until, struct err *e)
{
    char why[WHY_BYTES + 1];
    if (f->len > WHY_BYTES || !receive(z, why, f->len, until, e))
        return e->code == ERR_LIMIT ? false : gone(e);
    why[f->len] = '\0';
    for (const char *c = why; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            return gone(e);
    return err_set(e, f->flags & UNZIP_WHOLE ? ERR_INPUT : ERR_FORMAT, "%s", why);
}

/* Sends an order and takes the reply, whose bytes come to `to`, at most max of them. */
static bool ask(struct zip_process *z, enum unzip_order order, struct unzip_frame *f, void *to,
                struct err *e)
{
    const double until = clock_ms() + REPLY_MS;
    const char byte = (char)order;
    const size_t max = order == UNZIP_NEXT ? UNZIP_NAME : UNZIP_BLOCK;
    if (send(z->socket, &byte, 1, MSG_NOSIGNAL) != 1)
        return gone(e);
    if (!receive(z, f, sizeof *f, until, e))
        return false;
    if (f->reply == UNZIP_DAMAGED)
        return damaged(z, f, until, e);
    const bool fits = order == UNZIP_READ ? f->reply == UNZIP_DATA
                                          : f->reply == UNZIP_ENTRY || f->reply == UNZIP_END;
    if (!fits || f->len > max)
        return gone(e);
    z->at = f->at;
    return receive(z, to, f->len, until, e);
}

/* A descriptor of its own, which can't write and has its own place in the file. */
static int open_again(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

struct zip_process *zip_process_attach(int socket, struct err *e)
{
    struct zip_process *z = calloc(1, sizeof *z);
    if (!z) {
        close(socket);
        err_set(e, ERR_NOMEM, "memory ran out");
        return NULL;
    }
    z->socket = socket;
    z->ended = true; /* no entry yet */
    return z;
}

struct zip_process *zip_process_open(int fd, struct err *e)
{
    int pair[2];
    pid_t pid = 0;
    const int archive = open_again(fd);
    if (archive < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        err_errno(e, "the archive can't be read");
        if (archive >= 0)
            close(archive);
        return NULL;
    }
    const bool started = reader_program_start(archive, pair[1], UNZIP_OPTION, &pid, e);
    close(archive);
    close(pair[1]);
    struct zip_process *z = started ? zip_process_attach(pair[0], e) : NULL;
    if (!started)
        close(pair[0]);
    else if (!z)
        reader_program_end(pid, 0);
    else
        z->pid = pid;
    return z;
}

int zip_process_next(struct zip_process *z, struct zip_process_entry *entry, struct err *e)
{
    struct unzip_frame f;
    z->have = z->off = 0;
    z->ended = true;
    if (!ask(z, UNZIP_NEXT, &f, z->name, e))
        return -1;
    if (f.reply == UNZIP_END)
        return 0;
    z->name[f.len] = '\0';
    z->ended = false;
    *entry = (struct zip_process_entry){.name = f.flags & UNZIP_NAMELESS ? NULL : z->name,
                                        .bytes = f.size < 0 ? 0 : f.size,
                                        .regular = f.flags & UNZIP_REGULAR};
    return 1;
}

int64_t zip_process_read(struct zip_process *z, void *to, size_t size, struct err *e)
{
    struct unzip_frame f;
    if (z->off == z->have && !z->ended) {
        z->have = z->off = 0;
        if (!ask(z, UNZIP_READ, &f, z->block, e))
            return -1;
        z->have = f.len;
        z->ended = f.len == 0;
    }
    const size_t n = z->have - z->off < size ? z->have - z->off : size;
    memcpy(to, z->block + z->off, n);
    z->off += n;
    return (int64_t)n;
}

int64_t zip_process_at(const struct zip_process *z)
{
    return z->at;
}

void zip_process_close(struct zip_process **z)
{
    if (*z) {
        close((*z)->socket);
        if ((*z)->pid)
            reader_program_end((*z)->pid, 0);
    }
    free(*z);
    *z = NULL;
}
