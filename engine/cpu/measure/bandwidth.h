/* How fast this machine reads memory with the pool's threads. */
#pragma once
#include "engine/base/thread_pool.h"

/* Bytes per second, best of some passes over a buffer larger than the caches; takes about 0.2 s and
 * frees what it took. 0 when there is no memory for it. */
double bandwidth_measure(struct thread_pool *p);
