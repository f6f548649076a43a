/* A fixed team of threads that run one function together, with barriers in between.
 *
 * The caller's thread is member 0; the others sleep between runs (an idle engine uses no CPU). Waiting spins
 * for some microseconds, since the next phase is usually that near, and then sleeps, so that a busy machine
 * is not held up by threads that wait. One thread calls pool_run at a time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct pool;

#define POOL_MOST_THREADS 256

/* n_threads: see pool_size. */
struct pool *pool_create(int32_t n_threads, struct err *e);
void pool_destroy(struct pool **p);
int32_t pool_threads(const struct pool *p);
/* Every member calls fn(context, member); returns when all are done. `alone`: member 0 only, the others go on
 * sleeping, and barriers are passed at once. */
void pool_run(struct pool *p, bool alone, void (*fn)(void *context, int32_t member), void *context);
/* Inside fn: no member passes before all have come. What was written before is seen after. */
void pool_barrier(struct pool *p);
/* Physical cores that this process may use: affinity and cgroup quota respected. */
int32_t pool_default_threads(void);
/* What a pool that is asked for n_threads has: 0 = pool_default_threads(), at most POOL_MOST_THREADS. */
int32_t pool_size(int32_t n_threads);
