/* One client of the socket: its bytes in, its place in a job's log. Owner: the I/O thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/sched/job.h"
#include "engine/wire/frame.h"

struct connection {
    int fd;
    struct buf in, out; /* out: HELLO and refusals, before a job's events */
    struct job *job;    /* the job whose events it gets; one reference */
    uint64_t position;  /* in the job's log */
    bool owner;         /* submitted it: closing cancels, unless detached */
    bool greeted;       /* HELLO was received */
    bool closing;       /* closed once `out` is sent */
    bool blocked;       /* the peer does not read: waiting for POLLOUT */
    double opened_ms;
    struct connection *previous, *next;
};

/* Takes the descriptor, which is closed on failure. */
struct connection *connection_create(int fd);
/* Reads what is there. 1: perhaps whole frames in c->in; 0: nothing; -1: the peer is gone. */
int connection_read(struct connection *c);
/* True if the peer has closed. What it sent before may still be unread. */
bool connection_left(const struct connection *c);
/* Sends as much as the peer takes: `out`, then the job's log. 1: everything that is there was sent;
 * 0: the peer is slow (c->blocked); -1: the peer is gone, or the last event was sent. */
int connection_send(struct connection *c);
/* Sends a refusal (job 0), then closes. */
void connection_refuse(struct connection *c, const struct err *e);
void connection_destroy(struct connection **c);
/* True if the other end is our own user, root, the peer, or a member of the group; -1: there is no
 * such peer or group. */
bool connection_peer_allowed(int fd, uid_t peer, gid_t group);
