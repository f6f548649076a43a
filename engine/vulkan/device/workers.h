/* Threads that share out one piece of work at a time. The caller takes part, and has it all done when it returns.
 * Owner: one thread. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct workers;

/* As many threads as are worth it on this machine; where a thread can't be had, fewer. NULL: no memory. */
struct workers *workers_open(struct err *e);
void workers_close(struct workers **w); /* accepts NULL inside */
/* Calls run(context, share) for every share of 0 .. n - 1, each once, from any of the threads. */
void workers_run(struct workers *w, void (*run)(void *context, int share), void *context, int n);
