/* The last word of a stream whose process was killed. nginx takes the end of an unbuffered FastCGI connection for the
 * end of the answer, whole or not: a client of a killed process would see a stream that merely stops. So each stream
 * process hands its master a duplicate of the connection it accepted, and marks in the scoreboard when OpenAI's stream
 * is open on it, and in which dialect; when the process dies, the master writes that dialect's last words and FastCGI's
 * end in its place.
 *
 * The master's side belongs to its only thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/process/shared.h"

#define GUARD_WORDS 256

struct guard_words {
    /* Ends an event that may be half written, or whole: then a mere blank line would be an empty event, over which some readers
     * stumble, so server-sent events are ended by a comment. NULL: nothing does, as in streams of lines. At most 8 bytes. */
    const char *cut;
    const char *last; /* at most GUARD_WORDS bytes */
};

struct guard {
    int master_fd, child_fd; /* datagrams with a descriptor, children to master; child_fd is inherited */
    struct guard_stream {
        int fd; /* -1: none */
        uint16_t request; /* FastCGI's id of it on that connection */
    } streams[SHARED_CHILDREN];
};

bool guard_init(struct guard *g, struct err *e);
void guard_fini(struct guard *g);
/* In a fresh child: closes the copies that fork made of the master's descriptors, or streams would not end. */
void guard_forget(struct guard *g);
/* In a child: the connection that it accepted. Never waits. */
void guard_hand_over(int child_fd, int slot, int connection, int request);
/* In the master: takes what children handed over. */
void guard_collect(struct guard *g);
/* In the master, when the child of a slot is gone: the last words, unless STREAM_NONE; then closes. */
void guard_end(struct guard *g, int slot, enum stream_state state, const struct guard_words *words);
