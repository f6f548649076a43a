/* tool_pipe.h: a unix socket, polled in short steps so that a stopped call is seen. */
#include "fcgi/tools/tool_pipe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "fcgi/process/state.h"
#include "fcgi/tools/tool_http.h"
#include "toolhost/toolhost.h"

#define STEP_MS 250.0

const char *tool_pipe_program(const char *url)
{
    const size_t n = sizeof TOOL_PIPE_SCHEME - 1;
    return strncmp(url, TOOL_PIPE_SCHEME, n) ? NULL : url + n;
}

static bool ended(struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "the program ended before it had answered") ||
           err_reason(e, "tool_program_failed");
}

/* Waits for `events`. */
static bool wait_for(struct tool_pipe *p, short events, struct err *e)
{
    for (double left; (left = p->until - clock_ms()) > 0;) {
        struct pollfd f = {.fd = p->fd, .events = events};
        if (p->stopped && p->stopped(p->context))
            return err_set(e, ERR_CANCELLED, "the call was stopped");
        if (poll(&f, 1, (int)(left < STEP_MS ? left : STEP_MS) + 1) > 0)
            return true;
    }
    return err_set(e, ERR_UNAVAILABLE, "the tool server did not answer in time") ||
           err_reason(e, "tool_timeout");
}

static bool send_all(struct tool_pipe *p, const char *data, size_t len, struct err *e)
{
    while (len) {
        const ssize_t n = send(p->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return ended(e);
        if (n < 0 && !wait_for(p, POLLOUT, e))
            return false;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool tool_pipe_send(struct tool_pipe *p, const char *message, struct err *e)
{
    return send_all(p, message, strlen(message), e) && send_all(p, "\n", 1, e);
}

/* Bytes that are there, at least one; 0: the other side has closed, -1: *e. */
static ssize_t receive(struct tool_pipe *p, char *data, size_t size, struct err *e)
{
    for (;;) {
        const ssize_t n = recv(p->fd, data, size, MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR)
            return 0;
        if (!wait_for(p, POLLIN, e))
            return -1;
    }
}

/* The host's one line, read byte by byte: what follows is the program's. */
static bool take_word(struct tool_pipe *p, struct err *e)
{
    char word[TOOLHOST_LINE] = "";
    for (size_t n = 0; n < sizeof word - 1; n++) {
        const ssize_t got = receive(p, &word[n], 1, e);
        if (got <= 0)
            return got < 0 ? false : ended(e);
        if (word[n] == '\n') {
            word[n] = '\0';
            break;
        }
    }
    if (!strcmp(word, TOOLHOST_OK))
        return true;
    if (!strcmp(word, TOOLHOST_UNKNOWN))
        return err_set(e, ERR_UNAVAILABLE, "no program of this name is set up here") ||
               err_reason(e, "tool_program");
    if (!strcmp(word, TOOLHOST_BUSY))
        return err_set(e, ERR_UNAVAILABLE, "too many tools run at the moment") ||
               err_reason(e, "tool_busy");
    return err_set(e, ERR_UNAVAILABLE, "the program ended as soon as it was started") ||
           err_reason(e, "tool_program_failed");
}

bool tool_pipe_open(struct tool_pipe *p, const char *run_dir, const char *program, struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char line[TOOLHOST_LINE];
    const int n = snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", run_dir, STATE_TOOLS_SOCKET);
    const int m = snprintf(line, sizeof line, "%s\n", program);
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool there = p->fd >= 0 && n > 0 && n < (int)sizeof a.sun_path && m > 1 &&
                       m < (int)sizeof line && connect(p->fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (!there) {
        err_set(e, ERR_UNAVAILABLE, "no programs are set up as tool servers here");
        err_reason(e, "tool_program");
    }
    if (there && send_all(p, line, (size_t)m, e) && take_word(p, e))
        return true;
    tool_pipe_close(p);
    return false;
}

/* The lines that are whole; what is left of the last one moves to the front. False: it was found.
 */
static bool give_lines(struct buf *held, bool (*take)(void *context, const char *line, size_t len),
                       void *context)
{
    size_t from = 0;
    bool more = true;
    for (char *end;
         more && from < held->len && (end = memchr(held->data + from, '\n', held->len - from));) {
        more = take(context, held->data + from, (size_t)(end - held->data) - from);
        from = (size_t)(end - held->data) + 1;
    }
    memmove(held->data, held->data + from, held->len - from);
    held->len -= from;
    return more;
}

bool tool_pipe_read(struct tool_pipe *p, bool (*take)(void *context, const char *line, size_t len),
                    void *context, struct err *e)
{
    struct buf held = {.limit = TOOL_HTTP_BYTES};
    size_t sum = 0;
    bool more = true, ok = true;
    while (ok && more) {
        char piece[16384];
        const ssize_t n = receive(p, piece, sizeof piece, e);
        sum += n > 0 ? (size_t)n : 0;
        ok = n > 0;
        if (n == 0)
            ended(e);
        else if (ok && (sum > TOOL_HTTP_BYTES || !buf_append(&held, piece, (size_t)n))) {
            ok = err_set(e, ERR_LIMIT, "the tool server's answer is larger than %zu bytes",
                         TOOL_HTTP_BYTES) ||
                 err_reason(e, "tool_too_large");
        } else if (ok) {
            more = give_lines(&held, take, context);
        }
    }
    buf_fini(&held);
    return ok;
}

void tool_pipe_close(struct tool_pipe *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}
