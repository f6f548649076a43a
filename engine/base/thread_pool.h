/* A fixed team of threads that run one function together, with barriers in between.
 *
 * The caller's thread is member 0; the others sleep between runs (an idle engine uses no CPU).
 * Waiting spins for some microseconds, since the next phase is usually that near, and then sleeps,
 * so that a busy machine is not held up by threads that wait. One thread calls thread_pool_run at a
 * time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct thread_pool;

#define THREAD_POOL_MAX 256
#define THREAD_POOL_COPIERS 8

/* n_threads: see thread_pool_size. */
struct thread_pool *thread_pool_create(int32_t n_threads, struct err *e);
/* For copies, since a few threads saturate the memory: at most THREAD_POOL_COPIERS, fewer where the
 * machine or the system gives fewer. They sleep at once between runs, since the next is not near.
 */
struct thread_pool *thread_pool_create_copiers(struct err *e);
void thread_pool_destroy(struct thread_pool **p); /* accepts NULL inside */
int32_t thread_pool_threads(const struct thread_pool *p);
/* Every member calls fn(context, member); returns when all are done. single: only member 0 runs,
 * the others go on sleeping, and barriers are passed at once. */
void thread_pool_run(struct thread_pool *p, bool single, void (*fn)(void *context, int32_t member),
                     void *context);
/* Inside fn: no member passes before all have come. What was written before is seen after. */
void thread_pool_barrier(struct thread_pool *p);
/* The same, and the last to come calls last(context) before anybody passes. */
void thread_pool_barrier_then(struct thread_pool *p, void (*last)(void *context), void *context);
/* The member's equal share of n things among `count` members: *from <= i < *to. */
static inline void thread_pool_equal_share(int32_t n, int32_t member, int32_t count, int32_t *from,
                                           int32_t *to)
{
    *from = (int32_t)((int64_t)n * member / count);
    *to = (int32_t)((int64_t)n * (member + 1) / count);
}
enum thread_pool_schedule {
    THREAD_POOL_STEALING, /* a thread whose range is empty takes half of another's remaining range
                           */
    THREAD_POOL_STATIC, /* equal ranges: for so little work that looking at the others' ranges costs
                           more than it gains */
};
/* Inside fn: begins a parallel loop over i = 0 .. n - 1, n < 2^22; a run may have 2^20 loops. Every
 * member begins the same loops in the same order, with a barrier between two of them. */
void thread_pool_loop_begin(struct thread_pool *p, int32_t member, int32_t n,
                            enum thread_pool_schedule schedule);
/* Inside fn: the member's next chunk of the loop, *from <= i < *to; false when nothing is left for
 * it. Every i is handed out once. A member starts with an equal range and takes it in order, chunk
 * by chunk. Work stealing: a thread whose range is empty takes the second half of another thread's
 * remaining range, so that nobody waits long for a thread that the system has descheduled. */
bool thread_pool_next_chunk(struct thread_pool *p, int32_t member, int32_t *from, int32_t *to);
/* Calls fn(context, i) for every i of 0 .. n - 1, n < 2^22, each once, by any member; returns when
 * all are done. */
void thread_pool_each(struct thread_pool *p, int32_t n, void (*fn)(void *context, int32_t i),
                      void *context);
/* Physical cores that this process may use: affinity and cgroup quota respected. */
int32_t thread_pool_default_threads(void);
/* What a pool that is asked for n_threads has: 0 = thread_pool_default_threads(), at most
 * THREAD_POOL_MAX. */
int32_t thread_pool_size(int32_t n_threads);
