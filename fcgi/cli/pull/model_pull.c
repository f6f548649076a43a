/* Starts `sluice pull`, reads its standard error and its progress file, and reports its end. */
#define LOG_MODULE "pull"
#include "fcgi/cli/pull/model_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/cli/pull/pull.h"

#define INCLUDE_MAX 256

_Noreturn static void run_pull(const struct model_pull *p, const char *out, const char *include,
                               int fd)
{
    char with[INCLUDE_MAX + 16];
    snprintf(with, sizeof with, "--include=%s", include ? include : "");
    char *argv[16] = {"sluice",     "pull",         "--out",      (char *)out,
                      "--endpoint", (char *)p->hub, "--progress", (char *)p->progress_path};
    int n = 8;
    if (include)
        argv[n++] = with;
    argv[n++] = "--";
    argv[n++] = (char *)p->repo;
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

bool model_pull_start(struct model_pull *p, const char *repo, const char *include, struct err *e)
{
    struct pull_repo split;
    char out[4096];
    int fd[2];
    if (p->phase == MODEL_PULL_RUNNING)
        return err_set(e, ERR_CONFLICT, "%s is being loaded", p->repo);
    if (!pull_repo_split(repo, &split, e) || !file_mkdirs(p->folder, 0750, e) ||
        !file_join(out, sizeof out, p->folder, split.name, e))
        return false;
    if (strlen(repo) >= sizeof p->repo || (include && strlen(include) > INCLUDE_MAX))
        return err_set(e, ERR_INPUT, "the name is too long");
    if (pipe2(fd, O_CLOEXEC) != 0)
        return err_errno(e, "pipe");
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    unlink(p->progress_path);
    snprintf(p->repo, sizeof p->repo, "%s", repo);
    p->error[0] = '\0';
    p->pid = fork();
    if (p->pid == 0)
        run_pull(p, out, include, fd[1]);
    close(fd[1]);
    if (p->pid < 0) {
        close(fd[0]);
        return err_errno(e, "fork");
    }
    p->fd = fd[0];
    p->phase = MODEL_PULL_RUNNING;
    log_info("repository=%s pid=%d", p->repo, (int)p->pid);
    return true;
}

void model_pull_stop(struct model_pull *p)
{
    if (p->phase == MODEL_PULL_RUNNING)
        kill(p->pid, SIGTERM); /* it is ours until its end of the pipe is closed */
}

/* Did it say so itself? Its exit status goes to the supervisor's own wait. */
static bool said_done(const struct model_pull *p)
{
    bool done = false;
    cJSON *v = json_parse_file(p->progress_path, 65536, NULL);
    json_get_bool(v, "done", &done, NULL);
    cJSON_Delete(v);
    return done;
}

bool model_pull_tick(struct model_pull *p)
{
    char text[sizeof p->error];
    ssize_t n;
    if (p->phase != MODEL_PULL_RUNNING)
        return false;
    while ((n = read(p->fd, text, sizeof text - 1)) > 0) {
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        if (!p->error[0]) /* the first thing that it complains of */
            snprintf(p->error, sizeof p->error, "%s", text);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    close(p->fd);
    p->phase = said_done(p) ? MODEL_PULL_DONE : MODEL_PULL_FAILED;
    if (p->phase == MODEL_PULL_DONE)
        p->error[0] = '\0';
    else if (!p->error[0])
        snprintf(p->error, sizeof p->error, "it ended before all was there");
    log_info("repository=%s %s", p->repo, p->phase == MODEL_PULL_DONE ? "is whole" : p->error);
    return true;
}

void model_pull_tell(const struct model_pull *p, struct buf *b)
{
    static const char *const names[] = {"none", "running", "done", "failed"};
    if (p->phase == MODEL_PULL_NONE) {
        buf_puts(b, ",\"pull\":null");
        return;
    }
    buf_printf(b, ",\"pull\":{\"phase\":\"%s\",\"repo\":", names[p->phase]);
    buf_json_string(b, p->repo, strlen(p->repo));
    buf_puts(b, ",\"error\":");
    if (p->error[0] && p->phase == MODEL_PULL_FAILED)
        buf_json_string(b, p->error, strlen(p->error));
    else
        buf_puts(b, "null");
    buf_puts(b, "}");
}
