/* fake_detached.h: detached jobs of the fake engine. */
#include "tests/api/fake_detached.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_MS 5

static void name_files(struct fake_detached *d, const char *folder, const char *key)
{
    snprintf(d->events, sizeof d->events, "%.200s/fake-%.60s.events", folder, key);
    snprintf(d->cancel, sizeof d->cancel, "%.200s/fake-%.60s.cancel", folder, key);
}

bool fake_detached_begin(struct fake_detached *d, const char *folder, const char *key)
{
    name_files(d, folder, key);
    d->fd = open(d->events, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return d->fd >= 0 && flock(d->fd, LOCK_EX) == 0;
}

void fake_detached_note(struct fake_detached *d, const struct buf *event)
{
    ssize_t n = write(d->fd, event->data, event->len);
    (void)n;
}

bool fake_detached_cancelled(const struct fake_detached *d)
{
    return access(d->cancel, F_OK) == 0;
}

bool fake_detached_replay(const char *folder, const char *key, int client)
{
    struct fake_detached d;
    char bytes[8192];
    name_files(&d, folder, key);
    int fd = open(d.events, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (bool any = false;;) {
        /* asked before reading: whatever was written before the end is still read */
        bool over = flock(fd, LOCK_SH | LOCK_NB) == 0;
        ssize_t n;
        while ((n = read(fd, bytes, sizeof bytes)) > 0) {
            any = true;
            if (send(client, bytes, (size_t)n, MSG_NOSIGNAL) != n)
                return true;
        }
        if (over && !any) { /* the job made its file a moment ago, and is about to lock it */
            close(fd);
            return false;
        }
        struct pollfd p = {.fd = client, .events = POLLIN};
        if (over ||
            (poll(&p, 1, LOOK_MS) > 0 && recv(client, bytes, sizeof bytes, MSG_DONTWAIT) <= 0))
            return true;
    }
}

bool fake_detached_cancel(const char *folder, const char *key)
{
    struct fake_detached d;
    name_files(&d, folder, key);
    if (access(d.events, F_OK) != 0)
        return false;
    int fd = open(d.cancel, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
