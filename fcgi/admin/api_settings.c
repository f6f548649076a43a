/* /api/admin/settings: what an admin may change while the server runs. */
#include "fcgi/config/server_settings.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static bool list(struct request *r, struct err *e)
{
    cJSON *o = server_settings_list(r, e);
    if (o)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return o != NULL;
}

static bool change(struct request *r, struct err *e)
{
    char names[512];
    const cJSON *body = request_json(r, e);
    if (!body || (server_settings_guarded(body) && !confirmation_check(r, e)) ||
        !server_settings_change(r, body, names, sizeof names, e))
        return false;
    audit_record(r, r->who.user_id, r->who.name, "settings.change", names);
    return list(r, e);
}

const struct route api_settings_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/settings",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "The server's settings, with their types, limits and defaults",
             .reply = "ServerSettings",
             .statuses = "200"}},
    {.method = HTTP_PATCH,
     .path = "/api/admin/settings",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Change settings of the server; null: back to the default",
             .body = "ServerSettingsChange",
             .reply = "ServerSettings",
             .statuses = "200"}},
    {0},
};
