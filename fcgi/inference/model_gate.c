/* model_gate.h: looks at the engine's status page, and for the prompt's blocks on disk, before a
 * job is submitted. */
#include "fcgi/inference/model_gate.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/local/local_gate.h"
#include "fcgi/inference/sealed_prompt.h"
#include "fcgi/inference/stored_prompt.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

#define RETRY_S 3
#define RETRY_UNLOADED_S 60
#define TRIES 3         /* of an engine that ends meanwhile, */
#define AGAIN_MS 300    /* with time for `sluice up` to see it */
#define HEARTBEAT_S 5.0 /* the status page calls it down then */

/* Two paths may name one folder. An engine without a path has not started, and refuses jobs by
 * itself. */
static bool same_model(const char *a, const char *b)
{
    struct stat x, y;
    return !*a || !strcmp(a, b) ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* The engine's process exists but its heartbeat is stale. The gate fails fast: waiting for the
 * timeout would block one worker per caller, and workers are needed for all that works without the
 * engine. */
static bool hangs(const struct status_page *page, struct err *e)
{
    if (page->state != ENGINE_DOWN || page->heartbeat <= 0 ||
        clock_wall_ms() / 1e3 - page->heartbeat <= HEARTBEAT_S)
        return false;
    err_set(e, ERR_UNAVAILABLE, "the engine does not answer: %s", page->error);
    err_reason(e, "engine_hangs");
    return true;
}

bool model_gate_answers(const struct request *r, const char *key, struct err *e)
{
    struct status_page page = {0};
    struct err ignored;
    char path[WORKER_SOCKET_BYTES];
    const int64_t local = local_model_of_job(key);
    if (local) {
        local_model_status(path, r->worker->engine_run, local);
        status_read(path, &page, &ignored);
    } else {
        engine_status_read(r, &page);
    }
    return !hangs(&page, e);
}

static const char *reason_of(enum engine_state state)
{
    switch (state) {
    case ENGINE_READY:
        return NULL;
    case ENGINE_LOADING:
        return "model_loading";
    case ENGINE_LOST_DEVICE:
        return "device_failed";
    case ENGINE_STOPPING:
    case ENGINE_DOWN:
        break;
    }
    return "engine_unavailable";
}

const char *model_gate_reason(const struct request *r, const struct status_page *page)
{
    const int gate = atomic_load_explicit(&r->worker->shared->model_gate, memory_order_relaxed);
    if (gate == GATE_UNLOADED)
        return "model_unloaded";
    if (gate == GATE_SWITCHING)
        return "model_switching";
    return hangs(page, NULL) ? "engine_hangs" : reason_of(page->state);
}

static bool gate_open(struct request *r, struct status_page *page, struct err *e)
{
    if (r->worker->local_id) {
        engine_status_read(r, page);
        return !hangs(page, e);
    }
    const int gate = atomic_load_explicit(&r->worker->shared->model_gate, memory_order_relaxed);
    r->error_override.retry_after_s = gate == GATE_UNLOADED ? RETRY_UNLOADED_S : RETRY_S;
    if (gate == GATE_UNLOADED) {
        err_set(e, ERR_UNAVAILABLE, "no model is loaded; an admin can load one");
        return err_reason(e, "model_unloaded");
    }
    engine_status_read(r, page);
    if (hangs(page, e))
        return false;
    if (gate == GATE_SWITCHING || !same_model(page->model_path, r->worker->model_path)) {
        err_set(e, ERR_UNAVAILABLE, "the model is being switched; try again in a moment");
        return err_reason(e, "model_switching");
    }
    r->error_override.retry_after_s = 0;
    return true;
}

static struct engine_job *submit_once(struct request *r, const struct engine_job_params *p,
                                      struct err *e)
{
    struct status_page page;
    struct stored_prompt stored;
    if (!gate_open(r, &page, e))
        return NULL;
    struct engine_job_params job = *p;
    job.cache_forgets_seen = r->forgets_seen;
    sealed_prompt_key(r, &job);
    stored_prompt_find(r, &page, &job, &stored);
    job.stored = stored.refs;
    job.n_stored = stored.n;
    struct engine_job *submitted = engine_submit(r->worker->engine_socket, &job, e);
    if (!submitted && e->code == ERR_UNAVAILABLE && page.state == ENGINE_LOADING)
        err_reason(e, "model_loading");
    explicit_bzero(&job.cache_seal, sizeof job.cache_seal);
    stored_prompt_fini(&stored);
    return submitted;
}

/* An engine beside the first may end between the look and the submission, for idleness or by a
 * crash: it is asked for again. */
struct engine_job *model_gate_submit(struct request *r, const struct engine_job_params *p,
                                     struct err *e)
{
    struct engine_job *job = NULL;
    for (int i = 0; i < (r->worker->local_id ? TRIES : 1) && !job; i++) {
        if (i > 0)
            poll(NULL, 0, AGAIN_MS);
        *e = (struct err){0};
        if (!local_gate_wait(r, p->detached, e))
            return NULL;
        job = submit_once(r, p, e);
        if (!job && e->code != ERR_UNAVAILABLE)
            return NULL;
    }
    return job;
}

void model_gate_explain_busy(struct request *r, struct err *e)
{
    r->error_override.code = "queue_full";
    if (strcmp(e->field, ENGINE_OWN_JOBS) != 0)
        return;
    r->error_override.status = 429;
    r->error_override.code = "rate_limit_exceeded";
    e->field[0] = 0; /* no field of the request is at fault */
    err_reason(e, "answers_at_once");
}
