/* How fast this machine reads memory with the pool's threads. */
#pragma once
#include "engine/base/thread_pool.h"

/* Bytes per second, the best of some parts of a buffer in huge pages, each of which is read once;
 * takes some 0.1 s and frees what it took. 0 when there is no memory for it. */
double bandwidth_measure(struct thread_pool *p);
