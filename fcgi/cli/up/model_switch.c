/* The state machine of a model change, driven by the supervisor's tick, and models.json for the
 * admin's page. */
#define LOG_MODULE "model"
#include "fcgi/cli/up/model_switch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "engine/model/model.h"
#include "engine/text/text_model.h"
#include "engine/wire/status.h"
#include "fcgi/cli/up/supervisor.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/state.h"

#define MAX_REQUEST 65536
#define GRACE_MAX_S 3600

static const char *const phase_names[SWITCH__N] = {"ready",   "checking",  "draining", "stopping",
                                                   "loading", "returning", "unloaded", "failed"};

static struct status_page page; /* some 25 KiB; the supervisor's one thread */

/* ---- what is told ---- */

static void put_member(struct buf *b, const char *name, const char *text)
{
    buf_printf(b, ",\"%s\":", name);
    if (text[0])
        buf_json_string(b, text, strlen(text));
    else
        buf_puts(b, "null");
}

static void tell(struct model_switch *m)
{
    char path[4096];
    struct buf b = {0};
    struct err e = {0};
    buf_printf(&b, "{\"pid\":%d,\"phase\":\"%s\",\"since\":%lld,\"folders\":[", (int)getpid(),
               phase_names[m->phase], (long long)m->since_ms);
    for (int i = 0; i < MODEL_SWITCH_FOLDERS && m->folders[i]; i++) {
        buf_puts(&b, i ? "," : "");
        buf_json_string(&b, m->folders[i], strlen(m->folders[i]));
    }
    buf_puts(&b, "]");
    put_member(&b, "current", m->current);
    put_member(&b, "wanted", m->wanted);
    put_member(&b, "error", m->error);
    model_pull_tell(&m->pull, &b);
    buf_puts(&b, "}\n");
    if (b.failed || !file_join(path, sizeof path, m->state_dir, STATE_MODELS, &e) ||
        !file_write_atomic(path, b.data, b.len, 0640, &e))
        log_warn("%s", e.text);
    buf_fini(&b);
}

static struct child *engine(struct model_switch *m)
{
    return supervisor_child(m->supervisor, "engine");
}

static enum model_gate gate_of(struct model_switch *m)
{
    if (m->phase == SWITCH_READY || m->phase == SWITCH_FAILED)
        return GATE_OPEN;
    if (m->phase == SWITCH_CHECKING) /* nothing was changed yet */
        return m->was_unloaded ? GATE_UNLOADED : GATE_OPEN;
    return m->phase == SWITCH_UNLOADED ? GATE_UNLOADED : GATE_SWITCHING;
}

static void enter(struct model_switch *m, enum switch_phase phase)
{
    m->phase = phase;
    m->since_ms = clock_wall_ms();
    atomic_store(&m->shared->model_gate, gate_of(m));
    log_info("phase=%s current=%s wanted=%s", phase_names[phase], m->current,
             m->wanted[0] ? m->wanted : "-");
    tell(m);
}

/* Workers read the path at SIGHUP. */
static bool write_current(struct model_switch *m, struct err *e)
{
    char path[4096];
    return file_join(path, sizeof path, m->state_dir, STATE_MODEL, e) &&
           file_write_atomic(path, m->current, strlen(m->current), 0640, e);
}

/* ---- the steps ---- */

/* The argument after --model, of a program that starts the next time. A draft model that was named
 * and a next-token layer belong to the model that `up` was started with; others take what they
 * have, and do without where there is nothing. */
static void set_model(const struct model_switch *m, struct child *c, char *path)
{
    static char own[] = "auto";
    const bool first = !strcmp(path, m->first);
    for (int i = 0; c && c->argv[i] && c->argv[i + 1]; i++)
        if (!strcmp(c->argv[i], "--model"))
            c->argv[i + 1] = path;
        else if (!strcmp(c->argv[i], "--draft-model") && strcmp(m->draft_model, "off") != 0)
            c->argv[i + 1] = first ? (char *)m->draft_model : own;
        else if (!strcmp(c->argv[i], "--speculate") &&
                 (!strcmp(m->speculate, "draft") || !strcmp(m->speculate, "mtp") ||
                  !strcmp(m->speculate, "dflash")))
            c->argv[i + 1] = first ? (char *)m->speculate : own;
}

/* In a process of its own: the new files are opened for the first time, and may be anything. It
 * answers with the error's text, or "ok". */
_Noreturn static void check_model(const struct model_switch *m, int fd)
{
    struct err e = {0};
    struct text_model text = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct model *model =
        text_model_open(&text, m->wanted, m->cache_dir, &e) ? model_open(m->wanted, &e) : NULL;
    const char *answer = model ? "ok" : e.text;
    ssize_t n = write(fd, answer, strlen(answer));
    _exit(n > 0 ? 0 : 1);
}

static bool start_check(struct model_switch *m, struct err *e)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_errno(e, "pipe");
    pid_t pid = fork();
    if (pid == 0)
        check_model(m, fd[1]);
    close(fd[1]);
    m->check_fd = fd[0];
    if (pid > 0)
        return true;
    close(fd[0]);
    m->check_fd = -1;
    return err_errno(e, "fork");
}

static void fail(struct model_switch *m, const char *why)
{
    snprintf(m->error, sizeof m->error, "%s", why);
    log_warn("model=%s can't be loaded: %s", m->wanted, why);
    m->wanted[0] = '\0';
}

static void finish_check(struct model_switch *m)
{
    char answer[320];
    ssize_t n = read(m->check_fd, answer, sizeof answer - 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(m->check_fd);
    m->check_fd = -1;
    answer[n > 0 ? n : 0] = '\0';
    if (!strcmp(answer, "ok")) {
        enter(m, m->was_unloaded ? SWITCH_STOPPING : SWITCH_DRAINING);
        return;
    }
    fail(m, n > 0 ? answer : "its files could not even be opened: the check of them died");
    enter(m, m->was_unloaded ? SWITCH_UNLOADED : SWITCH_FAILED);
}

static bool drained(struct model_switch *m, double now)
{
    struct err ignored;
    if (now >= m->drain_until || !engine(m)->pid)
        return true;
    if (!status_read(m->status_path, &page, &ignored))
        return false;
    /* One that is not heard of for some seconds reads as down. It may only lack the processor: its
     * answers have the whole time. */
    return page.jobs_running + page.jobs_waiting == 0 ||
           (page.state != ENGINE_READY && page.state != ENGINE_DOWN);
}

static void stop_engine(struct model_switch *m)
{
    struct child *c = engine(m);
    c->held = true;
    if (c->pid)
        kill(c->pid, SIGTERM);
    enter(m, SWITCH_STOPPING);
}

static void start_engine(struct model_switch *m, char *path, enum switch_phase phase)
{
    struct child *c = engine(m);
    set_model(m, c, path);
    c->held = false;
    c->next_start_ms = 0;
    m->loading_pid = 0;
    m->restarts = c->restarts;
    enter(m, phase);
}

static void engine_is_gone(struct model_switch *m)
{
    if (engine(m)->pid)
        return;
    if (m->wanted[0])
        start_engine(m, m->wanted, SWITCH_LOADING);
    else
        enter(m, SWITCH_UNLOADED);
}

/* 1: ready, -1: it ended, 0: it loads. */
static int loaded(struct model_switch *m)
{
    struct err ignored;
    const struct child *c = engine(m);
    if (!m->loading_pid)
        m->loading_pid = c->pid;
    if (c->restarts != m->restarts || (m->loading_pid && c->pid != m->loading_pid))
        return -1;
    return c->pid && status_read(m->status_path, &page, &ignored) && page.pid == c->pid &&
           page.state == ENGINE_READY;
}

/* The workers' text follows the engine's model; until each has, its jobs are held back by
 * model_gate.h. */
static void renew_workers(struct model_switch *m)
{
    static const char *const pools[] = {"recorder", "relay", "workers-short", "workers-stream"};
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        struct child *c = supervisor_child(m->supervisor, pools[i]);
        set_model(m, c, m->current);
        if (i > 1 && c && c->pid) /* the first two read no text */
            kill(c->pid, SIGHUP);
    }
}

static void take_over(struct model_switch *m)
{
    struct err e = {0};
    snprintf(m->current, sizeof m->current, "%s", m->wanted);
    m->wanted[0] = m->error[0] = '\0';
    set_model(m, engine(m), m->current);
    if (!write_current(m, &e))
        log_error("%s", e.text);
    renew_workers(m);
    enter(m, SWITCH_READY);
}

static void give_up_loading(struct model_switch *m)
{
    struct child *c = engine(m);
    struct err ignored;
    bool told = status_read(m->status_path, &page, &ignored) && page.error[0];
    fail(m, told ? page.error : "the engine ended while it loaded; see the log");
    c->restarts = m->restarts; /* not a crash of the model that runs */
    c->backoff_ms = 0;
    if (c->pid) /* it was started once more already */
        kill(c->pid, SIGTERM);
    if (!m->was_unloaded) {
        start_engine(m, m->current, SWITCH_RETURNING);
        return;
    }
    c->held = true;
    set_model(m, c, m->current);
    enter(m, SWITCH_UNLOADED);
}

/* ---- what is asked for ---- */

static bool take_request(struct model_switch *m, cJSON **out)
{
    char path[4096];
    struct err e = {0};
    if (!file_join(path, sizeof path, m->state_dir, STATE_MODELS_REQUEST, &e) || !file_exists(path))
        return false;
    *out = json_parse_file(path, MAX_REQUEST, &e);
    if (*out)
        return true;
    log_warn("%s: %s", path, e.text);
    unlink(path);
    return false;
}

/* Only now that the new phase is told: nobody sees a moment in which nothing was asked for. */
static void forget_request(const struct model_switch *m)
{
    char path[4096];
    if (file_join(path, sizeof path, m->state_dir, STATE_MODELS_REQUEST, NULL))
        unlink(path);
}

static void obey_pull(struct model_switch *m, const cJSON *request, const char *action)
{
    struct err e = {0};
    const char *repo = NULL, *include = NULL;
    if (!strcmp(action, "pull_stop"))
        model_pull_stop(&m->pull);
    else if (!json_get_string(request, "repo", &repo, &e) ||
             !json_get_string(request, "include", &include, &e) || !repo ||
             !model_pull_start(&m->pull, repo, include, &e))
        log_warn("%s%s%s", e.field, e.field[0] ? ": " : "", e.text);
    tell(m);
}

static void obey(struct model_switch *m, const cJSON *request)
{
    struct err e = {0};
    const char *action = "", *path = NULL;
    int64_t grace_s = 0;
    if (!json_get_string(request, "action", &action, &e) ||
        !json_get_string(request, "path", &path, &e) ||
        !json_get_int(request, "grace_s", 0, GRACE_MAX_S, &grace_s, &e)) {
        log_warn("%s: %s", e.field, e.text);
        return;
    }
    if (!strncmp(action, "pull", 4)) {
        obey_pull(m, request, action);
        return;
    }
    m->drain_until = clock_ms() + (double)grace_s * 1e3;
    m->error[0] = m->wanted[0] = '\0';
    m->was_unloaded = m->phase == SWITCH_UNLOADED;
    if (!strcmp(action, "unload") && !m->was_unloaded) {
        enter(m, SWITCH_DRAINING);
    } else if (!strcmp(action, "load") && path && strlen(path) < sizeof m->wanted) {
        snprintf(m->wanted, sizeof m->wanted, "%s", path);
        if (start_check(m, &e)) {
            enter(m, SWITCH_CHECKING);
        } else {
            fail(m, e.text);
            tell(m);
        }
    }
}

/* ---- the door ---- */

bool model_switch_begin(struct model_switch *m, const char *model, struct err *e)
{
    char path[4096], request[4096];
    if (!file_join(path, sizeof path, m->state_dir, STATE_SHARED, e) ||
        !file_join(request, sizeof request, m->state_dir, STATE_MODELS_REQUEST, e) ||
        !(m->shared = shared_open(path, e)))
        return false;
    unlink(request); /* of another time */
    m->check_fd = -1;
    snprintf(m->current, sizeof m->current, "%s", model);
    snprintf(m->first, sizeof m->first, "%s", model);
    if (!write_current(m, e))
        return false;
    enter(m, SWITCH_READY);
    return true;
}

void model_switch_tick(struct model_switch *m)
{
    cJSON *request = NULL;
    if (model_pull_tick(&m->pull))
        tell(m);
    switch (m->phase) {
    case SWITCH_CHECKING:
        finish_check(m);
        break;
    case SWITCH_DRAINING:
        if (drained(m, clock_ms()))
            stop_engine(m);
        break;
    case SWITCH_STOPPING:
        engine_is_gone(m);
        break;
    case SWITCH_LOADING:
        switch (loaded(m)) {
        case 1:
            take_over(m);
            break;
        case -1:
            give_up_loading(m);
        }
        break;
    case SWITCH_RETURNING: /* from here on the supervisor's own restarts hold */
        if (loaded(m))
            enter(m, SWITCH_FAILED);
        break;
    default:
        if (take_request(m, &request)) {
            obey(m, request);
            forget_request(m);
        }
        cJSON_Delete(request);
    }
}

void model_switch_end(struct model_switch *m)
{
    char path[4096];
    if (file_join(path, sizeof path, m->state_dir, STATE_MODELS, NULL))
        unlink(path);
    if (m->check_fd >= 0)
        close(m->check_fd);
    model_pull_stop(&m->pull);
    shared_close(&m->shared);
}
