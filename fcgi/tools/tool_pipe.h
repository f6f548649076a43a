/* A tool server that is a program: a connection to sluice-toolhost, which is the program's standard
 * input and output, a JSON message a line. Bounded in time and size as tool_http.h. Blocks its
 * thread: only behind WORK_TOOL. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

#define TOOL_PIPE_SCHEME "stdio://" /* and the program's name: the url of such a server */

struct tool_pipe {
    int fd;                         /* -1: not open */
    double until;                   /* clock_ms when it must have ended */
    bool (*stopped)(void *context); /* as in tool_http.h */
    void *context;
};

/* The program's name in a url; NULL: it is an address. */
const char *tool_pipe_program(const char *url);
/* run_dir: where the host's socket lies. ERR_UNAVAILABLE with the reason tool_program (nobody runs
 * one of this name), tool_program_failed (it can't be started, or ends at once) or tool_busy. */
bool tool_pipe_open(struct tool_pipe *p, const char *run_dir, const char *program, struct err *e);
/* One message. */
bool tool_pipe_send(struct tool_pipe *p, const char *message, struct err *e);
/* Reads lines and gives each out until take says by false that it was the one. ERR_UNAVAILABLE with
 * tool_timeout or tool_program_failed, ERR_LIMIT with tool_too_large, ERR_CANCELLED. */
bool tool_pipe_read(struct tool_pipe *p, bool (*take)(void *context, const char *line, size_t len),
                    void *context, struct err *e);
void tool_pipe_close(struct tool_pipe *p);
