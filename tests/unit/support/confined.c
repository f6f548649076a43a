/* confined.h: a child, and the line that it failed at, through a pipe, because a status holds a
 * byte. */
#include "tests/unit/support/confined.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int report_fd = -1;

_Noreturn void confined_failed(int line)
{
    ssize_t n = write(report_fd, &line, sizeof line);
    (void)n;
    _exit(1);
}

int confined_run(void (*body)(void *context), void *context)
{
    int fd[2], line = 0, status = 0;
    if (pipe(fd) != 0)
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        report_fd = fd[1];
        body(context);
        _exit(0);
    }
    close(fd[1]);
    if (read(fd[0], &line, sizeof line) != sizeof line)
        line = 0;
    close(fd[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return line;
}

int confined_open(const char *folder, const char *name, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CLOEXEC, 0600);
}
