/* pool_master.h: one loop over signals, a wake-up descriptor and the clock. */
#define LOG_MODULE "pool"
#include "fcgi/process/pool_master.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/process/child.h"
#include "fcgi/process/stream_abort.h"
#include "fcgi/process/shared.h"

#define TICK_MS 500
#define YOUNG_MS 2000 /* a child that fails sooner than this counts for the back-off */
#define BACKOFF_MAX_MS 5000
#define KILL_MS 5000 /* from SIGUSR2 to SIGKILL */

struct pool_master {
    const struct pool_master_params *p;
    struct shared_pool *board;
    struct stream_abort abort;
    int64_t born_ms[SHARED_CHILDREN];
    int signal_fd, wake_fd;
    sigset_t old_mask;
    int backoff_ms;      /* 0: none */
    int64_t failed_ms;   /* when a child last failed that was born after the one before it */
    int64_t not_before;  /* clock_ms before which nothing is forked */
    int64_t drain_since; /* 0: not draining */
    int stage;           /* of draining: 0 asked, 1 streams ended, 2 killed */
};

static int64_t now_ms(void)
{
    return (int64_t)clock_ms();
}

static int count_state(const struct pool_master *pool, enum child_state state)
{
    int n = 0;
    for (int i = 0; i < SHARED_CHILDREN; i++)
        n += pool->board->child[i].state == (int32_t)state;
    return n;
}

static int count_children(const struct pool_master *pool)
{
    return SHARED_CHILDREN - count_state(pool, CHILD_NONE);
}

_Noreturn static void run_child(struct pool_master *pool, int slot)
{
    const struct pool_master_params *p = pool->p;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* It may be dead before the line above, and its successor at work. */
    if (getppid() != (pid_t)pool->board->master_pid ||
        !shared_row_claim(&pool->board->child[slot], getpid()) || !child_signals())
        _exit(1);
    struct err e = {0};
    if (p->lock_in && !p->lock_in(p->worker, &e)) {
        log_error("%s", e.text);
        _exit(1);
    }
    close(pool->signal_fd);
    stream_abort_forget(&pool->abort);
    if (p->child_main) { /* reads its signals from a descriptor: what comes before it has one stays
                            pending */
        pool->board->child[slot].state = CHILD_IDLE;
        exit(p->child_main(p->worker));
    }
    sigprocmask(SIG_SETMASK, &pool->old_mask, NULL);
    exit(child_run(&(struct child_params){.worker = p->worker,
                                          .service = p->service,
                                          .slot = &pool->board->child[slot],
                                          .slot_index = slot,
                                          .stream_abort_fd = pool->abort.child_fd,
                                          .listen_fd = p->listen_fd,
                                          .reserved_fd = p->reserved_fd,
                                          .wake_fd = pool->wake_fd,
                                          .min_idle = p->min_idle,
                                          .n_threads = p->n_threads}));
}

static bool spawn(struct pool_master *pool)
{
    int slot = 0;
    while (slot < SHARED_CHILDREN && !shared_row_vacant(&pool->board->child[slot]))
        slot++;
    if (slot == SHARED_CHILDREN)
        return false;
    struct shared_child *c = &pool->board->child[slot];
    if (pool->board->n_rows <= slot)
        pool->board->n_rows = slot + 1; /* first: what it writes there is looked for */
    c->state = CHILD_STARTING;
    c->since_ms = clock_wall_ms();
    c->requests = 0;
    c->stream = STREAM_NONE;
    c->ticket = 0;
    pid_t pid = fork();
    if (pid == 0)
        run_child(pool, slot);
    if (pid < 0) {
        c->state = CHILD_NONE;
        log_error("fork: %s", strerror(errno));
        pool->not_before = now_ms() + 1000;
        return false;
    }
    c->pid = pid;
    pool->born_ms[slot] = now_ms();
    pool->board->started++;
    return true;
}

static void note_death(struct pool_master *pool, int slot, int status)
{
    struct shared_child *c = &pool->board->child[slot];
    bool failed = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    stream_abort_collect(&pool->abort); /* it may have accepted only just now */
    stream_abort_end(&pool->abort, slot, failed ? (enum stream_state)c->stream : STREAM_NONE,
                     pool->p->stream_abort(c->dialect));
    int64_t age = now_ms() - pool->born_ms[slot];
    if (failed) {
        pool->board->crashed++;
        if (age < YOUNG_MS &&
            pool->born_ms[slot] >= pool->failed_ms) { /* many that die at once are one failure */
            pool->failed_ms = now_ms();
            pool->backoff_ms = pool->backoff_ms ? 2 * pool->backoff_ms : 100;
            if (pool->backoff_ms > BACKOFF_MAX_MS)
                pool->backoff_ms = BACKOFF_MAX_MS;
            pool->not_before = now_ms() + pool->backoff_ms;
        }
        log_warn("pid=%d %s=%d age_ms=%lld busy=%d requests=%llu next_fork_in_ms=%d: a worker died",
                 (int)c->pid, WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (long long)age,
                 c->state == CHILD_BUSY, (unsigned long long)c->requests,
                 age < YOUNG_MS ? pool->backoff_ms : 0);
    }
    if (age >= YOUNG_MS)
        pool->backoff_ms = 0;
    c->pid = 0;
    c->state = CHILD_NONE;
}

static void reap(struct pool_master *pool)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < SHARED_CHILDREN; i++)
            if (pool->board->child[i].pid == pid)
                note_death(pool, i, status);
}

static void signal_children(struct pool_master *pool, int signal_number)
{
    for (int i = 0; i < SHARED_CHILDREN; i++)
        if (pool->board->child[i].pid > 0)
            kill(pool->board->child[i].pid, signal_number);
}

static void retire(struct pool_master *pool, struct shared_child *c)
{
    if (c->pid > 0 && kill(c->pid, SIGTERM) == 0 && c->state == CHILD_IDLE)
        c->state = CHILD_LEAVING;
}

/* One child a tick, the one that waited longest: a lull of a second must not undo a pool that was
 * just needed. */
static void retire_idle(struct pool_master *pool)
{
    struct shared_child *longest = NULL;
    for (int i = 0; i < SHARED_CHILDREN; i++) {
        struct shared_child *c = &pool->board->child[i];
        if (c->state == CHILD_IDLE && (!longest || c->since_ms < longest->since_ms))
            longest = c;
    }
    if (longest && clock_wall_ms() - longest->since_ms > pool->p->idle_ms)
        retire(pool, longest);
}

static void fill(struct pool_master *pool)
{
    const struct pool_master_params *p = pool->p;
    if (pool->drain_since || now_ms() < pool->not_before)
        return;
    bool fixed = p->idle_ms == 0;
    int ready = count_state(pool, CHILD_IDLE) + count_state(pool, CHILD_STARTING);
    if (fixed)
        ready += count_state(pool, CHILD_BUSY);
    int all = count_children(pool);
    while (ready < p->min_idle && all < p->max_children && spawn(pool)) {
        ready++;
        all++;
    }
}

static void renew(struct pool_master *pool)
{
    const struct pool_master_params *p = pool->p;
    if (p->reload && !p->reload(p->worker)) {
        log_error("reload failed; the old model's text stays in use");
        return;
    }
    log_info("renewing all workers");
    for (int i = 0; i < SHARED_CHILDREN; i++)
        if (pool->board->child[i].pid > 0) {
            kill(pool->board->child[i].pid, SIGTERM);
            if (pool->board->child[i].state == CHILD_IDLE)
                pool->board->child[i].state = CHILD_LEAVING;
        }
}

static void take_signals(struct pool_master *pool)
{
    struct signalfd_siginfo si;
    while (read(pool->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
        if (si.ssi_signo == SIGCHLD) {
            reap(pool);
        } else if (si.ssi_signo == SIGHUP) {
            renew(pool);
        } else if (!pool->drain_since) {
            pool->drain_since = now_ms();
            log_info("draining children=%d busy=%d", count_children(pool),
                     count_state(pool, CHILD_BUSY));
            if (pool->p->listen_fd >=
                0) /* refused at once is better than waiting for a worker that never comes */
                shutdown(pool->p->listen_fd, SHUT_RDWR);
            if (pool->p->reserved_fd)
                shutdown(pool->p->reserved_fd, SHUT_RDWR);
            signal_children(pool, SIGTERM);
        }
    }
}

/* True: all children are gone. */
static bool drained(struct pool_master *pool)
{
    reap(pool);
    if (count_children(pool) == 0)
        return true;
    int64_t since = now_ms() - pool->drain_since;
    if (since > pool->p->grace_ms && pool->stage == 0) {
        pool->stage = 1;
        signal_children(pool, SIGUSR2);
    }
    if (since > pool->p->grace_ms + KILL_MS && pool->stage == 1) {
        pool->stage = 2;
        pool->board->killed += (uint64_t)count_children(pool);
        signal_children(pool, SIGKILL);
    }
    return false;
}

static bool open_loop(struct pool_master *pool, struct err *e)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &pool->old_mask);
    pool->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    pool->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return (pool->signal_fd >= 0 && pool->wake_fd >= 0) || err_errno(e, "signalfd");
}

bool pool_master_run(const struct pool_master_params *p, struct err *e)
{
    struct pool_master pool = {
        .p = p, .board = &p->worker->shared->pool[p->worker->pool], .signal_fd = -1, .wake_fd = -1};
    if (!stream_abort_init(&pool.abort, e) || !open_loop(&pool, e))
        return false;
    shared_rows_inherit(pool.board);
    pool.board->master_pid = getpid();
    int64_t next_retire = now_ms();
    while (!pool.drain_since || !drained(&pool)) {
        shared_rows_settle(pool.board);
        fill(&pool);
        struct pollfd fds[3] = {{.fd = pool.signal_fd, .events = POLLIN},
                                {.fd = pool.wake_fd, .events = POLLIN},
                                {.fd = pool.abort.master_fd, .events = POLLIN}};
        int wait = pool.drain_since || now_ms() < pool.not_before ? 50 : TICK_MS;
        poll(fds, 3, wait);
        uint64_t count;
        ssize_t n = read(pool.wake_fd, &count, sizeof count);
        (void)n;
        stream_abort_collect(&pool.abort);
        take_signals(&pool);
        if (p->idle_ms && !pool.drain_since && now_ms() >= next_retire) {
            next_retire = now_ms() + TICK_MS;
            if (count_state(&pool, CHILD_IDLE) > p->min_idle)
                retire_idle(&pool);
        }
    }
    /* one that ends late, its supervisor killed, leaves its successor's number there */
    int32_t mine = (int32_t)getpid();
    atomic_compare_exchange_strong(&pool.board->master_pid, &mine, 0);
    stream_abort_fini(&pool.abort);
    close(pool.signal_fd);
    close(pool.wake_fd);
    return true;
}
