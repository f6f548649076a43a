/* The last log lines of all processes of the server, in one mapped file of fixed size, so that the
 * admin's page can show them wherever standard error goes. It holds what log.h writes and nothing
 * else: no prompts, no secrets.
 *
 * Any number of processes and threads write without a lock; a line of a process that is killed in
 * the middle of it is never shown. Readers see whole lines only. Oldest lines are overwritten. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/log.h"

#define LOG_RING_LINES 2048
#define LOG_RING_TEXT 456 /* a longer line is cut here, and only here */

struct log_ring_line {
    uint64_t sequence; /* 1 for the first line ever; counts on over restarts */
    int64_t at_ms;     /* Unix */
    int32_t pid, level;
    char program[16], module[16];
    char text[LOG_RING_TEXT];
};

/* Sends this process's lines to the ring as well; the file is made when it is missing or has
 * another layout. Called once, before threads and forks start. program: "engine", "worker", "up".
 */
bool log_ring_attach(const char *path, const char *program, struct err *e);

struct log_ring_query {
    const char *path;
    uint64_t after;       /* only lines with a larger sequence */
    enum log_level level; /* only lines of this level or a graver one */
    int max;              /* lines at most: the oldest of them */
};
/* Copies lines to out[max] and returns their number; *next is the `after` of the query that
 * continues from there. Without a file there are none. */
int log_ring_read(const struct log_ring_query *q, struct log_ring_line *out, uint64_t *next);
