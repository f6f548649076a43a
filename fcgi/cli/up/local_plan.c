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

#include "engine/backend/backend.h"
#include "engine/base/clock.h"
#include "engine/memory/memory_load.h"
#include "engine/model/model.h"
#include "engine/text/text_model.h"
#include "fcgi/cli/up/up.h"

const char *local_plan_backend(const struct up *u, const char *device)
{
    return device[0] ? "auto" : u->backend; /* a device that is named decides */
}

struct memory_options local_plan_options(const struct up *u, const char *device)
{
    const bool gpu = device[0] && strcmp(device, "cpu") != 0; /* or may be one */
    return (struct memory_options){.strategy = "auto",
                                   .hybrid_experts = "auto",
                                   .device = device[0] ? device : u->memory.device,
                                   .kv_type = u->memory.kv_type,
                                   .activations = gpu ? "16" : u->memory.activations};
}

static struct memory_request request_of(const struct up *u, const struct local_plan_ask *ask)
{
    const struct memory_options options = local_plan_options(u, ask->device);
    struct memory_request w = {.size = {ask->ctx, u->slots, u->prefill_chunk, 0},
                               .n_threads = (int32_t)u->threads,
                               .exact = u->exact,
                               .speculates = strcmp(u->speculate, "off") != 0};
    memory_options_request(&options, &w);
    return w;
}

struct planning {
    const struct up *up;
    const struct local_plan_ask *ask;
    const struct model *model;
    struct memory_request request;
};

/* A budget of 0 would mean all that is free. */
static bool plan(const struct planning *p, const struct memory_request *w, uint64_t room,
                 struct memory_load *out, struct err *e)
{
    struct memory_request with = *w;
    with.ram_budget = room ? (int64_t)room : 1;
    return memory_load_plan(out, p->model, local_plan_backend(p->up, p->ask->device), &with, e);
}

/* What it would take if it were alone on the machine. */
static uint64_t alone(const struct planning *p)
{
    struct memory_load load;
    struct memory_model of;
    struct memory_request w = p->request;
    struct err ignored;
    w.ram_budget = 0;
    w.ram_returned = UINT64_MAX / 2;
    memory_model_of(p->model, &of);
    return MEMORY_PROCESS_BYTES +
           (memory_load_plan(&load, p->model, local_plan_backend(p->up, p->ask->device), &w,
                             &ignored)
                ? load.plan.host
                : of.weights);
}

/* With what others give back of one GPU's memory, or of none's. */
static bool plan_later(const struct planning *p, const struct local_gpu *gpu, uint64_t ram,
                       struct memory_load *out)
{
    struct memory_request w = p->request;
    struct err ignored;
    w.ram_returned = ram;
    if (gpu) {
        w.gpu_returned = gpu->bytes;
        w.device = gpu->id;
    }
    return plan(p, &w, p->ask->room + ram, out, &ignored);
}

static bool may_use(const struct planning *p, const struct local_gpu *gpu)
{
    const char *named = p->request.device;
    if (!named)
        return strcmp(local_plan_backend(p->up, p->ask->device), "cpu") != 0;
    return strcmp(named, "cpu") != 0 && vulkan_backend.probe->means &&
           vulkan_backend.probe->means(named, gpu->id);
}

static bool is_better(const struct memory_plan *then, const struct memory_plan *now)
{
    return !now || memory_strategy_is_faster(then->strategy, now->strategy);
}

/* Would it fit, or run by a faster strategy than `now`, if others went? Only those of one GPU where
 * that is enough. */
static bool judge_later(const struct planning *p, const struct memory_plan *now,
                        struct local_plan *out)
{
    struct memory_load then;
    const struct local_plan_ask *ask = p->ask;
    bool found = false;
    for (int i = 0; i < ask->n_gpus && !found; i++) {
        const struct local_gpu *gpu = &ask->gpus[i];
        if (!may_use(p, gpu))
            continue;
        out->gpu_only = plan_later(p, gpu, 0, &then) && is_better(&then.plan, now);
        found = out->gpu_only ||
                (plan_later(p, gpu, ask->returnable, &then) && is_better(&then.plan, now));
    }
    if (!found && ask->returnable)
        found = plan_later(p, NULL, ask->returnable, &then) && is_better(&then.plan, now);
    if (!found)
        return false;
    out->verdict = LOCAL_FITS_LATER;
    out->needed = then.plan.host + MEMORY_PROCESS_BYTES;
    snprintf(out->gpu, sizeof out->gpu, "%s", then.plan.gpu_id);
    return true;
}

static void judge(const struct planning *p, struct local_plan *out)
{
    struct memory_load now;
    struct err e = {0};
    const bool fits = plan(p, &p->request, p->ask->room, &now, &e);
    if (judge_later(p, fits ? &now.plan : NULL, out))
        return;
    if (fits) {
        out->verdict = LOCAL_FITS;
        out->strategy = (int32_t)now.plan.strategy;
        out->needed = now.plan.host + MEMORY_PROCESS_BYTES;
        snprintf(out->gpu, sizeof out->gpu, "%s", now.plan.gpu_id);
    } else if (e.code == ERR_LIMIT || e.code == ERR_NOMEM) {
        out->verdict = LOCAL_FITS_NEVER;
        out->needed = alone(p);
    } else {
        snprintf(out->text, sizeof out->text, "%s", e.text);
    }
}

static void plan_model(const struct up *u, const struct model *m, const struct local_plan_ask *ask,
                       struct local_plan *out)
{
    struct planning p = {u, ask, m, request_of(u, ask)};
    struct memory_model of;
    memory_model_of(m, &of);
    if (ask->ctx > of.n_ctx) {
        snprintf(out->text, sizeof out->text,
                 "its context can't be %lld tokens: it was made for %d", (long long)ask->ctx,
                 (int)of.n_ctx);
        return;
    }
    if (!ask->ctx)
        p.request.size.ctx = u->ctx < of.n_ctx ? u->ctx : of.n_ctx;
    out->ctx = p.request.size.ctx;
    judge(&p, out);
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
        plan_model(u, m, ask, &out);
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
