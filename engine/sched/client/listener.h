/* The engine's listening socket: a unix socket that clients of our user or of one group may connect
 * to. Owner: the I/O thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "engine/base/err.h"

struct listener {
    int fd;          /* -1: closed */
    double retry_at; /* clock_ms at which accepting is tried again after descriptors or memory ran
                        out; 0: now */
};

/* Binds and listens; raises this process's soft limit of descriptors so that `connections` of them
 * fit. A socket file that nobody listens on is replaced. group: who may connect beside our user;
 * -1: nobody. ERR_CONFLICT: another engine listens there, or the file is not a socket. */
bool listener_open(struct listener *l, const char *path, gid_t group, int connections,
                   struct err *e);
/* The next connection, non-blocking and to be closed by the caller; -1: there is none now. Where
 * descriptors or memory ran out, `retry_at` is set: the socket stays readable, so the caller must
 * not wait for that until then. */
int listener_accept(struct listener *l);
void listener_close(struct listener *l,
                    const char *path); /* removes the file; accepts a closed one */
