/* audit_sink.h: files by name, found again by their inode; streams line by line. */
#include "fcgi/recorder/audit_sink.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"

#define TAIL_MAX ((size_t)16 << 20)

bool audit_file_open(struct audit_file *f, const char *path, struct err *e)
{
    struct stat st;
    *f = (struct audit_file){
        .fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640)};
    if (f->fd < 0)
        return err_errno(e, "%s", path);
    if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(f->fd);
        return err_set(e, ERR_INPUT, "%s is no regular file", path);
    }
    f->dev = (uint64_t)st.st_dev;
    f->ino = (uint64_t)st.st_ino;
    f->size = (int64_t)st.st_size;
    return true;
}

bool audit_file_append(struct audit_file *f, const char *data, size_t len, struct err *e)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(f->fd, data + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (done < len || fdatasync(f->fd) != 0) {
        err_errno(e, "writing the audit log's file");
        if (ftruncate(f->fd, (off_t)f->size) != 0)
            return false; /* what is there is found by audit_file_tail */
        return false;
    }
    f->size += (int64_t)len;
    return true;
}

/* ---- after a kill ---- */

static bool is_it(const char *path, const struct audit_file *was)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_dev == was->dev &&
           (uint64_t)st.st_ino == was->ino;
}

/* The file's name now. False: it is gone. */
static bool find_file(const char *path, const struct audit_file *was, char found[PATH_MAX])
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(found, PATH_MAX, "%s", path);
    if (is_it(path, was))
        return true;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    DIR *d = opendir(*folder ? folder : "/");
    bool ok = false;
    for (struct dirent *at; d && !ok && (at = readdir(d));)
        ok = file_join(found, PATH_MAX, folder, at->d_name, NULL) && is_it(found, was);
    if (d)
        closedir(d);
    return ok;
}

static int64_t id_of_line(const char *line)
{
    static const char head[] = "{\"id\":\"";
    return strncmp(line, head, sizeof head - 1) ? 0 : strtoll(line + sizeof head - 1, NULL, 10);
}

static bool read_from(int fd, int64_t from, struct buf *out, struct err *e)
{
    char piece[65536];
    for (ssize_t n; out->len < TAIL_MAX;) {
        n = pread(fd, piece, sizeof piece, (off_t)(from + (int64_t)out->len));
        if (n < 0)
            return err_errno(e, "reading the audit log's file");
        if (n == 0)
            break;
        if (!buf_append(out, piece, (size_t)n))
            return err_set(e, ERR_NOMEM, "out of memory");
    }
    return true;
}

static bool take_tail(int fd, int64_t from, int64_t *id, struct err *e)
{
    struct buf b = {0};
    bool ok = read_from(fd, from, &b, e);
    size_t whole = 0;
    for (char *end; ok && whole < b.len && (end = memchr(b.data + whole, '\n', b.len - whole));) {
        const int64_t one = id_of_line(b.data + whole);
        *id = one > *id ? one : *id;
        whole = (size_t)(end - b.data) + 1;
    }
    if (ok && whole < b.len && b.len < TAIL_MAX && ftruncate(fd, (off_t)(from + (int64_t)whole)))
        ok = err_errno(e, "cutting off a half-written line of the audit log's file");
    buf_fini(&b);
    return ok;
}

bool audit_file_tail(const char *path, const struct audit_file *was, int64_t *id, struct err *e)
{
    char found[PATH_MAX];
    if (!find_file(path, was, found))
        return true;
    int fd = open(found, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_errno(e, "%s", found);
    bool ok = take_tail(fd, was->size, id, e);
    close(fd);
    return ok;
}

/* ---- streams ---- */

/* A pipe that poll calls writable takes PIPE_BUF bytes at once, and a line is shorter. */
static bool send_out(const char *line, size_t len, struct err *e)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
        return err_set(e, ERR_BUSY, "nobody reads standard output");
    for (size_t done = 0; done < len;) {
        ssize_t n = write(STDOUT_FILENO, line + done, len - done);
        if (n < 0 && errno != EINTR)
            return err_errno(e, "standard output");
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool send_log(int fd, const char *line, size_t len, struct err *e)
{
    struct buf b = {0};
    buf_printf(&b, "<%d>sluice-audit: ", LOG_AUTHPRIV | LOG_NOTICE);
    buf_append(&b, line, len - 1); /* a message has no end of line */
    bool ok = !b.failed && send(fd, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)b.len;
    if (!ok)
        err_errno(e, "/dev/log");
    buf_fini(&b);
    return ok;
}

static int open_log(struct err *e)
{
    const struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    err_errno(e, "/dev/log");
    if (fd >= 0)
        close(fd);
    return -1;
}

bool audit_sink_send(const char *target, const char *text, int64_t *id, struct err *e)
{
    const bool log = !strcmp(target, "syslog");
    const int fd = log ? open_log(e) : STDOUT_FILENO;
    bool ok = fd >= 0;
    for (const char *line = text, *end; ok && (end = strchr(line, '\n')); line = end + 1) {
        const size_t len = (size_t)(end - line) + 1;
        ok = log ? send_log(fd, line, len, e) : send_out(line, len, e);
        if (ok)
            *id = id_of_line(line);
    }
    if (log && fd >= 0)
        close(fd);
    return ok;
}
