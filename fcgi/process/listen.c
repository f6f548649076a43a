/* listen.h: the socket is bound under a name of its own, then renamed over the old one. */
#include "fcgi/process/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024 /* cut by net.core.somaxconn */

static bool bind_and_name(int fd, const char *temporary, const char *path, const char *group,
                          struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, temporary, strlen(temporary) + 1);
    unlink(temporary);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || chmod(temporary, 0660) != 0)
        return err_errno(e, "%s", path);
    if (group && *group) {
        struct group *g = getgrnam(group);
        if (!g)
            return err_field(e, ERR_INPUT, "socket-group", "there is no group '%s'", group);
        if (chown(temporary, (uid_t)-1, g->gr_gid) != 0)
            return err_errno(e, "%s: group %s", path, group);
    }
    if (listen(fd, BACKLOG) != 0 || rename(temporary, path) != 0)
        return err_errno(e, "%s", path);
    return true;
}

int listen_unix(const char *path, const char *group, struct err *e)
{
    char temporary[sizeof((struct sockaddr_un *)0)->sun_path];
    int n = snprintf(temporary, sizeof temporary, "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof temporary) {
        err_field(e, ERR_LIMIT, "socket", "a unix socket's path holds at most %zu bytes",
                  sizeof temporary - 5);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        err_errno(e, "socket");
        return -1;
    }
    if (!bind_and_name(fd, temporary, path, group, e)) {
        unlink(temporary);
        close(fd);
        return -1;
    }
    return fd;
}
