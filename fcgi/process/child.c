/* child.h: each thread accepts, serves one request, and accepts again until it is told to leave. */
#define LOG_MODULE "worker"
#include "fcgi/process/child.h"

#include <errno.h>
#include <fcgiapp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "sql/core/store.h"

#define THREADS_MAX 64
#define STORE_RETRY_NS ((uint64_t)1000000000)
#define ACCEPT_RETRY_MS 100
#define LOG_WAIT_MS 2 /* as long as that lines of the log wait for others to leave with */

/* Written by signal handlers, which can reach nothing else: readable means "stop accepting" and
 * "end streams". */
static int stop_fd = -1, abort_fd = -1;

static void on_signal(int signal_number)
{
    int saved = errno;
    uint64_t one = 1;
    ssize_t n = write(stop_fd, &one, sizeof one);
    if (signal_number == SIGUSR2)
        n = write(abort_fd, &one, sizeof one);
    (void)n;
    errno = saved;
}

bool child_signals(void)
{
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0 || abort_fd < 0)
        return false;
    FCGX_Init(); /* first: it installs handlers of its own */
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGUSR2, &stop, NULL);
    sigaction(SIGUSR1, &ignore, NULL);
    sigaction(SIGINT, &ignore, NULL); /* Ctrl-C reaches the whole group; the master decides */
    sigaction(SIGHUP, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    return true;
}

int child_abort_fd(void)
{
    return abort_fd;
}

/* A child whose master was killed ends its stream, while the next master gives its row to another.
 */
static void set_state(const struct child_params *p, enum child_state state)
{
    struct shared_child *slot = p->slot;
    if (getppid() != (pid_t)p->worker->shared->pool[p->worker->pool].master_pid)
        return;
    slot->since_ms = clock_wall_ms(); /* before the state: the master retires the child that has
                                         been idle longest */
    slot->state = (int32_t)state;
}

/* The thread's connection to SQLite. When it can't be opened, requests that need it are refused,
 * and it is tried again once a second. */
static struct store *keep_store(const struct worker *w, struct store **s, uint64_t *next_try)
{
    struct err e = {0};
    if (*s || clock_ns() < *next_try)
        return *s;
    *s = store_open(&(struct store_params){.path = w->db_path}, &e);
    if (!*s)
        log_error("database: %s", e.text);
    *next_try = clock_ns() + STORE_RETRY_NS;
    return *s;
}

enum woken { WOKEN_LEAVE, WOKEN_CONNECTION, WOKEN_LAST };

/* Waits for a connection. EPOLLEXCLUSIVE wakes one thread of all processes per connection, and the
 * listening socket is non-blocking, so a thread that loses the race waits again. A thread that is
 * woken for a connection and told to leave at the same time serves that connection first
 * (WOKEN_LAST): no other thread was woken for it. */
static enum woken wait_connection(int epoll)
{
    struct epoll_event ev[2];
    for (;;) {
        bool stop = false;
        int n = epoll_wait(epoll, ev, 2, log_gathered() ? LOG_WAIT_MS : -1);
        if (n == 0)
            log_flush();
        for (int i = 0; i < n; i++)
            stop |= ev[i].data.fd == stop_fd;
        if (n > 0)
            return !stop ? WOKEN_CONNECTION : n > 1 ? WOKEN_LAST : WOKEN_LEAVE;
        if (n < 0 && errno != EINTR)
            return WOKEN_LEAVE;
    }
}

static int open_epoll(int listen_fd)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event listening = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listen_fd};
    struct epoll_event stop = {.events = EPOLLIN, .data.fd = stop_fd};
    if (fd >= 0 && (epoll_ctl(fd, EPOLL_CTL_ADD, stop_fd, &stop) != 0 ||
                    epoll_ctl(fd, EPOLL_CTL_ADD, listen_fd, &listening) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Without a free descriptor a connection stays in the backlog and epoll reports it again at once,
 * so the next try has to wait. *exhausted keeps the log at one line until a connection is accepted
 * again. */
static bool accept_connection(FCGX_Request *fcgx, bool *exhausted)
{
    int rc = FCGX_Accept_r(fcgx);
    if (rc >= 0)
        *exhausted = false;
    if (rc != -EMFILE && rc != -ENFILE && rc != -ENOBUFS && rc != -ENOMEM)
        return rc >= 0;
    if (!*exhausted)
        log_error("accept: %s; connections wait", strerror(-rc));
    *exhausted = true;
    poll(&(struct pollfd){.fd = stop_fd, .events = POLLIN}, 1, ACCEPT_RETRY_MS);
    return false;
}

/* Wakes the master to fork another one, unless as many wait as it keeps waiting. */
static void tell_master(const struct child_params *p)
{
    const struct shared_pool *pool = &p->worker->shared->pool[p->worker->pool];
    const uint64_t one = 1;
    int idle = 0;
    for (int i = 0; i < SHARED_CHILDREN && idle < p->min_idle; i++)
        idle += pool->child[i].state == CHILD_IDLE;
    if (idle < p->min_idle) {
        ssize_t n = write(p->wake_fd, &one, sizeof one);
        (void)n;
    }
}

/* The accept loop of a thread that has all it needs. */
static void serve_all(const struct child_params *p, FCGX_Request *fcgx, void *server, int epoll)
{
    const struct child_service *service = p->service;
    bool alone = p->n_threads == 1, exhausted = false;
    struct store *store = NULL;
    uint64_t next_try = 0;
    if (alone)
        log_gather();
    keep_store(p->worker, &store, &next_try);
    if (alone && service->starting)
        service->starting(p->worker->shared, store);
    set_state(p, CHILD_IDLE);
    for (enum woken woken = WOKEN_CONNECTION; woken == WOKEN_CONNECTION;) {
        woken = wait_connection(epoll);
        if (woken == WOKEN_LEAVE || !accept_connection(fcgx, &exhausted))
            continue;
        if (alone) {
            set_state(p, CHILD_BUSY); /* first: of two who become busy at once one counts both */
            tell_master(p);
        }
        atomic_fetch_add_explicit(&p->slot->requests, 1, memory_order_relaxed);
        service->serve(server, keep_store(p->worker, &store, &next_try));
        if (alone)
            set_state(p, CHILD_IDLE);
    }
    if (alone && service->settle)
        service->settle(p->worker->shared, store);
    store_close(&store);
    log_flush();
}

struct child_thread {
    const struct child_params *p;
    int listen_fd;
    pthread_t id;
};

/* A thread. Returns NULL, or its argument when it could not start. */
static void *serve(void *argument)
{
    const struct child_thread *thread = argument;
    const struct child_params *p = thread->p;
    FCGX_Request fcgx;
    int epoll = open_epoll(thread->listen_fd);
    FCGX_InitRequest(&fcgx, thread->listen_fd, 0);
    void *server =
        epoll < 0 ? NULL : p->service->open(&fcgx, p->worker, p->n_threads == 1 ? p : NULL);
    if (server) {
        serve_all(p, &fcgx, server, epoll);
        p->service->close(server);
    } else {
        log_error("a thread could not start: no descriptors or no memory");
    }
    FCGX_Free(&fcgx, 1);
    if (epoll >= 0)
        close(epoll);
    return server ? NULL : argument;
}

int child_run(const struct child_params *p)
{
    struct child_thread threads[THREADS_MAX + 1];
    int n = p->n_threads < THREADS_MAX ? p->n_threads : THREADS_MAX;
    int started = 0, failed = 0;
    for (int i = 0; i < n; i++)
        threads[i] = (struct child_thread){.p = p, .listen_fd = p->listen_fd};
    if (p->reserved_fd)
        threads[n++] = (struct child_thread){.p = p, .listen_fd = p->reserved_fd};
    if (n == 1)
        return serve(&threads[0]) ? 1 : 0;
    while (started < n && pthread_create(&threads[started].id, NULL, serve, &threads[started]) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        void *failure = NULL;
        pthread_join(threads[i].id, &failure);
        failed += failure != NULL;
    }
    return started == n && !failed ? 0 : 1;
}
