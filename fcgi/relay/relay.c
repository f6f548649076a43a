/* relay.h: one loop over workers' connections, upstreams' connections and the clock. */
#define LOG_MODULE "relay"
#include "fcgi/relay/relay.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "fcgi/process/state.h"
#include "fcgi/relay/relay_job.h"
#include "sql/core/store.h"

#define TICK_MS 100.0
#define LOAD_MS 500.0    /* how soon a change of the database is obeyed */
#define STATUS_MS 1000.0 /* how old the status on disk may be */
#define EVENTS 64
#define STATUS_MOST 256 /* jobs that the status lists, the oldest first */
#define CONNECTIONS_KEPT 256L

/* ---- libcurl's sockets and timer */

/* A descriptor of libcurl's as an epoll tag: odd, as no pointer is. */
static uint64_t tag_of(curl_socket_t fd)
{
    return (uint64_t)fd << 1 | 1;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    struct relay *r = context;
    (void)easy;
    struct epoll_event ev = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                                       (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                             .data.u64 = tag_of(fd)};
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, &ev);
        return 0;
    }
    epoll_ctl(r->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev);
    if (!known)
        curl_multi_assign(r->multi, fd, r);
    return 0;
}

static int set_timer(CURLM *multi, long ms, void *context)
{
    struct relay *r = context;
    (void)multi;
    r->curl_at = ms < 0 ? (double)INFINITY : clock_ms() + (double)ms;
    return 0;
}

static void collect(struct relay *r)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(r->multi, &left)) != NULL) {
        CURL *easy = m->easy_handle;
        const CURLcode rc = m->data.result; /* the message goes with the handle */
        if (m->msg == CURLMSG_DONE && !relay_probe_ended(r, easy, rc))
            relay_job_ended(relay_call_context(relay_call_of(easy)), rc);
    }
}

/* What one read brought, an answer's end with it, leaves as one write. */
static void act(struct relay *r, curl_socket_t fd, int mask)
{
    int running;
    curl_multi_socket_action(r->multi, fd, mask, &running);
    collect(r);
    relay_jobs_send(r);
}

/* ---- the clock */

/* Those that are not over: who and how long, never what. */
static void put_jobs(struct buf *out, const struct relay *r)
{
    const double now = clock_ms();
    const int64_t wall = clock_wall_ms();
    int n = 0;
    buf_putc(out, '[');
    for (const struct relay_job *j = r->jobs; j && n < STATUS_MOST; j = j->next) {
        if (j->over)
            continue;
        buf_printf(
            out,
            "%s{\"id\":\"%llu\",\"user_id\":\"%llu\",\"state\":\"%s\",\"prompt_tokens\":%lld,"
            "\"done_tokens\":0,\"completion_tokens\":%d,\"started\":%.3f",
            n++ ? "," : "", (unsigned long long)j->id, (unsigned long long)j->user,
            j->answer.any ? "decode"
            : j->to       ? "prefill"
                          : "queued",
            (long long)(j->answer.prompt_tokens ? j->answer.prompt_tokens : j->estimate),
            (int)j->answer.counted, ((double)wall - (now - j->asked_ms)) / 1e3);
        buf_json_member(out, "request_id", j->request_id);
        buf_json_member(out, "upstream", j->to ? j->to->name : NULL);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void write_status(struct relay *r)
{
    char path[4096];
    struct buf b = {0};
    struct err e = {0};
    buf_printf(&b, "{\"at\":%lld,\"upstreams\":", (long long)clock_wall_ms());
    upstreams_put_status(&b, &r->upstreams);
    buf_puts(&b, ",\"jobs\":");
    put_jobs(&b, r);
    buf_putc(&b, '}');
    if (!b.failed && file_join(path, sizeof path, r->w->run_dir, STATE_UPSTREAMS, &e))
        file_write_unsynced(path, b.data, b.len, 0640, &e);
    if (e.code)
        log_warn("%s", e.text);
    buf_fini(&b);
    r->upstreams.changed = r->upstreams.turned = false;
}

static bool running(const struct relay *r)
{
    for (const struct relay_job *j = r->jobs; j; j = j->next)
        if (!j->over || j->readers)
            return true;
    return false;
}

static void tick(struct relay *r, double now)
{
    struct err e = {0};
    r->next_tick = now + TICK_MS;
    if (now >= r->next_load) {
        r->next_load = now + LOAD_MS;
        if (!upstreams_load(&r->upstreams, r->store, false, &e))
            log_warn("the list of upstreams can't be read: %s", e.text);
    }
    relay_jobs_tick(r, now);
    relay_probe_due(r, now);
    relay_server_sweep(r, now);
    if (r->upstreams.turned || ((r->upstreams.changed || running(r)) && now >= r->next_status)) {
        r->next_status = now + STATUS_MS;
        write_status(r);
    }
}

/* ---- the loop */

static void take_signals(struct relay *r)
{
    struct signalfd_siginfo si;
    while (read(r->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
        r->abort |= si.ssi_signo == SIGUSR2;
        r->stopping = true;
    }
    if (r->listen_fd >= 0)
        close(r->listen_fd); /* those who come now meet the successor, or nobody */
    r->listen_fd = -1;
    relay_server_stop(r);
}

static void dispatch(struct relay *r, const struct epoll_event *ev)
{
    if (ev->data.u64 & 1) {
        const unsigned hung = EPOLLERR | EPOLLHUP;
        act(r, (curl_socket_t)(ev->data.u64 >> 1),
            (ev->events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                (ev->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                (ev->events & hung ? CURL_CSELECT_ERR : 0));
    } else if (ev->data.ptr == &r->listen_fd) {
        relay_server_accept(r);
    } else if (ev->data.ptr == &r->signal_fd) {
        take_signals(r);
    } else {
        relay_server_serve(ev->data.ptr, ev->events);
    }
}

static int wait_ms(const struct relay *r, double now)
{
    const double until = fmin(r->next_tick, r->curl_at);
    return until <= now ? 0 : (int)ceil(until - now);
}

bool relay_wait_awake(struct relay *r, struct busy_poll *b)
{
    const double now = clock_ms();
    const bool awake = busy_poll_begin(b, now);
    if (awake)
        r->awake_until = now + BUSY_POLL_US / 1e3;
    return awake;
}

/* Asleep, or first awake where an answer's beginning or the next job is a moment away
 * (busy_poll.h). */
static int wait_for_events(struct relay *r, struct epoll_event events[EVENTS])
{
    for (double now = clock_ms(); now < r->awake_until && wait_ms(r, now) > 0; now = clock_ms()) {
        const int n = epoll_wait(r->epoll_fd, events, EVENTS, 0);
        if (n != 0)
            return n;
        sched_yield();
    }
    return epoll_wait(r->epoll_fd, events, EVENTS, wait_ms(r, clock_ms()));
}

static void loop(struct relay *r)
{
    struct epoll_event events[EVENTS];
    while (!r->abort && (!r->stopping || running(r))) {
        const int n = wait_for_events(r, events);
        for (int i = 0; i < n; i++)
            dispatch(r, &events[i]);
        const double now = clock_ms();
        if (now >= r->curl_at) {
            r->curl_at = INFINITY;
            act(r, CURL_SOCKET_TIMEOUT, 0);
        }
        if (r->attend)
            relay_jobs_attend(r);
        relay_jobs_forget_ended(r);
        if (now >= r->next_tick)
            tick(r, now);
    }
    relay_jobs_fail_all(r);
    write_status(r);
}

/* ---- start and end */

static bool open_signals(struct relay *r, struct err *e)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    r->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &r->signal_fd};
    return (r->signal_fd >= 0 && r->epoll_fd >= 0 &&
            epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->signal_fd, &ev) == 0) ||
           err_errno(e, "signalfd or epoll");
}

static bool open_multi(struct relay *r, struct err *e)
{
    bool ok = !curl_global_init(CURL_GLOBAL_DEFAULT) && (r->multi = curl_multi_init()) &&
              !curl_multi_setopt(r->multi, CURLMOPT_SOCKETFUNCTION, watch_socket) &&
              !curl_multi_setopt(r->multi, CURLMOPT_SOCKETDATA, r) &&
              !curl_multi_setopt(r->multi, CURLMOPT_TIMERFUNCTION, set_timer) &&
              !curl_multi_setopt(r->multi, CURLMOPT_TIMERDATA, r) &&
              !curl_multi_setopt(r->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
    return ok || err_set(e, ERR_NOMEM, "libcurl can't be set up");
}

static void close_all(struct relay *r)
{
    relay_server_close(r);
    relay_jobs_fini(r);
    relay_probe_fini(r);
    upstreams_fini(&r->upstreams);
    curl_multi_cleanup(r->multi);
    store_close(&r->store);
    if (r->signal_fd >= 0)
        close(r->signal_fd);
    if (r->epoll_fd >= 0)
        close(r->epoll_fd);
}

int relay_run(const struct worker *w)
{
    struct relay *r = calloc(1, sizeof *r);
    struct err e = {0};
    if (!r)
        return 1;
    *r = (struct relay){
        .w = w, .listen_fd = -1, .epoll_fd = -1, .signal_fd = -1, .curl_at = INFINITY};
    bool ok =
        open_signals(r, &e) && open_multi(r, &e) &&
        (r->store = store_open(&(struct store_params){.path = w->db_path, .create = true}, &e)) &&
        upstreams_load(&r->upstreams, r->store, true, &e) && relay_server_open(r, &e);
    if (ok)
        loop(r);
    else
        log_error("%s", e.text);
    close_all(r);
    free(r);
    return ok ? 0 : 1;
}
