/* orphans.h: by the kernel's list of this thread's children. */
#define LOG_MODULE "toolhost"
#include "toolhost/orphans.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "engine/base/log.h"

static bool is_program(const struct session *sessions, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (sessions[i].pid == pid)
            return true;
    return false;
}

bool orphans_end(const struct session *sessions, size_t n)
{
    static bool warned;
    bool left = false;
    int pid;
    FILE *f = fopen("/proc/thread-self/children", "re");
    if (!f) {
        if (!warned)
            log_warn("what programs leave behind can't be ended: /proc/thread-self/children: %s",
                     strerror(errno));
        warned = true;
        return false;
    }
    while (fscanf(f, "%d", &pid) == 1)
        if (!is_program(sessions, n, pid)) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, WNOHANG); /* never any child: how a program ended is its session's */
            left = true;                 /* those whom it leaves behind come when it has gone */
        }
    fclose(f);
    return left;
}
