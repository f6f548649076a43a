/* local_engines.h: the steps from unloaded to ready and back, one look at each model a tick. */
#define LOG_MODULE "up"
#include "fcgi/cli/up/local_engines.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/memory/memory_plan.h"
#include "engine/wire/status.h"
#include "fcgi/cli/up/local_plan.h"
#include "fcgi/cli/up/supervisor.h"
#include "fcgi/cli/up/up.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/state.h"
#include "sql/core/store.h"

#define AGAIN_MS 2000   /* a model that failed is tried again at the earliest */
#define QUIET_MS 300.0  /* without a job before an engine is told to end: one may be on its way */
#define LEAVE_MS 120e3  /* for running answers, when others want its room */
#define KILL_MS 30000.0 /* after it was told to end */
#define BUSY_TICK_MS 20 /* while something is being loaded or unloaded */

static struct status_page page; /* some 25 KiB; the supervisor's one thread */

/* ---- what is known ---- */

void local_engine_enter(struct local_engine *m, enum local_state state)
{
    m->slot->since_ms = clock_wall_ms();
    m->slot->state = (int32_t)state;
    if (m->slot->id)
        log_info("model=%s state=%s", m->name, local_state_name((int)state));
}

/* False: it is not of the process that runs, or there is none. */
static bool read_page(const struct local_engines *l, const struct local_engine *m)
{
    char path[WORKER_SOCKET_BYTES];
    struct err ignored;
    page = (struct status_page){0};
    local_model_status(path, l->up->engine_run ? l->up->engine_run : l->up->state, m->id);
    return status_read(path, &page, &ignored) && m->child->pid && page.pid == m->child->pid;
}

bool local_engine_has_memory(const struct local_engine *m)
{
    return m->child->pid != 0 ||
           (m->slot && m->slot->state == LOCAL_LOADING && m->step == STEP_STARTING);
}

/* ---- the steps ---- */

static void fail(struct local_engines *l, struct local_engine *m, enum local_reason reason,
                 const char *why)
{
    snprintf(m->error, sizeof m->error, "%s", why);
    log_warn("model=%s is not loaded: %s", m->name, why);
    m->slot->reason = (int32_t)reason;
    m->slot->heard_ms = clock_wall_ms();
    m->step = STEP_NONE;
    m->child->held = true;
    if (m->child->pid)
        kill(m->child->pid, SIGTERM);
    local_rows_write(l); /* before anybody can read that it has failed, and asks why */
    local_engine_enter(m, LOCAL_FAILED);
}

/* One that hangs on a file may not even be killed: another would hang beside it. */
static bool plan_hangs(const struct local_engine *m)
{
    return m->check_pid && kill(m->check_pid, 0) == 0;
}

void local_engine_check(struct local_engines *l, struct local_engine *m)
{
    struct err e = {0};
    const struct local_plan_ask ask = local_room_for(l, m);
    m->step = STEP_CHECKING;
    m->made_room = false;
    m->slot->free = ask.room + ask.returnable;
    l->check_fd = local_plan_start(l->up, &ask, &m->check_pid, &e);
    if (l->check_fd < 0)
        fail(l, m, LOCAL_BROKEN, e.text);
    else
        l->checking = m;
    l->check_until_ms = clock_ms() + LOCAL_PLAN_MS;
}

static void begin_loading(struct local_engines *l, struct local_engine *m)
{
    m->wants_preload = false;
    local_engine_enter(m, LOCAL_LOADING);
    local_engine_check(l, m);
}

/* The server's own command line, with what is this model's. */
static bool write_command(const struct local_engines *l, struct local_engine *m, struct err *e)
{
    char path[WORKER_SOCKET_BYTES];
    struct up with = *l->up;
    const char *run = with.engine_run ? with.engine_run : with.state;
    arena_destroy(&m->arena);
    if (!(m->arena = arena_create(1 << 20)))
        return err_set(e, ERR_NOMEM, "no memory");
    const struct local_plan_ask ask = local_room_for(l, m);
    with.arena = m->arena;
    with.model = m->path;
    local_model_socket(path, run, m->id);
    with.engine_socket = arena_strdup(m->arena, path);
    local_model_status(path, run, m->id);
    with.status = arena_strdup(m->arena, path);
    with.ctx = m->planned_ctx;
    with.kv_memory = 0;
    with.beside = with.kept = 0;
    with.backend = local_plan_backend(&with, m->asked_device);
    with.memory = local_plan_options(&with, m->asked_device);
    with.memory.ram_budget = (int64_t)ask.room;
    if (m->gpu[0]) { /* that was planned on, also after a crash */
        snprintf(path, sizeof path, "auto:%s", m->gpu);
        with.memory.device =
            memory_device_is_named(with.memory.device) ? m->gpu : arena_strdup(m->arena, path);
    }
    with.draft_model = "off";
    if (strcmp(with.speculate, "off") != 0 && strcmp(with.speculate, "ngram") != 0)
        with.speculate = "auto"; /* what it has: the first one's drafter is not this one's */
    with.prompt_cache_ram = "off";
    if (strcmp(with.prompt_cache_disk, "off") != 0) { /* beside the first one's: prompt_cache.h */
        snprintf(path, sizeof path, "prompt-cache-%lld", (long long)m->id);
        with.prompt_cache_dir = up_in_dir(&with, with.engine_cache, path);
    }
    up_engine_words(&with, m->child->argv);
    m->child->as = with.engine_user.given ? &l->up->engine_user : NULL;
    unlink(with.status); /* the last run's says nothing of this one */
    return true;
}

static void start(struct local_engines *l, struct local_engine *m, uint64_t needed)
{
    struct err e = {0};
    m->needed = needed;
    if (!write_command(l, m, &e)) {
        fail(l, m, LOCAL_BROKEN, e.text);
        return;
    }
    m->step = STEP_STARTING;
    m->pid = 0;
    m->restarts = m->child->restarts;
    m->child->held = false;
    m->child->next_start_ms = m->child->backoff_ms = 0;
}

void local_engine_leave(struct local_engine *m, struct local_engine *other)
{
    m->quiet_ms = m->told_ms = 0;
    m->leaving_ms = clock_ms();
    m->leaves_for = other;
    m->slot->heard_ms = clock_wall_ms();
    local_engine_enter(m, LOCAL_LEAVING);
}

static void finish_check(struct local_engines *l)
{
    struct local_plan plan;
    struct local_engine *m = l->checking;
    if (!m)
        return;
    if (!local_plan_read(&l->check_fd, &plan)) {
        if (clock_ms() < l->check_until_ms)
            return;
        close(l->check_fd); /* others need not wait for it */
        kill(m->check_pid, SIGKILL);
        l->check_fd = -1;
        l->checking = NULL;
        fail(l, m, LOCAL_BROKEN, "its files can't be read in time");
        return;
    }
    l->checking = NULL;
    m->check_pid = 0;
    m->slot->needed = plan.needed;
    m->planned_ctx = plan.ctx;
    memcpy(m->gpu, plan.gpu, sizeof m->gpu);
    m->lacks_gpu_only = plan.gpu_only;
    if (m->gone)
        local_engine_enter(m, LOCAL_COLD);
    else if (plan.verdict == LOCAL_FITS)
        start(l, m, plan.needed);
    else if (plan.verdict == LOCAL_FITS_LATER)
        m->step = STEP_MAKING_ROOM;
    else if (plan.verdict == LOCAL_UNUSABLE)
        fail(l, m, LOCAL_BROKEN, plan.text);
    else
        fail(l, m, LOCAL_NO_ROOM, "there is no room for it beside those that stay");
}

static void become_ready(struct local_engines *l, struct local_engine *m)
{
    const bool told = m->error[0] != 0;
    m->step = STEP_NONE;
    m->pid = m->child->pid;
    m->restarts = m->child->restarts;
    m->needed = page.host_bytes + page.draft_host_bytes + MEMORY_PROCESS_BYTES;
    m->device = page.device_bytes;
    snprintf(m->gpu, sizeof m->gpu, "%s", page.device_id);
    m->used_ms = clock_ms();
    m->error[0] = 0;
    local_engine_enter(m, LOCAL_READY);
    if (told)
        local_rows_write(l);
}

static const char *why_it_ended(const struct local_engines *l, const struct local_engine *m)
{
    const bool told = read_page(l, m) || page.pid;
    return told && page.error[0] ? page.error : "its engine ended; see the log";
}

static void look_loading(struct local_engines *l, struct local_engine *m)
{
    if (m->step == STEP_MAKING_ROOM && !l->checking && !local_room_is_moving(l, m))
        local_room_make(l, m);
    if (m->step != STEP_STARTING)
        return;
    if (read_page(l, m) && page.state == ENGINE_READY)
        become_ready(l, m);
    else if (m->child->restarts > m->restarts + (m->pid ? LOCAL_CRASHES : 0))
        fail(l, m, LOCAL_BROKEN, why_it_ended(l, m));
    else if (m->gone && m->child->pid)
        local_engine_leave(m, NULL);
}

static bool is_used(struct local_engines *l, struct local_engine *m)
{
    const bool busy = read_page(l, m) && page.state != ENGINE_DOWN && /* not one that hangs */
                      page.jobs_running + page.jobs_waiting > 0;
    const double wanted = clock_ms() - (double)(clock_wall_ms() - m->slot->wanted_ms);
    if (busy)
        m->used_ms = clock_ms();
    if (wanted > m->used_ms)
        m->used_ms = wanted;
    return busy;
}

static void look_ready(struct local_engines *l, struct local_engine *m)
{
    const bool busy = is_used(l, m);
    if (m->child->pid != m->pid) { /* it crashed: the supervisor starts it again */
        m->step = STEP_STARTING;
        local_engine_enter(m, LOCAL_LOADING);
    } else if (m->gone || m->slot->unload_ms > m->slot->since_ms ||
               (!busy && !m->pinned && m->idle_ms &&
                clock_ms() - m->used_ms >= (double)m->idle_ms)) {
        local_engine_leave(m, NULL);
    }
}

static void tell_to_end(struct local_engine *m)
{
    m->child->held = true;
    m->told_ms = clock_ms();
    kill(m->child->pid, SIGTERM);
}

/* Its answers take too long for the one that waits for its room: nothing is cut short for it, and
 * neither model refuses everyone for ever. Only a step that does not end is (monitor.h). */
static void stays_after_all(struct local_engines *l, struct local_engine *m)
{
    struct local_engine *other = m->leaves_for;
    if (!other || m->gone || m->told_ms || clock_ms() - m->leaving_ms < LEAVE_MS)
        return;
    if (read_page(l, m) && page.state == ENGINE_READY && page.error[0]) {
        tell_to_end(m);
        return;
    }
    m->leaves_for = NULL;
    local_engine_enter(m, LOCAL_READY);
    if (other->slot->state == LOCAL_LOADING && other->step == STEP_MAKING_ROOM) {
        other->slot->free = local_room_for(l, other).room;
        fail(l, other, LOCAL_NO_ROOM, "those that are loaded have long answers to end");
    }
}

static void look_leaving(struct local_engines *l, struct local_engine *m)
{
    if (!m->child->pid) {
        m->child->held = true;
        m->needed = m->device = 0;
        local_engine_enter(m, LOCAL_COLD);
        return;
    }
    if (is_used(l, m))
        m->quiet_ms = 0;
    else if (!m->quiet_ms)
        m->quiet_ms = clock_ms();
    if (m->told_ms) {
        if (clock_ms() - m->told_ms >= KILL_MS)
            kill(m->child->pid, SIGKILL);
    } else if (m->quiet_ms && clock_ms() - m->quiet_ms >= QUIET_MS) {
        tell_to_end(m);
    } else {
        stays_after_all(l, m);
    }
}

static void look_resting(struct local_engines *l, struct local_engine *m)
{
    const bool failed = m->slot->state == LOCAL_FAILED,
               wanted = m->wants_preload || m->slot->wanted_ms > m->slot->heard_ms;
    if (m->gone && !m->child->pid) {
        arena_destroy(&m->arena);
        m->slot->id = m->id = 0;
        m->gone = false;
        l->version = -1; /* a row may have waited for the place */
        local_records_sweep(l);
        return;
    }
    if (!wanted || m->gone || m->child->pid || l->checking || !local_first_settled(l) ||
        local_room_is_moving(l, m) || plan_hangs(m) ||
        (failed && clock_wall_ms() - m->slot->since_ms < AGAIN_MS))
        return;
    begin_loading(l, m);
}

static void look(struct local_engines *l, struct local_engine *m)
{
    switch ((enum local_state)m->slot->state) {
    case LOCAL_LOADING:
        look_loading(l, m);
        break;
    case LOCAL_READY:
        look_ready(l, m);
        break;
    case LOCAL_LEAVING:
        look_leaving(l, m);
        break;
    default:
        look_resting(l, m);
    }
}

/* ---- the door ---- */

void local_engines_add_children(struct supervisor *s)
{
    char *const none[] = {NULL};
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        struct child *c = up_add_child(s, "engine-", none, SIGTERM);
        c->held = c->on_demand = true;
    }
}

struct local_engines *local_engines_begin(struct up *u, struct supervisor *s, struct err *e)
{
    char path[4096];
    struct local_engines *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_NOMEM, "no memory for the list of models"), NULL;
    *l = (struct local_engines){.up = u, .supervisor = s, .version = -1};
    l->check_fd = -1;
    if (!file_join(path, sizeof path, u->state, STATE_SHARED, e) ||
        !(l->shared = shared_open(path, e)) ||
        !(l->store = store_open(&(struct store_params){.path = u->database}, e))) {
        local_engines_end(&l);
        return NULL;
    }
    for (size_t i = 0, n = 0; i < s->n_children && n < LOCAL_ENGINES; i++)
        if (s->children[i].on_demand)
            l->at[n++].child = &s->children[i];
    for (int i = 0; i < LOCAL_ENGINES; i++) /* of the last run */
        l->shared->local[i].id = 0;
    if (!local_rows_read(l))
        local_rows_write(l);
    if (l->version >= 0)
        local_records_sweep(l);
    return l;
}

void local_engines_tick(struct local_engines *l)
{
    static const char *const pools[] = {"workers-short", "workers-stream"};
    bool moving = false;
    if (local_rows_read(l))
        for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
            const struct child *c = supervisor_child(l->supervisor, pools[i]);
            if (c && c->pid)
                kill(c->pid, SIGHUP);
        }
    local_first_look(l);
    finish_check(l);
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        struct local_engine *m = &l->at[i];
        if (m->id)
            look(l, m);
        moving |= m->id && (m->slot->state == LOCAL_LOADING || m->slot->state == LOCAL_LEAVING);
    }
    l->supervisor->tick_ms = moving ? BUSY_TICK_MS : 0;
}

void local_engines_end(struct local_engines **l)
{
    char path[WORKER_SOCKET_BYTES];
    if (!*l)
        return;
    const struct up *u = (*l)->up;
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        struct local_engine *m = &(*l)->at[i];
        arena_destroy(&m->arena);
        if (!m->id)
            continue;
        local_model_socket(path, u->engine_run ? u->engine_run : u->state, m->id);
        unlink(path); /* which the engine can't: engine_walls.h */
        m->slot->id = 0;
    }
    if (file_join(path, sizeof path, u->state, STATE_LOCAL_MODELS, NULL))
        unlink(path);
    if ((*l)->check_fd >= 0)
        close((*l)->check_fd);
    store_close(&(*l)->store);
    shared_close(&(*l)->shared);
    free(*l);
    *l = NULL;
}
