/* Starts the program that runs with another command line, and listens to it. */
#include "fcgi/cli/pull/own_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

_Noreturn static void run(char *const argv[], int fd)
{
    sigset_t none;
    int null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

bool own_child_start(struct own_child *c, char *const argv[], struct err *e)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) != 0)
        return err_errno(e, "pipe");
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    c->said[0] = '\0';
    c->pid = fork();
    if (c->pid == 0)
        run(argv, fd[1]);
    close(fd[1]);
    if (c->pid < 0) {
        close(fd[0]);
        return err_errno(e, "fork");
    }
    c->fd = fd[0];
    return true;
}

void own_child_stop(const struct own_child *c)
{
    kill(c->pid, SIGTERM); /* it is ours until its end of the pipe is closed */
}

bool own_child_ended(struct own_child *c)
{
    char text[sizeof c->said];
    ssize_t n;
    while ((n = read(c->fd, text, sizeof text - 1)) > 0) {
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        if (!c->said[0]) /* the first thing that it complains of */
            snprintf(c->said, sizeof c->said, "%s", text);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    close(c->fd);
    return true;
}
