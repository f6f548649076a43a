/* reader_program.h: finds, starts and collects the process. */
#include "fcgi/process/reader_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

void reader_program_find(char path[4096])
{
    ssize_t n = readlink("/proc/self/exe", path, 4000);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        strcpy(slash + 1, READER_PROGRAM);
    if (!slash || access(path, X_OK) != 0)
        snprintf(path, 4096, "%s/%s", SLUICE_LIBEXECDIR, READER_PROGRAM);
}

bool reader_program_start(int in, int out, const char *option, pid_t *pid, struct err *e)
{
    char path[4096];
    char *const args[] = {READER_PROGRAM, (char *)option, NULL}, *const environment[] = {
                                                                     "LC_ALL=C.UTF-8", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, pipe_signal;
    reader_program_find(path);
    sigemptyset(&none);
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &pipe_signal);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(pid, path, &files, &how, args, environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    errno = rc;
    return rc == 0 || err_errno(e, "the program that reads files can't be started");
}

int reader_program_end(pid_t pid, int leave_ms)
{
    int status = 0, fd = leave_ms ? pidfd_open(pid, 0) : -1;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool ended = fd >= 0 && poll(&p, 1, leave_ms) > 0;
    if (fd >= 0)
        close(fd);
    if (!ended)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return ended ? status : -1;
}
