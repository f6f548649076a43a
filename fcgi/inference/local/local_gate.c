/* local_gate.h: looks at the model's row in shared memory until it is ready, has failed, or
 * patience ends. */
#include "fcgi/inference/local/local_gate.h"

#include <poll.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/size_text.h"
#include "fcgi/auth/limits.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/process/child.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/shared.h"

#define LOOK_MS 50
#define RETRY_LOADING_S 5
#define RETRY_NO_ROOM_S 30
#define RETRY_BROKEN_S 60

static bool explain(struct request *r, const struct shared_local *l, struct err *e)
{
    char needed[24], room[24];
    if (l->reason == LOCAL_NO_ROOM) {
        r->error_override.retry_after_s = RETRY_NO_ROOM_S;
        err_set(e, ERR_UNAVAILABLE, "the model needs %s, of which %s can be made free now",
                size_text((double)l->needed, needed), size_text((double)l->free, room));
        err_reason(e, "model_no_room");
        err_param(e, "needed", (int64_t)l->needed);
        return err_param(e, "free", (int64_t)l->free);
    }
    r->error_override.retry_after_s = RETRY_BROKEN_S;
    err_set(e, ERR_UNAVAILABLE, "the model can't be loaded; the server's log says why");
    return err_reason(e, "model_broken");
}

static bool too_long(struct request *r, struct err *e)
{
    r->error_override.retry_after_s = RETRY_LOADING_S;
    err_set(e, ERR_UNAVAILABLE, "the model is still being loaded; try again in a moment");
    return err_reason(e, "model_loading");
}

/* A moment, or less when somebody ends the waiting. */
static bool pause_for(struct request *r, bool stays, struct err *e)
{
    struct pollfd fds[2] = {{.fd = child_abort_fd(), .events = POLLIN},
                            {.fd = stays ? -1 : request_client_fd(r), .events = POLLRDHUP}};
    log_flush();
    if (poll(fds, 2, LOOK_MS) <= 0)
        return true;
    if (fds[0].revents) {
        err_set(e, ERR_UNAVAILABLE, "the server is restarting");
        return err_reason(e, "server_restarting");
    }
    r->client_gone = true;
    return err_set(e, ERR_CANCELLED, "the client closed the connection");
}

/* Who waits holds a process of the pool, and the other models' answers need some too. */
static bool may_wait(struct request *r, struct err *e)
{
    if (!r->slot)
        return true;
    r->slot->waits_local = 1;
    if (local_models_waiting(r->worker->shared) <= r->worker->waits_most)
        return true;
    r->error_override.code = "queue_full";
    return err_set(e, ERR_BUSY, "too many requests wait for models that are not loaded");
}

static bool wait_for(struct request *r, bool stays, struct err *e)
{
    const int64_t began = clock_wall_ms();
    const double until =
        clock_ms() + 1e3 * (double)server_setting_int(r, SETTING_MODEL_WAIT_SECONDS);
    for (bool waits = false;; waits = true) {
        struct shared_local *l = local_model_state(r->worker->shared, r->worker->local_id);
        if (l) {
            l->wanted_ms = clock_wall_ms();
            if (l->state == LOCAL_READY)
                return true;
            if (l->state == LOCAL_FAILED && l->heard_ms >= began)
                return explain(r, l, e);
        }
        if (clock_ms() >= until)
            return too_long(r, e);
        if (!waits && !may_wait(r, e))
            return false;
        if (!pause_for(r, stays, e))
            return false;
    }
}

bool local_gate_wait(struct request *r, bool stays, struct err *e)
{
    if (!r->worker->local_id)
        return true;
    const uint64_t began = clock_ns();
    const bool ok = wait_for(r, stays, e);
    if (r->slot)
        r->slot->waits_local = 0;
    r->engine_ns += clock_ns() - began;
    return ok;
}

bool local_gate_load(struct request *r, struct err *e)
{
    if (!r->worker->local_id)
        return true;
    if (!limits_enter(r, 0, 1, e))
        return false;
    const bool ok = local_gate_wait(r, false, e);
    limits_leave(r);
    return ok;
}
