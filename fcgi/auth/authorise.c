/* auth.h: what the caller of a route may do, once it is known who calls. */
#include <stdatomic.h>

#include "fcgi/auth/auth.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/auth/limits.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

/* Refuses what a key may not do although its user may, and what exceeds their rates. Sessions have
 * all scopes. */
static bool check_terms(struct request *r, struct err *e)
{
    const enum key_scope want = r->route->scope;
    const enum key_scope both = SCOPE_INFERENCE | SCOPE_HISTORY;
    if (r->who.by != AUTH_SESSION && want & ~(enum key_scope)r->who.terms.scopes) {
        r->error_override.code = "insufficient_scope";
        return err_set(e, ERR_FORBIDDEN, "this key's scopes do not reach here; needed:%s%s%s",
                       want & SCOPE_INFERENCE ? " inference" : "",
                       want & SCOPE_HISTORY ? " history" : "", want & SCOPE_ADMIN ? " admin" : "");
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

bool auth_authorise(struct request *r, struct err *e)
{
    if (r->route->auth == ROUTE_OPEN)
        return true;
    if (!auth_identify(r, e)) {
        if (e->code == ERR_AUTH)
            atomic_fetch_add_explicit(&r->worker->shared->auth_failed, 1, memory_order_relaxed);
        return false;
    }
    if (r->route->auth == ROUTE_ADMIN && !r->who.admin)
        return err_set(e, ERR_FORBIDDEN, "only an admin may do this");
    r->strict_parameters =
        r->who.terms.strict_parameters || server_setting_bool(r, SETTING_STRICT_PARAMETERS);
    return check_terms(r, e) && (!r->route->confirmed || confirmation_check(r, e));
}
