/* sluice-toolhost (toolhost.h): accepts connections, starts the programs that they name, and sees
 * to their ends. One thread. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#define LOG_MODULE "toolhost"
#include "engine/base/log_ring.h"
#include "engine/base/option.h"
#include "toolhost/orphans.h"
#include "toolhost/programs.h"
#include "toolhost/session.h"
#include "toolhost/toolhost.h"

#define MAX_SESSIONS 32
#define NAME_MS 5000.0 /* to send a name */
#define TICK_MS 200
#define LEFT_MS 10 /* between looks at processes that were told to end */
#define STOP_MS 1000
#define BACKLOG 64

struct settings {
    const char *programs, *socket, *log_level, *log_ring;
    bool without_landlock, without_seccomp;
};

static const struct option options[] = {
    {"programs", OPTION_STRING, offsetof(struct settings, programs), NULL, 0, 0, NULL, "FILE",
     "the programs that may run as tool servers, as JSON"},
    {"socket", OPTION_STRING, offsetof(struct settings, socket), NULL, 0, 0, NULL, "PATH",
     "where the workers ask for them"},
    {"log-level", OPTION_CHOICE, offsetof(struct settings, log_level), "info", 0, 0,
     "error|warn|info|debug", NULL, "how much is logged"},
    {"log-ring", OPTION_STRING, offsetof(struct settings, log_ring), NULL, 0, 0, NULL, "FILE",
     "also write the newest log lines there"},
    {"without-landlock", OPTION_BOOL, offsetof(struct settings, without_landlock), "false", 0, 0,
     NULL, NULL, "hide no files from the programs"},
    {"without-seccomp", OPTION_BOOL, offsetof(struct settings, without_seccomp), "false", 0, 0,
     NULL, NULL, "filter no system calls of the programs"},
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* Only our own user may connect: workers run as we do. */
static int listen_at(const char *path, struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return err_set(e, ERR_INPUT, "the socket's path is too long"), -1;
    strcpy(a.sun_path, path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(path);
    const mode_t mask = umask(0177);
    const bool ok =
        fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, BACKLOG) == 0;
    umask(mask);
    if (!ok)
        err_errno(e, "%s", path);
    if (!ok && fd >= 0)
        close(fd);
    return ok ? fd : -1;
}

static void accept_one(int listener, struct session *all)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (int i = 0; fd >= 0 && i < MAX_SESSIONS; i++)
        if (all[i].fd < 0) {
            session_begin(&all[i], fd);
            return;
        }
    if (fd >= 0)
        session_refuse(fd, TOOLHOST_BUSY);
}

/* What poll said of one session's connection and of its program's end. */
static void serve(struct session *s, const struct pollfd *p, const struct session_options *o)
{
    const double now = clock_ms();
    const bool over = p[0].revents & (POLLRDHUP | POLLHUP | POLLERR) || now - s->began > SESSION_MS;
    if (s->pid && over)
        session_stop(s, now);
    if (s->pid && (p[1].revents || s->pidfd < 0)) {
        session_reap(s, now);
    } else if (s->pid) {
        if (s->ending && now >= s->kill_at)
            session_kill(s);
    } else if ((p[0].revents && !session_read(s, o)) || (!s->pid && now - s->began > NAME_MS)) {
        session_reap(s, now);
    }
}

static void run(int listener, const struct session_options *o)
{
    static struct session all[MAX_SESSIONS];
    struct pollfd p[1 + 2 * MAX_SESSIONS];
    bool left = false;
    for (int i = 0; i < MAX_SESSIONS; i++)
        all[i].fd = all[i].pidfd = -1;
    while (!stopped) {
        p[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (int i = 0; i < MAX_SESSIONS; i++) {
            const struct session *s = &all[i];
            p[1 + 2 * i] = (struct pollfd){.fd = s->ending ? -1 : s->fd,
                                           .events = s->pid ? POLLRDHUP : POLLIN | POLLRDHUP};
            p[2 + 2 * i] = (struct pollfd){.fd = s->pidfd, .events = POLLIN};
        }
        if (poll(p, 1 + 2 * MAX_SESSIONS, left ? LEFT_MS : TICK_MS) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < MAX_SESSIONS; i++)
            if (all[i].fd >= 0)
                serve(&all[i], &p[1 + 2 * i], o);
        left = orphans_end(all, MAX_SESSIONS);
        if (p[0].revents)
            accept_one(listener, all);
    }
    for (int i = 0; i < MAX_SESSIONS; i++)
        if (all[i].fd >= 0)
            session_reap(&all[i], clock_ms());
    for (int i = 0; i < STOP_MS / LEFT_MS && orphans_end(all, MAX_SESSIONS); i++)
        poll(NULL, 0, LEFT_MS);
}

static bool prepare(const struct settings *s, struct programs *programs, struct arena *a,
                    struct err *e)
{
    if (!s->programs || !s->socket)
        return err_set(e, ERR_INPUT, "--programs and --socket are needed");
    if (s->log_ring && !log_ring_attach(s->log_ring, "toolhost", e))
        return false;
    if (!programs_read(programs, a, s->programs, e))
        return false;
    for (size_t i = 0; i < programs->n; i++)
        programs_warn(&programs->list[i]);
    return true;
}

int main(int argc, char **argv)
{
    static struct programs programs;
    struct settings s;
    struct err e = {0};
    const size_t n = sizeof options / sizeof options[0];
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        puts("sluice-toolhost: runs the programs that are tool servers, each in a sandbox.\n");
        option_help(options, n);
        return 0;
    }
    if (!option_parse(options, n, &(struct option_args){.argc = argc, .argv = argv}, &s, &e)) {
        fprintf(stderr, "sluice-toolhost: %s\n", e.text);
        return 2;
    }
    log_set_level((enum log_level)log_level_from_name(s.log_level));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    struct arena *a = arena_create(PROGRAMS_ARENA);
    const int listener = a && prepare(&s, &programs, a, &e) ? listen_at(s.socket, &e) : -1;
    if (listener < 0) {
        log_error("%s", e.text);
        return 1;
    }
    log_info("ready programs=%zu socket=%s", programs.n, s.socket);
    run(listener, &(struct session_options){.programs = &programs,
                                            .without_landlock = s.without_landlock,
                                            .without_seccomp = s.without_seccomp});
    unlink(s.socket);
    arena_destroy(&a);
    return 0;
}
