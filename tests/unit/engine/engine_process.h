/* A real sluice-engine over the demo model on the cpu backend, for tests of socket, jobs and
 * failures. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/wire/status.h"

struct engine_process {
    pid_t pid;
    char dir[64], socket[96], status[96];
    int out; /* its standard output */
};

/* Starts it in a folder of its own; extra: more arguments, NULL-terminated, or NULL. Does not wait
 * until it is ready. */
bool engine_process_start(struct engine_process *p, const char *const *extra);
bool engine_process_wait_ready(struct engine_process *p);
/* Sends the signal (0: none) and gives the exit status, or 128 + the signal that ended it; -1:
 * still there after 20 s. */
int engine_process_end(struct engine_process *p, int signal);
void engine_process_remove(struct engine_process *p); /* kills it if need be, removes the folder */
/* Waits until nothing runs, waits or holds a block. */
bool engine_process_wait_idle(struct engine_process *p, struct status_page *page);

/* The whole answer of a job. */
struct answer_text {
    char text[16384];
    size_t len;
    int32_t n_tokens;
    bool done, failed;
    struct engine_event last;
};
/* Reads events until the last. False: the connection broke, or nothing came for 60 s. */
bool answer_read(struct engine_job *j, struct answer_text *a);
