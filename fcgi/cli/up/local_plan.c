/* local_plan.h: the memory plan of one more model. */
#include "fcgi/cli/up/local_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/memory/memory_load.h"
#include "engine/model/model.h"
#include "engine/text/text_model.h"
#include "fcgi/cli/up/up.h"

static struct memory_request request_of(const struct up *u, const struct local_plan_ask *ask)
{
    struct memory_options options = {.kv_type = u->memory.kv_type,
                                     .activations = u->memory.activations};
    struct memory_request w = {.size = {ask->ctx, u->slots, u->prefill_chunk, 0},
                               .n_threads = (int32_t)u->threads,
                               .exact = u->exact,
                               .speculates = strcmp(u->speculate, "off") != 0};
    memory_options_request(&options, &w);
    return w;
}

/* A budget of 0 would mean all that is free. */
static bool plan(const struct up *u, const struct model *m, struct memory_request *w, uint64_t room,
                 struct memory_load *out, struct err *e)
{
    w->ram_budget = room ? (int64_t)room : 1;
    return memory_load_plan(out, m, u->backend, w, e);
}

/* What it would take if it were alone on the machine. */
static uint64_t alone(const struct up *u, const struct model *m, struct memory_request w)
{
    struct memory_load load;
    struct memory_model of;
    struct err ignored;
    w.ram_budget = 0;
    w.ram_returned = UINT64_MAX / 2;
    memory_model_of(m, &of);
    return MEMORY_PROCESS_BYTES +
           (memory_load_plan(&load, m, u->backend, &w, &ignored) ? load.plan.host : of.weights);
}

static void judge(const struct up *u, const struct model *m, const struct local_plan_ask *ask,
                  struct local_plan *out)
{
    struct memory_request w = request_of(u, ask), later;
    struct memory_load now, then;
    struct memory_model of;
    struct err e = {0}, ignored = {0};
    memory_model_of(m, &of);
    if (ask->ctx > of.n_ctx) {
        snprintf(out->text, sizeof out->text,
                 "its context can't be %lld tokens: it was made for %d", (long long)ask->ctx,
                 (int)of.n_ctx);
        return;
    }
    if (!ask->ctx)
        w.size.ctx = u->ctx < of.n_ctx ? u->ctx : of.n_ctx;
    out->ctx = w.size.ctx;
    later = w;
    const bool fits = plan(u, m, &w, ask->room, &now, &e);
    later.ram_returned = ask->returnable;
    later.gpu_returned = ask->returnable_device;
    const bool fits_later = (ask->returnable || ask->returnable_device) &&
                            plan(u, m, &later, ask->room + ask->returnable, &then, &ignored);
    if (fits_later && (!fits || then.plan.strategy != now.plan.strategy)) {
        out->verdict = LOCAL_FITS_LATER;
        out->needed = then.plan.host + MEMORY_PROCESS_BYTES;
    } else if (fits) {
        out->verdict = LOCAL_FITS;
        out->strategy = (int32_t)now.plan.strategy;
        out->needed = now.plan.host + MEMORY_PROCESS_BYTES;
    } else if (e.code == ERR_LIMIT || e.code == ERR_NOMEM) {
        out->verdict = LOCAL_FITS_NEVER;
        out->needed = alone(u, m, w);
    } else {
        snprintf(out->text, sizeof out->text, "%s", e.text);
    }
}

_Noreturn static void work(const struct up *u, const struct local_plan_ask *ask, int fd)
{
    struct local_plan out = {.verdict = LOCAL_UNUSABLE};
    struct err e = {0};
    struct text_model text = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct model *m =
        text_model_open(&text, ask->path, u->cache, &e) ? model_open(ask->path, &e) : NULL;
    if (!m)
        snprintf(out.text, sizeof out.text, "%s", e.text);
    else
        judge(u, m, ask, &out);
    const ssize_t n = write(fd, &out, sizeof out);
    _exit(n == (ssize_t)sizeof out ? 0 : 1);
}

int local_plan_start(const struct up *u, const struct local_plan_ask *ask, pid_t *pid,
                     struct err *e)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_errno(e, "pipe") - 1;
    *pid = fork();
    if (*pid == 0)
        work(u, ask, fd[1]);
    close(fd[1]);
    if (*pid > 0)
        return fd[0];
    close(fd[0]);
    return err_errno(e, "fork") - 1;
}

int local_plan_read(int *fd, struct local_plan *out)
{
    const ssize_t n = read(*fd, out, sizeof *out);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    close(*fd);
    *fd = -1;
    if (n != (ssize_t)sizeof *out) {
        *out = (struct local_plan){.verdict = LOCAL_UNUSABLE};
        snprintf(out->text, sizeof out->text,
                 "its files could not even be opened: the check of them died");
    }
    return 1;
}

bool local_plan_now(const struct up *u, const struct local_plan_ask *ask, struct local_plan *out,
                    struct err *e)
{
    pid_t pid;
    const double until = clock_ms() + LOCAL_PLAN_MS;
    int fd = local_plan_start(u, ask, &pid, e);
    if (fd < 0)
        return false;
    while (!local_plan_read(&fd, out)) {
        const double left = until - clock_ms();
        if (left <= 0) {
            close(fd);
            kill(pid, SIGKILL);
            return err_set(e, ERR_UNAVAILABLE, "its files can't be read in time");
        }
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)left + 1);
    }
    waitpid(pid, NULL, 0);
    return true;
}
