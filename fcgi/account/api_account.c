/* One's own account as a whole: what it may use and has used, and its end. */
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/account/user_groups.h"
#include "fcgi/account/user_jobs.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/session_cookie.h"
#include "fcgi/auth/limits.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "sql/core/store.h"
#include "sql/users/store_limits.h"

#define DAY_S 86400

static bool show_limits(struct request *r, struct err *e)
{
    const int64_t day = clock_wall_s() / DAY_S;
    const struct usage_of mine = {r->who.user_id, day};
    struct store_user_limits l;
    int64_t tokens = 0, bytes = 0;
    bool own;
    if (!limits_of_user(r, r->who.user_id, &l, &own, e) ||
        !usage_ledger_used(r->worker->shared, r->store, &mine, &tokens, e) ||
        !store_used_bytes(r->store, r->who.user_id, &bytes, e))
        return false;
    cJSON *o = cJSON_CreateObject(), *used;
    limits_put(cJSON_AddObjectToObject(o, "limits"), &l);
    used = cJSON_AddObjectToObject(o, "used");
    cJSON_AddNumberToObject(used, "tokens_today", (double)tokens);
    cJSON_AddNumberToObject(used, "storage_bytes", (double)bytes);
    cJSON_AddNumberToObject(o, "day_ends_at", (double)((day + 1) * DAY_S * 1000));
    const bool ok = user_groups_put(r, r->who.user_id, o, e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

/* At once nobody can log in, and nothing of it is reachable; the recorder clears the rows within
 * seconds. */
static bool remove_account(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *password = NULL;
    struct store_user user;
    if (!body || !json_get_string(body, "password", &password, e) ||
        !credentials_confirm(r, "password", password, &user, e) ||
        !store_user_remove(r->store, user.id, e))
        return false;
    audit_record_id(r, "account.delete", "user", user.id);
    user_jobs_cancel(r, user.id);
    session_cookie_send(r, "", 0);
    return reply_empty(r, 204);
}

const struct route api_account_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/account/limits",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show_limits,
     .scope = SCOPE_ANY,
     .doc = {.summary = "What the caller may use and has used, and their groups",
             .reply = "AccountLimits",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/account/delete",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = remove_account,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Delete the own account and all that is in it",
             .body = "PasswordProof",
             .statuses = "204 409 429"}},
    {0},
};
