/* How fast this machine reads memory with the pool's threads. */
#pragma once
#include "engine/base/thread_pool.h"

/* Bytes per second: of some parts of a buffer in huge pages, each of which is read once, the best
 * rate. Takes some 0.1 s and 320 MiB meanwhile. 0 when there is no memory for it. */
double bandwidth_measure(struct thread_pool *p);
