/* session.h: from the name to the program's end. */
#define LOG_MODULE "toolhost"
#include "toolhost/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "toolhost/program_walls.h"
#include "toolhost/toolhost.h"

#define GRACE_MS 500.0
#define TOO_SOON_MS 3000.0 /* whoever ends by itself before that did not start well */
#define BACKOFF_MS 1000.0
#define BACKOFF_MAX_MS 60000.0

void session_begin(struct session *s, int fd)
{
    *s = (struct session){.fd = fd, .pidfd = -1, .began = clock_ms()};
}

static void answer(int fd, const char *word)
{
    char line[TOOLHOST_LINE];
    const size_t n = strlen(word);
    memcpy(line, word, n);
    line[n] = '\n';
    (void)!send(fd, line, n + 1, MSG_NOSIGNAL);
}

void session_refuse(int fd, const char *why)
{
    answer(fd, why);
    close(fd);
}

/* In the child. */
static void become(const struct session *s, const struct session_options *o)
{
    const struct program *p = s->program;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* whom its children leave behind is its own until it ends */
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fcntl(s->fd, F_SETFL, 0) != 0 || dup2(s->fd, STDIN_FILENO) < 0 ||
        dup2(s->fd, STDOUT_FILENO) < 0 || (null >= 0 && dup2(null, STDERR_FILENO) < 0))
        _exit(126);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (chdir(p->folder ? p->folder : "/") != 0 ||
        !program_walls_enter(p, o->without_landlock, o->without_seccomp))
        _exit(126);
    execve(p->argv[0], p->argv, p->env);
    _exit(127);
}

static bool start(struct session *s, const struct session_options *o)
{
    const char *no = NULL;
    s->name[s->n_name] = '\0';
    s->program = programs_find(o->programs, s->name);
    if (!s->program)
        no = TOOLHOST_UNKNOWN;
    else if (clock_ms() < s->program->not_until)
        no = TOOLHOST_WAIT;
    if (no)
        return answer(s->fd, no), false;
    programs_warn(s->program);
    answer(s->fd, TOOLHOST_OK); /* before the program says anything */
    s->began = clock_ms();
    s->pid = fork();
    if (s->pid == 0)
        become(s, o);
    if (s->pid < 0) {
        log_error("program %s can't be started: %s", s->program->name, strerror(errno));
        s->pid = 0;
        return false;
    }
    setpgid(s->pid, s->pid); /* whichever of the two comes first */
    s->pidfd = pidfd_open(s->pid, 0);
    log_debug("program %s started pid=%d", s->program->name, (int)s->pid);
    return true;
}

/* Byte by byte: what follows the line is the program's. */
bool session_read(struct session *s, const struct session_options *o)
{
    for (;;) {
        char c;
        const ssize_t n = recv(s->fd, &c, 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        if (c == '\n')
            return start(s, o);
        if (s->n_name > PROGRAM_NAME)
            return answer(s->fd, TOOLHOST_UNKNOWN), false;
        s->name[s->n_name++] = c;
    }
}

void session_stop(struct session *s, double now)
{
    if (s->ending)
        return;
    s->ending = true;
    s->kill_at = now + GRACE_MS;
    shutdown(s->fd, SHUT_RDWR); /* the end of its input is what ends most of them */
    kill(-s->pid, SIGTERM);
}

void session_kill(struct session *s)
{
    if (s->pid)
        kill(-s->pid, SIGKILL);
    s->kill_at += GRACE_MS;
}

static void remember(struct session *s, int status, double now)
{
    struct program *p = s->program;
    if (s->ending || now - s->began >= TOO_SOON_MS) {
        p->failures = 0;
        return;
    }
    double wait = BACKOFF_MS;
    for (int i = 0; i < p->failures && wait < BACKOFF_MAX_MS; i++)
        wait *= 2;
    p->failures++;
    p->not_until = now + (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS);
    log_warn("program %s ended by itself after %.0f ms (%s %d); not started again for %.0f ms",
             p->name, now - s->began, WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), p->not_until - now);
}

void session_reap(struct session *s, double now)
{
    int status = 0;
    if (s->pid) {
        kill(-s->pid, SIGKILL); /* what it started and left behind */
        while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {
        }
        remember(s, status, now);
    }
    if (s->pidfd >= 0)
        close(s->pidfd);
    close(s->fd);
    *s = (struct session){.fd = -1, .pidfd = -1};
}
