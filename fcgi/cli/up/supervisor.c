/* The loop that starts, watches, restarts and stops the children; signals reach it through a
 * signalfd. */
#include "fcgi/cli/up/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_MODULE "up"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"

#define FIRST_BACKOFF_MS 100.0 /* service is back long before anyone counts to five */
#define MAX_BACKOFF_MS 10000.0
#define HEALTHY_MS 20000.0 /* ran that long: the next restart is at once again */
#define TICK_MS 200

static void write_report(const struct supervisor *s)
{
    if (!s->report_path)
        return;
    struct buf b = {0};
    buf_puts(&b, "[");
    for (size_t i = 0; i < s->n_children; i++)
        if (s->children[i].pid || !s->children[i].on_demand)
            buf_printf(&b, "%s{\"name\":\"%s\",\"pid\":%d,\"restarts\":%d}", i ? "," : "",
                       s->children[i].name, (int)s->children[i].pid, s->children[i].restarts);
    buf_puts(&b, "]\n");
    struct err e = {0};
    if (!b.failed && !file_write_atomic(s->report_path, b.data, b.len, 0644, &e))
        log_warn("%s", e.text);
    buf_fini(&b);
}

/* In the child: a pipe that closes on exec tells the parent whether exec worked. */
static void exec_child(const struct child *c, int report_fd, pid_t parent, const sigset_t *old)
{
    const bool taken = !c->as || run_as_take(c->as);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* afterwards, as a new user loses it */
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0); /* Ctrl-C reaches the supervisor alone, which stops the rest in order */
    sigprocmask(SIG_SETMASK, old, NULL);
    if (taken)
        execv(c->argv[0], c->argv);
    int error = errno;
    ssize_t n = write(report_fd, &error, sizeof error);
    (void)n;
    _exit(127);
}

static bool start_child(struct child *c, const sigset_t *old, struct err *e)
{
    int fd[2], error = 0;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return err_errno(e, "pipe");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        exec_child(c, fd[1], parent, old);
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return err_errno(e, "fork");
    }
    ssize_t n = read(fd[0], &error, sizeof error);
    close(fd[0]);
    if (n == (ssize_t)sizeof error) {
        waitpid(pid, NULL, 0);
        errno = error;
        return err_errno(e, "%s: cannot start %s", c->name, c->argv[0]);
    }
    c->pid = pid;
    c->started_ms = clock_ms();
    log_info("started %s pid=%d", c->name, (int)pid);
    return true;
}

static struct child *child_of(struct supervisor *s, pid_t pid)
{
    for (size_t i = 0; i < s->n_children; i++)
        if (s->children[i].pid == pid)
            return &s->children[i];
    return NULL;
}

static void describe_exit(const char *name, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        log_warn("%s pid=%d was killed by signal %d", name, (int)pid, WTERMSIG(status));
    else
        log_warn("%s pid=%d ended with status %d", name, (int)pid, WEXITSTATUS(status));
}

/* Collects the dead; returns how many of ours ended. */
static int reap(struct supervisor *s, bool stopping)
{
    int status, n = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct child *c = child_of(s, pid);
        if (!c)
            continue;
        n++;
        c->pid = 0;
        /* what it leaves behind in its group: a killed nginx's workers would keep the port */
        kill(-pid, SIGTERM);
        if (stopping) {
            log_info("stopped %s", c->name);
            continue;
        }
        if (c->held) { /* it was told to end */
            log_info("stopped %s", c->name);
            c->backoff_ms = c->next_start_ms = 0;
            continue;
        }
        describe_exit(c->name, pid, status);
        double now = clock_ms();
        bool healthy = now - c->started_ms >= HEALTHY_MS || c->backoff_ms == 0;
        c->backoff_ms = healthy                              ? FIRST_BACKOFF_MS
                        : c->backoff_ms * 2 < MAX_BACKOFF_MS ? c->backoff_ms * 2
                                                             : MAX_BACKOFF_MS;
        c->next_start_ms = now + c->backoff_ms;
        c->restarts++;
    }
    return n;
}

static bool start_due(struct supervisor *s, const sigset_t *old)
{
    bool started = false;
    double now = clock_ms();
    for (size_t i = 0; i < s->n_children; i++) {
        struct child *c = &s->children[i];
        struct err e = {0};
        if (c->pid || c->held || c->next_start_ms > now)
            continue;
        started = start_child(c, old, &e) || started;
        if (!c->pid) {
            log_error("%s", e.text);
            c->next_start_ms = now + MAX_BACKOFF_MS;
        }
    }
    return started;
}

static bool any_running(const struct supervisor *s)
{
    for (size_t i = 0; i < s->n_children; i++)
        if (s->children[i].pid)
            return true;
    return false;
}

/* In reverse order of start: nginx takes no more requests, workers drain, the engine goes last. */
static void stop_all(struct supervisor *s, int signal_fd)
{
    double deadline = clock_ms() + s->stop_ms;
    for (size_t i = s->n_children; i-- > 0;)
        if (s->children[i].pid)
            kill(s->children[i].pid, s->children[i].stop_signal);
    bool killed = false;
    while (any_running(s)) {
        struct pollfd p = {.fd = signal_fd, .events = POLLIN};
        struct signalfd_siginfo info;
        if (poll(&p, 1, TICK_MS) > 0 && read(signal_fd, &info, sizeof info) == sizeof info &&
            (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM))
            deadline = 0; /* asked twice: at once */
        reap(s, true);
        if (clock_ms() < deadline || killed)
            continue;
        for (size_t i = 0; i < s->n_children; i++)
            if (s->children[i].pid)
                kill(s->children[i].pid, SIGKILL);
        killed = true;
    }
}

static bool start_first(struct supervisor *s, const sigset_t *old, struct err *e)
{
    for (size_t i = 0; i < s->n_children; i++)
        if (!s->children[i].held && !start_child(&s->children[i], old, e))
            return false;
    write_report(s);
    return true;
}

struct child *supervisor_child(struct supervisor *s, const char *name)
{
    for (size_t i = 0; i < s->n_children; i++)
        if (!strcmp(s->children[i].name, name))
            return &s->children[i];
    return NULL;
}

bool supervisor_run(struct supervisor *s, struct err *e)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_errno(e, "signalfd");
    bool ok = start_first(s, &old, e), stop = !ok;
    while (!stop) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct signalfd_siginfo info;
        poll(&p, 1, s->tick_ms ? s->tick_ms : TICK_MS);
        while (!stop && read(fd, &info, sizeof info) == sizeof info)
            stop = info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM;
        if (stop)
            break;
        bool changed = reap(s, false) > 0;
        if (s->on_tick)
            s->on_tick(s->context);
        changed = start_due(s, &old) || changed;
        if (changed)
            write_report(s);
    }
    stop_all(s, fd);
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return ok;
}
