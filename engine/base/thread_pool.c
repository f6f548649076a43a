/* Start gate, barrier and work stealing. A member's remaining range is one atomic word, so that
 * others can take from it without a lock. */
#include "engine/base/thread_pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

#define SPIN_BARRIER_NS 60000 /* phases last 5 to 500 microseconds */
#define SPIN_RUN_NS 120000    /* between two steps the owner samples and schedules */

struct gate { /* a counter that threads wait on until it moves; spin first, then sleep */
    _Alignas(64) _Atomic uint32_t turn;
    _Atomic uint32_t sleepers;
    pthread_mutex_t lock; /* only for sleeping and waking */
    pthread_cond_t moved;
};

/* A member's remaining range of a loop in one word, which others can take from: the loop's number,
 * from, to. A word with another number means that the member has not begun the loop: it still has
 * its whole range. */
#define LOOP_BITS 20
#define INDEX_BITS 22
#define INDEX_MAX ((1 << INDEX_BITS) - 1)
_Static_assert(LOOP_BITS + 2 * INDEX_BITS == 64, "one word");
#define MAX_VICTIMS 8 /* the members after it that a thread tries to steal from */

struct range {
    _Alignas(64) _Atomic uint64_t left;
    uint32_t
        loop;   /* written by the member alone: number of the current loop, from 1 on in each run */
    int32_t n;  /* of a static loop: 0 once the member has taken its range */
    bool fixed; /* THREAD_POOL_STATIC, or the only member */
};

struct thread_pool {
    int32_t n;
    int32_t n_started; /* threads beside member 0 */
    bool copiers;      /* don't spin, and are as many as can be had */
    struct gate start, barrier;
    _Alignas(64) _Atomic int32_t arrived; /* members waiting at the barrier */
    void (*fn)(void *context, int32_t member);
    void *context;
    bool single; /* written before start's turn moves; the others read it only in a run of all */
    bool stop;   /* written before start's turn moves */
    pthread_t threads[THREAD_POOL_MAX];
    struct range ranges[THREAD_POOL_MAX];
};

struct member { /* what a new thread is told; freed by it */
    struct thread_pool *pool;
    int32_t index;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool gate_init(struct gate *g)
{
    atomic_init(&g->turn, 0);
    atomic_init(&g->sleepers, 0);
    if (pthread_mutex_init(&g->lock, NULL))
        return false;
    if (pthread_cond_init(&g->moved, NULL)) {
        pthread_mutex_destroy(&g->lock);
        return false;
    }
    return true;
}

static void gate_fini(struct gate *g)
{
    pthread_cond_destroy(&g->moved);
    pthread_mutex_destroy(&g->lock);
}

/* Sequentially consistent on both sides: either the mover sees the sleeper, or the sleeper sees the
 * move. */
static void gate_move(struct gate *g)
{
    atomic_fetch_add(&g->turn, 1);
    if (atomic_load(&g->sleepers)) {
        pthread_mutex_lock(&g->lock);
        pthread_cond_broadcast(&g->moved);
        pthread_mutex_unlock(&g->lock);
    }
}

static void gate_wait(struct gate *g, uint32_t seen, uint64_t spin_ns)
{
    uint64_t until = 0;
    for (int i = 0;; i++) {
        if (atomic_load_explicit(&g->turn, memory_order_acquire) != seen)
            return;
        relax();
        if (i % 64 == 63) {
            uint64_t now = clock_ns();
            if (!until)
                until = now + spin_ns;
            else if (now >= until)
                break;
        }
    }
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->turn) == seen)
        pthread_cond_wait(&g->moved, &g->lock);
    atomic_fetch_sub(&g->sleepers, 1);
    pthread_mutex_unlock(&g->lock);
}

static void do_nothing(void *context)
{
    (void)context;
}

void thread_pool_barrier(struct thread_pool *p)
{
    thread_pool_barrier_then(p, do_nothing, NULL);
}

void thread_pool_barrier_then(struct thread_pool *p, void (*last)(void *context), void *context)
{
    if (p->single) {
        last(context);
        return;
    }
    uint32_t seen = atomic_load(&p->barrier.turn);
    if (atomic_fetch_add(&p->arrived, 1) + 1 == p->n) {
        last(context);
        atomic_store(&p->arrived, 0);
        gate_move(&p->barrier);
    } else {
        gate_wait(&p->barrier, seen, p->copiers ? 0 : SPIN_BARRIER_NS);
    }
}

/* --- loops --- */

struct span {
    int32_t from, to;
};

static uint64_t pack(uint32_t loop, struct span s)
{
    return (uint64_t)loop << 2 * INDEX_BITS | (uint64_t)s.from << INDEX_BITS | (uint64_t)s.to;
}

static int32_t members(const struct thread_pool *p)
{
    return p->single ? 1 : p->n;
}

static struct span equal_share(const struct thread_pool *p, int32_t member, int32_t n)
{
    struct span s;
    thread_pool_equal_share(n, member, members(p), &s.from, &s.to);
    return s;
}

/* The member's remaining range of the loop with this number, of n iterations. */
static struct span unpack(const struct thread_pool *p, int32_t member, uint64_t word, uint32_t loop,
                          int32_t n)
{
    if (word >> 2 * INDEX_BITS == loop)
        return (struct span){(int32_t)(word >> INDEX_BITS & INDEX_MAX),
                             (int32_t)(word & INDEX_MAX)};
    return equal_share(p, member, n);
}

void thread_pool_loop_begin(struct thread_pool *p, int32_t member, int32_t n,
                            enum thread_pool_schedule schedule)
{
    struct range *own = &p->ranges[member];
    own->loop++;
    own->n = n;
    own->fixed = schedule == THREAD_POOL_STATIC || members(p) == 1;
}

static bool take_fixed(const struct thread_pool *p, int32_t member, struct range *own,
                       struct span *taken)
{
    *taken = equal_share(p, member, own->n);
    own->n = 0;
    return taken->from < taken->to;
}

/* Takes the first quarter of the own range, and its last iterations one by one, so that thieves
 * still find some. */
static bool take_own(struct thread_pool *p, int32_t member, struct span *taken)
{
    struct range *own = &p->ranges[member];
    uint64_t word = atomic_load(&own->left);
    for (;;) {
        struct span s = unpack(p, member, word, own->loop, own->n);
        if (s.from >= s.to)
            return false;
        const int32_t left = s.to - s.from, next = s.from + (left > 4 ? left / 4 : 1);
        *taken = (struct span){s.from, next};
        if (atomic_compare_exchange_weak(&own->left, &word,
                                         pack(own->loop, (struct span){next, s.to})))
            return true;
    }
}

/* Work stealing: the second half of the victim's remaining range becomes the member's own. */
static bool steal(struct thread_pool *p, int32_t member, int32_t victim)
{
    struct range *own = &p->ranges[member], *from = &p->ranges[victim];
    uint64_t word = atomic_load(&from->left);
    for (;;) {
        struct span s = unpack(p, victim, word, own->loop, own->n);
        if (s.from >= s.to)
            return false;
        const int32_t middle = s.from + (s.to - s.from) / 2;
        if (!atomic_compare_exchange_weak(&from->left, &word,
                                          pack(own->loop, (struct span){s.from, middle})))
            continue;
        atomic_store(
            &own->left,
            pack(own->loop, (struct span){middle, s.to})); /* it was empty: no thief writes to it */
        return true;
    }
}

bool thread_pool_next_chunk(struct thread_pool *p, int32_t member, int32_t *from, int32_t *to)
{
    struct range *own = &p->ranges[member];
    const int32_t count = members(p), victims = own->fixed                ? 0
                                                : count - 1 < MAX_VICTIMS ? count - 1
                                                                          : MAX_VICTIMS;
    struct span s;
    bool found = own->fixed ? take_fixed(p, member, own, &s) : take_own(p, member, &s);
    for (int32_t i = 1; !found && i <= victims; i++)
        while (!found && steal(p, member, (member + i) % count))
            found = take_own(p, member, &s);
    if (found) {
        *from = s.from;
        *to = s.to;
    }
    return found;
}

/* Before a run: the numbers of loops begin anew. */
static void reset_loops(struct thread_pool *p)
{
    for (int32_t i = 0; i < members(p); i++) {
        atomic_store_explicit(&p->ranges[i].left, 0, memory_order_relaxed);
        p->ranges[i].loop = 0;
    }
}

static void *thread_main(void *argument)
{
    struct member m = *(struct member *)argument;
    free(argument);
    for (uint32_t seen = 0;; seen++) {
        gate_wait(&m.pool->start, seen, m.pool->copiers ? 0 : SPIN_RUN_NS);
        if (m.pool->stop)
            return NULL;
        m.pool->fn(m.pool->context, m.index);
        thread_pool_barrier(m.pool);
    }
}

void thread_pool_run(struct thread_pool *p, bool single, void (*fn)(void *context, int32_t member),
                     void *context)
{
    p->fn = fn;
    p->context = context;
    p->single = single || p->n == 1;
    reset_loops(p);
    if (!p->single)
        gate_move(&p->start);
    fn(context, 0);
    thread_pool_barrier(p);
}

struct each {
    struct thread_pool *pool;
    int32_t n;
    void (*fn)(void *context, int32_t i);
    void *context;
};

static void run_each(void *context, int32_t member)
{
    const struct each *all = context;
    int32_t from, to;
    thread_pool_loop_begin(all->pool, member, all->n, THREAD_POOL_STEALING);
    while (thread_pool_next_chunk(all->pool, member, &from, &to))
        for (int32_t i = from; i < to; i++)
            all->fn(all->context, i);
}

void thread_pool_each(struct thread_pool *p, int32_t n, void (*fn)(void *context, int32_t i),
                      void *context)
{
    thread_pool_run(p, n <= 1, run_each, &(struct each){p, n, fn, context});
}

static bool start_threads(struct thread_pool *p, struct err *e)
{
    for (int32_t i = 1; i < p->n; i++) {
        struct member *m = malloc(sizeof *m);
        if (!m)
            return err_set(e, ERR_NOMEM, "no memory for thread %d", i);
        *m = (struct member){.pool = p, .index = i};
        int failure = pthread_create(&p->threads[i], NULL, thread_main, m);
        if (failure) {
            free(m);
            if (p->copiers) {
                p->n = i;
                return true;
            }
            return err_set(e, ERR_NOMEM, "thread %d of %d: %s", i, p->n, strerror(failure));
        }
        p->n_started++;
    }
    return true;
}

static struct thread_pool *create(int32_t n_threads, bool copiers, struct err *e)
{
    struct thread_pool *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    if (!p) {
        err_set(e, ERR_NOMEM, "no memory for the thread pool");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    p->n = n_threads;
    p->copiers = copiers;
    if (!gate_init(&p->start)) {
        err_set(e, ERR_NOMEM, "no memory for the thread pool");
        free(p);
        return NULL;
    }
    if (!gate_init(&p->barrier)) {
        err_set(e, ERR_NOMEM, "no memory for the thread pool");
        gate_fini(&p->start);
        free(p);
        return NULL;
    }
    if (!start_threads(p, e))
        thread_pool_destroy(&p);
    return p;
}

struct thread_pool *thread_pool_create(int32_t n_threads, struct err *e)
{
    return create(thread_pool_size(n_threads), false, e);
}

struct thread_pool *thread_pool_create_copiers(struct err *e)
{
    const int32_t most = thread_pool_default_threads();
    return create(most < THREAD_POOL_COPIERS ? most : THREAD_POOL_COPIERS, true, e);
}

void thread_pool_destroy(struct thread_pool **pp)
{
    struct thread_pool *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    p->stop = true;
    gate_move(&p->start);
    for (int32_t i = 1; i <= p->n_started; i++)
        pthread_join(p->threads[i], NULL);
    gate_fini(&p->start);
    gate_fini(&p->barrier);
    free(p);
}

int32_t thread_pool_threads(const struct thread_pool *p)
{
    return p->n;
}

/* "quota period" or "max period"; 0: no limit known. */
static int32_t cgroup_cpus(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!f)
        return 0;
    long long quota = 0, period = 0;
    int n = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    if (n != 2 || quota <= 0 || period <= 0)
        return 0;
    return (int32_t)((quota + period - 1) / period);
}

/* True when another allowed CPU with a lower number shares this one's core. */
static bool is_second_thread(int cpu, const cpu_set_t *allowed)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    int first = -1, n = fscanf(f, "%d", &first);
    fclose(f);
    return n == 1 && first >= 0 && first < cpu && CPU_ISSET(first, allowed);
}

int32_t thread_pool_default_threads(void)
{
    cpu_set_t allowed;
    int32_t n = 0, quota = cgroup_cpus();
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        n += CPU_ISSET(cpu, &allowed) && !is_second_thread(cpu, &allowed);
    if (quota && quota < n)
        n = quota;
    return n < 1 ? 1 : n;
}

int32_t thread_pool_size(int32_t n_threads)
{
    const int32_t n = n_threads > 0 ? n_threads : thread_pool_default_threads();
    return n < THREAD_POOL_MAX ? n : THREAD_POOL_MAX;
}
