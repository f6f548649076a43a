/* auth.h: what the caller of a route may do, once it is known who calls. */
#include <stdatomic.h>
#include <string.h>

#define LOG_MODULE "auth"
#include "engine/base/log.h"
#include "fcgi/auth/auth.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/auth/limits.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/core/store.h"
#include "sql/prompts/store_prompt_blocks.h"

#define REMEMBERED_MS ((int64_t)3600 * 1000)

/* A key for the figures alone reaches nothing else, not even what any other key does. */
static bool scopes_reach(enum key_scope has, enum key_scope want)
{
    if (want == SCOPE_METRICS)
        return has & (SCOPE_METRICS | SCOPE_ADMIN);
    return want == SCOPE_ANY ? has & ~(enum key_scope)SCOPE_METRICS : !(want & ~has);
}

/* Refuses what a key may not do although its user may, and what exceeds their rates. Sessions have
 * all scopes. */
static bool check_terms(struct request *r, struct err *e)
{
    const enum key_scope want = r->route->scope;
    const enum key_scope both = SCOPE_INFERENCE | SCOPE_HISTORY;
    if (r->who.by != AUTH_SESSION && !scopes_reach((enum key_scope)r->who.terms.scopes, want)) {
        r->error_override.code = "insufficient_scope";
        return err_set(e, ERR_FORBIDDEN, "this key's scopes do not reach here; needed:%s%s%s%s%s",
                       want == SCOPE_ANY ? " any but metrics" : "",
                       want & SCOPE_INFERENCE ? " inference" : "",
                       want & SCOPE_HISTORY ? " history" : "", want & SCOPE_ADMIN ? " admin" : "",
                       want & SCOPE_METRICS ? " metrics or admin" : "");
    }
    if (want & both && !limits_load(r, e))
        return false;
    if ((want & both) == both &&
        limits_any(r)) { /* its jobs outlive the request, so they can't be counted in it */
        r->error_override.code = "insufficient_scope";
        return err_set(e, ERR_FORBIDDEN, "a key with limits runs the model by /v1 only");
    }
    if (r->authorise_only || !(want & SCOPE_INFERENCE) || !r->route->body_limit)
        return true;
    return limits_request(r, e);
}

static bool identify(struct request *r, struct err *e)
{
    if (auth_identify(r, e))
        return true;
    if (e->code == ERR_AUTH)
        atomic_fetch_add_explicit(&r->worker->shared->auth_failed, 1, memory_order_relaxed);
    return false;
}

static bool check_admin(const struct request *r, struct err *e)
{
    return r->who.admin || err_set(e, ERR_FORBIDDEN, "only an admin may do this");
}

/* The database says who it is, by an indexed look-up that waits for no writer. While it can't, the
 * figures are wanted most: whom it let in within the hour may go on reading them. */
static bool authorise_figures(struct request *r, struct err *e)
{
    struct shared *s = r->worker->shared;
    if (server_setting_bool(r, SETTING_METRICS_OPEN))
        return true;
    const char *secret = auth_secret(r);
    const uint64_t hash = secret ? shared_throttle_hash(s, secret, strlen(secret)) : 0;
    if (identify(r, e) && check_admin(r, e) && check_terms(r, e)) {
        if (hash)
            shared_known_note(s, KNOWN_READER, hash);
        return true;
    }
    if (e->code == ERR_AUTH || e->code == ERR_FORBIDDEN) {
        shared_known_forget(s, KNOWN_READER, hash);
        return false;
    }
    return hash && shared_known_within(s, KNOWN_READER, hash, REMEMBERED_MS);
}

bool auth_sees_figures(struct request *r)
{
    static const struct route figures = {.auth = ROUTE_FIGURES, .scope = SCOPE_METRICS};
    const struct route *own = r->route;
    struct err unused = {0};
    if (!auth_secret(r) && !server_setting_bool(r, SETTING_METRICS_OPEN))
        return false;
    r->route = &figures;
    bool ok = authorise_figures(r, &unused);
    r->route = own;
    r->error_override.code = NULL;
    return ok;
}

/* Before the request reads anything that goes into a job: deletions from here on hold for it. Where
 * it can't be read, all that are known do. */
static void see_forgets(struct request *r)
{
    struct err e = {0};
    r->forgets_seen = 0;
    if (r->route->pool == POOL_STREAM && r->store &&
        !store_forgets_snapshot(r->store, &r->forgets_seen, &e))
        log_warn("id=%s the last deletion is not known: %s", r->id, e.text);
}

static bool authorise(struct request *r, struct err *e)
{
    if (!identify(r, e) || (r->route->auth == ROUTE_ADMIN && !check_admin(r, e)))
        return false;
    r->strict_parameters =
        r->who.terms.strict_parameters || server_setting_bool(r, SETTING_STRICT_PARAMETERS);
    return check_terms(r, e) && (!r->route->confirmed || confirmation_check(r, e));
}

bool auth_authorise(struct request *r, struct err *e)
{
    if (r->route->auth == ROUTE_OPEN)
        return true;
    if (r->route->auth == ROUTE_FIGURES)
        return authorise_figures(r, e);
    see_forgets(r);
    const bool may = authorise(r, e);
    if (r->store)
        /* From here on what others write meanwhile is seen; of the day's tokens, which limits_load
         * has read, a few milliseconds later. */
        store_snapshot_end(r->store);
    return may;
}
