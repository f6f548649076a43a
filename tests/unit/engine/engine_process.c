/* engine_process.h: a real sluice-engine over the demo model on the cpu backend, for tests of
 * socket, jobs and failures. */
#include "tests/unit/engine/engine_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/unit/support/patience.h"

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void exec_engine(const struct engine_process *p, const char *const *extra)
{
    char model[512], log[128];
    const char *source = getenv("srcdir"), *argv[40];
    int n = 0;
    snprintf(model, sizeof model, "%s/engine/demo-model", source ? source : ".");
    snprintf(log, sizeof log, "%s/log", p->dir);
    const char *const base[] = {
        "./sluice-engine", "--model",   model, "--socket",    p->socket, "--status",
        p->status,         "--backend", "cpu", "--cache-dir", p->dir};
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
        argv[n++] = base[i];
    while (extra && *extra && n < 39)
        argv[n++] = *extra++;
    argv[n] = NULL;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
    const char *program = getenv("SLUICE_ENGINE");
    execv(program ? program : argv[0], (char *const *)argv);
    _exit(127);
}

bool engine_process_start(struct engine_process *p, const char *const *extra)
{
    int pipes[2];
    *p = (struct engine_process){.out = -1};
    strcpy(p->dir, "/tmp/test-engine-XXXXXX");
    if (!mkdtemp(p->dir) || pipe(pipes) != 0)
        return false;
    snprintf(p->socket, sizeof p->socket, "%s/socket", p->dir);
    snprintf(p->status, sizeof p->status, "%s/status", p->dir);
    p->pid = fork();
    if (p->pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        exec_engine(p, extra);
    }
    close(pipes[1]);
    p->out = pipes[0];
    return p->pid > 0;
}

bool engine_process_wait_ready(struct engine_process *p)
{
    struct status_page page;
    struct err e;
    for (double end = clock_ms() + PATIENCE_MS; clock_ms() < end; nap(5))
        if (status_read(p->status, &page, &e) && page.state == ENGINE_READY)
            return true;
    return false;
}

int engine_process_end(struct engine_process *p, int signal)
{
    int status;
    if (signal)
        kill(p->pid, signal);
    for (double end = clock_ms() + PATIENCE_MS; clock_ms() < end; nap(5))
        if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
            p->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    return -1;
}

void engine_process_remove(struct engine_process *p)
{
    char command[128];
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    if (p->out >= 0)
        close(p->out);
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", p->dir);
}

bool engine_process_wait_idle(struct engine_process *p, struct status_page *page)
{
    struct err e;
    for (double end = clock_ms() + PATIENCE_MS; clock_ms() < end; nap(5))
        if (status_read(p->status, page, &e) && !page->jobs_running && !page->jobs_waiting &&
            !page->blocks_used)
            return true;
    return false;
}

bool answer_read(struct engine_job *j, struct answer_text *a)
{
    struct engine_event ev;
    struct err e = {0};
    *a = (struct answer_text){0};
    while (!a->done && !a->failed) {
        int got = engine_next(j, &ev, 60000, &e);
        if (got <= 0)
            return false;
        if (ev.type == ENGINE_TOKENS) {
            a->n_tokens += ev.n_tokens;
            if (a->len + ev.text_len < sizeof a->text) {
                memcpy(a->text + a->len, ev.text, ev.text_len);
                a->len += ev.text_len;
            }
        }
        a->done = ev.type == ENGINE_DONE;
        a->failed = ev.type == ENGINE_FAILED;
        a->last = ev;
    }
    return true;
}
