/* Ends the stream of a process that was killed. nginx takes the end of an unbuffered FastCGI
 * connection for the end of the answer, whole or not: the client of a killed process would see a
 * stream that merely stops. So each stream process hands its master a duplicate of the connection
 * when a stream's first bytes have left and more is awaited, and marks in the scoreboard that the
 * stream is open and in which dialect. A process that dies before that has said nothing: nginx
 * replies with a 502. When the process dies, the master writes an error event in that dialect and
 * FastCGI's end of request.
 *
 * The master's side belongs to its only thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/process/shared.h"

#define STREAM_ABORT_BYTES 256

struct stream_abort_text {
    /* Closes an event that may be half written or whole. Server-sent events are closed by a
     * comment, since after a whole event a mere blank line would be an empty event, which some
     * readers reject. NULL: nothing closes it, as in streams of lines. At most 8 bytes. */
    const char *close_event;
    const char *error_event; /* at most STREAM_ABORT_BYTES */
};

struct stream_abort {
    int master_fd, child_fd; /* datagrams with a descriptor, from children to the master; child_fd
                                is inherited */
    struct stream_abort_connection {
        int fd;           /* -1: none */
        uint16_t request; /* FastCGI's id of the request on that connection */
    } connections[SHARED_CHILDREN];
};

bool stream_abort_init(struct stream_abort *a, struct err *e);
void stream_abort_fini(struct stream_abort *a);
/* In a fresh child: closes the copies that fork made of the master's descriptors, or streams would
 * not end. */
void stream_abort_forget(struct stream_abort *a);
/* In a child: sends the master, which is woken by it, the connection that it accepted. Never waits.
 * False: it was not told, and the stream is served all the same. */
bool stream_abort_hand_over(int child_fd, int slot, int connection, int request);
/* In the master: receives what children handed over. */
void stream_abort_collect(struct stream_abort *a);
/* In the master, when the child of a slot is gone: writes the error event, unless STREAM_NONE, and
 * closes the connection. */
void stream_abort_end(struct stream_abort *a, int slot, enum stream_state state,
                      const struct stream_abort_text *text);
