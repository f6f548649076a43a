/* This program once more, as a child of `sluice up`: with a command line of its own, nothing on
 * standard input and output, and standard error as a pipe. It ends with its parent. One thread: the
 * supervisor's, whose own wait takes its exit status. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/base/err.h"

struct own_child {
    pid_t pid;
    int fd;         /* what it says on standard error */
    char said[320]; /* the first line of it */
};

bool own_child_start(struct own_child *c, char *const argv[], struct err *e);
void own_child_stop(const struct own_child *c); /* it ends soon */
/* Reads what it says; true once when it has ended. */
bool own_child_ended(struct own_child *c);
