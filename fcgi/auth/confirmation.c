/* confirmation.h: the time of the last proof is a column of the session's row. */
#include "fcgi/auth/confirmation.h"

#include "engine/base/clock.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "sql/users/store_users.h"

#define MINUTE_MS ((int64_t)60 * 1000)

static bool look(struct request *r, bool use_up, bool *fresh, struct err *e)
{
    const int64_t minutes = server_setting_int(r, SETTING_CONFIRM_MINUTES);
    const struct store_confirmation c = {.token_hash = r->who.token_hash,
                                         .since_ms =
                                             clock_wall_ms() - (minutes ? minutes : 1) * MINUTE_MS,
                                         .use_up = use_up && !minutes};
    *fresh = true;
    return r->who.by != AUTH_SESSION || store_session_confirmed(r->store, &c, fresh, e);
}

bool confirmation_fresh(struct request *r, bool *fresh, struct err *e)
{
    return look(r, false, fresh, e);
}

bool confirmation_check(struct request *r, struct err *e)
{
    bool fresh;
    /* nginx's question comes before the request itself, which uses it up */
    if (!look(r, !r->authorise_only, &fresh, e))
        return false;
    if (fresh)
        return true;
    r->error_override.code = "confirmation_required";
    return err_set(e, ERR_FORBIDDEN,
                   "confirm that it is you first: POST /api/session/confirm takes the password, a "
                   "code or a passkey");
}

bool confirmation_renew(struct request *r, struct err *e)
{
    return r->who.by != AUTH_SESSION || store_session_confirm(r->store, r->who.token_hash, e);
}
