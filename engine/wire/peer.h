/* The client's end of a connection to the engine: connects, sends, and takes whole frames from
 * what was received. A deadline is a time of clock_ms; negative: without limit. One thread owns a
 * peer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/wire/frame.h"

struct peer {
    int fd;        /* -1: not connected */
    struct buf in; /* received, from in_pos on not yet given out */
    size_t in_pos;
    bool unread; /* the other end closed before it had read all that was sent */
};

/* ERR_UNAVAILABLE: nobody listens, or the backlog is full until the deadline. */
bool peer_connect(struct peer *p, const char *path, double deadline, struct err *e);
bool peer_send(struct peer *p, const struct buf *b, double deadline, struct err *e);
/* Looks at the next whole frame in memory; 1, 0, -1 as frame_parse. */
int peer_peek(const struct peer *p, struct frame *f, size_t *used, struct err *e);
/* The next frame, waiting for it: 1, 0 (deadline), -1. It stays until in_pos is moved by *used; the
 * bytes stay where they are until the next call. */
int peer_next(struct peer *p, struct frame *f, size_t *used, double deadline, struct err *e);
/* Is there something to read within `us`? Awake, but for what yields the core to others. */
bool peer_poll_busily(const struct peer *p, double us);
void peer_close(struct peer *p);
