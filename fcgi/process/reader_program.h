/* Starting sluice-reader (reader/reader.h), which parses what strangers sent in a process that can
 * reach nothing else. Any thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "engine/base/err.h"

#define READER_PROGRAM "sluice-reader"

/* Beside this program, or where it is installed. */
void reader_program_find(char path[4096]);
/* in and out become its standard input and output; option: its only argument, or NULL. */
bool reader_program_start(int in, int out, const char *option, pid_t *pid, struct err *e);
/* Its wait status, once it has ended by itself in that time; else it is killed: -1. 0 kills at
 * once.
 */
int reader_program_end(pid_t pid, int leave_ms);
