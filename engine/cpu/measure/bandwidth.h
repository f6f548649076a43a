/* How fast this machine reads memory with the pool's threads. */
#pragma once
#include "engine/base/thread_pool.h"

/* Bytes per second, best of some passes over huge pages, more of them than caches hold; takes some
 * 0.05 s and frees what it took. 0 when there is no memory for it. */
double bandwidth_measure(struct thread_pool *p);
