/* Opens the engine's socket, and accepts without a busy loop where descriptors run out. */
#define LOG_MODULE "server"
#include "engine/sched/client/listener.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"

#define BACKLOG 256
#define RETRY_MS 100.0

/* A socket file that nobody listens on is left over from an engine that was killed. */
static bool remove_stale(const struct sockaddr_un *address, struct err *e)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(e, "socket");
    bool alive = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    close(fd);
    if (alive)
        return err_set(e, ERR_CONFLICT, "another engine listens on %s", address->sun_path);
    struct stat st;
    if (lstat(address->sun_path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return err_set(e, ERR_CONFLICT, "%s exists and is not a socket", address->sun_path);
    unlink(address->sun_path);
    return true;
}

/* Each connection is a descriptor, and the soft limit is often 1024. Twice as many leave room for
 * files and devices. */
static void raise_limit(int connections)
{
    const rlim_t wanted = 2 * (rlim_t)connections;
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < wanted && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max < wanted ? l.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

bool listener_open(struct listener *l, const char *path, gid_t group, int connections,
                   struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *l = (struct listener){.fd = -1};
    if (strlen(path) >= sizeof address.sun_path)
        return err_field(e, ERR_INPUT, "socket", "path is longer than %zu bytes",
                         sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    raise_limit(connections);
    if (!remove_stale(&address, e))
        return false;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return err_errno(e, "socket");
    /* the mode is right from the first moment: no window between bind and chmod */
    mode_t mask = umask(0117);
    int bound = bind(l->fd, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (bound != 0)
        return err_errno(e, "bind %s", path);
    if (group != (gid_t)-1 && chown(path, (uid_t)-1, group) != 0)
        return err_errno(e, "chown %s to group %d", path, (int)group);
    if (listen(l->fd, BACKLOG) != 0)
        return err_errno(e, "listen %s", path);
    return true;
}

int listener_accept(struct listener *l)
{
    int fd;
    do
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd >= 0) {
        l->retry_at = 0;
    } else if (errno != EAGAIN) {
        if (!l->retry_at) /* once, however often it is tried again */
            log_error("accept: %s; connections wait", strerror(errno));
        l->retry_at = clock_ms() + RETRY_MS;
    }
    return fd;
}

void listener_close(struct listener *l, const char *path)
{
    if (l->fd < 0)
        return;
    unlink(path);
    close(l->fd);
    l->fd = -1;
}
